//! A value of a record as text, in the form of nginx's module `geoip2`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text or number of a record; lists and maps have no text.
pub(crate) struct Value<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfAnyType)
    }
}

struct OfAnyType;

impl<'de> Visitor<'de> for OfAnyType {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value(text.to_owned().into()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value(if value { "1" } else { "0" }.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value(number.to_string().into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value(number.to_string().into()))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Value<'de>, E> {
        Ok(Value(number.to_string().into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value(format!("{number:.5}").into()))
    }
}
