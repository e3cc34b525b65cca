//! What becomes of an annotation, or of a key of the `ConfigMap`.

use std::fmt;

use serde::Serialize;

/// What becomes of an annotation, or of a key of the `ConfigMap`, with the value that it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "becomes", content = "how")]
pub enum Outcome {
    /// It does what it does in ingress-nginx.
    Works,
    /// It does less, or something else.
    Differs(String),
    /// It has no effect here, and needs none.
    WithoutEffect(String),
    /// What it guards is closed, since it cannot be enforced.
    Closed(String),
    /// Its value is not one that ingress-nginx accepts. The same becomes of it as there.
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
