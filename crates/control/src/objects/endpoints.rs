use serde::{Deserialize, Serialize};

use super::de::{list, nullable};
use super::{Metadata, SERVICE_NAME};

/// Some of the addresses of a Service's Pods.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Metadata; the label `kubernetes.io/service-name` names the Service.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_type: Option<String>,
    /// Addresses.
    #[serde(default, deserialize_with = "list")]
    pub endpoints: Vec<SliceEndpoint>,
    /// Ports. Each of the addresses has all of them.
    #[serde(default, deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

impl EndpointSlice {
    /// Name of the Service that the slice belongs to.
    pub fn service_name(&self) -> Option<&str> {
        self.metadata.labels.get(SERVICE_NAME).map(String::as_str)
    }
}

/// A Pod of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SliceEndpoint {
    /// Its addresses, all of the same Pod. Clients use the first.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<String>,
    /// Whether it takes requests.
    #[serde(default, deserialize_with = "nullable")]
    pub conditions: Conditions,
    /// Which zones should use it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "EndpointHints::is_empty")]
    pub hints: EndpointHints,
}

/// Which clients should use a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointHints {
    /// The zones whose clients should use it; empty for all clients.
    #[serde(default, deserialize_with = "list")]
    pub for_zones: Vec<ForZone>,
}

/// A zone of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ForZone {
    /// Name, as the label `topology.kubernetes.io/zone` of a Node has it.
    pub name: String,
}

impl EndpointHints {
    /// Whether there is no hint.
    pub fn is_empty(&self) -> bool {
        self.for_zones.is_empty()
    }

    /// Whether the hints name this zone.
    pub fn names(&self, zone: &str) -> bool {
        self.for_zones.iter().any(|known| known.name == zone)
    }
}

/// The state of a Pod. A missing condition is unknown, and an unknown one counts as good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Conditions {
    /// It takes new requests. "A nil value should be interpreted as true."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// It answers requests, whether it is ready or terminating. "A nil value indicates an unknown state; defer to the ready
    /// condition."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// It is terminating. "A nil value should be interpreted as false."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

impl Conditions {
    /// Whether it takes new requests.
    pub fn is_ready(self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// Whether it is terminating but still answers requests.
    pub fn is_draining(self) -> bool {
        self.terminating.unwrap_or(false) && self.serving.unwrap_or(self.is_ready())
    }
}

/// A port of an [`EndpointSlice`] or of [`Endpoints`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct EndpointPort {
    /// Name of the Service's port that this one belongs to; empty or none if that port has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Transport; none stands for `TCP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// All addresses of a Service's Pods, in the form that came before [`EndpointSlice`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Endpoints {
    /// Metadata; the name is the Service's.
    pub metadata: Metadata,
    /// Groups of addresses with the same ports.
    #[serde(default, deserialize_with = "list")]
    pub subsets: Vec<EndpointSubset>,
}

/// Addresses that have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSubset {
    /// Addresses that take requests.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that are not ready.
    #[serde(default, deserialize_with = "list")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports.
    #[serde(default, deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct EndpointAddress {
    /// IP address.
    pub ip: String,
}
