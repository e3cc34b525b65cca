//! The thread that sends ticks to the workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::{Clock, Moment};
use tokio::sync::Notify;

use crate::limits::{IDLE_TICKS, TICK, TICKS_PER_SWEEP};

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A worker's tick, ten times a second, or once a second when it has been idle for a while, and how late the
/// worker handles it.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    notify: Notify,
    /// When the first unhandled tick was sent, in nanoseconds since the proxy began; 0 where there is none.
    sent: AtomicU64,
    /// The longest time from a tick to its handling since the last query, in nanoseconds.
    lag: AtomicU64,
    /// Number of ticks for which the worker has been idle. Only the worker writes it.
    idle: AtomicU32,
}

// === impl Ticker ===

impl Ticker {
    /// `tick` is this thread's own work at each tick, after the workers are notified.
    pub(crate) fn start(
        workers: Vec<Arc<Tick>>,
        clock: Clock,
        mut tick: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let mut count = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                clock.update();
                count += 1;
                let is_for_all = count.is_multiple_of(TICKS_PER_SWEEP);
                for worker in workers.iter().filter(|worker| is_for_all || !worker.is_quiet()) {
                    worker.send(clock.now());
                }
                tick();
            }
        };
        let thread = std::thread::Builder::new().name("ticker".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}

// === impl Tick ===

impl Tick {
    fn send(&self, now: Moment) {
        // An unhandled tick remains the one whose lag is measured.
        let _ = self.sent.compare_exchange(0, nanos(now), Ordering::Relaxed, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Notes whether the worker is idle at this tick.
    pub(crate) fn note_idle(&self, is_idle: bool) {
        let idle = if is_idle { self.idle.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Whether the worker has been idle for so long that it gets only one tick of [`TICKS_PER_SWEEP`].
    pub(crate) fn is_quiet(&self) -> bool {
        self.idle.load(Ordering::Relaxed) >= IDLE_TICKS
    }

    /// Waits for the next tick.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Notes that the worker handles the tick.
    pub(crate) fn seen(&self, now: Moment) {
        let sent = self.sent.swap(0, Ordering::Relaxed);
        if sent > 0 {
            self.lag.fetch_max(nanos(now).saturating_sub(sent), Ordering::Relaxed);
        }
    }

    /// The longest time from a tick to its handling since the last call; an unhandled one counts.
    pub(crate) fn take_lag(&self, now: Moment) -> Duration {
        let waits = match self.sent.load(Ordering::Relaxed) {
            0 => 0,
            sent => nanos(now).saturating_sub(sent),
        };
        Duration::from_nanos(self.lag.swap(0, Ordering::Relaxed).max(waits))
    }
}

fn nanos(moment: Moment) -> u64 {
    (moment.since_begin().as_nanos() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_idle_for_long_is_quiet_until_something_is_to_be_done() {
        let tick = Tick::default();
        for _ in 0..IDLE_TICKS {
            assert!(!tick.is_quiet());
            tick.note_idle(true);
        }
        assert!(tick.is_quiet());
        tick.note_idle(false);
        assert!(!tick.is_quiet());
    }

    #[test]
    fn a_tick_is_as_late_as_its_turn_and_the_first_counts() {
        let (tick, clock) = (Tick::default(), Clock::new(Clock::begin()));
        let begin = clock.now();
        let at = |ms| begin.after(Duration::from_millis(ms));
        tick.send(at(0));
        tick.send(at(100));
        assert_eq!(tick.take_lag(at(150)), Duration::from_millis(150), "it still waits");
        tick.seen(at(200));
        tick.send(at(300));
        tick.seen(at(301));
        assert_eq!(tick.take_lag(at(900)), Duration::from_millis(200));
        assert_eq!(tick.take_lag(at(901)), Duration::ZERO);
    }
}
