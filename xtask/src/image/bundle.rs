//! The configuration of a container for an OCI runtime (runtime-spec, version 1.0), as a kubelet with
//! containerd makes it of a Pod.
//!
//! The Pod is that of `deploy/static/deploy.yaml`, and so the chart's: what its security contexts say is what
//! happens. Must not be in here: how the container is run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::unpack::Unpacked;

/// The parts of the Pod's security contexts that a runtime obeys.
#[derive(Clone, Debug)]
pub(super) struct Confinement {
    user: u32,
    group: u32,
    is_read_only: bool,
    may_escalate: bool,
    /// With their prefix, `CAP_`.
    capabilities: Vec<String>,
    sysctls: Map<String, Value>,
}

/// A container, described as OCI runtimes expect it.
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    pub(super) image: &'a Unpacked,
    pub(super) confinement: &'a Confinement,
    /// The filter of system calls; `Null` for none.
    pub(super) filter: &'a Value,
    pub(super) arguments: &'a [String],
    /// Path of the network namespace.
    pub(super) network: &'a Path,
    /// Folders of this machine that are in it too, not to be written: where they are here, and there.
    pub(super) mounts: &'a [(PathBuf, PathBuf)],
}

/// Keys of security contexts that are obeyed here.
const POD_KEYS: &[&str] = &["sysctls"];
const CONTAINER_KEYS: &[&str] = &[
    "runAsNonRoot",
    "runAsUser",
    "runAsGroup",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "seccompProfile",
    "capabilities",
];
/// The part that all containers of containerd share: namespaces, mounts, and hidden or protected parts of
/// `/proc` and `/sys`.
const BASE: &str = include_str!("../../image/config.json");

impl Confinement {
    /// Reads the Pod of the Deployment in these manifests.
    pub(super) fn of_deployment(manifests: &str) -> Result<Confinement> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
        let deployment = documents.iter().find(|it| it["kind"] == "Deployment").context("no Deployment")?;
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0]["securityContext"];
        must_know(&pod["securityContext"], POD_KEYS)?;
        must_know(container, CONTAINER_KEYS)?;
        ensure!(
            container["capabilities"]["drop"] == json!(["ALL"]),
            "the chart does not drop all capabilities"
        );
        ensure!(
            container["seccompProfile"] == json!({"type": "RuntimeDefault"}),
            "the chart has another filter"
        );
        ensure!(container["runAsNonRoot"] == true, "the chart lets the container run as root");
        let number = |key: &str| {
            let number = container[key].as_u64().and_then(|number| u32::try_from(number).ok());
            number.with_context(|| format!("{key} is no number"))
        };
        let added = container["capabilities"]["add"].as_array().into_iter().flatten();
        let sysctls = pod["securityContext"]["sysctls"].as_array().into_iter().flatten();
        Ok(Confinement {
            user: number("runAsUser")?,
            group: number("runAsGroup")?,
            is_read_only: container["readOnlyRootFilesystem"] == true,
            may_escalate: container["allowPrivilegeEscalation"] == true,
            capabilities: added.filter_map(|it| Some(format!("CAP_{}", it.as_str()?))).collect(),
            sysctls: sysctls
                .filter_map(|it| Some((it["name"].as_str()?.to_owned(), it["value"].clone())))
                .collect(),
        })
    }

    /// The same in the node's network, for which the chart sets no sysctls and lets the file's capability
    /// have its effect.
    pub(super) fn in_node_network(self) -> Confinement {
        Confinement { may_escalate: true, sysctls: Map::new(), ..self }
    }

    /// The capabilities that it may have, as `CAP_...`.
    pub(super) fn capabilities(&self) -> &[String] {
        &self.capabilities
    }

    /// User and group.
    pub(super) fn user(&self) -> (u32, u32) {
        (self.user, self.group)
    }
}

impl Bundle<'_> {
    /// Writes `config.json` of the bundle.
    pub(super) fn config(&self) -> Result<Value> {
        let Bundle { image, confinement, .. } = self;
        let mut config: Value = serde_json::from_str(BASE)?;
        let capabilities = &confinement.capabilities;
        let command = [&image.entrypoint[..], self.arguments].concat();
        config["process"] = json!({
            "user": {"uid": confinement.user, "gid": confinement.group},
            "args": command,
            "env": image.environment,
            "cwd": "/",
            // Neither ambient nor inheritable: whoever is not root keeps none of them when a program begins.
            "capabilities": {"bounding": capabilities, "permitted": capabilities, "effective": capabilities},
            "noNewPrivileges": !confinement.may_escalate,
        });
        config["root"] = json!({"path": "root", "readonly": confinement.is_read_only});
        let mounts = config["mounts"].as_array_mut().context("a list of mounts")?;
        mounts.extend(self.mounts.iter().map(|(here, there)| {
            json!({"destination": there, "source": here, "type": "bind", "options": ["rbind", "rprivate", "ro"]})
        }));
        let namespaces = config["linux"]["namespaces"].as_array_mut().context("a list of namespaces")?;
        namespaces.push(json!({"type": "network", "path": self.network}));
        config["linux"]["sysctl"] = confinement.sysctls.clone().into();
        if !self.filter.is_null() {
            config["linux"]["seccomp"] = self.filter.clone();
        }
        Ok(config)
    }
}

fn must_know(context: &Value, known: &[&str]) -> Result<()> {
    let keys = context.as_object().into_iter().flat_map(Map::keys);
    for key in keys {
        ensure!(
            known.contains(&key.as_str()),
            "the chart's securityContext has {key}, which is not obeyed here"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIC: &str = include_str!("../../../deploy/static/deploy.yaml");

    #[test]
    fn the_pod_of_the_chart_becomes_a_confined_container() {
        let confinement = Confinement::of_deployment(STATIC).unwrap();
        let image =
            Unpacked { entrypoint: vec!["/forebay".into()], environment: Vec::new(), user: (65532, 65532) };
        let arguments = ["serve".to_owned()];
        let network = Path::new("/run/netns/pod");
        let bundle = Bundle {
            image: &image,
            confinement: &confinement,
            filter: &Value::Null,
            arguments: &arguments,
            network,
            mounts: &[],
        };
        let config = bundle.config().unwrap();
        assert_eq!(config["process"]["user"], json!({"uid": 65532, "gid": 65532}));
        assert_eq!(config["process"]["args"], json!(["/forebay", "serve"]));
        assert_eq!(config["process"]["noNewPrivileges"], true);
        assert_eq!(config["process"]["capabilities"]["bounding"], json!(["CAP_NET_BIND_SERVICE"]));
        assert_eq!(config["root"]["readonly"], true);
        assert_eq!(config["linux"]["sysctl"], json!({"net.ipv4.ip_unprivileged_port_start": "0"}));
        assert_eq!(config["linux"]["seccomp"], Value::Null);
    }

    #[test]
    fn what_the_test_does_not_obey_is_not_passed_over() {
        let error = |from: &str, to: &str| {
            let manifests = STATIC.replacen(from, to, 1);
            assert_ne!(manifests, STATIC);
            Confinement::of_deployment(&manifests).unwrap_err().to_string()
        };
        let unknown = error("runAsNonRoot: true", "procMount: Unmasked\n            runAsNonRoot: true");
        assert!(unknown.contains("procMount"), "{unknown}");
        assert!(error("type: RuntimeDefault", "type: Unconfined").contains("filter"));
        assert!(error("drop: [ALL]", "drop: []").contains("capabilities"));
    }
}
