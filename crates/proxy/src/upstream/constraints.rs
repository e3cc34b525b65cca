//! The bounds of Services' retries with their counts, which all workers share.
//!
//! Never in here: when a retry is counted, which is `forward::retry`'s.

use std::collections::HashMap;
use std::sync::Arc;

use balance::SharedRetries;
use model::RetryConstraint;
use parking_lot::Mutex;

/// The counts of each bound that a cluster has.
#[derive(Default)]
pub(crate) struct Constraints(Mutex<HashMap<Arc<RetryConstraint>, Arc<SharedRetries>>>);

impl Constraints {
    /// The counts of a bound. Clusters of the same Service have the same. It takes a lock, so do not call it
    /// for each request.
    pub(crate) fn of(&self, constraint: &Arc<RetryConstraint>) -> Arc<SharedRetries> {
        let mut known = self.0.lock();
        if let Some(counts) = known.get(constraint) {
            return Arc::clone(counts);
        }
        known.retain(|_, counts| Arc::strong_count(counts) > 1);
        let counts = Arc::new(SharedRetries::new(constraint));
        known.insert(Arc::clone(constraint), Arc::clone(&counts));
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn constraint(service: &str) -> Arc<RetryConstraint> {
        let (interval, min_interval) = (Duration::from_secs(10), Duration::from_secs(1));
        Arc::new(RetryConstraint {
            service: service.into(),
            percent: 20,
            interval,
            min_retries: 10,
            min_interval,
        })
    }

    #[test]
    fn equal_bounds_are_one_and_unused_ones_are_forgotten() {
        let constraints = Constraints::default();
        let first = constraints.of(&constraint("default/a"));
        assert!(Arc::ptr_eq(&first, &constraints.of(&constraint("default/a"))));
        drop(constraints.of(&constraint("default/b")));
        assert!(!Arc::ptr_eq(&first, &constraints.of(&constraint("default/c"))));
        let known = constraints.0.lock();
        assert_eq!(known.len(), 2, "the bound of b is unused: {known:?}");
    }
}
