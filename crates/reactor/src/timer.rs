//! Timers, with the precision of a millisecond.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::core;
use crate::slab::Key;

/// Ends after a time, never sooner.
#[derive(Debug)]
pub struct Timer {
    serial: u64,
    key: Key,
}

/// A timer that ends after this time.
///
/// # Panics
///
/// If the thread has no reactor.
pub fn sleep(time: Duration) -> Timer {
    Timer::after(time)
}

impl Timer {
    /// A timer that ends after this time.
    ///
    /// # Panics
    ///
    /// If the thread has no reactor.
    pub fn after(time: Duration) -> Self {
        core::with(|core| {
            assert!(core.serial() != 0, "a timer needs a thread with a reactor");
            let now = core.elapsed();
            let due = millis(now.saturating_add(time).saturating_add(Duration::from_nanos(999_999)));
            let key = core.wheel.borrow_mut().add(due, millis(now));
            Self { serial: core.serial(), key }
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2)
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        core::with(|core| {
            let waits = core.is_serial(self.serial) && core.wheel.borrow_mut().watch(self.key, cx.waker());
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        core::try_with(|core| {
            if core.is_serial(self.serial) {
                core.wheel.borrow_mut().cancel(self.key);
            }
        });
    }
}
