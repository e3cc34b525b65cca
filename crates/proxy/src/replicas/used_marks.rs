//! Marks that have been used, and how often: a captured mark is not accepted for ever.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::limits::{REPLICA_MARK_AGE_MAX, REPLICA_MARK_USES_MAX, REPLICA_MARKS_REMEMBERED_MAX};

/// Recent marks, in two halves: the older half is dropped as a whole. A cache would be wrong here: a mark
/// that it evicts early could be used again.
#[derive(Default)]
pub(crate) struct UsedMarks(Mutex<Halves>);

#[derive(Default)]
struct Halves {
    new: HashMap<u128, u8>,
    old: HashMap<u128, u8>,
    /// The second since which marks go into the new half.
    since: u64,
}

impl UsedMarks {
    /// Uses the mark with this code at this second. False where it has been used too often.
    pub(super) fn use_one(&self, code: u128, now: u64) -> bool {
        let mut halves = self.0.lock();
        // A mark of a clock that is fast is valid until its age is the maximum in the other direction.
        let is_past = now.abs_diff(halves.since) > 2 * REPLICA_MARK_AGE_MAX.as_secs();
        if is_past || halves.new.len() >= REPLICA_MARKS_REMEMBERED_MAX / 2 {
            halves.old = std::mem::take(&mut halves.new);
            halves.since = now;
        }
        let before = halves.old.get(&code).copied().unwrap_or(0);
        let uses = halves.new.entry(code).or_insert(before);
        *uses = uses.saturating_add(1);
        *uses <= REPLICA_MARK_USES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn uses_are_counted_for_as_long_as_a_mark_counts() {
        let used = UsedMarks::default();
        let age = REPLICA_MARK_AGE_MAX.as_secs();
        assert!((0..REPLICA_MARK_USES_MAX).all(|_| used.use_one(1, NOW)));
        assert!(!used.use_one(1, NOW));
        assert!(used.use_one(2, NOW + 2 * age + 1));
        assert!(!used.use_one(1, NOW + 2 * age + 1));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let used = UsedMarks::default();
        assert!((0..3 * REPLICA_MARKS_REMEMBERED_MAX as u128).all(|code| used.use_one(code, NOW)));
        let halves = used.0.lock();
        assert!(halves.new.len() + halves.old.len() <= REPLICA_MARKS_REMEMBERED_MAX);
    }
}
