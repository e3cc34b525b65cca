//! The values of groups: expanded, transformed and scanned once, for all rules that look at them.
//!
//! A value that the transformations of a group do not change is taken from the group without transformations,
//! with its scan. Never in here: operators.

use std::ops::Range;

use smallvec::SmallVec;

use super::Transaction;
use super::texts::TextId;
use super::values::{Item, Label, Subject};
use crate::prefilter::add_bits;
use crate::rules::Rules;
use crate::tables::{Group, Numbered};
use crate::transform::Transformation;
use crate::triggers::Changes;
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
    /// The transformations that may change one of the values, for a group without transformations.
    changes: Changes,
    /// True if the transformations change none of the values.
    is_plain: bool,
}

/// The groups of a transaction.
pub(super) struct GroupCache {
    epoch: u32,
    states: Vec<State>,
    values: Vec<GroupValue>,
    bits: Vec<u64>,
}

impl GroupCache {
    pub(super) fn new(groups: usize) -> GroupCache {
        GroupCache {
            epoch: 1,
            states: vec![State::default(); groups],
            values: Vec::with_capacity(256),
            bits: Vec::with_capacity(512),
        }
    }

    /// Forgets all values: variables may have others now.
    pub(super) fn clear(&mut self) {
        self.epoch += 1;
        self.values.clear();
        self.bits.clear();
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
        let parts = &rules.groups().get(group).parts;
        let parts = if parts.is_empty() { std::slice::from_ref(&group) } else { parts };
        parts.iter().any(|&part| {
            self.fill_bits(rules, part);
            self.groups.could_match(part, operator)
        })
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
        for &item in &items {
            let text = self.text_of(item.subject);
            state.changes = state.changes.union(self.store.texts.facts(text).changes);
            self.push_value(item, text);
        }
        self.scratch = items;
        self.end(state)
    }

    fn fill_transformed(&mut self, rules: &Rules, numbered: &Numbered) -> State {
        let plain = self.groups.states[numbered.plain as usize];
        if plain.start == plain.end || !numbered.changes.meets(plain.changes) {
            return State { is_plain: true, ..plain };
        }
        let state = self.begin();
        let map = rules.settings().unicode_map.as_deref();
        for place in plain.start as usize..plain.end as usize {
            let value = self.groups.value(place);
            if !numbered.changes.meets(self.store.texts.facts(value.text).changes) {
                self.groups.values.push(value);
                continue;
            }
            let Group { transformations, each, .. } = &numbered.group;
            let mut text = value.text;
            if *each {
                self.groups.values.push(value);
            }
            for &transformation in &**transformations {
                let made = self.store.texts.transformed(text, transformation, map);
                if *each && made != text {
                    self.groups.values.push(GroupValue { text: made, ..value });
                }
                text = made;
            }
            if !each {
                self.groups.values.push(GroupValue { text, ..value });
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

    /// Scans the values of a group of one target, unless that is done: not every group has an operator that
    /// the prefilter knows.
    fn fill_bits(&mut self, rules: &Rules, group: u32) {
        let state = self.groups.states[group as usize];
        if state.bits > 0 {
            return;
        }
        if state.is_plain {
            let plain = rules.groups().get(group).plain;
            self.fill_bits(rules, plain);
            self.groups.states[group as usize].bits = self.groups.states[plain as usize].bits;
            return;
        }
        let bits = self.groups.bits.len();
        self.groups.bits.resize(bits + rules.words(), 0);
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
