use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::l4::L4Rule;
use super::references::ParentReference;

/// Where TLS connections go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TlsRoute {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: TlsRouteSpec,
}

/// The desired state of a [`TlsRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// What it wants to be attached to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Names that clients ask for.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<L4Rule>>,
}
