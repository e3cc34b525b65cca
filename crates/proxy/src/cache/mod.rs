//! Responses that are kept, for all workers together: where they are, which of them come at present, and how much memory they take.
//!
//! What a response means to a request is said by `wire::cache`; what is done with both is `caching`'s. Never in here: requests on their
//! way, sockets, a clock.

mod flight;
mod labels;
mod object;
mod passage;
mod purges;
mod store;
mod tier;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cache_disk::{Disk, Figures as DiskFigures};
use parking_lot::Mutex;
use quick_cache::sync::Cache as Map;

pub(crate) use flight::{Flight, Leader, Phase, Role};
pub use labels::Purge;
pub(crate) use labels::{Labels, TAG_FIELDS};
pub(crate) use object::{Asking, Body, Object};
pub(crate) use passage::{Concern, Hit, Passage, Told};
pub(crate) use store::Found;

use crate::limits::{CACHE_PASS_TIME, CACHE_PASSES_MAX};
use flight::Flights;
use store::Store;
use tier::Tier;

/// What tells responses apart: all that an endpoint is told and that is not a matter of `Vary`.
pub(crate) type Key = Arc<[u8]>;

/// The part of the memory that is for responses that still come: one in so many bytes.
const COMING_SHARE: u64 = 8;
/// A namespace may take one in this many bytes of the room that others leave. So there is always some left for another one, however
/// many responses of it never end.
const NAMESPACE_SHARE: u64 = 2;

/// The cache of a proxy.
pub(crate) struct Cache {
    store: Store,
    flights: Flights,
    /// Keys, by their hash, of what turned out not to be for others, and until when that counts. Two keys with one hash do no harm.
    passes: Map<u64, u64>,
    hasher: RandomState,
    /// Bytes of what still comes.
    coming: AtomicU64,
    /// The same of each namespace.
    coming_by_namespace: Mutex<HashMap<Arc<str>, Arc<AtomicU64>>>,
    coming_max: u64,
}

/// How full a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// URLs of which responses are kept in memory.
    pub objects: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes of responses that still come.
    pub coming_bytes: u64,
    /// Bytes that there are for both.
    pub bytes_max: u64,
    /// Responses that had to go so far.
    pub evictions: u64,
    /// The same of the disk, where there is one.
    pub disk: Option<DiskFigures>,
}

/// Memory for a response that comes. It is given back in the end.
pub(crate) struct Room {
    cache: Arc<Cache>,
    /// Bytes that responses of the same namespace take while they come, this one among them.
    of_namespace: Arc<AtomicU64>,
    bytes: u64,
}

impl Cache {
    /// An empty cache that takes so many bytes.
    #[cfg(test)]
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Self::with_disk(bytes, None)
    }

    /// A cache that takes so many bytes of memory, and what there is on disk.
    pub(crate) fn with_disk(bytes: u64, disk: Option<Arc<Disk>>) -> Arc<Self> {
        let coming_max = bytes / COMING_SHARE;
        Arc::new(Self {
            store: Store::new(bytes - coming_max, Tier::new(disk)),
            flights: Flights::default(),
            passes: Map::new(CACHE_PASSES_MAX),
            hasher: RandomState::new(),
            coming: AtomicU64::new(0),
            coming_by_namespace: Mutex::default(),
            coming_max,
        })
    }

    /// What is kept.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// How full it is.
    pub(crate) fn figures(&self) -> CacheFigures {
        let (objects, bytes, evictions) = self.store.figures();
        CacheFigures {
            objects,
            bytes,
            coming_bytes: self.coming.load(Ordering::Relaxed),
            bytes_max: self.store.bytes_max() + self.coming_max,
            evictions,
            disk: self.store.disk_figures(),
        }
    }

    /// Forgets what one of these is about, with all of its variants. Whoever asks for it once this has returned is given nothing of what was
    /// asked for before. Returns how many responses were in memory.
    pub(crate) fn purge(&self, purges: &[Purge]) -> u64 {
        let matchers: purges::Matchers = purges.iter().flat_map(Purge::matchers).collect();
        let count = self.store.purge(&matchers);
        self.flights.part_with(&matchers);
        count
    }

    /// What a key stands for has changed: what is kept of it goes, and what has been asked for before is neither kept nor given to whoever
    /// comes from now on.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        self.store.invalidate(key);
        self.flights.part_with_key(key);
    }

    /// Takes part in the one request for what a key stands for.
    pub(crate) fn join(self: &Arc<Self>, key: &[u8]) -> Role {
        self.flights.join(self, key)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Remembers that what a key stands for is not for others.
    pub(crate) fn note_pass(&self, key: &[u8], now: u64) {
        self.passes.insert(self.hash(key), now + CACHE_PASS_TIME.as_secs());
    }

    /// Forgets it.
    pub(crate) fn forget_pass(&self, key: &[u8]) {
        self.passes.remove(&self.hash(key));
    }

    /// Whether requests for it do not wait for each other.
    pub(crate) fn passes(&self, key: &[u8], now: u64) -> bool {
        self.passes.get(&self.hash(key)).is_some_and(|until| now < until)
    }

    /// Room for something that comes, for an object of a namespace.
    pub(crate) fn room(self: &Arc<Self>, namespace: &Arc<str>) -> Room {
        let mut known = self.coming_by_namespace.lock();
        if !known.contains_key(namespace) {
            // Responses of which nothing comes; at most as many are left as there are responses.
            known.retain(|_, bytes| Arc::strong_count(bytes) > 1);
        }
        let of_namespace = Arc::clone(known.entry(Arc::clone(namespace)).or_default());
        Room { cache: Arc::clone(self), of_namespace, bytes: 0 }
    }
}

impl Room {
    /// Takes more. False where there is none, or more than its share is its namespace's.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let max = self.cache.coming_max;
        let own = self.of_namespace.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let more = |taken: u64| {
            let taken = taken + bytes;
            let others = taken.saturating_sub(own);
            Some(taken).filter(|_| own <= max.saturating_sub(others) / NAMESPACE_SHARE)
        };
        let is_taken = self.cache.coming.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_taken {
            self.bytes += bytes;
        } else {
            self.of_namespace.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of_namespace.fetch_sub(self.bytes, Ordering::Relaxed);
        self.cache.coming.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_has_its_share() {
        let cache = Cache::new(16 << 20);
        let (shop, blog) = (Arc::from("shop"), Arc::from("blog"));
        let (mut one, mut other) = (cache.room(&shop), cache.room(&shop));
        assert!(one.take(1 << 20) && !other.take(1));
        drop(one);
        assert!(other.take(1 << 20));
        // A namespace whose responses never end leaves room for others.
        let mut of_another = cache.room(&blog);
        assert!(of_another.take(1 << 19) && !of_another.take(1));
        assert!(cache.room(&Arc::from("third")).take(1 << 18));
        drop((other, of_another));
        assert_eq!((cache.figures().coming_bytes, cache.coming_by_namespace.lock().len()), (0, 3));
        cache.room(&Arc::from("fourth"));
        assert_eq!(cache.coming_by_namespace.lock().len(), 1);
    }

    #[test]
    fn what_is_not_for_others_is_remembered_for_a_while() {
        let cache = Cache::new(1 << 20);
        cache.note_pass(b"a", 10);
        assert!(cache.passes(b"a", 11) && !cache.passes(b"b", 11));
        assert!(!cache.passes(b"a", 10 + CACHE_PASS_TIME.as_secs()));
        cache.forget_pass(b"a");
        assert!(!cache.passes(b"a", 11));
    }
}
