//! The cells of one combination of route, method, status and canary.

use std::sync::{Arc, OnceLock, Weak};

use model::Labels;

use super::Method;
use super::causes::Causes;
use super::fine::FineTimes;
use super::local_counter::LocalCounter;
use super::sample::Sample;

/// The cells of a series. They are free until the first request of a new combination claims them.
#[derive(Debug)]
pub(super) struct Series {
    owner: OnceLock<Owner>,
    pub(super) cells: Box<[LocalCounter]>,
    /// Durations of requests, and of the responses of endpoints below.
    pub(super) requests: FineTimes,
    pub(super) responses: FineTimes,
    /// The reasons why requests were refused or aborted.
    pub(super) causes: Causes,
}

/// The combination of labels that the cells count. The labels are held weakly, which reserves their address
/// but does not keep their text in memory. The series of a deleted route disappear from `/metrics`, as in
/// ingress-nginx.
#[derive(Debug)]
struct Owner {
    labels: Weak<Labels>,
    canary: Option<Weak<str>>,
    method: Method,
    status: u16,
}

/// The key of a series. It holds addresses instead of labels; a scrape adds up equal labels at different
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    labels: usize,
    canary: usize,
    method: Method,
    status: u16,
}

/// The values of a series' labels.
pub(super) struct Identity {
    pub(super) labels: Arc<Labels>,
    pub(super) canary: Option<Arc<str>>,
    pub(super) method: Method,
    pub(super) status: u16,
}

impl Key {
    pub(super) fn new(labels: &Arc<Labels>, status: u16, sample: &Sample<'_>) -> Self {
        Self {
            labels: Arc::as_ptr(labels).addr(),
            canary: sample.canary.map_or(0, |canary| Arc::as_ptr(canary).cast::<u8>().addr()),
            method: sample.method,
            status,
        }
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }
}

impl Series {
    pub(super) fn new(cells: usize) -> Self {
        Self {
            owner: OnceLock::new(),
            cells: (0..cells).map(|_| LocalCounter::default()).collect(),
            requests: FineTimes::default(),
            responses: FineTimes::default(),
            causes: Causes::default(),
        }
    }

    pub(super) fn claim(&self, labels: &Arc<Labels>, status: u16, sample: &Sample<'_>) {
        let claimed = self.owner.set(Owner {
            labels: Arc::downgrade(labels),
            canary: sample.canary.map(Arc::downgrade),
            method: sample.method,
            status,
        });
        assert!(claimed.is_ok(), "a series is claimed once");
    }

    /// The values of the labels; none before the series is claimed and after its route is deleted.
    pub(super) fn identity(&self) -> Option<Identity> {
        let owner = self.owner.get()?;
        let canary = match &owner.canary {
            Some(canary) => Some(canary.upgrade()?),
            None => None,
        };
        Some(Identity { labels: owner.labels.upgrade()?, canary, method: owner.method, status: owner.status })
    }

    /// The status, or its class if only the class is recorded. None before the series is claimed.
    pub(super) fn status(&self) -> Option<u16> {
        self.owner.get().map(|owner| owner.status)
    }

    /// Whether the route is deleted. A new route with the same labels gets another series.
    pub(super) fn is_orphan(&self) -> bool {
        self.owner.get().is_some_and(|owner| {
            let canary_is_gone = owner.canary.as_ref().is_some_and(|canary| canary.strong_count() == 0);
            owner.labels.strong_count() == 0 || canary_is_gone
        })
    }
}
