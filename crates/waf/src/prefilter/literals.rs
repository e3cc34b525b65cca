//! The literals of all operators in one automaton (Aho-Corasick), in either case.
//!
//! Each state that ends literals has the list of their operators, so that a text full of literals costs
//! little more than one without. Never in here: sets of bytes.

use std::ops::Range;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};
use hashbrown::HashMap;

pub(super) fn set_bit(bits: &mut [u64], index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

/// Literals with the operators that need one of them.
pub(super) struct Literals {
    automaton: DFA,
    start: StateID,
    /// Numbers of states are multiples of two to the power of this.
    shift: u32,
    /// For each state that ends literals a range of `operators`.
    by_state: Vec<Range<u32>>,
    operators: Vec<u16>,
}

impl Literals {
    /// Makes the automaton; there is at least one literal, and none is empty.
    pub(super) fn new(
        by_literal: &HashMap<&[u8], Vec<u16>, foldhash::fast::FixedState>,
    ) -> Result<Literals, String> {
        let mut all: Vec<(&[u8], &[u16])> =
            by_literal.iter().map(|(literal, operators)| (*literal, operators.as_slice())).collect();
        all.sort_unstable();
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(all.iter().map(|entry| entry.0))
            .map_err(|error| error.to_string())?;
        let start = automaton.start_state(Anchored::No).map_err(|error| error.to_string())?;
        // Each state is the one after some beginning of a literal.
        let mut ends: Vec<StateID> = Vec::new();
        for (literal, _) in &all {
            let mut state = start;
            for &byte in *literal {
                state = automaton.next_state(Anchored::No, state, byte);
                if automaton.is_match(state) {
                    ends.push(state);
                }
            }
        }
        ends.sort_unstable();
        ends.dedup();
        let shift = ends.iter().map(|state| state.as_usize().trailing_zeros()).min().unwrap_or(0);
        let mut literals = Literals { automaton, start, shift, by_state: Vec::new(), operators: Vec::new() };
        for state in ends {
            literals.add(state, &all);
        }
        Ok(literals)
    }

    fn add(&mut self, state: StateID, all: &[(&[u8], &[u16])]) {
        let mut operators: Vec<u16> = (0..self.automaton.match_len(state))
            .flat_map(|index| all[self.automaton.match_pattern(state, index).as_usize()].1)
            .copied()
            .collect();
        operators.sort_unstable();
        operators.dedup();
        let place = state.as_usize() >> self.shift;
        self.by_state.resize(self.by_state.len().max(place + 1), 0..0);
        let begin = self.operators.len() as u32;
        self.operators.append(&mut operators);
        self.by_state[place] = begin..self.operators.len() as u32;
    }

    /// Sets the bit of each operator of which a literal is in the text.
    pub(super) fn scan(&self, text: &[u8], bits: &mut [u64]) {
        let mut state = self.start;
        for &byte in text {
            state = self.automaton.next_state(Anchored::No, state, byte);
            if self.automaton.is_special(state)
                && let Some(range) = self.by_state.get(state.as_usize() >> self.shift)
            {
                for &operator in &self.operators[range.start as usize..range.end as usize] {
                    set_bit(bits, usize::from(operator));
                }
            }
        }
    }

    /// Bytes that the automaton takes.
    pub(super) fn memory(&self) -> usize {
        self.automaton.memory_usage() + self.by_state.len() * 8 + self.operators.len() * 2
    }
}
