//! The operators of a rule set that is being compiled; the same text is compiled once.
//!
//! Never in here: rules.

use crate::operators::{Argument, Compiled, Operator};
use crate::prefilter::{Prefilter, Requirement};
use crate::rules::Layer;
use crate::tables::FastMap;

/// Operators with their requirements.
pub(super) struct Operators {
    first: u32,
    all: Vec<Operator>,
    requirements: Vec<Requirement>,
    numbers: FastMap<String, u32>,
}

fn key(argument: &Argument) -> String {
    // Files are found from the place of the source.
    let from = if argument.name.to_ascii_lowercase().contains('f') { argument.from } else { "" };
    let (groups, negated) = (argument.groups, argument.negated);
    format!("{} {groups} {negated} {from} {}", argument.name.to_ascii_lowercase(), argument.text)
}

impl Operators {
    /// No operators; the first one gets this number.
    pub(super) fn new(first: u32) -> Operators {
        Operators { first, all: Vec::new(), requirements: Vec::new(), numbers: FastMap::default() }
    }

    /// The number of an operator that is there.
    pub(super) fn find(&self, argument: &Argument) -> Option<u32> {
        self.numbers.get(&key(argument)).copied()
    }

    /// Adds an operator.
    pub(super) fn add(&mut self, argument: &Argument, compiled: Compiled) -> u32 {
        let number = self.first + self.all.len() as u32;
        self.all.push(compiled.operator);
        self.requirements.push(compiled.requirement);
        self.numbers.insert(key(argument), number);
        number
    }

    /// The layer of all operators; `None` if there are none.
    pub(super) fn layer(self) -> Result<Option<Layer>, String> {
        if self.all.is_empty() {
            return Ok(None);
        }
        let prefilter = Prefilter::new(&self.requirements)?;
        Ok(Some(Layer { first: self.first, operators: self.all, prefilter }))
    }
}
