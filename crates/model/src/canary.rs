use std::sync::Arc;

use serde::Serialize;

use crate::canary_weight::CanaryWeight;
use crate::rollout::Rollout;
use crate::{ClusterId, Expression};

/// A cluster that takes a part of another cluster's requests (ingress-nginx: `canary`).
///
/// A client with an affinity cookie for one of the two clusters stays there. For other clients the
/// [`CanaryRules`] are evaluated in turn. A canary without endpoints takes nothing; while the mainline has no
/// endpoints, neither the cookie nor the rules are evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Canary {
    /// The cluster that requests go to unless a rule selects the canary.
    pub mainline: ClusterId,
    /// The cluster that takes a part of them.
    pub cluster: ClusterId,
    /// Its name in metrics and the access log: `namespace-service-port`. The same allocation for as long as
    /// it stays the same.
    pub name: Arc<str>,
    /// The rules that select requests for the canary.
    pub rules: CanaryRules,
    /// Shares that grow over a time and take the place of the weight; none for a weight that stays.
    pub rollout: Option<Arc<Rollout>>,
}

/// Rules that select requests for a canary. The first of header, cookie and weight that decides counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CanaryRules {
    /// Decides by a header; none where no header does.
    pub header: Option<CanaryHeader>,
    /// The name of a cookie whose value `always` or `never` decides.
    pub cookie: Option<String>,
    /// Decides for the rest.
    pub weight: CanaryWeight,
}

/// A header that decides, where a request has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CanaryHeader {
    /// Its name, whatever the letter case.
    pub name: String,
    /// The condition on the header's value.
    pub rule: CanaryHeaderRule,
}

/// How the value of a [`CanaryHeader`] decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CanaryHeaderRule {
    /// `always` and `never`, in this letter case; other values leave it to the next rule.
    AlwaysOrNever,
    /// This value is for the canary; others leave it to the next rule.
    Value(String),
    /// A value in which the expression matches selects the canary; other values leave the decision to the
    /// next rule.
    Pattern(Expression),
    /// Every value selects the mainline, since the configured expression is invalid.
    Never,
}
