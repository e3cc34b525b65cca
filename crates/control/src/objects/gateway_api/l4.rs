use serde::{Deserialize, Serialize};

use super::super::At;
use super::super::de::list;
use super::backend_ref::BackendRef;

/// A rule of a route for connections or datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L4Rule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Backends, each with its share.
    #[serde(default, deserialize_with = "list")]
    pub backend_refs: Vec<At<BackendRef>>,
}
