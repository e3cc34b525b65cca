use serde::{Deserialize, Serialize};

use super::de::nullable;
use super::{Map, Metadata};

/// A namespace. All its labels are kept, because Gateways select the namespaces of allowed routes by label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Written")]
pub struct Namespace {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
}

/// The form of a namespace in the API.
#[derive(Deserialize)]
struct Written {
    metadata: Labelled,
}

#[derive(Deserialize)]
struct Labelled {
    name: Box<str>,
    #[serde(default, deserialize_with = "nullable")]
    labels: Map<String>,
}

impl From<Written> for Namespace {
    fn from(Written { metadata: Labelled { name, labels } }: Written) -> Self {
        Self { metadata: Metadata::labelled(name, labels) }
    }
}
