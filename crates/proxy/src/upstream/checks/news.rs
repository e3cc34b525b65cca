//! Changes of verdicts, for those who watch the cluster: they become Events.
//!
//! Never in here: the rate at which Events are published.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use observe::CheckFault;
use parking_lot::Mutex;

use crate::limits::HEALTH_NEWS_MAX;

/// The changes that nobody has taken yet. With too many, the oldest are dropped.
#[derive(Debug, Default)]
pub struct HealthNews(Mutex<VecDeque<HealthChange>>);

/// An endpoint has begun or ceased to fail its health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// The Service's port as `namespace/service:port`.
    pub upstream: Arc<str>,
    /// Address of the endpoint.
    pub endpoint: SocketAddr,
    /// Why it fails; none where it passes again.
    pub fault: Option<CheckFault>,
    /// Number of endpoints that fail after this change.
    pub failing: usize,
    /// Number of endpoints that are checked.
    pub of: usize,
    /// So many fail that all of them get requests.
    pub all_are_used: bool,
}

impl HealthNews {
    /// Takes the changes since the last call, the oldest first.
    pub fn take(&self) -> Vec<HealthChange> {
        self.0.lock().drain(..).collect()
    }

    pub(super) fn add(&self, change: HealthChange) {
        let mut changes = self.0.lock();
        if changes.len() >= HEALTH_NEWS_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_changes_are_dropped() {
        let news = HealthNews::default();
        let change = |failing| HealthChange {
            upstream: "a/web:80".into(),
            endpoint: SocketAddr::from(([10, 0, 0, 1], 80)),
            fault: Some(CheckFault::Timeout),
            failing,
            of: 9,
            all_are_used: false,
        };
        (0..HEALTH_NEWS_MAX + 2).for_each(|number| news.add(change(number)));
        let taken = news.take();
        assert_eq!((taken.len(), taken[0].failing), (HEALTH_NEWS_MAX, 2));
        assert_eq!(news.take(), []);
    }
}
