//! Points in time and random numbers, as code without IO is given them.
//!
//! A worker reads the machine's clock once per turn of its loop; everything else takes a [`Moment`] as an
//! argument, so that tests and simulations move the time by hand. Must not be in here: sockets, HTTP, an
//! executor.

mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use random::Random;
use rustix::time::{ClockId, clock_gettime};

/// Interval at which a worker does its upkeep: it sweeps deadlines, decides on limits, and hands over what it
/// has counted.
pub const TICK: Duration = Duration::from_millis(100);

/// A coarse clock: the time since the [`Start`], as of the last [`update`](Self::update). Clones show the
/// same time.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    start: Start,
    /// Nanoseconds since `start`.
    nanos: AtomicU64,
}

/// The common origin of several clocks, which makes their moments comparable.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Nanoseconds of the machine's monotonic clock.
    monotonic: u64,
    /// Time since the beginning of 1970.
    unix: Duration,
}

/// A point in time on a [`Clock`]: nanoseconds since its [`Start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Clock {
    /// The present time as an origin for clocks.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn begin() -> Start {
        Start {
            monotonic: monotonic(),
            unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// A clock that shows the present time.
    pub fn new(start: Start) -> Self {
        let clock = Self(Arc::new(Inner { start, nanos: AtomicU64::new(0) }));
        clock.update();
        clock
    }

    /// Reads the machine's clock. A worker's loop calls it when it wakes from a sleep.
    #[inline]
    pub fn update(&self) {
        self.0.nanos.store(monotonic() - self.0.start.monotonic, Ordering::Relaxed);
    }

    /// Moves the clock forward by hand, for tests and simulations.
    pub fn advance(&self, time: Duration) {
        self.0.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The time of the last update.
    #[inline]
    pub fn now(&self) -> Moment {
        Moment(self.0.nanos.load(Ordering::Relaxed))
    }

    /// The time since 1970 as the machine's clock shows it now, also after it was set. It is read anew, so
    /// this is not for each request.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// The same as a time since 1970. A system clock that is set later makes no difference.
    #[inline]
    pub fn unix(&self) -> Duration {
        self.0.start.unix + Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed))
    }
}

/// Nanoseconds of a clock that only goes forward. It is read at each turn of a loop: `Instant` would check
/// and convert twice as much as it reads.
#[inline]
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The present time for protocols that measure round trips, which are shorter than a turn of a loop.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn instant() -> Instant {
    Instant::now()
}

impl Moment {
    /// Later than any time that is reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// The [`Start`] of the clock.
    pub const BEGIN: Self = Self(0);

    /// Time since the clock's [`Start`].
    #[inline]
    pub fn since_begin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time since an earlier moment; zero if that is later.
    #[inline]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment that is this much later; [`NEVER`](Self::NEVER) where that is out of range.
    #[inline]
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_show_the_time_to_which_one_was_moved() {
        let clock = Clock::new(Clock::begin());
        let clone = clock.clone();
        let before = clock.now();
        let unix = clock.unix();
        clock.advance(Duration::from_secs(7));
        assert_eq!(clone.now().since(before), Duration::from_secs(7));
        assert_eq!(clone.unix(), unix + Duration::from_secs(7));
    }

    #[test]
    fn moments_end_at_never() {
        assert_eq!(Moment::BEGIN.after(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::BEGIN.since(Moment::NEVER), Duration::ZERO);
    }
}
