//! The forms of field values, in YAML and as the text of an annotation.
//!
//! Never in here: the meaning of a value, which the reader of the annotation knows.

use serde_json::Value;

use crate::translate::value;

/// The form of a value in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `true` or `false`, as in the annotation.
    Boolean,
    /// `true` or `false` for the annotation's `on` and `off`.
    Switch,
    /// A whole number between the first and the second, inclusive.
    Integer(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time: `30s`, `500ms`, or seconds without a unit.
    Duration,
    /// A number of bytes: `8k`, `1m`.
    Size,
    /// A text that an expression describes, in the syntax of the API server (RE2).
    Pattern(&'static str),
    /// A text of any form.
    Text,
    /// A text of several lines, which may be long.
    Lines,
    /// Rules of the firewall, which may be long.
    Rules,
    /// Exclusions of the firewall, which the annotation has as YAML.
    Exclusions,
    /// Issuers of tokens, which the annotation has as YAML.
    Issuers,
    /// Texts, which the annotation separates by commas.
    List,
    /// Whole numbers within bounds, which the annotation separates by commas.
    Integers(i64, i64),
    /// The name of a Secret: `name`, or `namespace/name`.
    Secret,
    /// The name of a `ConfigMap`: `name`, or `namespace/name`.
    ConfigMap,
}

impl FieldKind {
    /// Converts the text of an annotation to a value.
    ///
    /// # Errors
    ///
    /// When the annotation cannot have this text. The error is a message for its author.
    pub fn value_of(self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        let integer = |text: &str| value::number::<i64>(text.trim());
        Ok(match self {
            Self::Boolean => value::boolean(text)?.into(),
            Self::Switch => value::on_off(text)?.into(),
            Self::Integer(..) => integer(text)?.into(),
            Self::List => value::list(text).into(),
            Self::Exclusions | Self::Issuers => value::yaml(text)?,
            Self::Integers(..) => {
                value::list(text).iter().map(|item| integer(item)).collect::<Result<Vec<_>, _>>()?.into()
            }
            Self::Word(words) if !words.contains(&trimmed) => {
                return Err(format!("{text:?} is none of {}", words.join(", ")));
            }
            Self::Word(_)
            | Self::Duration
            | Self::Size
            | Self::Pattern(_)
            | Self::Text
            | Self::Lines
            | Self::Rules
            | Self::Secret
            | Self::ConfigMap => trimmed.into(),
        })
    }

    /// Converts a value to the text of the annotation.
    ///
    /// # Errors
    ///
    /// When the value is of another kind. The error is a message for its author.
    pub fn text_of(self, value: &Value) -> Result<String, String> {
        match (self, value) {
            (Self::Boolean, Value::Bool(is_on)) => Ok(is_on.to_string()),
            (Self::Switch, Value::Bool(is_on)) => Ok(if *is_on { "on" } else { "off" }.to_owned()),
            (Self::Integer(min, max), Value::Number(number)) => bounded(number, min, max),
            (Self::Integers(min, max), Value::Array(items)) => joined(items, |item| match item {
                Value::Number(number) => bounded(number, min, max),
                _ => Err(format!("{item} is no whole number")),
            }),
            (Self::List, Value::Array(items)) => joined(items, |item| match item {
                Value::String(text) if text.contains(',') => Err(format!("{text:?} has a comma")),
                Value::String(text) => Ok(text.clone()),
                _ => Err(format!("{item} is no text")),
            }),
            (Self::Word(words), Value::String(text)) if !words.contains(&text.as_str()) => {
                Err(format!("{text:?} is none of {}", words.join(", ")))
            }
            (
                Self::Word(_)
                | Self::Duration
                | Self::Size
                | Self::Pattern(_)
                | Self::Text
                | Self::Lines
                | Self::Rules
                | Self::Secret
                | Self::ConfigMap,
                Value::String(text),
            ) => Ok(text.clone()),
            (Self::Exclusions | Self::Issuers, Value::Array(_)) => Ok(value.to_string()),
            _ => Err(format!("{value} is no {}", self.what())),
        }
    }

    /// The name of the kind, for messages.
    pub fn what(self) -> &'static str {
        match self {
            Self::Boolean | Self::Switch => "boolean",
            Self::Integer(..) => "whole number",
            Self::Word(_) => "word",
            Self::Duration => "time",
            Self::Size => "size",
            Self::Pattern(_) | Self::Text | Self::Lines => "text",
            Self::Rules => "text with rules",
            Self::Exclusions => "list of exclusions",
            Self::Issuers => "list of issuers",
            Self::List => "list of texts",
            Self::Integers(..) => "list of whole numbers",
            Self::Secret => "name of a Secret",
            Self::ConfigMap => "name of a ConfigMap",
        }
    }
}

fn bounded(number: &serde_json::Number, min: i64, max: i64) -> Result<String, String> {
    match number.as_i64() {
        Some(number) if (min..=max).contains(&number) => Ok(number.to_string()),
        _ => Err(format!("{number} is no whole number from {min} to {max}")),
    }
}

fn joined(items: &[Value], text: impl FnMut(&Value) -> Result<String, String>) -> Result<String, String> {
    if items.is_empty() {
        return Err("the list is empty".to_owned());
    }
    items.iter().map(text).collect::<Result<Vec<_>, _>>().map(|texts| texts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_annotations_with_types() {
        for (kind, text, value) in [
            (FieldKind::Boolean, "true", json!(true)),
            (FieldKind::Switch, "off", json!(false)),
            (FieldKind::Integer(0, 9), "7", json!(7)),
            (FieldKind::Word(&["all", "any"]), "any", json!("any")),
            (FieldKind::Duration, "10m", json!("10m")),
            (FieldKind::List, "10.0.0.0/8,::1", json!(["10.0.0.0/8", "::1"])),
            (FieldKind::Integers(400, 599), "404,503", json!([404, 503])),
            (FieldKind::Secret, "users", json!("users")),
            (FieldKind::Exclusions, r#"[{"rules":[942100,"1-5"]}]"#, json!([{"rules": [942_100, "1-5"]}])),
        ] {
            assert_eq!(kind.value_of(text), Ok(value.clone()), "{kind:?}");
            assert_eq!(kind.text_of(&value).as_deref(), Ok(text), "{kind:?}");
        }
        assert_eq!(FieldKind::List.value_of(" a , b"), Ok(json!(["a", "b"])));
    }

    #[test]
    fn what_is_of_another_kind_is_refused() {
        for (kind, value) in [
            (FieldKind::Boolean, json!("true")),
            (FieldKind::Integer(0, 9), json!(10)),
            (FieldKind::Integer(0, 9), json!(1.5)),
            (FieldKind::Word(&["all", "any"]), json!("some")),
            (FieldKind::List, json!([])),
            (FieldKind::List, json!(["a,b"])),
            (FieldKind::List, json!("a")),
            (FieldKind::Integers(400, 599), json!([200])),
            (FieldKind::Text, json!(null)),
        ] {
            assert!(kind.text_of(&value).is_err(), "{kind:?} {value}");
        }
        assert!(FieldKind::Integer(0, 9).value_of("many").is_err());
        assert!(FieldKind::Word(&["all"]).value_of("any").is_err());
    }
}
