//! Persistent collections: what rules remember about clients, sessions and users beyond one transaction. They
//! are in memory, and their number is bounded.
//!
//! Never in here: a clock; the time is an argument, in seconds.

use parking_lot::Mutex;

use crate::limits::{COLLECTION_ENTRIES_MAX, NAMES_MAX};
use crate::tables::FastMap;
use crate::variables::Variable;

const SHARDS: usize = 16;

/// The key of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) collection: Variable,
    /// The key that the rules have chosen.
    pub(crate) key: Box<[u8]>,
}

struct Held {
    value: Vec<u8>,
    expires: Option<u64>,
    changed: u64,
}

struct Record {
    values: FastMap<Box<[u8]>, Held>,
    expires: u64,
    created: u64,
    updates: u64,
}

type Shard = FastMap<Key, Record>;

/// All persistent collections of rule sets that share them.
pub struct Collections {
    shards: [Mutex<Shard>; SHARDS],
    entries_max: usize,
    hasher: foldhash::fast::FixedState,
}

impl Collections {
    /// No entries; the seed keeps others from choosing keys that collide.
    pub fn new(seed: u64) -> Collections {
        let hasher = foldhash::fast::FixedState::with_seed(seed);
        Collections {
            shards: std::array::from_fn(|_| Mutex::new(FastMap::with_hasher(hasher.clone()))),
            entries_max: COLLECTION_ENTRIES_MAX,
            hasher,
        }
    }

    /// The number of entries, with those that are over.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        use std::hash::BuildHasher as _;
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Makes an entry, or lets the one that is there live on.
    pub(crate) fn attach(&self, key: &Key, now: u64, timeout: u64) {
        let mut shard = self.shard(key).lock();
        if let Some(record) = shard.get_mut(key)
            && record.expires > now
        {
            record.expires = now + timeout;
            return;
        }
        if shard.len() >= self.entries_max / SHARDS {
            shard.retain(|_, record| record.expires > now);
            if shard.len() >= self.entries_max / SHARDS {
                return;
            }
        }
        let record = Record { values: FastMap::default(), expires: now + timeout, created: now, updates: 0 };
        shard.insert(key.clone(), record);
    }

    /// The value of a name.
    pub(crate) fn get(&self, key: &Key, name: &[u8], now: u64) -> Option<Vec<u8>> {
        let shard = self.shard(key).lock();
        let record = shard.get(key).filter(|record| record.expires > now)?;
        match name {
            b"create_time" => return Some(record.created.to_string().into_bytes()),
            b"update_counter" => return Some(record.updates.to_string().into_bytes()),
            b"timeout" => return Some((record.expires - now).to_string().into_bytes()),
            b"is_new" => return Some(vec![b'0' + u8::from(record.updates == 0)]),
            b"key" => return Some(key.key.to_vec()),
            _ => {}
        }
        let held = record.values.get(name).filter(|held| held.expires.is_none_or(|expires| expires > now));
        held.map(|held| held.value.clone())
    }

    /// Visits all names with their values, in the order of the names.
    pub(crate) fn visit(&self, key: &Key, now: u64, mut visitor: impl FnMut(&[u8], &[u8])) {
        let shard = self.shard(key).lock();
        let Some(record) = shard.get(key).filter(|record| record.expires > now) else { return };
        let mut names: Vec<_> = record
            .values
            .iter()
            .filter(|(_, held)| held.expires.is_none_or(|expires| expires > now))
            .collect();
        names.sort_unstable_by(|one, two| one.0.cmp(two.0));
        for (name, held) in names {
            visitor(name, &held.value);
        }
    }

    /// Changes the value of a name: `change` has the value that is there, and returns the new one or none.
    pub(crate) fn change(
        &self,
        key: &Key,
        name: &[u8],
        now: u64,
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) {
        let mut shard = self.shard(key).lock();
        let Some(record) = shard.get_mut(key).filter(|record| record.expires > now) else { return };
        record.updates += 1;
        let old = record.values.get(name).filter(|held| held.expires.is_none_or(|expires| expires > now));
        let expires = old.and_then(|held| held.expires);
        match change(old.map(|held| held.value.as_slice())) {
            Some(value) if record.values.len() < NAMES_MAX || record.values.contains_key(name) => {
                record.values.insert(name.into(), Held { value, expires, changed: now });
            }
            Some(_) => {}
            None => {
                record.values.remove(name);
            }
        }
    }

    /// Lets a value end after some seconds.
    pub(crate) fn expire(&self, key: &Key, name: &[u8], now: u64, seconds: u64) {
        let mut shard = self.shard(key).lock();
        if let Some(held) = shard.get_mut(key).and_then(|record| record.values.get_mut(name)) {
            held.expires = Some(now.saturating_add(seconds));
        }
    }

    /// Lowers a number by `amount` for each `seconds` since it changed.
    pub(crate) fn deprecate(&self, key: &Key, name: &[u8], now: u64, amount: u32, seconds: u32) {
        let mut shard = self.shard(key).lock();
        let Some(held) = shard.get_mut(key).and_then(|record| record.values.get_mut(name)) else { return };
        let steps = now.saturating_sub(held.changed) / u64::from(seconds.max(1));
        if steps > 0 {
            let loss = i64::try_from(steps.saturating_mul(u64::from(amount))).unwrap_or(i64::MAX);
            let value = crate::template::number(&held.value).saturating_sub(loss).max(0);
            held.value = value.to_string().into_bytes();
            held.changed += steps * u64::from(seconds.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key { collection: Variable::Ip, key: text.as_bytes().into() }
    }

    #[test]
    fn values_live_as_long_as_their_entry_and_their_own_time() {
        let collections = Collections::new(1);
        let key = key("a");
        collections.change(&key, b"n", 0, |_| Some(b"0".to_vec()));
        assert_eq!(collections.get(&key, b"n", 0), None, "nothing is kept before the entry is attached");
        collections.attach(&key, 0, 100);
        collections.change(&key, b"n", 1, |_| Some(b"5".to_vec()));
        collections.change(&key, b"m", 1, |_| Some(b"6".to_vec()));
        collections.expire(&key, b"m", 1, 10);
        assert_eq!(collections.get(&key, b"n", 50), Some(b"5".to_vec()));
        assert_eq!(collections.get(&key, b"m", 10), Some(b"6".to_vec()));
        assert_eq!(collections.get(&key, b"m", 11), None);
        collections.deprecate(&key, b"n", 21, 1, 10);
        assert_eq!(collections.get(&key, b"n", 21), Some(b"3".to_vec()));
        let mut names = Vec::new();
        collections.visit(&key, 50, |name, _| names.push(name.to_vec()));
        assert_eq!(names, [b"n".to_vec()]);
        assert_eq!(collections.get(&key, b"n", 100), None);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut collections = Collections::new(1);
        collections.entries_max = SHARDS * 4;
        for index in 0..1_000 {
            collections.attach(&key(&index.to_string()), 0, 10);
        }
        assert_eq!(collections.len(), SHARDS * 4);
        collections.attach(&key("late"), 20, 10);
        collections.change(&key("late"), b"a", 20, |_| Some(b"1".to_vec()));
        assert_eq!(collections.get(&key("late"), b"a", 20), Some(b"1".to_vec()));
    }
}
