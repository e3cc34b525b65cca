//! How slow a peer may be, beside how long it may stand still.

use std::time::Duration;

use model::MinRate;

use crate::clock::Moment;
use crate::limits::RATE_ALLOWANCE_MAX;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// What the peer sends.
    Read,
    /// That the peer takes what it is sent.
    Write,
}

/// A peer that has to keep to a least rate: the time that is waited for it takes from an allowance, and its bytes add to that. So what it
/// waits for is not held against it.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) direction: Direction,
    rate: MinRate,
    /// Time that may still be waited.
    left: Duration,
    /// Since when it is waited for; none while it is not.
    since: Option<Moment>,
    /// The wait ends with the allowance, and not with the time for a single one.
    pub(crate) is_decisive: bool,
}

impl Pace {
    pub(crate) fn new(direction: Direction, rate: MinRate) -> Self {
        Self { direction, rate, left: rate.grace, since: None, is_decisive: false }
    }

    /// How long the peer is waited for from now on, at most for `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration, now: Moment) -> Duration {
        self.since = Some(now);
        self.is_decisive = self.left < timeout;
        self.left.min(timeout)
    }

    /// So many bytes have come, or have been taken: it is waited for no longer.
    pub(crate) fn pass(&mut self, bytes: usize, now: Moment) {
        let waited = self.since.take().map_or(Duration::ZERO, |since| now.since(since));
        let earned = time_for(bytes, self.rate);
        self.left = (self.left.saturating_sub(waited) + earned).min(RATE_ALLOWANCE_MAX);
    }
}

/// The time that so many bytes may take.
pub(crate) fn time_for(bytes: usize, rate: MinRate) -> Duration {
    Duration::from_secs_f64(bytes as f64 / f64::from(rate.bytes.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn bytes_earn_time_and_only_waits_cost_it() {
        let clock = Clock::new(Clock::begin());
        let second = Duration::from_secs(1);
        let rate = MinRate { bytes: std::num::NonZeroU32::new(100).unwrap(), grace: 10 * second };
        let timeout = Duration::from_secs(60);
        let mut pace = Pace::new(Direction::Read, rate);
        // Half as fast as it has to be: half of each wait is lost.
        let mut waits = 0;
        loop {
            let left = pace.wait(timeout, clock.now());
            if left < second {
                break;
            }
            waits += 1;
            clock.advance(second);
            pace.pass(50, clock.now());
        }
        assert!((18..=20).contains(&waits) && pace.is_decisive, "{waits}");
        // Twice as fast, with pauses that are not waits for it.
        let mut pace = Pace::new(Direction::Read, rate);
        for _ in 0..1000 {
            clock.advance(timeout);
            pace.wait(timeout, clock.now());
            clock.advance(second);
            pace.pass(200, clock.now());
        }
        assert_eq!(pace.wait(timeout * 2, clock.now()), RATE_ALLOWANCE_MAX, "nothing is saved up");
        assert!(pace.wait(second, clock.now()) == second && !pace.is_decisive);
    }
}
