//! The share of a canary, as a weight among a total. Never in here: the rules that come before it.

use serde::Serialize;

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
