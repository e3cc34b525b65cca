//! The addresses at which clients reach this controller, determined as ingress-nginx does.
//!
//! Never in here: IO.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeAddress, Service};

use crate::objects::IngressPoint;

/// The addresses to write, in order; none while they are not known.
pub(super) type Addresses = Option<Arc<[IngressPoint]>>;

/// Sorts the addresses in the order in which they are written, and removes duplicates.
pub(super) fn tidy(points: impl IntoIterator<Item = IngressPoint>) -> Vec<IngressPoint> {
    let mut points: Vec<_> = points.into_iter().filter(|point| *point != IngressPoint::default()).collect();
    points.sort();
    points.dedup();
    points
}

/// The addresses and names of `--publish-status-address`; a text may contain several, separated by commas.
pub(super) fn given(texts: &[String]) -> Vec<IngressPoint> {
    tidy(texts.iter().flat_map(|text| text.split(',')).map(|text| point(text.trim())))
}

/// The addresses of the Service that `--publish-service` names; none while the Service has none, in which
/// case nothing is written.
pub(super) fn of_service(service: &Service) -> Option<Vec<IngressPoint>> {
    let spec = service.spec.as_ref()?;
    let external = spec.external_ips.iter().flatten().map(|address| point(address));
    let cluster = || {
        let address = spec.cluster_ip.as_deref().filter(|address| !matches!(*address, "" | "None"));
        address.map(|address| tidy([point(address)]))
    };
    match spec.type_.as_deref() {
        Some("ExternalName") => Some(tidy([point(spec.external_name.as_deref()?)])),
        Some("LoadBalancer") => Some(tidy(balanced(service).chain(external))),
        Some("NodePort") => {
            Some(tidy(external)).filter(|points: &Vec<_>| !points.is_empty()).or_else(cluster)
        }
        _ => cluster(),
    }
}

/// The address of a Node: its first external address, or the internal one if it has no external one or
/// `internal` is set.
pub(super) fn of_node(addresses: &[NodeAddress], internal: bool) -> Option<IngressPoint> {
    let first =
        |kind: &str| addresses.iter().find(|address| address.type_ == kind && !address.address.is_empty());
    let external = if internal { None } else { first("ExternalIP") };
    external.or_else(|| first("InternalIP")).map(|address| point(&address.address))
}

fn balanced(service: &Service) -> impl Iterator<Item = IngressPoint> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let points = status.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    points.map(|ingress| match ingress.ip.as_deref().filter(|ip| !ip.is_empty()) {
        Some(ip) => IngressPoint { ip: Some(ip.to_owned()), hostname: None },
        None => point(ingress.hostname.as_deref().unwrap_or_default()),
    })
}

fn point(text: &str) -> IngressPoint {
    let text = Some(text.to_owned()).filter(|text| !text.is_empty());
    let is_address = text.as_ref().is_some_and(|text| text.parse::<IpAddr>().is_ok());
    if is_address {
        IngressPoint { ip: text, hostname: None }
    } else {
        IngressPoint { ip: None, hostname: text }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(points: &[IngressPoint]) -> Vec<String> {
        let text = |point: &IngressPoint| match (&point.ip, &point.hostname) {
            (Some(ip), None) => format!("ip {ip}"),
            (None, Some(name)) => format!("name {name}"),
            _ => panic!("{point:?}"),
        };
        points.iter().map(text).collect()
    }

    fn service(spec: &serde_json::Value, points: &serde_json::Value) -> Option<Vec<String>> {
        let service = json!({"spec": spec, "status": {"loadBalancer": {"ingress": points}}});
        of_service(&serde_json::from_value(service).unwrap()).map(|points| texts(&points))
    }

    #[test]
    fn given_addresses_are_sorted_out() {
        let list = ["192.0.2.2, 192.0.2.1", "lb.example", "", "2001:db8::1", "192.0.2.1"].map(str::to_owned);
        assert_eq!(
            texts(&given(&list)),
            ["name lb.example", "ip 192.0.2.1", "ip 192.0.2.2", "ip 2001:db8::1"]
        );
    }

    #[test]
    fn a_load_balancer_says_its_addresses_and_external_ones() {
        let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.9", "192.0.2.1"]});
        let points = json!([{"ip": "192.0.2.1", "hostname": "both.example"}, {"hostname": "lb.example"}]);
        let expected = ["name lb.example", "ip 192.0.2.1", "ip 192.0.2.9"].map(str::to_owned);
        assert_eq!(service(&spec, &points), Some(expected.to_vec()));
        let waiting = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"});
        assert_eq!(service(&waiting, &json!([])), Some(vec![]), "its own address is no use to clients");
    }

    #[test]
    fn other_services_say_what_they_have() {
        let nowhere = json!([]);
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(service(&json!({"clusterIP": "10.0.0.1"}), &nowhere), one("ip 10.0.0.1"));
        assert_eq!(
            service(
                &json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.9"]}),
                &nowhere
            ),
            one("ip 10.0.0.1")
        );
        assert_eq!(
            service(
                &json!({"type": "NodePort", "clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.9"]}),
                &nowhere
            ),
            one("ip 192.0.2.9")
        );
        assert_eq!(
            service(&json!({"type": "NodePort", "clusterIP": "10.0.0.1", "externalIPs": []}), &nowhere),
            one("ip 10.0.0.1")
        );
        assert_eq!(
            service(&json!({"type": "ExternalName", "externalName": "web.example"}), &nowhere),
            one("name web.example")
        );
        assert_eq!(service(&json!({"clusterIP": "None"}), &nowhere), None);
    }

    #[test]
    fn a_node_is_reached_from_outside_if_it_can() {
        let node = |list: &[(&str, &str)]| -> Vec<NodeAddress> {
            let address = |&(kind, address): &(&str, &str)| NodeAddress {
                type_: kind.to_owned(),
                address: address.to_owned(),
            };
            list.iter().map(address).collect()
        };
        let both = node(&[("Hostname", "node-1"), ("InternalIP", "10.0.0.5"), ("ExternalIP", "192.0.2.5")]);
        let text = |point: Option<IngressPoint>| point.map(|point| texts(&[point])[0].clone());
        assert_eq!(text(of_node(&both, false)).as_deref(), Some("ip 192.0.2.5"));
        assert_eq!(text(of_node(&both, true)).as_deref(), Some("ip 10.0.0.5"));
        assert_eq!(text(of_node(&both[..2], false)).as_deref(), Some("ip 10.0.0.5"));
        assert_eq!(of_node(&both[..1], false), None);
    }
}
