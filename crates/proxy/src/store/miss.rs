//! The part of the cache in one request: its result, and the state until the response has arrived.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::CachePolicy;
use observe::CacheResult;
use wire::cache::{Forward, Head, RequestDirectives};

use super::flight::Leader;
use super::labels::Labels;
use super::object::{Asking, Object};
use super::{Cache, Key};

/// The state of a request that the cache does not answer at once. Cells, since its response arrives while it
/// is still being sent.
pub(crate) struct CacheMiss {
    pub(crate) cache: Arc<Cache>,
    pub(crate) policy: Arc<CachePolicy>,
    /// The cache key. None for a request that the cache only reports as bypassed.
    pub(crate) key: Option<Key>,
    /// The namespace whose share the response takes while it arrives.
    pub(crate) namespace: Arc<str>,
    /// The request has headers that are not known to be harmless.
    pub(crate) has_unknown: bool,
    /// Labels by which the response can be purged. None if the URL is too long.
    pub(crate) labels: Option<Labels>,
    /// Count of purges and changes before the first lookup.
    pub(crate) since: u64,
    /// Directives of the request's `Cache-Control`.
    pub(crate) asked: RequestDirectives,
    /// A stale response, to be validated, or to be used where the endpoint fails.
    pub(crate) stale: Option<Arc<Object>>,
    /// The leader's handle, where other requests may wait for this one.
    pub(crate) leader: RefCell<Option<Leader>>,
    /// When the request was sent: time since 1970.
    pub(crate) begin: Duration,
    /// The response is being stored, even if the client goes away.
    pub(crate) is_filling: Cell<bool>,
    pub(crate) report: Cell<CacheReport>,
}

/// The part of its route's cache in a request.
#[derive(Clone)]
pub(crate) enum CacheState {
    /// A cached response answers the request.
    Hit(Hit),
    /// The request goes on to an endpoint, or waited for a cached response.
    Miss(Rc<CacheMiss>),
}

/// Report of a request that is answered from the cache at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) is_stale: bool,
    /// Seconds for which the response is still fresh.
    pub(crate) ttl: i32,
}

/// The cache's report on a request, for the response to the client, the log and the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheReport {
    pub(crate) hit: bool,
    pub(crate) forward: Option<Forward>,
    pub(crate) forward_status: Option<u16>,
    pub(crate) stored: bool,
    pub(crate) collapsed: bool,
    pub(crate) stale: bool,
    pub(crate) revalidated: bool,
    pub(crate) ttl: Option<i64>,
    /// Why the response was not stored.
    pub(crate) detail: Option<&'static str>,
    /// The result of another replica's cache, where that replica, the home of the object, has answered.
    pub(crate) home: Option<CacheResult>,
}

impl CacheState {
    pub(crate) fn of(miss: CacheMiss) -> Self {
        Self::Miss(Rc::new(miss))
    }

    pub(crate) fn report(&self) -> CacheReport {
        match self {
            Self::Hit(Hit { is_stale, ttl }) => CacheReport {
                hit: true,
                stale: *is_stale,
                ttl: Some(i64::from(*ttl)),
                ..CacheReport::default()
            },
            Self::Miss(miss) => miss.report.get(),
        }
    }
}

impl CacheMiss {
    /// Changes the report.
    pub(crate) fn note(&self, change: impl FnOnce(&mut CacheReport)) {
        let mut report = self.report.get();
        change(&mut report);
        self.report.set(report);
    }

    /// The request with these fields, for the selection of a response.
    pub(crate) fn asking<'a>(&'a self, head: Head<'a>) -> Asking<'a> {
        Asking { head, has_unknown: self.has_unknown, harmless: &self.policy.harmless_headers }
    }

    /// Ends the flight: the requests that wait for it go on by themselves.
    pub(crate) fn let_go(&self) {
        if let Some(leader) = self.leader.take() {
            leader.pass();
        }
    }

    /// The stale response, if the request to the endpoint only validates it.
    pub(crate) fn validates(&self) -> Option<&Arc<Object>> {
        self.stale.as_ref().filter(|object| !object.validators.is_empty())
    }
}

impl CacheReport {
    /// The result as it is counted in the metrics.
    pub(crate) fn result(&self) -> CacheResult {
        match self.name() {
            "HOME" => self.home.unwrap_or(CacheResult::Miss),
            _ if self.collapsed => CacheResult::Collapsed,
            "HIT" => CacheResult::Hit,
            "STALE" => CacheResult::Stale,
            "REVALIDATED" => CacheResult::Revalidated,
            "EXPIRED" => CacheResult::Expired,
            "BYPASS" => CacheResult::Bypass,
            _ => CacheResult::Miss,
        }
    }

    /// The value of nginx's `$upstream_cache_status`, and a word of our own for the rest.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self { home: Some(_), .. } => "HOME",
            Self { revalidated: true, .. } => "REVALIDATED",
            Self { stale: true, .. } => "STALE",
            Self { hit: true, .. } => "HIT",
            Self { forward: Some(Forward::Bypass | Forward::Method), .. } => "BYPASS",
            Self { forward: Some(Forward::Stale | Forward::Request), .. } => "EXPIRED",
            _ => "MISS",
        }
    }
}
