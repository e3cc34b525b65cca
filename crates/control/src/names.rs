//! The names by which Kubernetes objects refer to each other.
//!
//! Never in here: the objects themselves.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

/// Namespace and name of an object: `kube-system/nginx-configuration`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NsName {
    /// Namespace; empty for kinds that are not in a namespace.
    pub namespace: String,
    /// The name, unique for the kind within the namespace.
    pub name: String,
}

impl NsName {
    /// A name from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The text is not `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form NAMESPACE/NAME")]
pub struct InvalidNsName(String);

impl FromStr for NsName {
    type Err = InvalidNsName;

    fn from_str(text: &str) -> Result<Self, InvalidNsName> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && is_name(name) => {
                Ok(Self::new(namespace, name))
            }
            _ => Err(InvalidNsName(text.to_owned())),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// Kind, namespace and name of a Kubernetes object, for messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `Ingress`, `Service` and the like.
    pub kind: &'static str,
    /// Namespace; empty for kinds that are not in a namespace.
    pub namespace: String,
    /// The name, unique for the kind within the namespace.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A port, by its number or its name (Kubernetes: `IntOrString`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortRef {
    /// A port number.
    Number(u16),
    /// A port name.
    Name(String),
}

impl PortRef {
    /// Parses a port. Digits are a number, because the name of a port has to hold a letter.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Number)
    }
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for PortRef {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        de.deserialize_any(PortVisitor)
    }
}

struct PortVisitor;

impl Visitor<'_> for PortVisitor {
    type Value = PortRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port's number or name")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<PortRef, E> {
        let invalid = || E::invalid_value(Unexpected::Unsigned(number), &self);
        u16::try_from(number).map(PortRef::Number).map_err(|_| invalid())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<PortRef, E> {
        let invalid = || E::invalid_value(Unexpected::Signed(number), &self);
        u16::try_from(number).map(PortRef::Number).map_err(|_| invalid())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PortRef, E> {
        Ok(PortRef::parse(text))
    }
}

impl Serialize for PortRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u16(*number),
            Self::Name(name) => serializer.serialize_str(name),
        }
    }
}
