//! Host tables by name, in shards that copies share: a copy with one changed name costs one shard and not all
//! names.
//!
//! Must not be in here: wildcards and their precedence.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use model::HostName;

use crate::table::HostTable;

/// The number of names in a shard, on average, at which there are twice as many shards.
const SHARD_NAMES_MAX: usize = 256;

/// The first bit of a hash that selects the shard. The table of a shard uses the bits below and the highest
/// seven.
const SHARD_BIT: u32 = 24;

type Shard = HashTable<Arc<HostTable>>;

/// Host tables by the bytes of their name or suffix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    state: RandomState,
    /// A power of two of shards.
    shards: Vec<Arc<Shard>>,
    len: usize,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The table of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<HostTable>> {
        if self.len == 0 {
            return None;
        }
        let hash = self.state.hash_one(name);
        self.shards[self.shard(hash)].find(hash, |table| text(table) == name)
    }

    /// Adds a table, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, table: Arc<HostTable>) {
        if self.len >= self.shards.len() * SHARD_NAMES_MAX {
            self.grow();
        }
        let hash = self.state.hash_one(text(&table));
        let shard = self.shard(hash);
        let hash_of = |table: &Arc<HostTable>| self.state.hash_one(text(table));
        let shard = Arc::make_mut(&mut self.shards[shard]);
        match shard.entry(hash, |other| text(other) == text(&table), hash_of) {
            Entry::Occupied(mut place) => *place.get_mut() = table,
            Entry::Vacant(place) => {
                place.insert(table);
                self.len += 1;
            }
        }
    }

    /// Removes the table of a name.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if self.len == 0 {
            return;
        }
        let hash = self.state.hash_one(name);
        let shard = self.shard(hash);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        if let Ok(place) = shard.find_entry(hash, |table| text(table) == name) {
            place.remove();
            self.len -= 1;
        }
    }

    fn shard(&self, hash: u64) -> usize {
        (hash >> SHARD_BIT) as usize & (self.shards.len() - 1)
    }

    /// Distributes the tables over twice as many shards.
    fn grow(&mut self) {
        let count = (2 * self.shards.len()).max(1);
        let mut shards = vec![Shard::new(); count];
        let hash_of = |table: &Arc<HostTable>| self.state.hash_one(text(table));
        for table in self.shards.iter().flat_map(|shard| shard.iter()) {
            let hash = hash_of(table);
            let shard = &mut shards[(hash >> SHARD_BIT) as usize & (count - 1)];
            shard.insert_unique(hash, Arc::clone(table), hash_of);
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }
}

/// The bytes by which a table is found.
pub(crate) fn text(table: &HostTable) -> &[u8] {
    text_of(table.name())
}

/// The bytes by which a name is found among those of its form.
pub(crate) fn text_of(name: &HostName) -> &[u8] {
    match name {
        HostName::Exact(text) | HostName::OneLabel(text) | HostName::Suffix(text) => text.as_bytes(),
        HostName::Any => b"",
    }
}
