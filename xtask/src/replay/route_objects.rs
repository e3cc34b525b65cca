//! The objects of a large cluster with the Gateway API: one Gateway, and a route, a Service and a slice for
//! each host.
//!
//! Must not be in here: what is done with them.

use serde_json::{Value, json};

use super::objects::{self, SPACE, metadata, name, service, slice};
use super::server::{Collection, Contents};

const GROUP: &str = "gateway.networking.k8s.io";
const VERSION: &str = "gateway.networking.k8s.io/v1";
/// The release of the Gateway API that the CRDs name.
const BUNDLE: &str = "v1.4.0";
/// The name of the class and of the Gateway.
const GATEWAY: &str = "scale";
const CONTROLLER: &str = "forebay.io/gateway-controller";

/// Endpoints of a Service.
pub(super) const ENDPOINTS: u32 = 2;

/// As many routes as Services and slices, and one Service more, for routes that are made later.
pub(super) fn contents(count: u32) -> Contents {
    let texts = |items: Vec<Value>| items.iter().map(Value::to_string).collect::<Vec<_>>();
    let all = |make: &dyn Fn(u32) -> Value| texts((0..count).map(make).collect());
    let slices = all(&|number| slice(number, ENDPOINTS, 0, 1));
    let collection = |path, api_version, kind, items| Collection { path, api_version, kind, items };
    let no_items = Vec::new;
    let collections = vec![
        collection("/apis/networking.k8s.io/v1/ingresses", objects::NETWORKING, "Ingress", no_items()),
        collection(
            "/apis/networking.k8s.io/v1/ingressclasses",
            objects::NETWORKING,
            "IngressClass",
            no_items(),
        ),
        collection("/api/v1/services", "v1", "Service", texts((0..=count).map(service).collect())),
        collection(
            "/apis/discovery.k8s.io/v1/endpointslices",
            "discovery.k8s.io/v1",
            "EndpointSlice",
            slices,
        ),
        collection("/api/v1/namespaces", "v1", "Namespace", texts(vec![namespace()])),
        collection(
            "/apis/gateway.networking.k8s.io/v1/gatewayclasses",
            VERSION,
            "GatewayClass",
            texts(vec![class(count)]),
        ),
        collection(
            "/apis/gateway.networking.k8s.io/v1/gateways",
            VERSION,
            "Gateway",
            texts(vec![gateway(count)]),
        ),
        collection(
            "/apis/gateway.networking.k8s.io/v1/httproutes",
            VERSION,
            "HTTPRoute",
            all(&|number| route(number, number)),
        ),
    ];
    Contents { collections, documents: documents(), ..Contents::default() }
}

/// The kinds that the API server tells it has, and the CRD with the release.
fn documents() -> Vec<(String, Value)> {
    let version = json!({"groupVersion": VERSION, "version": "v1"});
    let group = json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version,
    });
    let resource = |name: &str, kind: &str, namespaced: bool| {
        json!({
            "name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
            "verbs": ["get", "list", "patch", "watch"],
        })
    };
    let resources = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION,
        "resources": [
            resource("gatewayclasses", "GatewayClass", false),
            resource("gateways", "Gateway", true),
            resource("httproutes", "HTTPRoute", true),
        ],
    });
    let crd = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": format!("gatewayclasses.{GROUP}"),
            "annotations": {format!("{GROUP}/bundle-version"): BUNDLE},
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    vec![
        (format!("/apis/{GROUP}"), group),
        (format!("/apis/{VERSION}"), resources),
        (format!("{crds}/gatewayclasses.{GROUP}"), crd),
    ]
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": SPACE, "uid": "namespace", "resourceVersion": "1",
            "labels": {"kubernetes.io/metadata.name": SPACE},
        },
    })
}

/// The class. Its number, as that of the Gateway, is none of a route: statuses are told apart by uid.
fn class(count: u32) -> Value {
    let mut metadata = metadata(GATEWAY, u32::MAX - count, 1, "f:spec");
    metadata["namespace"] = Value::Null;
    json!({
        "apiVersion": VERSION, "kind": "GatewayClass", "metadata": metadata,
        "spec": {"controllerName": CONTROLLER},
    })
}

fn gateway(count: u32) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "Gateway",
        "metadata": metadata(GATEWAY, u32::MAX - count - 1, 1, "f:spec"),
        "spec": {
            "gatewayClassName": GATEWAY,
            "listeners": [{
                "name": "http", "port": 80, "protocol": "HTTP",
                "allowedRoutes": {"namespaces": {"from": "Same"}},
            }],
        },
    })
}

/// The host of a route.
pub(super) fn host(number: u32) -> String {
    format!("{}.test", name(number))
}

/// A route with one host, `many-N.test`, to a Service; with the defaults that the API server adds.
pub(super) fn route(number: u32, service: u32) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "HTTPRoute",
        "metadata": metadata(&name(number), number, 1, "f:spec"),
        "spec": {
            "parentRefs": [{"group": GROUP, "kind": "Gateway", "name": GATEWAY}],
            "hostnames": [host(number)],
            "rules": [{
                "backendRefs": [{"group": "", "kind": "Service", "name": name(service), "port": 80, "weight": 1}],
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            }],
        },
    })
}

/// A route that is made later than all others.
pub(super) fn new_route(number: u32, service: u32) -> Value {
    let mut new = route(number, service);
    new["metadata"]["creationTimestamp"] =
        format!("2026-03-01T{:02}:{:02}:00Z", number / 60 % 24, number % 60).into();
    new
}

/// A route in a round: in each, its requests have another timeout.
pub(super) fn changed_route(number: u32, round: u32) -> Value {
    let mut changed = route(number, number);
    changed["metadata"]["generation"] = (round + 1).into();
    changed["spec"]["rules"][0]["timeouts"] = json!({"request": format!("{}s", 60 + round % 600)});
    changed
}

/// The Service, as `namespace/name`, of the routes that are made beside so many others.
pub(super) fn service_of_new(count: u32) -> String {
    format!("{SPACE}/{}", name(count))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use anyhow::Result;

    use super::*;

    #[test]
    fn each_object_that_gets_a_status_has_a_uid_of_its_own() -> Result<()> {
        let contents = contents(3);
        let with_status = ["GatewayClass", "Gateway", "HTTPRoute"];
        let of_gateways = contents.collections.iter().filter(|one| with_status.contains(&one.kind));
        let items: Vec<Value> = of_gateways
            .flat_map(|one| &one.items)
            .map(|item| serde_json::from_str(item))
            .collect::<Result<_, _>>()?;
        let uids: HashSet<_> = items.iter().filter_map(|item| item["metadata"]["uid"].as_str()).collect();
        assert_eq!((items.len(), uids.len()), (5, 5));
        let services = contents.collections.iter().find(|one| one.kind == "Service").map(|one| &one.items);
        let last = services.and_then(|services| services.last());
        assert!(last.is_some_and(|last| last.contains(&name(3))), "{}", service_of_new(3));
        Ok(())
    }

    #[test]
    fn rounds_differ_in_a_timeout_and_a_generation() {
        let changed = [changed_route(7, 1), changed_route(7, 2)];
        assert_ne!(changed[0]["spec"], changed[1]["spec"]);
        assert_eq!(changed[1]["metadata"]["generation"], 3);
        assert_eq!(changed[0]["spec"]["hostnames"], route(7, 7)["spec"]["hostnames"]);
    }
}
