//! The objects of a large cluster, as an API server sends them: with the metadata that nobody reads.
//!
//! Must not be in here: what is done with them.

use serde_json::{Value, json};

use super::server::Collection;

pub(super) const SPACE: &str = "scale";
pub(super) const CLASS: &str = "scale";
pub(super) const CONTROLLER: &str = "forebay.test/scale";
pub(super) const NETWORKING: &str = "networking.k8s.io/v1";

/// As many Ingresses as Services and slices, each with so many endpoints, and a class.
pub(super) fn collections(count: u32, endpoints: u32) -> Vec<Collection> {
    let all =
        |make: &dyn Fn(u32) -> Value| (0..count).map(|number| make(number).to_string()).collect::<Vec<_>>();
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": CLASS}, "spec": {"controller": CONTROLLER},
    });
    let collection = |path, api_version, kind, items| Collection { path, api_version, kind, items };
    vec![
        collection("/apis/networking.k8s.io/v1/ingresses", NETWORKING, "Ingress", all(&ingress)),
        collection(
            "/apis/networking.k8s.io/v1/ingressclasses",
            NETWORKING,
            "IngressClass",
            vec![class.to_string()],
        ),
        collection("/api/v1/services", "v1", "Service", all(&service)),
        collection(
            "/apis/discovery.k8s.io/v1/endpointslices",
            "discovery.k8s.io/v1",
            "EndpointSlice",
            all(&|number| slice(number, endpoints, 0, 1)),
        ),
    ]
}

pub(super) fn name(number: u32) -> String {
    format!("many-{number}")
}

/// An Ingress with one host, `many-N.test`, and one path.
pub(super) fn ingress(number: u32) -> Value {
    let backend = json!({"service": {"name": name(number), "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": metadata(&name(number), number, 1, "f:spec"),
        "spec": {
            "ingressClassName": CLASS,
            "rules": [{"host": format!("{}.test", name(number)), "http": {"paths": [path]}}],
        },
        "status": {"loadBalancer": {}},
    })
}

/// The Ingress in a round: in each, its requests have another timeout.
pub(super) fn changed_ingress(number: u32, round: u32) -> Value {
    let mut changed = ingress(number);
    let timeout = (60 + round).to_string();
    changed["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": timeout});
    changed
}

pub(super) fn service(number: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(&name(number), number, 1, "f:spec"),
        "spec": {
            "clusterIP": address(12, number),
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}],
            "selector": {"app": name(number)},
            "type": "ClusterIP",
        },
    })
}

/// The endpoints of a Service in a round: in each, the second one has another address.
pub(super) fn slice(number: u32, endpoints: u32, round: u32, version: u64) -> Value {
    let endpoint = |place: u32| {
        let first = if place == 1 && round > 0 { 40 + round % 180 } else { 20 + place };
        json!({
            "addresses": [address(first as u8, number)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}", (number + place) % 1000),
            "targetRef": {
                "kind": "Pod", "name": format!("{}-{place}", name(number)), "namespace": SPACE,
                "uid": uid(number),
            },
            "zone": format!("zone-{}", place % 3),
        })
    };
    let mut metadata = metadata(&format!("{}-abcde", name(number)), number, version, "f:endpoints");
    metadata["labels"] = json!({
        "kubernetes.io/service-name": name(number),
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    })
}

pub(super) fn metadata(name: &str, number: u32, version: u64, field: &str) -> Value {
    let time = format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + number % 28, number / 60 % 24, number % 60);
    json!({
        "name": name,
        "namespace": SPACE,
        "uid": uid(number),
        "resourceVersion": version.to_string(),
        "generation": 1,
        "creationTimestamp": time,
        "managedFields": [{
            "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubectl-client-side-apply",
            "operation": "Update", "time": time,
            "fieldsV1": {field: {"f:ports": {".": {}, "k:{\"port\":80}": {".": {}, "f:port": {}}}}},
        }],
    })
}

fn uid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

fn address(first: u8, number: u32) -> String {
    let [_, second, third, fourth] = number.to_be_bytes();
    format!("{first}.{second}.{third}.{fourth}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_differ_in_one_address() {
        let (first, second) = (slice(7, 2, 0, 1), slice(7, 2, 1, 2));
        assert_eq!(first["endpoints"][0], second["endpoints"][0]);
        assert_ne!(first["endpoints"][1], second["endpoints"][1]);
        assert_eq!(first["metadata"]["labels"]["kubernetes.io/service-name"], name(7));
        let all = collections(3, 2);
        assert!(all.iter().all(|one| one.items.len() == 3 || one.kind == "IngressClass"));
    }
}
