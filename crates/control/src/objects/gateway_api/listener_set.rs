use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::gateway::Listener;
use super::references::ParentReference;

/// Listeners that are added to a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerSet {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: ListenerSetSpec,
}

/// The desired state of a [`ListenerSet`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway; it has neither a section nor a port.
    pub parent_ref: At<ParentReference>,
    /// Listeners.
    #[serde(default, deserialize_with = "list")]
    pub listeners: Vec<At<Listener>>,
}
