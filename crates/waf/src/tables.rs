//! Tables that rules share by number: names of `TX`, lists of targets, lists of transformations.
//!
//! Never in here: values of a transaction.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::transform::Transformation;
use crate::triggers::Changes;
use crate::variables::{Exclusion, Target, Variable};

/// A map with a fast hash and no random state: keys come from rules.
pub(crate) type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// Slots of `TX` for the names that rules know; `0` to `9` are the first ten.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    slots: FastMap<Arc<[u8]>, u32>,
    names: Vec<Arc<[u8]>>,
}

impl Default for Names {
    fn default() -> Names {
        let mut names = Names { slots: FastMap::default(), names: Vec::new() };
        for digit in b'0'..=b'9' {
            names.slot(&[digit]);
        }
        names
    }
}

impl Names {
    /// The slot of a name, which is in lower case.
    pub(crate) fn slot(&mut self, name: &[u8]) -> u32 {
        if let Some(&slot) = self.slots.get(name) {
            return slot;
        }
        let (slot, name) = (self.names.len() as u32, Arc::<[u8]>::from(name));
        self.names.push(Arc::clone(&name));
        self.slots.insert(name, slot);
        slot
    }

    /// The slot of a name that may be unknown; the name is in lower case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.slots.get(name).copied()
    }

    /// The name of a slot.
    pub(crate) fn name(&self, slot: u32) -> &[u8] {
        self.names.get(slot as usize).map_or(b"", |name| name)
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// The targets of a rule with what it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Targets {
    pub(crate) targets: Vec<Target>,
    /// The values that are left out.
    pub(crate) exclusions: Vec<Exclusion>,
}

impl Targets {
    /// True if values may change while the rules of one phase run.
    pub(crate) fn change_within_a_phase(&self) -> bool {
        self.targets.iter().any(|target| target.variable.changes_within_a_phase())
    }

    /// True if a value is left out.
    pub(crate) fn excludes(&self, variable: Variable, name: &[u8]) -> bool {
        self.exclusions.iter().any(|exclusion| exclusion.covers(variable, name))
    }
}

/// The view that several rules share: the same targets after the same transformations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) targets: Arc<Targets>,
    /// The transformations in their order.
    pub(crate) transformations: Arc<[Transformation]>,
    /// True if the operator sees the value after each transformation (`multiMatch`).
    pub(crate) each: bool,
}

/// Groups by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    numbers: FastMap<Group, u32>,
    groups: Vec<Numbered>,
}

/// A group with what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) group: Group,
    /// The number of the group with the same targets and no transformations; its own if it has none.
    pub(crate) plain: u32,
    /// The bits of the transformations.
    pub(crate) changes: Changes,
    /// The groups with one target each whose values together are those of this group; empty for one target.
    pub(crate) parts: Box<[u32]>,
}

impl Groups {
    /// The number of a group.
    pub(crate) fn number(&mut self, mut group: Group) -> u32 {
        group.each &= !group.transformations.is_empty();
        if let Some(&number) = self.numbers.get(&group) {
            return number;
        }
        let parts = self.parts(&group);
        let plain = (parts.is_empty() && !group.transformations.is_empty()).then(|| {
            let transformations = Arc::default();
            self.number(Group { transformations, each: false, ..group.clone() })
        });
        let number = self.groups.len() as u32;
        let changes = Changes::of(&group.transformations);
        let plain = plain.unwrap_or(number);
        self.groups.push(Numbered { group: group.clone(), plain, changes, parts });
        self.numbers.insert(group, number);
        number
    }

    /// A group for each target: many rules look at the same targets in other combinations.
    fn parts(&mut self, group: &Group) -> Box<[u32]> {
        if group.targets.targets.len() < 2 {
            return Box::default();
        }
        let one = |target: &Target| {
            let exclusions = group.targets.exclusions.iter();
            let exclusions = exclusions.filter(|exclusion| exclusion.covers_variable(target.variable));
            Targets { targets: vec![target.clone()], exclusions: exclusions.cloned().collect() }
        };
        let parts: Vec<Targets> = group.targets.targets.iter().map(one).collect();
        parts
            .into_iter()
            .map(|targets| self.number(Group { targets: Arc::new(targets), ..group.clone() }))
            .collect()
    }

    /// The group with a number.
    pub(crate) fn get(&self, number: u32) -> &Numbered {
        &self.groups[number as usize]
    }

    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_slot_and_digits_have_the_first() {
        let mut names = Names::default();
        assert_eq!((names.slot(b"3"), names.slot(b"a"), names.slot(b"b")), (3, 10, 11));
        assert_eq!((names.slot(b"a"), names.find(b"b"), names.find(b"c")), (10, Some(11), None));
        assert_eq!((names.name(11), names.len()), (&b"b"[..], 12));
    }
}
