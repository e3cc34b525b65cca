//! Numbers for keys. A key has its number for as long as it is kept; later, another may get it.
//!
//! Never in here: what keys stand for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::FixedState;

/// Values by number, and numbers by key.
#[derive(Debug)]
pub(super) struct Slots<K, V> {
    numbers: HashMap<Arc<K>, u32, FixedState>,
    entries: Vec<Option<(Arc<K>, V)>>,
    vacant: Vec<u32>,
}

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Self { numbers: HashMap::default(), entries: Vec::new(), vacant: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Slots<K, V> {
    /// The number of a key, which gets one if it has none.
    pub(super) fn number(&mut self, key: &K) -> u32 {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        let key = Arc::new(key.clone());
        self.entries[number as usize] = Some((Arc::clone(&key), V::default()));
        self.numbers.insert(key, number);
        number
    }

    /// The number of a key that is kept.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Forgets a key; its number is free.
    pub(super) fn remove(&mut self, number: u32) -> Option<(Arc<K>, V)> {
        let (key, value) = self.entries[number as usize].take()?;
        self.numbers.remove(&*key);
        self.vacant.push(number);
        Some((key, value))
    }

    /// All numbers are below this.
    pub(super) fn end(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn key(&self, number: u32) -> &Arc<K> {
        &self.entry(number).0
    }

    pub(super) fn get(&self, number: u32) -> &V {
        &self.entry(number).1
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut V {
        let entry = self.entries[number as usize].as_mut();
        &mut entry.expect("whoever has a number keeps its key").1
    }

    /// Whether a number is taken.
    pub(super) fn has(&self, number: u32) -> bool {
        self.entries[number as usize].is_some()
    }

    fn entry(&self, number: u32) -> &(Arc<K>, V) {
        self.entries[number as usize].as_ref().expect("whoever has a number keeps its key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_when_its_key_has_gone() {
        let mut slots = Slots::<&str, u8>::default();
        assert_eq!((slots.number(&"a"), slots.number(&"b"), slots.number(&"a")), (0, 1, 0));
        *slots.get_mut(0) = 7;
        assert_eq!(slots.remove(0).map(|(_, value)| value), Some(7));
        assert_eq!((slots.find(&"a"), slots.find(&"b"), slots.remove(0)), (None, Some(1), None));
        assert_eq!((slots.number(&"c"), *slots.get(0), slots.end()), (0, 0, 2));
    }
}
