//! Cached responses, shared by all workers: the responses in memory and on disk, those that still arrive,
//! and the memory that both take.
//!
//! No lock is held across IO. A purge looks at all responses, so that no index is kept for its sake.
//! [`forms`] are the compressed forms of responses and of small files, with a bound of their own; [`tier`] is
//! the disk behind the memory. The meaning of a response to a request is defined by `wire::cache`, and the
//! room `cache` acts on both.
//!
//! Never in here: requests on their way, sockets, a clock.

mod flight;
pub(crate) mod forms;
mod labels;
mod memory;
mod miss;
mod object;
mod purges;
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
pub(crate) use memory::MemoryLookup;
pub(crate) use miss::{CacheMiss, CacheReport, CacheState, Hit};
pub(crate) use object::{Asking, Body, Object};

use crate::limits::{CACHE_PASS_TIME, CACHE_PASSES_MAX};
use flight::Flights;
use memory::Store;
use tier::Tier;

/// A cache key: everything that an endpoint receives and `Vary` does not cover.
pub(crate) type Key = Arc<[u8]>;

/// The part of the memory for responses that still arrive: one byte in this many.
const COMING_SHARE: u64 = 8;
/// A namespace may take one in this many bytes of the room that others leave. So other namespaces always
/// have some left, however many responses of one never end.
const NAMESPACE_SHARE: u64 = 2;

/// The cache of a proxy.
pub(crate) struct Cache {
    store: Store,
    flights: Flights,
    /// Keys, by their hash, whose responses may not be shared, and the time until which this is remembered.
    /// A collision of hashes does no harm.
    passes: Map<u64, u64>,
    hasher: RandomState,
    /// Bytes of all responses that still arrive.
    coming: AtomicU64,
    /// Bytes of responses that still arrive, by namespace.
    coming_by_namespace: Mutex<HashMap<Arc<str>, Arc<AtomicU64>>>,
    coming_max: u64,
}

/// Figures of a cache, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// URLs with responses in memory.
    pub objects: u64,
    /// Bytes of the responses in memory.
    pub bytes: u64,
    /// Bytes of responses that still arrive.
    pub coming_bytes: u64,
    /// Capacity in bytes, for both together.
    pub bytes_max: u64,
    /// Responses that were evicted so far.
    pub evictions: u64,
    /// Figures of the disk, where there is one.
    pub disk: Option<DiskFigures>,
}

/// Memory reserved for a response that arrives; released on drop.
pub(crate) struct Room {
    cache: Arc<Cache>,
    /// Bytes that arriving responses of the same namespace have reserved, this one among them.
    of_namespace: Arc<AtomicU64>,
    bytes: u64,
}

impl Cache {
    /// An empty cache of this many bytes in memory, without a disk.
    #[cfg(test)]
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Self::with_disk(bytes, None)
    }

    /// A cache of this many bytes in memory, with an optional disk.
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

    /// The responses that are stored.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Figures for the metrics.
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

    /// Purges the responses that match, with all of their variants. A request that begins after this has
    /// returned gets no response that was requested before. Returns the number of responses removed from
    /// memory.
    pub(crate) fn purge(&self, purges: &[Purge]) -> u64 {
        let matchers: purges::Matchers = purges.iter().flat_map(Purge::matchers).collect();
        let count = self.store.purge(&matchers);
        self.flights.remove_matching(&matchers);
        count
    }

    /// Invalidates a key whose resource has changed: its stored responses are removed, and a response that
    /// was requested before is neither stored nor shared with requests from now on.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        self.store.invalidate(key);
        self.flights.remove(key);
    }

    /// Joins the flight of a key, as its leader if there is none yet.
    pub(crate) fn join(self: &Arc<Self>, key: &[u8]) -> Role {
        self.flights.join(self, key)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Remembers that the responses of a key may not be shared.
    pub(crate) fn note_pass(&self, key: &[u8], now: u64) {
        self.passes.insert(self.hash(key), now + CACHE_PASS_TIME.as_secs());
    }

    /// Forgets that the responses of a key may not be shared.
    pub(crate) fn forget_pass(&self, key: &[u8]) {
        self.passes.remove(&self.hash(key));
    }

    /// Whether requests for a key go on by themselves, without waiting for each other.
    pub(crate) fn passes(&self, key: &[u8], now: u64) -> bool {
        self.passes.get(&self.hash(key)).is_some_and(|until| now < until)
    }

    /// An empty reservation for a response that arrives, of an object of a namespace.
    pub(crate) fn room(self: &Arc<Self>, namespace: &Arc<str>) -> Room {
        let mut known = self.coming_by_namespace.lock();
        if !known.contains_key(namespace) {
            // Counters of namespaces without arriving responses; at most as many remain as there are
            // responses.
            known.retain(|_, bytes| Arc::strong_count(bytes) > 1);
        }
        let of_namespace = Arc::clone(known.entry(Arc::clone(namespace)).or_default());
        Room { cache: Arc::clone(self), of_namespace, bytes: 0 }
    }
}

impl Room {
    /// Reserves more bytes. False where none are free, or the namespace has used its share.
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
