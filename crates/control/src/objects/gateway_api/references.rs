use serde::{Deserialize, Serialize};

/// The group of the objects of the Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// The parent that a route requests to be attached to: a Gateway or a `ListenerSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// Group of the parent; none stands for [`GROUP`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Kind of the parent; none stands for `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Namespace of the parent; none stands for the route's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Name of the parent.
    pub name: Box<str>,
    /// Name of a listener; none for all listeners of the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Box<str>>,
    /// Port of the listeners; none for every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl ParentReference {
    /// Whether the parent is of this kind of the Gateway API.
    pub fn is_kind(&self, kind: &str) -> bool {
        self.group.as_deref().unwrap_or(GROUP) == GROUP && self.kind.as_deref().unwrap_or("Gateway") == kind
    }
}

/// A reference to an object of another kind: a Secret, a Service, a `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct ObjectReference {
    /// Group; empty for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Kind; the place of the reference decides which kind none stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Name of the object.
    pub name: Box<str>,
    /// Namespace; none stands for the namespace of the object with the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// Port, for references to backends only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl ObjectReference {
    /// The group; empty for the core group.
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or_default()
    }

    /// The kind, or `default` if the reference has none.
    pub fn kind_or<'a>(&'a self, default: &'a str) -> &'a str {
        self.kind.as_deref().unwrap_or(default)
    }
}
