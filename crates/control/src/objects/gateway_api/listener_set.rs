use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::gateway::Listener;
use super::references::ParentReference;

/// Listeners that are added to a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerSet {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: ListenerSetSpec,
}

/// The desired state of a [`ListenerSet`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway, without section and port.
    pub parent_ref: At<ParentReference>,
    /// Listeners that are added to the Gateway.
    #[serde(default, deserialize_with = "list")]
    pub listeners: Vec<At<Listener>>,
}
