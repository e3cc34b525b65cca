//! The collection `TX`, which rules fill in a transaction.
//!
//! Never in here: macros.

use super::texts::TextId;
use crate::limits::NAMES_MAX;
use crate::tables::{FastMap, Names};

/// A value that a rule has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// There is none.
    #[default]
    None,
    Number(i64),
    Text(TextId),
}

/// The collection `TX`: slots for the names that rules know, and a map for those with macros.
pub(super) struct Tx {
    slots: Vec<Value>,
    others: Vec<Other>,
    places: FastMap<Box<[u8]>, u32>,
}

struct Other {
    name: Box<[u8]>,
    value: Value,
}

impl Tx {
    pub(super) fn new(names: &Names, seed: u64) -> Tx {
        let places = FastMap::with_hasher(foldhash::fast::FixedState::with_seed(seed));
        Tx { slots: vec![Value::None; names.len()], others: Vec::new(), places }
    }

    /// The value of a slot.
    pub(super) fn slot(&self, slot: u32) -> Value {
        self.slots.get(slot as usize).copied().unwrap_or_default()
    }

    /// Sets a slot.
    pub(super) fn set_slot(&mut self, slot: u32, value: Value) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = value;
        }
    }

    /// The value of a name, which is in lower case.
    pub(super) fn get(&self, names: &Names, name: &[u8]) -> Value {
        match names.find(name) {
            Some(slot) => self.slot(slot),
            None => self.places.get(name).map_or(Value::None, |&place| self.others[place as usize].value),
        }
    }

    /// Sets a name, which is in lower case. Names beyond the bound are dropped.
    pub(super) fn set(&mut self, names: &Names, name: &[u8], value: Value) {
        if let Some(slot) = names.find(name) {
            self.set_slot(slot, value);
        } else if let Some(&place) = self.places.get(name) {
            self.others[place as usize].value = value;
        } else if self.others.len() < NAMES_MAX {
            self.places.insert(name.into(), self.others.len() as u32);
            self.others.push(Other { name: name.into(), value });
        }
    }

    /// All names that have a value.
    pub(super) fn iter<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = (&'a [u8], Value)> {
        let known = self.slots.iter().enumerate().map(|(slot, &value)| (names.name(slot as u32), value));
        let others = self.others.iter().map(|other| (&*other.name, other.value));
        known.chain(others).filter(|(_, value)| *value != Value::None)
    }
}
