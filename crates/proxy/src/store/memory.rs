//! Stored responses, by key, with the variants of each key. Eviction is S3-FIFO: a response requested once
//! goes before one requested again, so that a crawler evicts little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Key;
use super::object::{Asking, Object};
use super::purges::{Matchers, Purges};
use super::tier::{Objects, Tier};
use crate::limits::CACHE_VARIANTS_MAX;
use cache_disk::Figures as DiskFigures;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

/// The stored responses.
pub(crate) struct Store {
    map: Map<Key, Arc<Variants>, Weight, DefaultHashBuilder, Evictions>,
    evictions: Evictions,
    tier: Tier,
    /// Removals so far: a response read from the disk meanwhile may be one that was removed.
    removals: AtomicU64,
    /// Held while the responses of a key are changed, so that no change is lost and no purged response is
    /// stored.
    changing: Mutex<Purges>,
    /// Count of purges and changes so far.
    purged: AtomicU64,
    /// Held by the running purge; others wait.
    purging: Mutex<()>,
}

/// The responses of a key, the latest last.
struct Variants {
    objects: Objects,
    weight: u64,
}

/// Result of a lookup for a request.
#[derive(Default)]
pub(crate) struct MemoryLookup {
    pub(crate) object: Option<Arc<Object>>,
    /// There are responses to other requests for the same key.
    pub(crate) has_others: bool,
}

impl Variants {
    fn are_meant(&self, matchers: &Matchers) -> bool {
        self.objects.iter().any(|object| object.labels.are_meant(matchers))
    }
}

#[derive(Clone)]
struct Weight;

/// Counts evicted responses.
#[derive(Clone, Default)]
struct Evictions(Arc<AtomicU64>);

/// Overhead of the table for each key, in bytes.
const ENTRY_BYTES: usize = 160;
/// Each shard of the table, with a lock of its own, has at least this many bytes, so that long responses
/// fit.
const SHARD_BYTES_MIN: u64 = 64 << 20;
const SHARDS_MAX: u64 = 64;
/// Assumed length of a response, for the initial size of the table.
const USUAL_BYTES: u64 = 64 << 10;

impl Weighter<Key, Arc<Variants>> for Weight {
    fn weight(&self, key: &Key, variants: &Arc<Variants>) -> u64 {
        (key.len() + ENTRY_BYTES) as u64 + variants.weight
    }
}

impl Lifecycle<Key, Arc<Variants>> for Evictions {
    type RequestState = Option<Arc<Variants>>;

    /// Evicted responses are freed when the state is dropped, after the lock has been released.
    fn on_evict(&self, state: &mut Self::RequestState, _: Key, variants: Arc<Variants>) {
        self.0.fetch_add(variants.objects.len() as u64, Ordering::Relaxed);
        *state = Some(variants);
    }
}

