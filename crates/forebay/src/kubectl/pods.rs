//! Pods of Forebay, from the API server.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Name that the chart gives to the admin port.
const ADMIN_PORT_NAME: &str = "metrics";

/// The admin port of `forebay serve` where nothing says another.
const ADMIN_PORT: u16 = 10254;

/// Label with the installed version.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// A Pod of Forebay.
#[derive(Clone, Debug)]
pub(super) struct ForebayPod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: Option<String>,
    /// The version that the label says, or else the image's tag.
    pub(super) version: Option<String>,
    pub(super) is_ready: bool,
    /// `ready`, or why it is not.
    pub(super) state: String,
    pub(super) started: Option<Timestamp>,
    /// The container that Forebay runs in.
    pub(super) container: String,
    pub(super) admin_port: u16,
    /// The container's arguments with the variables filled in that are known here.
    pub(super) arguments: Vec<String>,
}

impl ForebayPod {
    /// Reads a Pod. `port` takes precedence over the Pod's own ports.
    pub(super) fn of(pod: &Pod, port: Option<u16>) -> Self {
        let metadata = &pod.metadata;
        let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let has_admin_port = |container: &&Container| named_port(container, ADMIN_PORT_NAME).is_some();
        let container = containers.iter().find(has_admin_port).or_else(|| containers.first());
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        let named = |status: &&ContainerStatus| container.is_some_and(|of| of.name == status.name);
        let status = statuses.unwrap_or_default().iter().find(named);
        let state = state(pod, status);
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(VERSION_LABEL)).cloned();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        Self {
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            version: label.or_else(|| tag(container?.image.as_deref()?)),
            is_ready: state == "ready",
            state,
            started: pod.status.as_ref().and_then(|status| Some(status.start_time.as_ref()?.0)),
            container: container.map(|container| container.name.clone()).unwrap_or_default(),
            admin_port: port.or_else(|| admin_port(container?)).unwrap_or(ADMIN_PORT),
            arguments: container.map(|of| arguments(of, &namespace, &name)).unwrap_or_default(),
            namespace,
            name,
        }
    }

    /// The Pod as `namespace/name`.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// `ready`, or what keeps it from being so.
fn state(pod: &Pod, container: Option<&ContainerStatus>) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "terminating".to_owned();
    }
    let waits = container.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let ended = container.and_then(|status| status.state.as_ref()?.terminated.as_ref()?.reason.clone());
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return "ready".to_owned();
    }
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_else(|| "unknown".to_owned());
    match waits.or(ended) {
        Some(reason) => reason,
        None if phase == "Running" => "not ready".to_owned(),
        None => phase.to_lowercase(),
    }
}

/// The admin port: by its name, or by the probe that asks for it.
fn admin_port(container: &Container) -> Option<u16> {
    let probed = || {
        let port = &container.readiness_probe.as_ref()?.http_get.as_ref()?.port;
        match port {
            IntOrString::Int(port) => u16::try_from(*port).ok(),
            IntOrString::String(name) => named_port(container, name),
        }
    };
    named_port(container, ADMIN_PORT_NAME).or_else(probed)
}

fn named_port(container: &Container, name: &str) -> Option<u16> {
    let ports = container.ports.as_deref().unwrap_or_default();
    let port = ports.iter().find(|port| port.name.as_deref() == Some(name))?;
    u16::try_from(port.container_port).ok()
}

/// The tag of an image: of `registry:5000/forebay:0.1.0@sha256:...` it is `0.1.0`.
fn tag(image: &str) -> Option<String> {
    let named = image.split('@').next()?;
    let (_, tag) = named.rsplit('/').next()?.split_once(':')?;
    Some(tag.to_owned())
}

/// The arguments, with `$(NAME)` filled in as the kubelet does it where the value is in the Pod itself; `$$`
/// is a `$` (Kubernetes API, `Container.args`).
fn arguments(container: &Container, namespace: &str, name: &str) -> Vec<String> {
    let variables = container.env.as_deref().unwrap_or_default();
    let value = |wanted: &str| {
        let variable = variables.iter().rev().find(|variable| variable.name == wanted)?;
        let field =
            || variable.value_from.as_ref()?.field_ref.as_ref().map(|field| field.field_path.as_str());
        match (&variable.value, field()) {
            (Some(value), _) => Some(value.clone()),
            (None, Some("metadata.namespace")) => Some(namespace.to_owned()),
            (None, Some("metadata.name")) => Some(name.to_owned()),
            _ => None,
        }
    };
    let arguments = container.args.as_deref().unwrap_or_default();
    arguments.iter().map(|argument| fill_in(argument, &value)).collect()
}

