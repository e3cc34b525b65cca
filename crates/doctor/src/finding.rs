//! Findings: the results of checks.
//!
//! Must not be in here: how it is printed.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize as DeriveDeserialize, Serialize};

use crate::text::Text;

/// A verdict. The order is that of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, DeriveDeserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was examined and is in order.
    Ok,
    /// It could not be examined; the message says why. This never counts as in order.
    Unknown,
    /// It costs performance, or is about to.
    Warning,
    /// It is a cause of lost QPS.
    Failure,
}

/// A figure or a name on which a verdict is based.
#[derive(Clone, Debug, PartialEq, DeriveDeserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, or a figure in the unit at the end of its name.
    Number(f64),
    /// An address, a path, a setting.
    Text(String),
}

/// Figures by name, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence(Vec<(String, Value)>);

/// The result of a check. Names are those of the table of checks, or, where another process has told of it,
/// what that process said.
#[derive(Clone, Debug, DeriveDeserialize, Serialize)]
pub struct Finding<Name = &'static str> {
    /// The check's name.
    pub id: Name,
    /// The check's category.
    pub category: Name,
    /// How it stands.
    pub verdict: Verdict,
    /// One sentence with the figures that matter, without a full stop, in English.
    pub message: String,
    /// Figures that the verdict is based on.
    pub evidence: Evidence,
    /// The command or setting to apply, in English; empty where nothing needs to be done.
    pub remedy: String,
    /// The message and the remedy in Chinese.
    #[serde(default, skip_serializing_if = "Translated::is_empty")]
    pub zh: Translated,
    /// The page that explains the check.
    pub doc: String,
}

/// A finding in another language; empty if it comes from an older process, which has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, DeriveDeserialize, Serialize)]
#[serde(default)]
pub struct Translated {
    /// Translation of [`Finding::message`].
    pub message: String,
    /// Translation of [`Finding::remedy`].
    pub remedy: String,
}

/// The result of a check's function: a finding without what the check's entry in the table adds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) message: Text,
    pub(crate) evidence: Evidence,
    /// A remedy to use instead of the one in the table, if the figures allow a more exact one.
    pub(crate) remedy: Option<Text>,
}

impl Verdict {
    /// The name in JSON and in text.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Unknown => "unknown",
            Verdict::Warning => "warning",
            Verdict::Failure => "failure",
        }
    }
}

impl Translated {
    /// Whether there is no translation.
    pub fn is_empty(&self) -> bool {
        self.message.is_empty()
    }
}

impl Evidence {
    /// The figure with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// All figures, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl FromIterator<(String, Value)> for Evidence {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(figures: I) -> Evidence {
        Evidence(figures.into_iter().collect())
    }
}

impl Serialize for Evidence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Evidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Figures;

        impl<'de> Visitor<'de> for Figures {
            type Value = Evidence;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("figures by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Evidence, M::Error> {
                let mut figures = Vec::new();
                while let Some(figure) = map.next_entry()? {
                    figures.push(figure);
                }
                Ok(Evidence(figures))
            }
        }

        deserializer.deserialize_map(Figures)
    }
}

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // A whole number is written without decimals.
            Value::Number(number) if number.fract() == 0.0 && number.abs() < 2_f64.powi(53) => {
                serializer.serialize_i64(*number as i64)
            }
            Value::Number(number) => serializer.serialize_f64(*number),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl Outcome {
    pub(crate) fn new(verdict: Verdict, message: Text) -> Outcome {
        Outcome { verdict, message, evidence: Evidence::default(), remedy: None }
    }

    pub(crate) fn ok(message: Text) -> Outcome {
        Outcome::new(Verdict::Ok, message)
    }

    pub(crate) fn warning(message: Text) -> Outcome {
        Outcome::new(Verdict::Warning, message)
    }

    pub(crate) fn failure(message: Text) -> Outcome {
        Outcome::new(Verdict::Failure, message)
    }

    /// Adds a figure. The name ends with its unit, if it has one (`_seconds`, `_bytes`, `_per_second`,
    /// `_percent`).
    pub(crate) fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Outcome {
        self.evidence.0.push((name.into(), value.into()));
        self
    }

    pub(crate) fn remedy(mut self, remedy: Text) -> Outcome {
        self.remedy = Some(remedy);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_tells_another_reads() {
        let told = Finding {
            id: "reuse",
            category: "Connections",
            verdict: Verdict::Warning,
            message: "half of them".to_owned(),
            evidence: [
                ("z_percent".to_owned(), Value::Number(50.0)),
                ("a_seconds".to_owned(), Value::Number(0.25)),
                ("name".to_owned(), "eth0".into()),
            ]
            .into_iter()
            .collect(),
            remedy: "more".to_owned(),
            zh: Translated { message: "一半".to_owned(), remedy: "更多".to_owned() },
            doc: "docs/doctor.md#reuse".to_owned(),
        };
        let text = serde_json::to_string(&told).unwrap();
        let heard: Finding<String> = serde_json::from_str(&text).unwrap();
        assert_eq!((heard.id.as_str(), heard.category.as_str()), (told.id, told.category));
        assert_eq!((heard.verdict, &heard.evidence), (told.verdict, &told.evidence));
        assert_eq!(serde_json::to_string(&heard).unwrap(), text);
        let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
        older.as_object_mut().unwrap().remove("zh");
        let older: Finding<String> = serde_json::from_value(older).unwrap();
        assert!(older.zh.is_empty() && !heard.zh.is_empty());
    }
}
