//! Decides when a series of changes is over: after a short quiet period, or after a maximum delay if the
//! source never falls quiet.
//!
//! Never in here: a clock or a timer. Time is an argument.

use std::time::{Duration, Instant};

/// The delays of a [`Debounce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time without a further change after which the changes are processed.
    pub quiet: Duration,
    /// Time after the first change at which the changes are processed even if further changes arrive.
    pub delay_max: Duration,
}

impl Pace {
    /// For files: an editor saves a file in several steps within a millisecond. Together with reading and
    /// translating, a change takes effect within 50 ms.
    pub const FILES: Self = Self { quiet: Duration::from_millis(10), delay_max: Duration::from_millis(30) };

    /// For a cluster: each object arrives complete, so that a short time is enough.
    pub const CLUSTER: Self = Self { quiet: Duration::from_millis(1), delay_max: Duration::from_millis(5) };
}

/// Collects changes until it is time to act on them.
#[derive(Debug)]
pub struct Debounce {
    pace: Pace,
    /// The times of the first and the last change since the last action.
    pending: Option<(Instant, Instant)>,
    /// The earliest time of the next action.
    rest: Option<Instant>,
}

impl Debounce {
    /// A debounce without pending changes.
    pub fn new(pace: Pace) -> Self {
        Self { pace, pending: None, rest: None }
    }

    /// Records that an action took this long. The next action begins only after a pause of the same length,
    /// so that actions use at most half of a CPU.
    pub fn rest(&mut self, now: Instant, took: Duration) {
        self.rest = Some(now + took);
    }

    /// Records a change.
    pub fn touch(&mut self, now: Instant) {
        let first = self.pending.map_or(now, |(first, _)| first);
        self.pending = Some((first, now));
    }

    /// The time of the next action; none while no change is pending.
    pub fn due(&self) -> Option<Instant> {
        let Pace { quiet, delay_max } = self.pace;
        let due = self.pending.map(|(first, last)| (last + quiet).min(first + delay_max))?;
        Some(self.rest.map_or(due, |rest| due.max(rest)))
    }

    /// Whether the action is due. If so, the pending changes are cleared, and the caller processes them.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if is_due {
            self.pending = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_due_without_a_change() {
        let mut debounce = Debounce::new(Pace::FILES);
        assert_eq!(debounce.due(), None);
        assert!(!debounce.take(Instant::now()));
    }

    #[test]
    fn a_change_waits_for_quiet() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Pace::FILES);
        debounce.touch(start);
        debounce.touch(start + 4 * MS);
        assert_eq!(debounce.due(), Some(start + 4 * MS + Pace::FILES.quiet));
        assert!(!debounce.take(start + 13 * MS));
        assert!(debounce.take(start + 14 * MS));
        assert!(!debounce.take(start + 14 * MS), "taken once");
    }

    #[test]
    fn what_took_long_is_not_done_again_at_once() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Pace::CLUSTER);
        debounce.rest(start, 20 * MS);
        debounce.touch(start + MS);
        assert_eq!(debounce.due(), Some(start + 20 * MS));
        assert!(!debounce.take(start + 19 * MS));
        assert!(debounce.take(start + 20 * MS));
    }

    #[test]
    fn a_source_that_never_falls_quiet_is_not_waited_for() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Pace::FILES);
        for ms in 0..30 {
            debounce.touch(start + ms * MS);
            assert!(!debounce.take(start + ms * MS));
        }
        assert!(debounce.take(start + Pace::FILES.delay_max));
    }

    proptest! {
        #[test]
        fn every_change_is_acted_upon_in_time(gaps in proptest::collection::vec(0_u32..20, 1..40)) {
            let mut now = Instant::now();
            let mut debounce = Debounce::new(Pace::FILES);
            let mut oldest = None;
            for gap in gaps {
                let next = now + gap * MS;
                while let Some(due) = debounce.due().filter(|&due| due <= next) {
                    let oldest = oldest.take().expect("a change is what makes it due");
                    prop_assert!(due >= now && due <= oldest + Pace::FILES.delay_max);
                    prop_assert!(debounce.take(due));
                }
                now = next;
                oldest.get_or_insert(now);
                debounce.touch(now);
            }
        }
    }
}