fn fill_in(text: &str, value: &impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            out.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(content: Value) -> Pod {
        serde_json::from_value(content).unwrap()
    }

    fn with(container: &Value, status: &Value) -> ForebayPod {
        let pod = json!({
            "metadata": {"namespace": "edge", "name": "forebay-1"},
            "spec": {"nodeName": "one", "containers": [container]},
            "status": status,
        });
        ForebayPod::of(&self::pod(pod), None)
    }

    #[test]
    fn the_pod_of_the_chart_is_read() {
        let container = json!({
            "name": "controller",
            "image": "registry.test:5000/forebay:0.1.0@sha256:00",
            "args": ["serve", "--configmap=$(POD_NAMESPACE)/$(POD_NAME)", "--a=$$(POD_NAME)$(OTHER)$"],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "OTHER", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            ],
            "ports": [{"name": "http", "containerPort": 80}, {"name": "metrics", "containerPort": 10333}],
        });
        let status = json!({
            "phase": "Running",
            "startTime": "2026-01-02T03:04:05Z",
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        let pod = with(&container, &status);
        assert_eq!((pod.title().as_str(), pod.container.as_str()), ("edge/forebay-1", "controller"));
        assert_eq!((pod.node.as_deref(), pod.version.as_deref()), (Some("one"), Some("0.1.0")));
        assert_eq!((pod.is_ready, pod.admin_port), (true, 10333));
        assert_eq!(pod.started.map(|at| at.to_string()).as_deref(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(
            pod.arguments,
            ["serve", "--configmap=edge/forebay-1", "--a=$(POD_NAME)$(OTHER)$"].map(str::to_owned)
        );
    }

    #[test]
    fn an_admin_port_without_name_is_that_of_the_probe() {
        let probe = json!({"name": "c", "readinessProbe": {"httpGet": {"path": "/healthz", "port": 10255}}});
        assert_eq!(with(&probe, &json!({})).admin_port, 10255);
        let named = json!({
            "name": "c",
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "admin"}},
            "ports": [{"name": "admin", "containerPort": 9}],
        });
        assert_eq!(with(&named, &json!({})).admin_port, 9);
        assert_eq!(with(&json!({"name": "c"}), &json!({})).admin_port, ADMIN_PORT);
        let given = ForebayPod::of(&pod(json!({"metadata": {}, "spec": {"containers": [named]}})), Some(7));
        assert_eq!(given.admin_port, 7);
    }

    #[test]
    fn what_is_not_ready_says_why() {
        let state = |status: Value| with(&json!({"name": "c"}), &status).state;
        let of = |state: Value| json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 1, "state": state}]);
        assert_eq!(state(json!({"phase": "Pending"})), "pending");
        assert_eq!(state(json!({"phase": "Running"})), "not ready");
        assert_eq!(state(json!({})), "unknown");
        let waits = of(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        assert_eq!(state(json!({"phase": "Running", "containerStatuses": waits})), "CrashLoopBackOff");
        let ended = of(json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}}));
        assert_eq!(state(json!({"phase": "Failed", "containerStatuses": ended})), "OOMKilled");
        let going = pod(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}));
        assert_eq!(ForebayPod::of(&going, None).state, "terminating");
    }

    #[test]
    fn a_version_is_the_label_or_the_tag() {
        assert_eq!(tag("forebay:0.1.0").as_deref(), Some("0.1.0"));
        assert_eq!(tag("a.test:5000/x/forebay"), None);
        let labelled = json!({
            "metadata": {"labels": {"app.kubernetes.io/version": "0.2.0"}},
            "spec": {"containers": [{"name": "c", "image": "forebay:main"}]},
        });
        assert_eq!(ForebayPod::of(&pod(labelled), None).version.as_deref(), Some("0.2.0"));
    }
}
