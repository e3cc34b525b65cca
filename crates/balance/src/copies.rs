//! Copies of requests to a cluster: how many are in progress, by what becomes of them.
//!
//! The number grows with each copy that is answered and halves with each that fails, so that a cluster which
//! takes connections and never answers gets few. After some failures in a row it is left out for a time, and
//! then tried by one copy. Must not be in here: connections, and the copies.

use std::cell::Cell;
use std::time::Duration;

use clock::Moment;

/// Copies in progress of a cluster that has not answered any yet.
const AT_FIRST: usize = 32;
/// Copies in progress of a cluster that answers.
const MAX: usize = 256;
/// Failures in a row after which a cluster is left out, and the time for which it is.
const FAILURES_MAX: u32 = 8;
const LEFT_OUT: Duration = Duration::from_secs(5);
/// Time of a copy for a cluster that has answered one within this time, and of others.
const TIME_MAX: Duration = Duration::from_secs(60);
const TIME_MAX_UNANSWERED: Duration = Duration::from_secs(10);

/// A worker's copies to one cluster.
#[derive(Debug)]
pub struct Copies {
    in_progress: Cell<usize>,
    allowed: Cell<usize>,
    failures: Cell<u32>,
    left_out_until: Cell<Moment>,
    answered: Cell<Option<Moment>>,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            in_progress: Cell::new(0),
            allowed: Cell::new(AT_FIRST),
            failures: Cell::new(0),
            left_out_until: Cell::new(Moment::BEGIN),
            answered: Cell::new(None),
        }
    }
}

impl Copies {
    /// Whether another copy may begin.
    pub fn has_room(&self, now: Moment) -> bool {
        self.in_progress.get() < self.allowed.get() && self.left_out_until.get() <= now
    }

    /// Counts a copy that begins.
    pub fn begin(&self) {
        self.in_progress.set(self.in_progress.get() + 1);
    }

    /// Counts a copy that has ended, with an answer or without one.
    pub fn end(&self, is_answered: bool, now: Moment) {
        self.in_progress.set(self.in_progress.get().saturating_sub(1));
        if is_answered {
            self.answered.set(Some(now));
            self.failures.set(0);
            self.allowed.set((self.allowed.get() + 1).min(MAX));
            return;
        }
        self.failures.set(self.failures.get().saturating_add(1));
        self.allowed.set((self.allowed.get() / 2).max(1));
        if self.failures.get() >= FAILURES_MAX {
            self.left_out_until.set(now.after(LEFT_OUT));
        }
    }

    /// The longest time for a copy that begins now.
    pub fn time_max(&self, now: Moment) -> Duration {
        let answers = self.answered.get().is_some_and(|answered| now.since(answered) < TIME_MAX);
        if answers { TIME_MAX } else { TIME_MAX_UNANSWERED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::BEGIN;

    /// Begins as many copies as there is room for; returns their number.
    fn fill(copies: &Copies, now: Moment) -> usize {
        let more = std::iter::from_fn(|| copies.has_room(now).then(|| copies.begin()));
        more.count()
    }

    #[test]
    fn a_cluster_that_answers_gets_more_and_one_that_hangs_few() {
        let copies = Copies::default();
        assert_eq!(fill(&copies, NOW), AT_FIRST);
        (0..AT_FIRST).for_each(|_| copies.end(true, NOW));
        assert_eq!(fill(&copies, NOW), 2 * AT_FIRST, "as many again as were answered");
        (0..2 * AT_FIRST).for_each(|_| copies.end(true, NOW));
        for _ in 0..MAX {
            copies.begin();
            copies.end(true, NOW);
        }
        assert_eq!(fill(&copies, NOW), MAX);
        copies.end(false, NOW);
        (1..MAX).for_each(|_| copies.end(true, NOW));
        assert!(fill(&copies, NOW) > AT_FIRST, "one failure among many answers changes little");
    }

    #[test]
    fn one_that_fails_is_left_out_and_tried_again_by_one_copy() {
        let copies = Copies::default();
        fill(&copies, NOW);
        (0..AT_FIRST).for_each(|_| copies.end(false, NOW));
        assert!(!copies.has_room(NOW));
        let later = NOW.after(LEFT_OUT);
        assert_eq!(fill(&copies, later), 1);
        copies.end(false, later);
        assert!(!copies.has_room(later), "it still fails");
        let later = later.after(LEFT_OUT);
        assert_eq!(fill(&copies, later), 1);
        copies.end(true, later);
        assert_eq!(fill(&copies, later), 2, "it answers again");
    }

    #[test]
    fn a_copy_has_less_time_while_nothing_is_answered() {
        let copies = Copies::default();
        assert_eq!(copies.time_max(NOW), TIME_MAX_UNANSWERED);
        copies.begin();
        copies.end(true, NOW);
        assert_eq!(copies.time_max(NOW), TIME_MAX);
        assert_eq!(copies.time_max(NOW.after(TIME_MAX)), TIME_MAX_UNANSWERED);
    }
}
