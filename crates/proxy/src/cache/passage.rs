//! What a request that its route's cache has to do with has come to.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use model::CachePolicy;
use observe::CacheResult;
use wire::cache::{Forward, Head, RequestDirectives};

use super::flight::Leader;
use super::labels::Labels;
use super::object::{Asking, Object};
use super::{Cache, Key};

/// The state of a request. Cells, since its response comes while it is still being sent.
pub(crate) struct Passage {
    pub(crate) cache: Arc<Cache>,
    pub(crate) policy: Arc<CachePolicy>,
    /// None for a request that the cache has nothing to do with but to tell so.
    pub(crate) key: Option<Key>,
    /// Whose response takes room while it comes.
    pub(crate) namespace: Arc<str>,
    /// It has headers that are not known to be harmless.
    pub(crate) has_unknown: bool,
    /// The URL by which its response can be purged. None if it is too long.
    pub(crate) labels: Option<Labels>,
    /// Purges and changes before anything was looked for.
    pub(crate) since: u64,
    /// What it asks of caches.
    pub(crate) asked: RequestDirectives,
    /// What is kept and needs to be validated, or may be given where the endpoint fails.
    pub(crate) stale: Option<Arc<Object>>,
    /// Others wait for it.
    pub(crate) leader: RefCell<Option<Leader>>,
    /// When it was sent: time since 1970.
    pub(crate) begin: Duration,
    /// The response is being kept, whatever becomes of the client.
    pub(crate) is_filling: Cell<bool>,
    pub(crate) told: Cell<Told>,
}

/// What the cache of its route has to do with a request.
pub(crate) enum Concern {
    /// It is answered from what is kept, and that is all.
    Hit(Hit),
    Passage(Box<Passage>),
}

/// What is told of a request that is answered from what is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) is_stale: bool,
    /// Seconds for which the response is still fresh.
    pub(crate) ttl: i32,
}

/// What a client, the log and the metrics are told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) hit: bool,
    pub(crate) forward: Option<Forward>,
    pub(crate) forward_status: Option<u16>,
    pub(crate) stored: bool,
    pub(crate) collapsed: bool,
    pub(crate) stale: bool,
    pub(crate) revalidated: bool,
    pub(crate) ttl: Option<i64>,
    /// Why it was not stored.
    pub(crate) detail: Option<&'static str>,
    /// Another replica has answered, at which the object has its home: what its cache did.
    pub(crate) home: Option<CacheResult>,
}

impl Concern {
    pub(crate) fn told(&self) -> Told {
        match self {
            Self::Hit(Hit { is_stale, ttl }) => {
                Told { hit: true, stale: *is_stale, ttl: Some(i64::from(*ttl)), ..Told::default() }
            }
            Self::Passage(passage) => passage.told.get(),
        }
    }
}

impl Passage {
    /// Changes what is told.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        let mut told = self.told.get();
        change(&mut told);
        self.told.set(told);
    }

    /// The request, with these fields.
    pub(crate) fn asking<'a>(&'a self, head: Head<'a>) -> Asking<'a> {
        Asking { head, has_unknown: self.has_unknown, harmless: &self.policy.harmless_headers }
    }

    /// Lets all go that wait for it: there is no response for them.
    pub(crate) fn let_go(&self) {
        if let Some(leader) = self.leader.take() {
            leader.pass();
        }
    }

    /// Whether the endpoint is asked only if what is kept still counts.
    pub(crate) fn validates(&self) -> Option<&Arc<Object>> {
        self.stale.as_ref().filter(|object| !object.validators.is_empty())
    }
}

impl Told {
    /// As it is counted.
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

    /// nginx's `$upstream_cache_status`, and a word of our own.
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
