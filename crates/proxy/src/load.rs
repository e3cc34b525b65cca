//! CPU load of the worker's thread, measured once per tick.

use std::cell::Cell;

use clock::Moment;
use coders::Load;
use rustix::time::{ClockId, clock_gettime};

use crate::limits::TICK;

/// The measurement of the last tick; none before the first.
#[derive(Default)]
pub(crate) struct LoadMeter(Cell<Option<(Moment, u64)>>);

impl LoadMeter {
    /// The load since the last call; none the first time.
    pub(crate) fn measure(&self, now: Moment) -> Option<Load> {
        let cpu = thread_nanos();
        let (before, cpu_before) = self.0.replace(Some((now, cpu)))?;
        Some(load(now.since(before).as_nanos() as u64, cpu - cpu_before))
    }

    /// Forgets the last measurement: the next call is the first again.
    pub(crate) fn forget(&self) {
        self.0.set(None);
    }
}

/// The load between two ticks, from the elapsed time and the thread's CPU time.
fn load(elapsed_nanos: u64, cpu_nanos: u64) -> Load {
    let late_nanos = elapsed_nanos.saturating_sub(TICK.as_nanos() as u64);
    let busy = cpu_nanos.saturating_mul(1000).checked_div(elapsed_nanos).unwrap_or(0);
    Load {
        busy_permille: busy.min(1000) as u16,
        late_ms: u32::try_from(late_nanos / 1_000_000).unwrap_or(u32::MAX),
    }
}

/// CPU time of this thread. Unlike the time of day it takes a system call: once per tick, and only where
/// anything is compressed.
#[expect(clippy::cast_sign_loss, reason = "no clock of CPU time is below zero")]
fn thread_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_share_of_the_time_and_what_a_tick_is_late() {
        let tick = TICK.as_nanos() as u64;
        assert_eq!(load(tick, tick / 2), Load { busy_permille: 500, late_ms: 0 });
        assert_eq!(load(tick + 7_000_000, 0), Load { busy_permille: 0, late_ms: 7 });
        assert_eq!(load(0, 5), Load { busy_permille: 0, late_ms: 0 });
        assert_eq!(load(10, 50).busy_permille, 1000);
    }
}
