//! The objects that `spec.infrastructure` of a Gateway requests: a Service without a selector, named after
//! the Gateway and its class, with the requested labels and annotations, and a slice with the Gateway's
//! addresses. So the Gateway has a name in the cluster's DNS, and tools that read annotations of Services
//! (external-dns and others) find it. The Gateway owns both, so they are deleted with it.
//!
//! Never in here: IO.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::objects::gateway_api::GROUP;

/// Longest name of a Service.
const NAME_MAX: usize = 63;

/// Objects to apply, each with its path.
pub(super) fn objects(gateway: &Value, addresses: &[String]) -> Vec<(String, Value)> {
    let (metadata, spec) = (&gateway["metadata"], &gateway["spec"]);
    if spec["infrastructure"].is_null() {
        return Vec::new();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (gateway_name, namespace) = (text(&metadata["name"]), text(&metadata["namespace"]));
    let class = text(&spec["gatewayClassName"]);
    let mut name = format!("{gateway_name}-{class}");
    // A name of a Service has no dots, and begins with a letter.
    name = name.replace('.', "-");
    name.truncate(NAME_MAX);
    let name = name.trim_end_matches('-').to_owned();
    let mut labels = map(&spec["infrastructure"]["labels"]);
    // The bound of a label's value equals that of a Service's name.
    let value = |text: &str| Value::from(text.get(..NAME_MAX).unwrap_or(text).trim_end_matches(['-', '.']));
    labels.insert(format!("{GROUP}/gateway-name"), value(&gateway_name));
    labels.insert(format!("{GROUP}/gateway-class-name"), value(&class));
    let annotations = map(&spec["infrastructure"]["annotations"]);
    let owner = json!({"apiVersion": gateway["apiVersion"], "kind": "Gateway", "name": gateway_name, "uid": metadata["uid"]});
    let metadata = |labels: &Map<String, Value>| {
        json!({
            "name": name, "namespace": namespace, "labels": labels, "annotations": annotations, "ownerReferences": [owner],
        })
    };
    let ports = ports(&spec["listeners"]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(&labels),
        "spec": {"clusterIP": "None", "ports": ports},
    });
    let mut objects = vec![(format!("/api/v1/namespaces/{namespace}/services/{name}"), service)];
    // The API does not accept loopback addresses.
    let is_reachable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    let ips: Vec<IpAddr> =
        addresses.iter().filter_map(|text| text.parse().ok()).filter(is_reachable).collect();
    for (family, is_of) in [("IPv4", IpAddr::is_ipv4 as fn(&IpAddr) -> bool), ("IPv6", IpAddr::is_ipv6)] {
        let endpoints: Vec<Value> = ips
            .iter()
            .filter(|ip| is_of(ip))
            .map(|ip| json!({"addresses": [ip.to_string()], "conditions": {"ready": true}}))
            .collect();
        if endpoints.is_empty() {
            continue;
        }
        let mut labels = labels.clone();
        labels.insert("kubernetes.io/service-name".to_owned(), name.clone().into());
        labels.insert("endpointslice.kubernetes.io/managed-by".to_owned(), "forebay.io".into());
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata(&labels),
            "addressType": family, "endpoints": endpoints, "ports": ports,
        });
        let slice_name = format!("{name}-{}", family.to_ascii_lowercase());
        slice["metadata"]["name"] = slice_name.as_str().into();
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{slice_name}");
        objects.push((path, slice));
    }
    objects
}

/// The ports. Each appears once for a protocol, however many listeners share it.
fn ports(listeners: &Value) -> Vec<Value> {
    let mut ports: Vec<(u64, &str)> = Vec::new();
    for listener in listeners.as_array().into_iter().flatten() {
        let Some(port) = listener["port"].as_u64() else { continue };
        let protocol = if listener["protocol"] == "UDP" { "UDP" } else { "TCP" };
        if !ports.contains(&(port, protocol)) {
            ports.push((port, protocol));
        }
    }
    let port = |(port, protocol): (u64, &str)| json!({"name": format!("{}-{port}", protocol.to_ascii_lowercase()), "port": port, "protocol": protocol});
    ports.into_iter().map(port).collect()
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(infrastructure: &Value) -> Value {
        let listener = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "metadata": {"name": "dns.edge", "namespace": "a", "uid": "u"},
            "spec": {
                "gatewayClassName": "forebay",
                "infrastructure": infrastructure,
                "listeners": [listener("a", "UDP"), listener("b", "TCP"), listener("c", "TLS")],
            },
        })
    }

    #[test]
    fn a_gateway_that_asks_for_nothing_gets_nothing() {
        assert!(objects(&gateway(&Value::Null), &["192.0.2.1".to_owned()]).is_empty());
    }

    #[test]
    fn a_service_carries_labels_and_addresses() {
        let asked = json!({"labels": {"team": "blue"}, "annotations": {"example.com/name": "edge"}});
        let addresses = ["192.0.2.1", "2001:db8::1", "lb.example", "127.0.0.1"].map(str::to_owned);
        let made = objects(&gateway(&asked), &addresses);
        let paths: Vec<_> = made.iter().map(|(path, _)| &**path).collect();
        assert_eq!(
            paths,
            [
                "/api/v1/namespaces/a/services/dns-edge-forebay",
                "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/dns-edge-forebay-ipv4",
                "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/dns-edge-forebay-ipv6",
            ]
        );
        let (service, slice) = (&made[0].1, &made[1].1);
        assert_eq!(service["metadata"]["labels"]["team"], "blue");
        assert_eq!(service["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"], "dns.edge");
        assert_eq!(service["metadata"]["annotations"], json!({"example.com/name": "edge"}));
        assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "u");
        let names: Vec<_> =
            service["spec"]["ports"].as_array().unwrap().iter().map(|port| port["name"].clone()).collect();
        assert_eq!(names, ["udp-53", "tcp-53"]);
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "dns-edge-forebay");
        assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.1"]));
    }
}
