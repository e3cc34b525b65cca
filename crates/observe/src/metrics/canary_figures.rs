//! The state of a canary whose share grows over a time, as metrics have it.

/// The state of a canary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanaryFigures {
    /// Namespace of the canary Ingress.
    pub namespace: String,
    /// Name of the canary Ingress.
    pub ingress: String,
    /// The share of requests at this moment, from 0 to 1.
    pub share: f64,
    /// The step, counted from 1.
    pub step: u64,
    /// The canary was stopped for a fault.
    pub is_stopped: bool,
}
