//! JSON as tokens and keys have it: an object whose members have names of their own. Parsers differ in which
//! of two members with one name they take, so that such an object says different things to different readers
//! (RFC 7515 section 4, RFC 7519 section 4).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
pub use serde_json::{Map, Number, Value};

/// The members of an object.
pub type Object = Map<String, Value>;

/// Reads an object. An object with two members of one name, at any depth, is refused.
///
/// # Errors
///
/// A text that says what is wrong. It repeats no content.
pub fn object(bytes: &[u8]) -> Result<Object, String> {
    let told = |error: serde_json::Error| match error.classify() {
        serde_json::error::Category::Data if error.to_string().starts_with(DUPLICATE) => {
            format!("{DUPLICATE} at line {} column {}", error.line(), error.column())
        }
        _ => format!("it is not valid JSON at line {} column {}", error.line(), error.column()),
    };
    match serde_json::from_slice::<Strict>(bytes).map_err(told)?.0 {
        Value::Object(members) => Ok(members),
        _ => Err("it is not a JSON object".to_owned()),
    }
}

const DUPLICATE: &str = "two members have the same name";

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = access.next_entry::<String, Strict>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom(DUPLICATE));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_names_of_their_own() {
        let read = |text: &str| object(text.as_bytes());
        assert_eq!(read(r#"{"a": [1, -2, 0.5, null, true, {"b": "c"}]}"#).unwrap().len(), 1);
        for bad in [r#"{"a": 1, "a": 1}"#, r#"{"b": [{"a": 1, "\u0061": 2}]}"#] {
            let why = read(bad).unwrap_err();
            assert!(why.starts_with(DUPLICATE), "{why}");
        }
        for bad in ["", "[]", "1", "{", "{} {}", "{'a': 1}", "{\"a\": 1e999}", "{\"a\": NaN}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(object(b"{\"a\": \"\xff\"}").is_err());
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(read(&deep).is_err());
    }

    #[test]
    fn errors_repeat_nothing() {
        let why = object(br#"{"secret": hunter2}"#).unwrap_err();
        assert_eq!(why, "it is not valid JSON at line 1 column 12");
    }
}
