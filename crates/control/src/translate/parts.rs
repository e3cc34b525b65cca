//! The parts of routes that many routes have in common, each stored once.
//!
//! Never in here: what a part has.

use std::cell::RefCell;

use model::{RetryPolicy, Shared, Timeouts, Transfer};

/// Different values of a kind of part that are remembered. Few are in use at a time, and a search compares
/// with each.
const KNOWN_MAX: usize = 8;

/// The parts that routes had last, stored from one translation to the next.
#[derive(Debug, Default)]
pub(super) struct Parts {
    timeouts: RefCell<Vec<Shared<Timeouts>>>,
    retries: RefCell<Vec<Shared<RetryPolicy>>>,
    transfers: RefCell<Vec<Shared<Transfer>>>,
}

impl Parts {
    pub(super) fn timeouts(&self, value: Timeouts) -> Shared<Timeouts> {
        known(&mut self.timeouts.borrow_mut(), value)
    }

    pub(super) fn retry(&self, value: RetryPolicy) -> Shared<RetryPolicy> {
        known(&mut self.retries.borrow_mut(), value)
    }

    pub(super) fn transfer(&self, value: Transfer) -> Shared<Transfer> {
        known(&mut self.transfers.borrow_mut(), value)
    }
}

/// The known value that equals this one, or this one, which is known from now on. The value that was asked
/// for last comes first; the one that was not asked for the longest is forgotten.
fn known<T: PartialEq>(known: &mut Vec<Shared<T>>, value: T) -> Shared<T> {
    let found = known.iter().position(|one| **one == value);
    let one = if let Some(place) = found {
        known.remove(place)
    } else {
        known.truncate(KNOWN_MAX - 1);
        value.into()
    };
    known.insert(0, one.clone());
    one
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn equal_parts_are_one_and_old_ones_are_forgotten() {
        let parts = Parts::default();
        let of = |seconds| Timeouts { read: Duration::from_secs(seconds), ..Timeouts::default() };
        let first = parts.timeouts(of(1));
        assert!(parts.timeouts(of(1)).is_same(&first));
        for seconds in 2..2 + KNOWN_MAX as u64 {
            assert_eq!(*parts.timeouts(of(seconds)), of(seconds));
        }
        let again = parts.timeouts(of(1));
        assert!(again == first && !again.is_same(&first));
        assert_eq!(parts.timeouts.borrow().len(), KNOWN_MAX);
    }
}