impl Store {
    /// An empty store with this capacity in bytes.
    pub(super) fn new(bytes: u64, tier: Tier) -> Self {
        let options = OptionsBuilder::new()
            .shards((bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity((bytes / USUAL_BYTES) as usize)
            .weight_capacity(bytes)
            .build()
            .expect("all that has to be said is said");
        let evictions = Evictions::default();
        let map = Map::with_options(options, Weight, DefaultHashBuilder::default(), evictions.clone());
        Self {
            map,
            evictions,
            tier,
            removals: AtomicU64::new(0),
            changing: Mutex::default(),
            purged: AtomicU64::new(0),
            purging: Mutex::new(()),
        }
    }

    /// Finds the latest response that answers a request.
    pub(crate) fn find(&self, key: &[u8], request: Asking<'_>) -> MemoryLookup {
        let Some(variants) = self.map.get(key) else { return MemoryLookup::default() };
        let mut matching = variants.objects.iter().filter(|object| object.answers(request));
        let object = matching.next_back().cloned();
        MemoryLookup { has_others: object.is_none(), object }
    }

    /// Whether there is a disk, which may have more than the memory.
    pub(crate) fn has_tier(&self) -> bool {
        self.tier.is_there()
    }

    /// Loads the responses of a key from the disk into memory. False if there are none, or some were stored
    /// or removed meanwhile.
    pub(crate) async fn bring_up(&self, key: &[u8]) -> bool {
        let removals = self.removals.load(Ordering::Relaxed);
        let Some(objects) = self.tier.get(key).await else { return false };
        let changing = self.changing.lock();
        let is_wanted = self.map.peek(key).is_none() && removals == self.removals.load(Ordering::Relaxed);
        if is_wanted {
            self.insert_here(&changing, &Key::from(key), objects);
        }
        is_wanted
    }

    /// Stores a response and replaces those that answer the same requests, unless it has been purged since
    /// it was requested.
    pub(crate) fn put(&self, key: &Key, object: &Arc<Object>, request: Asking<'_>, since: u64) {
        let is_purged = |changing: &Purges| changing.have_purged(key, &object.labels, since);
        self.change(key, is_purged, |variants| {
            let known = variants.map_or(&[][..], |variants| &variants.objects);
            let mut objects: Objects =
                known.iter().filter(|known| !known.answers(request)).cloned().collect();
            if objects.len() == CACHE_VARIANTS_MAX {
                // A client that varies made-up headers evicts the variants of such headers first, not those
                // that everybody gets.
                let made_up = objects.iter().position(|known| known.vary.has_implied());
                objects.remove(made_up.unwrap_or(0));
            }
            objects.push(Arc::clone(object));
            Some(objects)
        });
    }

    /// Replaces a response by its updated form, if it is still stored. False where it has been purged since
    /// it was requested.
    pub(crate) fn replace(&self, key: &Key, old: &Arc<Object>, new: &Arc<Object>, since: u64) -> bool {
        let is_purged = |changing: &Purges| {
            changing.have_purged(key, &new.labels, since) || changing.have_purged(key, &old.labels, since)
        };
        self.change(key, is_purged, |variants| {
            let mut objects = variants?.objects.clone();
            *objects.iter_mut().find(|known| Arc::ptr_eq(known, old))? = Arc::clone(new);
            Some(objects)
        })
    }

    /// Replaces the responses of a key by those that `make` returns for the present ones. False where they
    /// have been purged. The record for the disk is encoded before the lock is taken, which all workers
    /// share; if the responses have changed by then, it is encoded again.
    fn change(
        &self,
        key: &Key,
        is_purged: impl Fn(&Purges) -> bool,
        make: impl Fn(Option<&Variants>) -> Option<Objects>,
    ) -> bool {
        loop {
            let before = self.map.peek(&**key);
            let made = make(before.as_deref());
            let record = made.as_ref().and_then(|objects| self.tier.encode(objects));
            let changing = self.changing.lock();
            if is_purged(&changing) {
                return false;
            }
            let now = self.map.peek(&**key);
            if now.as_ref().map(Arc::as_ptr) != before.as_ref().map(Arc::as_ptr) {
                continue;
            }
            if made.is_some_and(|objects| self.insert_here(&changing, key, objects)) {
                self.tier.put(key, record);
            }
            return true;
        }
    }

    /// False where the running purge matches one of them: the purge removes them.
    fn insert_here(&self, changing: &MutexGuard<'_, Purges>, key: &Key, objects: Objects) -> bool {
        if objects.iter().any(|object| changing.match_running(&object.labels)) {
            return false;
        }
        let weight = objects.iter().map(|object| object.weight()).sum::<u64>() + size_of::<Variants>() as u64;
        self.map.insert(Arc::clone(key), Arc::new(Variants { objects, weight }));
        true
    }

    /// Removes all responses of a key whose resource has changed; responses that were requested before are
    /// not stored.
    pub(super) fn invalidate(&self, key: &[u8]) {
        let mut changing = self.changing.lock();
        self.purged.store(changing.note_change(key), Ordering::Release);
        self.removals.fetch_add(1, Ordering::Relaxed);
        self.map.remove(key);
        self.tier.remove(key);
    }

    /// Removes a response, if it is still there.
    pub(crate) fn remove_one(&self, key: &Key, old: &Arc<Object>) {
        let others = |variants: &Variants| -> Objects {
            variants.objects.iter().filter(|known| !Arc::ptr_eq(known, old)).cloned().collect()
        };
        let changing = self.changing.lock();
        let Some(variants) = self.map.peek(&**key) else { return };
        if others(&variants).is_empty() {
            self.removals.fetch_add(1, Ordering::Relaxed);
            self.map.remove(&**key);
            self.tier.remove(key);
            return;
        }
        drop(changing);
        self.change(key, |_| false, |variants| variants.map(others).filter(|others| !others.is_empty()));
    }

    // === Purges ===

    /// Count of purges and changes so far; read it before a lookup or a request to the endpoint.
    pub(crate) fn purged(&self) -> u64 {
        self.purged.load(Ordering::Acquire)
    }

    /// Removes the responses that match, with all others of the same key, in memory and on disk. Returns the
    /// number removed from memory.
    ///
    /// A purge scans the whole table, so that nothing else has to: hits go on meanwhile, and the lock is
    /// held for one step at a time.
    pub(super) fn purge(&self, matchers: &Matchers) -> u64 {
        let _one = self.purging.lock();
        {
            let mut changing = self.changing.lock();
            changing.begin(Arc::clone(matchers));
            self.removals.fetch_add(1, Ordering::Relaxed);
            self.tier.purge(matchers);
        }
        let mut count = 0;
        for (key, variants) in self.map.iter() {
            if variants.are_meant(matchers) {
                count += self.purge_one(&key, matchers);
            }
        }
        let mut changing = self.changing.lock();
        // Responses loaded from the disk since may have been read before their removal.
        self.removals.fetch_add(1, Ordering::Relaxed);
        self.purged.store(changing.end(), Ordering::Release);
        drop(changing);
        self.tier.flush();
        count
    }

    fn purge_one(&self, key: &Key, matchers: &Matchers) -> u64 {
        let _changing = self.changing.lock();
        // Another response may have been stored in its place.
        if self.map.peek(&**key).is_some_and(|variants| variants.are_meant(matchers)) {
            return self.map.remove(&**key).map_or(0, |(_, variants)| variants.objects.len() as u64);
        }
        0
    }

    /// Capacity of the memory in bytes.
    pub(super) fn bytes_max(&self) -> u64 {
        self.map.capacity()
    }

    /// Figures of the disk, where there is one.
    pub(super) fn disk_figures(&self) -> Option<DiskFigures> {
        self.tier.figures()
    }

    /// Number of keys, bytes of keys and responses, and evicted responses so far.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        (self.map.len() as u64, self.map.weight(), self.evictions.0.load(Ordering::Relaxed))
    }
}
