use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::backend_tls_policy::PolicyTarget;
use super::session::SessionPersistence;

/// The group of the Gateway API's kinds that are only tried yet.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

/// The treatment of requests to Services, whatever route they come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct XBackendTrafficPolicy {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: BackendTrafficPolicySpec,
}

/// The desired state of an [`XBackendTrafficPolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTrafficPolicySpec {
    /// The Services to which the policy applies.
    #[serde(default, deserialize_with = "list")]
    pub target_refs: Vec<At<PolicyTarget>>,
    /// The bound of retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_constraint: Option<At<RetryConstraint>>,
    /// Session persistence, which keeps a client's requests at one endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<At<SessionPersistence>>,
}

/// The bound of a Service's retries (GEP-3388).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryConstraint {
    /// The share of the requests that may be retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetDetails>,
    /// Retries that are always allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_retry_rate: Option<RequestRate>,
}

/// A share of the recent requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BudgetDetails {
    /// The share in percent; none for 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
    /// Time for which requests count; none for ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Box<str>>,
}

/// A number of requests in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RequestRate {
    /// The number; none for 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The time; none for a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Box<str>>,
}
