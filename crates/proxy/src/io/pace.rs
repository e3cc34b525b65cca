//! Minimum rate of a peer, beside the timeout of a single wait.

use std::time::Duration;

use clock::Moment;
use model::MinRate;

use crate::limits::RATE_ALLOWANCE_MAX;

/// Direction of a wait for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Bytes from the peer.
    Read,
    /// Bytes to the peer, which has to take them.
    Write,
}

/// A peer with a minimum rate: waiting for it uses up an allowance, and its bytes add to it. So time that
/// the peer itself spends waiting is not counted.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) direction: Direction,
    rate: MinRate,
    /// The rest of the allowance.
    left: Duration,
    /// Start of the wait in progress; none without one.
    since: Option<Moment>,
    /// The wait in progress ends with the allowance, before the timeout of a single wait.
    pub(crate) is_decisive: bool,
}

impl Pace {
    pub(crate) fn new(direction: Direction, rate: MinRate) -> Self {
        Self { direction, rate, left: rate.grace, since: None, is_decisive: false }
    }

    /// Starts a wait for the peer; returns its length, at most `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration, now: Moment) -> Duration {
        self.since = Some(now);
        self.is_decisive = self.left < timeout;
        self.left.min(timeout)
    }

    /// Notes that bytes have been transferred: ends the wait.
    pub(crate) fn pass(&mut self, bytes: usize, now: Moment) {
        let waited = self.since.take().map_or(Duration::ZERO, |since| now.since(since));
        let earned = time_for(bytes, self.rate);
        self.left = (self.left.saturating_sub(waited) + earned).min(RATE_ALLOWANCE_MAX);
    }
}

/// The time that this many bytes may take.
pub(crate) fn time_for(bytes: usize, rate: MinRate) -> Duration {
    Duration::from_secs_f64(bytes as f64 / f64::from(rate.bytes.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

    #[test]
    fn bytes_earn_time_and_only_waits_cost_it() {
        let clock = Clock::new(Clock::begin());
        let second = Duration::from_secs(1);
        let rate = MinRate { bytes: std::num::NonZeroU32::new(100).unwrap(), grace: 10 * second };
        let timeout = Duration::from_secs(60);
        let mut pace = Pace::new(Direction::Read, rate);
        // Half as fast as required: half of each wait is lost.
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
        // Twice as fast, with pauses that are not waits for the peer.
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
