//! The effect of an annotation, or of a key of the `ConfigMap`.

use std::fmt;

use serde::Serialize;

/// The effect that an annotation, or a key of the `ConfigMap`, has with its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "becomes", content = "how")]
pub enum Outcome {
    /// The effect is the same as in ingress-nginx.
    Works,
    /// The effect is weaker than in ingress-nginx, or another one.
    Differs(String),
    /// The setting has no effect in Forebay, and needs none.
    WithoutEffect(String),
    /// The locations that the setting protects are closed, because Forebay cannot enforce it.
    Closed(String),
    /// The value is not one that ingress-nginx accepts. Forebay treats it in the same way.
    BadValue(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => write!(f, "works"),
            Self::Differs(how) => write!(f, "works in part: {how}"),
            Self::WithoutEffect(why) => write!(f, "without effect: {why}"),
            Self::Closed(what) => write!(f, "closed: {what}"),
            Self::BadValue(why) => write!(f, "bad value, as before: {why}"),
        }
    }
}
