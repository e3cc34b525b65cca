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
    /// The Pods, with their addresses.
    #[serde(default, deserialize_with = "list")]
    pub endpoints: Vec<SliceEndpoint>,
    /// The ports, which every address of the slice has.
    #[serde(default, deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

impl EndpointSlice {
    /// Name of the Service that the slice belongs to.
    pub fn service_name(&self) -> Option<&str> {
        self.metadata.label(SERVICE_NAME)
    }
}

/// A Pod of an [`EndpointSlice`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SliceEndpoint {
    /// The addresses of the Pod. Clients use the first.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<String>,
    /// The Pod's readiness for requests.
    #[serde(default, deserialize_with = "nullable")]
    pub conditions: Conditions,
    /// The clients that should use the Pod; none for all. On the heap, since most Pods have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Hints about the clients that should use a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointHints {
    /// The zones whose clients should use the Pod; empty for all clients.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Place>,
    /// The nodes whose clients should use the Pod (`trafficDistribution: PreferSameNode`).
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Place>,
}

/// A zone or a node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Place {
    /// Name of the Node, or the value of its label `topology.kubernetes.io/zone`.
    pub name: String,
}

/// The state of a Pod. A missing condition means that the state is unknown, and an unknown state counts as
/// good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Conditions {
    /// The Pod accepts new requests. "A nil value should be interpreted as true."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The Pod answers requests, whether it is ready or terminating. "A nil value indicates an unknown state;
    /// defer to the ready condition."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// The Pod is terminating. "A nil value should be interpreted as false."
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

impl Conditions {
    /// Whether the Pod accepts new requests.
    pub fn is_ready(self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// Whether the Pod is terminating but still answers requests.
    pub fn is_draining(self) -> bool {
        self.terminating.unwrap_or(false) && self.serving.unwrap_or(self.is_ready())
    }
}

/// A port of an [`EndpointSlice`] or of [`Endpoints`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct EndpointPort {
    /// Name of the Service's port that this port belongs to; empty or none if the Service's port has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port number of the Pods.
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
    /// Addresses that accept requests.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that are not ready.
    #[serde(default, deserialize_with = "list")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports that all addresses of the subset have.
    #[serde(default, deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

/// An address of a Pod, in an [`EndpointSubset`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct EndpointAddress {
    /// IP address of the Pod.
    pub ip: String,
}
