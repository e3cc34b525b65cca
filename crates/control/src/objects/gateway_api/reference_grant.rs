use serde::{Deserialize, Serialize};

use super::super::Metadata;
use super::super::de::list;

/// A grant that allows objects of other namespaces to refer to objects of the grant's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrant {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: ReferenceGrantSpec,
}

/// The desired state of a [`ReferenceGrant`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReferenceGrantSpec {
    /// The objects that may refer.
    #[serde(default, deserialize_with = "list")]
    pub from: Vec<GrantFrom>,
    /// The objects that may be referred to.
    #[serde(default, deserialize_with = "list")]
    pub to: Vec<GrantTo>,
}

/// Objects that may refer to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantFrom {
    /// Group of the objects.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind of the objects.
    pub kind: Box<str>,
    /// Namespace of the objects.
    pub namespace: Box<str>,
}

/// Objects that may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantTo {
    /// Group of the objects; empty for the core group.
    #[serde(default)]
    pub group: Box<str>,
    /// Kind of the objects.
    pub kind: Box<str>,
    /// Name of the object; none for all objects of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
}
