use serde::{Deserialize, Serialize};

use super::de::nullable;
use super::{Map, Metadata};

/// A namespace. All its labels are kept, since the allowed routes of a Gateway are selected by them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Written")]
pub struct Namespace {
    /// Metadata.
    pub metadata: Metadata,
}

/// A namespace as it is written.
#[derive(Deserialize)]
struct Written {
    metadata: Labelled,
}

#[derive(Deserialize)]
struct Labelled {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    labels: Map<String>,
}

impl From<Written> for Namespace {
    fn from(Written { metadata: Labelled { name, labels } }: Written) -> Self {
        Self { metadata: Metadata { name, labels, ..Metadata::default() } }
    }
}
