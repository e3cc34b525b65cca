//! Eviction from tables of counters, the entries of the lowest rank first: the last use of a counter, or the
//! weight of a client's behaviour.
//!
//! These tables are no caches: an entry that is evicted is a client that starts with a fresh allowance.
//! `quick_cache` is not right for them, since it evicts new entries first that have not been read again: a
//! client could have its own counter evicted with some three thousand other keys, where here it takes almost
//! as many as the table holds.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Part of a full table that is evicted at a time: an eighth, since all entries have to be looked at to find
/// the lowest.
const PART: usize = 8;

/// Makes room in a table that has reached its capacity: removes the entries of the lowest rank, each of which
/// is shown to `evicted` first.
pub(crate) fn make_room<K: Hash + Eq, V, R: Ord + Copy>(
    table: &mut HashMap<K, V, impl BuildHasher>,
    capacity: usize,
    rank: impl Fn(&V) -> R,
    mut evicted: impl FnMut(&V),
) {
    if table.len() < capacity {
        return;
    }
    let mut excess = (capacity / PART).max(1);
    let mut ranks: Vec<R> = table.values().map(&rank).collect();
    let (_, &mut highest_evicted, _) = ranks.select_nth_unstable(excess - 1);
    table.retain(|_, value| {
        // Many entries may have the same rank: no more of them go than have to.
        let goes = excess > 0 && rank(value) <= highest_evicted;
        if goes {
            excess -= 1;
            evicted(value);
        }
        !goes
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clock::Moment;

    use super::*;

    const CAPACITY: usize = 1000;

    fn table(last_use: impl Fn(u64) -> Moment) -> HashMap<u64, Moment> {
        (0..CAPACITY as u64).map(|number| (number, last_use(number))).collect()
    }

    #[test]
    fn an_eighth_goes_and_it_is_the_oldest() {
        let mut table = table(|number| Moment::BEGIN.after(Duration::from_millis(number)));
        make_room(&mut table, CAPACITY + 1, |last| *last, |_| ());
        assert_eq!(table.len(), CAPACITY, "there is room");
        let mut evicted = 0;
        make_room(&mut table, CAPACITY, |last| *last, |_| evicted += 1);
        assert_eq!((table.len(), evicted), (CAPACITY - CAPACITY / PART, CAPACITY / PART));
        assert!((0..CAPACITY as u64 / PART as u64).all(|number| !table.contains_key(&number)));
    }

    #[test]
    fn no_more_go_where_all_have_the_same_time() {
        let mut table = table(|_| Moment::BEGIN);
        make_room(&mut table, CAPACITY, |last| *last, |_| ());
        assert_eq!(table.len(), CAPACITY - CAPACITY / PART);
    }
}
