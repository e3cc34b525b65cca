//! The values of groups: expanded, transformed and scanned once, for all rules that look at them.
//!
//! A value that the transformations of a group do not change is taken from the group without transformations,
//! with its scan. Never in here: operators.

use std::ops::Range;

use smallvec::SmallVec;

use super::Transaction;
use super::texts::TextId;
use super::values::{Item, Label, Subject};
use crate::prefilter::{ByteSet, add_bits};
use crate::rules::Rules;
use crate::tables::Numbered;
use crate::transform::Transformation;
use crate::variables::Variable;

/// One value of a group after its transformations.
#[derive(Clone, Copy)]
pub(super) struct GroupValue {
    pub(super) variable: Variable,
    /// The name within the collection.
    pub(super) label: Label,
    pub(super) text: TextId,
}

impl GroupValue {
    /// The value as one of a target.
    pub(super) fn item(self) -> Item {
        Item { variable: self.variable, label: self.label, subject: Subject::Text(self.text) }
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    epoch: u32,
    start: u32,
    end: u32,
    /// The place of the bits of all operators that could match one of the values, from 1; 0 before the scan.
    bits: u32,
    /// The place of the set of all bytes of the values, for a group without transformations.
    set: u32,
}

/// The groups of a transaction.
pub(super) struct GroupCache {
    epoch: u32,
    states: Vec<State>,
    values: Vec<GroupValue>,
    bits: Vec<u64>,
    sets: Vec<ByteSet>,
}

impl GroupCache {
    pub(super) fn new(groups: usize) -> GroupCache {
        GroupCache {
            epoch: 1,
            states: vec![State::default(); groups],
            values: Vec::with_capacity(256),
            bits: Vec::with_capacity(512),
            sets: Vec::with_capacity(32),
        }
    }

    /// Forgets all values: variables may have others now.
    pub(super) fn clear(&mut self) {
        self.epoch += 1;
        self.values.clear();
        self.bits.clear();
        self.sets.clear();
    }

    /// The places of a group's values.
    pub(super) fn range(&self, group: u32) -> Range<usize> {
        let state = self.states[group as usize];
        state.start as usize..state.end as usize
    }

    /// The value at a place.
    pub(super) fn value(&self, place: usize) -> GroupValue {
        self.values[place]
    }

    fn is_filled(&self, group: u32) -> bool {
        self.states[group as usize].epoch == self.epoch
    }

    /// True if an operator could match a value of a group that was scanned.
    pub(super) fn could_match(&self, group: u32, operator: u32) -> bool {
        let bits = self.states[group as usize].bits as usize;
        bits == 0 || self.bits[bits - 1 + operator as usize / 64] & (1 << (operator % 64)) != 0
    }
}

impl Transaction {
    /// True if an operator could match a value of a group.
    pub(super) fn group_could_match(&mut self, rules: &Rules, group: u32, operator: u32) -> bool {
        self.fill_group(rules, group);
        self.fill_bits(rules, group);
        self.groups.could_match(group, operator)
    }

    /// Makes the values of a group, unless they are there.
    pub(super) fn fill_group(&mut self, rules: &Rules, number: u32) {
        if self.groups.is_filled(number) {
            return;
        }
        let numbered = rules.groups().get(number);
        let state = if !numbered.parts.is_empty() {
            for &part in &numbered.parts {
                self.fill_group(rules, part);
            }
            State::default()
        } else if numbered.plain == number {
            self.fill_plain(numbered)
        } else {
            self.fill_group(rules, numbered.plain);
            self.fill_transformed(rules, numbered)
        };
        self.groups.states[number as usize] = State { epoch: self.groups.epoch, ..state };
    }

    fn fill_plain(&mut self, numbered: &Numbered) -> State {
        let mut items = std::mem::take(&mut self.scratch);
        items.clear();
        self.expand(&numbered.group.targets, &mut items);
        let mut state = self.begin();
        let mut set = ByteSet::default();
        for &item in &items {
            let text = self.text_of(item.subject);
            set = set.union(&self.store.texts.set(text));
            self.push_value(item, text);
        }
        self.scratch = items;
        state.set = self.groups.sets.len() as u32;
        self.groups.sets.push(set);
        self.end(state)
    }

    fn fill_transformed(&mut self, rules: &Rules, numbered: &Numbered) -> State {
        let plain = self.groups.states[numbered.plain as usize];
        let set = self.groups.sets[plain.set as usize];
        let changes = |set: &ByteSet| numbered.triggers.as_ref().is_none_or(|triggers| triggers.meets(set));
        if plain.start == plain.end || !changes(&set) {
            return plain;
        }
        let state = self.begin();
        for place in plain.start as usize..plain.end as usize {
            let value = self.groups.value(place);
            if !changes(&self.store.texts.set(value.text)) {
                self.groups.values.push(value);
                continue;
            }
            let group = &numbered.group;
            for text in self.transformed_item(rules, value.item(), &group.transformations, group.each) {
                self.push_value(value.item(), text);
            }
        }
        self.end(state)
    }

    fn begin(&self) -> State {
        State { start: self.groups.values.len() as u32, ..State::default() }
    }

    fn end(&self, state: State) -> State {
        State { end: self.groups.values.len() as u32, ..state }
    }

    fn push_value(&mut self, item: Item, text: TextId) {
        self.groups.values.push(GroupValue { variable: item.variable, label: item.label, text });
    }

    /// Scans the values of a group, unless that is done: not every group has an operator that the prefilter
    /// knows.
    fn fill_bits(&mut self, rules: &Rules, group: u32) {
        let state = self.groups.states[group as usize];
        if state.bits > 0 {
            return;
        }
        let parts = &rules.groups().get(group).parts;
        for &part in parts {
            self.fill_bits(rules, part);
        }
        let bits = self.groups.bits.len();
        self.groups.bits.resize(bits + rules.words(), 0);
        let (known, sums) = self.groups.bits.split_at_mut(bits);
        for &part in parts {
            let start = self.groups.states[part as usize].bits as usize - 1;
            add_bits(sums, &known[start..start + rules.words()]);
        }
        for place in state.start as usize..state.end as usize {
            let scan = self.store.texts.scan(self.groups.values[place].text, rules);
            add_bits(&mut self.groups.bits[bits..], scan);
        }
        self.groups.states[group as usize].bits = bits as u32 + 1;
    }

    /// The texts that an operator sees of a value.
    pub(super) fn transformed_item(
        &mut self,
        rules: &Rules,
        item: Item,
        transformations: &[Transformation],
        each: bool,
    ) -> SmallVec<[TextId; 2]> {
        let map = rules.settings().unicode_map.as_deref();
        let mut text = self.text_of(item.subject);
        let mut texts = smallvec::smallvec![text];
        for &transformation in transformations {
            let made = self.store.texts.transformed(text, transformation, map);
            if !each {
                texts.clear();
                texts.push(made);
            } else if made != text {
                texts.push(made);
            }
            text = made;
        }
        texts
    }
}
