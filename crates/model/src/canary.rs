use std::sync::Arc;

use serde::Serialize;

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

/// The share of the requests that no other rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CanaryWeight {
    weight: u64,
    total: u64,
}

impl CanaryWeight {
    /// So many of `total` requests. A weight above `total` takes all of them; a total of zero counts as one.
    pub fn new(weight: u64, total: u64) -> Self {
        Self { weight, total: total.max(1) }
    }

    /// How many requests of how many it takes.
    pub fn share(self) -> (u64, u64) {
        (self.weight.min(self.total), self.total)
    }

    /// Whether a request is for the canary, by a random number.
    pub fn takes(self, random: u64) -> bool {
        random % self.total < self.weight
    }
}

impl Default for CanaryWeight {
    /// The default weight, which selects no request.
    fn default() -> Self {
        Self::new(0, 100)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// "Random in 1..total <= weight."
        #[test]
        fn the_weight_takes_its_share(weight in 0_u64..300, total in 1_u64..300, turns in 1_u64..20) {
            let share = CanaryWeight::new(weight, total);
            let taken = (0..total * turns).filter(|&number| share.takes(number)).count() as u64;
            prop_assert_eq!(taken, weight.min(total) * turns);
        }
    }

    #[test]
    fn a_total_of_zero_counts_as_one() {
        assert!(CanaryWeight::new(1, 0).takes(7) && !CanaryWeight::new(0, 0).takes(7));
    }
}
