//! Values in slots that are used again, each time in another generation.

use crate::id::TaskId;

/// Values by slot and generation.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[slot as usize];
        entry.value = Some(value);
        Key { slot, generation: entry.generation }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation == key.generation { entry.value.as_mut() } else { None }
    }

    /// The value in a slot, whatever its generation.
    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> Option<(Key, &mut T)> {
        let entry = self.entries.get_mut(slot as usize)?;
        let key = Key { slot, generation: entry.generation };
        entry.value.as_mut().map(|value| (key, value))
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = TaskId::generation(entry.generation + 1);
        self.free.push(key.slot);
        Some(value)
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_iter().filter_map(|entry| entry.value)
    }
}
