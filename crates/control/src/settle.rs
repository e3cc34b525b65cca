//! When changes have settled: a short quiet period, and a maximum delay for sources that never fall quiet.
//!
//! Never in here: a clock or a timer. Time is an argument.

use std::time::{Duration, Instant};

/// Time without a further change after which the changes are acted upon. An editor's or `kubectl`'s several steps come
/// within a millisecond of each other.
pub const QUIET: Duration = Duration::from_millis(10);

/// Time after the first change at which the changes are acted upon, come what may. With [`QUIET`] and the time that it
/// takes to read and to translate this keeps a change within 50 ms.
pub const DELAY_MAX: Duration = Duration::from_millis(30);

/// Collects changes until it is time to act.
#[derive(Debug, Default)]
pub struct Settle {
    /// First and last change since the last action.
    pending: Option<(Instant, Instant)>,
}

impl Settle {
    /// Something changed.
    pub fn touch(&mut self, now: Instant) {
        let first = self.pending.map_or(now, |(first, _)| first);
        self.pending = Some((first, now));
    }

    /// When to act; none while there is nothing to act upon.
    pub fn due(&self) -> Option<Instant> {
        self.pending.map(|(first, last)| (last + QUIET).min(first + DELAY_MAX))
    }

    /// Whether it is time to act. If so, the changes are taken: later ones begin anew.
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
        let mut settle = Settle::default();
        assert_eq!(settle.due(), None);
        assert!(!settle.take(Instant::now()));
    }

    #[test]
    fn a_change_waits_for_quiet() {
        let start = Instant::now();
        let mut settle = Settle::default();
        settle.touch(start);
        settle.touch(start + 4 * MS);
        assert_eq!(settle.due(), Some(start + 4 * MS + QUIET));
        assert!(!settle.take(start + 13 * MS));
        assert!(settle.take(start + 14 * MS));
        assert!(!settle.take(start + 14 * MS), "taken once");
    }

    #[test]
    fn a_source_that_never_falls_quiet_is_not_waited_for() {
        let start = Instant::now();
        let mut settle = Settle::default();
        for ms in 0..30 {
            settle.touch(start + ms * MS);
            assert!(!settle.take(start + ms * MS));
        }
        assert!(settle.take(start + DELAY_MAX));
    }

    proptest! {
        #[test]
        fn every_change_is_acted_upon_in_time(gaps in proptest::collection::vec(0_u32..20, 1..40)) {
            let mut now = Instant::now();
            let mut settle = Settle::default();
            let mut oldest = None;
            for gap in gaps {
                let next = now + gap * MS;
                while let Some(due) = settle.due().filter(|&due| due <= next) {
                    let oldest = oldest.take().expect("a change is what makes it due");
                    prop_assert!(due >= now && due <= oldest + DELAY_MAX);
                    prop_assert!(settle.take(due));
                }
                now = next;
                oldest.get_or_insert(now);
                settle.touch(now);
            }
        }
    }
}
