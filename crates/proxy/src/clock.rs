//! The worker's coarse clock: read once per turn of its loop, and by nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Time since the proxy began, as of the present turn of its loop.
#[derive(Clone)]
pub(crate) struct Clock(Arc<Inner>);

struct Inner {
    start: Start,
    nanos: AtomicU64,
}

/// Where the clocks of all workers begin, so that their times can be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Nanoseconds of the machine's monotonic clock.
    monotonic: u64,
    unix: Duration,
}

/// A point in time on a worker's [`Clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub(crate) fn begin() -> Start {
        Start {
            monotonic: monotonic(),
            unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    pub(crate) fn new(start: Start) -> Self {
        let clock = Self(Arc::new(Inner { start, nanos: AtomicU64::new(0) }));
        clock.update();
        clock
    }

    /// Reads the machine's clock. The loop calls it when it wakes from a sleep.
    pub(crate) fn update(&self) {
        self.0.nanos.store(monotonic() - self.0.start.monotonic, Ordering::Relaxed);
    }

    /// Lets the other tasks run, and the loop look at its sockets. The loop does not sleep for that, so that the time has to be
    /// read here: a task that yields again and again would stop the clock otherwise.
    pub(crate) async fn yield_now(&self) {
        tokio::task::yield_now().await;
        self.update();
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn advance(&self, time: Duration) {
        self.0.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(self.0.nanos.load(Ordering::Relaxed))
    }

    /// The present turn's time since 1970.
    pub(crate) fn unix(&self) -> Duration {
        self.0.start.unix + Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed))
    }
}

/// Nanoseconds of a clock that only goes forward. The loop asks at each turn: `Instant` would check and convert twice as much as it reads.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Moment {
    /// Later than any time that is reached.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// When the proxy began, for what has a clock of its own making.
    #[cfg(test)]
    pub(crate) const BEGIN: Self = Self(0);

    /// Since the proxy began, for all workers alike.
    pub(crate) fn since_begin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
