use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::l4::L4Rule;
use super::references::ParentReference;

/// A route for TLS connections.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TlsRoute {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: TlsRouteSpec,
}

/// The desired state of a [`TlsRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// The Gateways and `ListenerSet`s to attach to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Server names that clients request.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules of the route.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<L4Rule>>,
}
