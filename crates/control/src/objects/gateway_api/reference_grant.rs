use serde::{Deserialize, Serialize};

use super::super::Metadata;
use super::super::de::list;

/// Allows objects of other namespaces to name objects of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrant {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: ReferenceGrantSpec,
}

/// The desired state of a [`ReferenceGrant`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantSpec {
    /// Who is allowed.
    #[serde(default, deserialize_with = "list")]
    pub from: Vec<GrantFrom>,
    /// What may be named.
    #[serde(default, deserialize_with = "list")]
    pub to: Vec<GrantTo>,
}

/// Objects that may name others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantFrom {
    /// Group.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace.
    pub namespace: Box<str>,
}

/// Objects that may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantTo {
    /// Group; empty for the core group.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name; none for all objects of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
}
