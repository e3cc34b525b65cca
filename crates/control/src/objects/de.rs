//! How values are read that Kubernetes writes in more than one way.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// Reads `null` as the default: that is what the API server does, and what templates leave behind.
pub(super) fn nullable<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(de).map(Option::unwrap_or_default)
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
