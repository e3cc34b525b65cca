use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::l4::L4Rule;
use super::references::ParentReference;

/// A route for UDP datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct UdpRoute {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: UdpRouteSpec,
}

/// The desired state of a [`UdpRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UdpRouteSpec {
    /// The Gateways and `ListenerSet`s to attach to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Rules of the route.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<L4Rule>>,
}
