//! The thread that tells the workers that time passes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::limits::TICK;

/// Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a worker is told of, ten times a second, and how late it sees it.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    notify: Notify,
    /// When the first one was sent that has not been seen, in nanoseconds since the proxy began; 0 where there is none.
    sent: AtomicU64,
    /// The longest time from one to its turn since that was asked, in nanoseconds.
    lag: AtomicU64,
}

// === impl Ticker ===

impl Ticker {
    /// `tick` is what this thread does itself at each tick, once the workers know.
    pub(crate) fn start(
        workers: Vec<Arc<Tick>>,
        clock: Clock,
        mut tick: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                clock.update();
                for worker in &workers {
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
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}

// === impl Tick ===

impl Tick {
    fn send(&self, now: Moment) {
        // One that waits stays the one to be late.
        let _ = self.sent.compare_exchange(0, nanos(now), Ordering::Relaxed, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Waits for the next one.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Notes that the worker has seen it.
    pub(crate) fn seen(&self, now: Moment) {
        let sent = self.sent.swap(0, Ordering::Relaxed);
        if sent > 0 {
            self.lag.fetch_max(nanos(now).saturating_sub(sent), Ordering::Relaxed);
        }
    }

    /// The longest time from one to its turn since this was asked last; one that still waits counts.
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
