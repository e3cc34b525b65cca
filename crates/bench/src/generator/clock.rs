//! The time since a plan's start, which all its threads share.
//!
//! Must not be in here: waiting.

use std::time::{Duration, Instant};

/// A clock that began at the plan's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now(self) -> Duration {
        self.0.elapsed()
    }

    /// The time from the start to `instant`.
    pub(super) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }
}
