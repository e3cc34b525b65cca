//! Backends of rules, with their shares and filters.

use serde::{Deserialize, Serialize};

use super::super::At;
use super::super::de::list;
use super::filter::Filter;
use super::references::ObjectReference;

/// A backend of a rule with its share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendRef {
    /// Group; empty for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Kind; none stands for `Service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Name of the backend.
    pub name: Box<str>,
    /// Namespace; none stands for the namespace of the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Port number of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Share of the requests; none stands for 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Filters for the requests of this backend; HTTP and gRPC routes only.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<At<Filter>>,
}

impl BackendRef {
    /// The reference to the backend's object.
    pub fn object(&self) -> ObjectReference {
        ObjectReference {
            group: self.group.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            port: self.port,
        }
    }
}
