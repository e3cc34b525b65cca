//! Counts of the requests that firewalls refused, by phase and rule.
//!
//! Must not be in here: locks or allocations.

use std::sync::atomic::{AtomicU64, Ordering};

use super::local_counter::LocalCounter;

/// Rules that one worker distinguishes; requests that others refuse are counted without their id.
const RULES_MAX: usize = 128;

/// Bits of a tag for the rule's id; those above hold the phase, from 1.
pub(super) const RULE_BITS: u32 = 60;

/// Counts by phase and rule. One worker writes them; nothing is allocated.
#[derive(Debug)]
pub(super) struct RuleCells([RuleCell; RULES_MAX]);

#[derive(Debug, Default)]
struct RuleCell {
    /// Phase and rule; 0 while the cell is free.
    tag: AtomicU64,
    count: LocalCounter,
}

impl Default for RuleCells {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RuleCell::default()))
    }
}

impl RuleCells {
    pub(super) fn count(&self, phase: u8, rule: u64) {
        // A cell without a rule's id is kept for each phase.
        let (own, others) = self.0.split_at(RULES_MAX - 4);
        let tag = u64::from(phase) << RULE_BITS | rule & ((1 << RULE_BITS) - 1);
        let is_it = |cell: &&RuleCell| [0, tag].contains(&cell.tag.load(Ordering::Relaxed));
        let rest = usize::from(phase.clamp(1, 4) - 1);
        let (cell, tag) = match own.iter().find(is_it) {
            Some(cell) => (cell, tag),
            None => (&others[rest], u64::from(phase) << RULE_BITS),
        };
        cell.tag.store(tag, Ordering::Relaxed);
        cell.count.add(1);
    }

    /// The phases and rules with their numbers.
    pub(super) fn get(&self) -> impl Iterator<Item = (u64, u64)> {
        let read = |cell: &RuleCell| (cell.tag.load(Ordering::Relaxed), cell.count.get());
        self.0.iter().map(read).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_a_count_each_and_those_beyond_the_bound_one_for_each_phase() {
        let cells = RuleCells::default();
        for rule in 1..=200 {
            cells.count(2, rule);
            cells.count(2, rule);
        }
        let counts: Vec<_> = cells.get().collect();
        assert_eq!(counts.len(), RULES_MAX - 4 + 1);
        assert_eq!(counts[0], (2 << RULE_BITS | 1, 2));
        assert_eq!(*counts.last().unwrap(), (2 << RULE_BITS, 2 * (200 - 124)), "without an id");
    }
}
