//! Failures of clients in windows of time: forged tokens, wrong passwords.
//!
//! The memory is a fixed number of counters, each for the clients of one hash. Must not be in here: what a
//! failure is, and what happens to a client with many.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Moment;

use crate::limits::FAILURES_CELLS;

/// Counters of the failures of clients. A counter has the number of its last window with a failure in the
/// upper half, and their number in the lower one.
pub(crate) struct Failures {
    cells: Box<[AtomicU64]>,
    hasher: RandomState,
    window: Duration,
    /// Failures in a window after which a client is exhausted.
    max: u32,
}

impl Failures {
    pub(crate) fn new(window: Duration, max: u32) -> Self {
        let cells = (0..FAILURES_CELLS).map(|_| AtomicU64::new(0)).collect();
        Self { cells, hasher: RandomState::new(), window, max }
    }

    /// Counts a failure of a client.
    pub(crate) fn count(&self, client: IpAddr, now: Moment) {
        let present = self.number(now);
        let next = |packed: u64| {
            let (number, count) = parts(packed);
            let count = if number == present { count.saturating_add(1) } else { 1 };
            Some(u64::from(present) << 32 | u64::from(count))
        };
        let _ = self.cell(client).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The time until the window of a client ends that has had too many failures in it; none for all others.
    pub(crate) fn exhausted_for(&self, client: IpAddr, now: Moment) -> Option<Duration> {
        let (number, count) = parts(self.cell(client).load(Ordering::Relaxed));
        let is_exhausted = number == self.number(now) && count >= self.max;
        is_exhausted.then(|| {
            let passed = now.since_begin().as_nanos() % self.window.as_nanos();
            self.window.saturating_sub(Duration::from_nanos(passed as u64))
        })
    }

    /// Whether a client has had a failure in this window or one of the `windows` before it.
    pub(crate) fn has_failed(&self, client: IpAddr, windows: u32, now: Moment) -> bool {
        let (number, _) = parts(self.cell(client).load(Ordering::Relaxed));
        number != 0 && self.number(now).saturating_sub(number) <= windows
    }

    /// The number of a window, counted from 1, so that no counter begins in it.
    fn number(&self, now: Moment) -> u32 {
        let number = now.since_begin().as_nanos() / self.window.as_nanos();
        (number as u32).wrapping_add(1)
    }

    fn cell(&self, client: IpAddr) -> &AtomicU64 {
        &self.cells[self.hasher.hash_one(client) as usize % self.cells.len()]
    }
}

fn parts(packed: u64) -> (u32, u32) {
    ((packed >> 32) as u32, packed as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::BEGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_client_has_a_number_of_failures_in_a_window() {
        let (failures, client) = (Failures::new(WINDOW, 3), "192.0.2.1".parse().unwrap());
        for _ in 0..3 {
            assert_eq!(failures.exhausted_for(client, at(4)), None);
            failures.count(client, at(4));
        }
        assert_eq!(failures.exhausted_for(client, at(4)), Some(Duration::from_secs(6)));
        assert_eq!(failures.exhausted_for(client, at(10)), None, "the next window");
        failures.count(client, at(10));
        assert_eq!(failures.exhausted_for(client, at(10)), None, "it begins anew");
        let is_free = |last: &u8| failures.exhausted_for([192, 0, 2, *last].into(), at(4)).is_none();
        assert!((2..=50).filter(is_free).count() >= 45, "few clients share a counter");
    }

    #[test]
    fn a_failure_is_remembered_for_some_windows() {
        let (failures, client) = (Failures::new(WINDOW, 3), "192.0.2.1".parse().unwrap());
        assert!(!failures.has_failed(client, 2, at(0)), "nothing was counted");
        failures.count(client, at(0));
        assert!(failures.has_failed(client, 2, at(0)) && failures.has_failed(client, 2, at(29)));
        assert!(!failures.has_failed(client, 2, at(30)));
    }
}
