use serde::{Deserialize, Serialize};

use super::super::{At, Metadata};
use super::references::ObjectReference;

/// A class of Gateways: names the controller that serves them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GatewayClass {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: GatewayClassSpec,
}

/// The desired state of a [`GatewayClass`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// Name of the controller.
    pub controller_name: String,
    /// Parameters for the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<At<ObjectReference>>,
}
