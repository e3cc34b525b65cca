//! The reasons of a series' faults: a few cells that take the reasons as they occur, so a series need not
//! have a cell for each.

use super::local_counter::LocalCounter;
use crate::Reason;

/// Reasons that one series distinguishes. A series has one status, and few reasons lead to the same status on
/// one route.
const CELLS: usize = 4;

/// Bits of a cell that count; those above hold the reason's number plus one.
const COUNT_BITS: u32 = 56;

const COUNT: u64 = (1 << COUNT_BITS) - 1;

const _: () = assert!(Reason::ALL.len() < 255);

/// Counts by reason. One worker writes them; nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Causes([LocalCounter; CELLS]);

impl Causes {
    /// Counts a fault. A fifth reason of the same series is counted in `forebay_faults_total` alone.
    #[cold]
    pub(super) fn count(&self, reason: Reason) {
        let tag = (reason as u64 + 1) << COUNT_BITS;
        let cell = self.0.iter().find(|cell| [0, tag].contains(&(cell.get() & !COUNT)));
        let Some(cell) = cell else { return };
        cell.add(if cell.get() == 0 { tag + 1 } else { 1 });
    }

    /// The reasons that have occurred, with their numbers.
    pub(super) fn get(&self) -> impl Iterator<Item = (Reason, u64)> {
        let read = |cell: &LocalCounter| {
            let value = cell.get();
            let reason = Reason::ALL.get(((value >> COUNT_BITS) as usize).checked_sub(1)?)?;
            Some((*reason, value & COUNT))
        };
        self.0.iter().filter_map(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reasons_have_a_count_each() {
        let causes = Causes::default();
        assert_eq!(causes.get().count(), 0);
        let all = [Reason::QueueFull, Reason::BadRequestLine, Reason::QueueFull, Reason::ConnectionLimit];
        for reason in all {
            causes.count(reason);
        }
        let counted: Vec<_> = causes.get().collect();
        assert_eq!(
            counted,
            [(Reason::QueueFull, 2), (Reason::BadRequestLine, 1), (Reason::ConnectionLimit, 1)]
        );
        causes.count(Reason::RateLimit);
        causes.count(Reason::GuardShed);
        causes.count(Reason::RateLimit);
        let counted: Vec<_> = causes.get().collect();
        assert_eq!(counted.last(), Some(&(Reason::RateLimit, 2)), "there is no cell for a fifth");
    }
}
