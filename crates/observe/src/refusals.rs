//! The last requests that firewalls refused, or would have refused if their rules did more than report: for
//! the console.
//!
//! A request that no rule refuses does not come here. A worker never waits: a request that ends while another
//! thread has the lock is counted as missed.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Labels;

use crate::limits::REFUSALS_MAX;

/// The last refused requests of all workers.
#[derive(Debug, Default)]
pub struct Refusals {
    last: Mutex<VecDeque<Arc<Refusal>>>,
    missed: AtomicU64,
}

/// A request that a firewall refused. Texts of the client are cut to bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The time at which it ended, since 1970.
    pub at: Duration,
    /// Address of the client.
    pub client: IpAddr,
    /// Method of the request.
    pub method: String,
    /// The requested host.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// Status sent to the client.
    pub status: u16,
    /// The phase in which it was refused; 0 if the rules only report.
    pub phase: u8,
    /// The rule that decided; 0 for a limit.
    pub rule: u64,
    /// The labels of the route.
    pub labels: Option<Arc<Labels>>,
    /// The rules that matched.
    pub matches: Vec<RefusalMatch>,
}

/// A rule that matched a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalMatch {
    /// The rule's id.
    pub rule: u64,
    /// `msg` of the rule, with its macros expanded.
    pub message: String,
    /// The first variable that matched, such as `ARGS:q`.
    pub variable: String,
    /// The value of that variable, after the rule's transformations.
    pub value: String,
}

impl Refusals {
    /// Adds a request, which takes the place of the oldest one once there are many.
    pub fn add(&self, refusal: impl FnOnce() -> Refusal) {
        let Ok(mut last) = self.last.try_lock() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if last.len() == REFUSALS_MAX {
            last.pop_front();
        }
        last.push_back(Arc::new(refusal()));
    }

    /// The requests that are there, the oldest first.
    pub fn last(&self) -> Vec<Arc<Refusal>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The number of requests that were not added, because the lock was taken.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rule: u64) -> Refusal {
        Refusal {
            at: Duration::from_secs(rule),
            client: IpAddr::from([192, 0, 2, 1]),
            method: "GET".to_owned(),
            host: "a.test".to_owned(),
            path: "/".to_owned(),
            status: 403,
            phase: 2,
            rule,
            labels: None,
            matches: Vec::new(),
        }
    }

    #[test]
    fn the_last_ones_are_there_and_nobody_waits() {
        let refusals = Refusals::default();
        let count = REFUSALS_MAX as u64 + 3;
        (1..=count).for_each(|rule| refusals.add(|| refusal(rule)));
        let last = refusals.last();
        assert_eq!((last.len(), last[0].rule, last[REFUSALS_MAX - 1].rule), (REFUSALS_MAX, 4, count));
        let taken = refusals.last.lock().unwrap();
        refusals.add(|| unreachable!("it is not made where it is not added"));
        drop(taken);
        assert_eq!((refusals.missed(), refusals.last().len()), (1, REFUSALS_MAX));
    }
}
