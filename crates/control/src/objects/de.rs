//! How values are read that Kubernetes writes in more than one way.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_saphyr::Spanned;

/// Reads `null` as the default: that is what the API server does, and what templates leave behind.
pub(super) fn nullable<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(de).map(Option::unwrap_or_default)
}

/// A value and the line that it stands on, where a file holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Line in its YAML document, from 1; 0 where no file holds it.
    pub line: u32,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        let spanned = Spanned::deserialize(de)?;
        let line = u32::try_from(spanned.referenced.line()).unwrap_or_default();
        Ok(Self { value: spanned.value, line })
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// A port by its number or its name (Kubernetes: `IntOrString`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortRef {
    /// Number.
    Number(u16),
    /// Name.
    Name(String),
}

impl PortRef {
    /// Reads a text: digits are a number, since a port's name must hold a letter.
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
