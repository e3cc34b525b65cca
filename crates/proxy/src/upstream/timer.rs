//! The wait for a response: nginx's `proxy_read_timeout`.

use std::cell::Cell;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::io::deadline::{Deadline, Elapsed};
use crate::limits::TICK;

/// Limits of the read of a response head over HTTP/1 or `FastCGI`.
#[derive(Clone, Copy)]
pub(crate) struct HeadLimits {
    /// Whether available bytes of the body may be read along with it. Those that an HTTP/2 stream has no room
    /// for are not held in memory.
    pub(crate) is_eager: bool,
    pub(crate) bytes_max: usize,
}

/// Bounds the wait for a response head. The time counts from the end of the request on: an endpoint need not
/// respond before it has received all of it, however long that takes. Each piece of the head renews it.
pub(crate) struct ResponseTimer<'d> {
    deadline: &'d Deadline,
    timeout: Duration,
    /// The part of the time that the first wait has used before this timer was made.
    spent: Cell<Duration>,
    /// Nothing more of the request will be sent.
    is_sent: Cell<bool>,
    /// The response takes longer than most: time for work that is worth it only then.
    is_slow: Cell<bool>,
}

impl<'d> ResponseTimer<'d> {
    /// `deadline` must be of no other use until the head has arrived, and while `is_sent` is false not after
    /// it either.
    pub(crate) fn new(deadline: &'d Deadline, timeout: Duration, is_sent: bool) -> Self {
        let spent = Cell::new(Duration::ZERO);
        Self { deadline, timeout, spent, is_sent: Cell::new(is_sent), is_slow: Cell::new(!is_sent) }
    }

    /// A timer for a request that was sent a tick ago, and has no response yet.
    pub(crate) fn after_a_tick(deadline: &'d Deadline, timeout: Duration) -> Self {
        let spent = Cell::new(TICK);
        Self { deadline, timeout, spent, is_sent: Cell::new(true), is_slow: Cell::new(true) }
    }

    /// Nothing more of the request will be sent: the time begins to count.
    pub(crate) fn note_sent(&self) {
        self.is_sent.set(true);
        self.deadline.start(self.timeout);
    }

    /// Notes that the response does not arrive at once.
    pub(crate) fn note_slow(&self) {
        self.is_slow.set(true);
    }

    /// Whether the response does not arrive at once: a tick has passed without it, or it is longer than its
    /// first piece. The waiting task is polled when that changes.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.get()
    }

    /// Polls for the next piece of the head.
    pub(crate) async fn within<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Elapsed> {
        let mut timeout = self.timeout.saturating_sub(self.spent.take());
        if !self.is_slow() && timeout > TICK {
            if let Ok(output) = self.deadline.within(TICK, &mut poll).await {
                return Ok(output);
            }
            self.note_slow();
            timeout -= TICK;
        }
        if self.is_sent.get() {
            self.deadline.start(timeout);
        } else {
            self.deadline.stop();
        }
        self.deadline.guard(poll).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::Waker;

    use clock::Clock;

    use super::*;
    use crate::io::deadline::Deadlines;

    /// Ten ticks of the sweep, so that one tick is a tenth of it.
    const TIMEOUT: Duration = Duration::from_secs(1);

    fn never(_: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// The state of a wait after this much more time.
    fn after(
        time: Duration,
        (clock, deadlines): (&Clock, &Deadlines),
        waiting: &mut Pin<&mut impl Future<Output = Result<(), Elapsed>>>,
    ) -> Poll<Result<(), Elapsed>> {
        clock.advance(time);
        deadlines.sweep();
        waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_response_that_takes_longer_than_a_tick_is_slow_and_still_has_its_time() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let (deadline, world) = (Deadline::new(&deadlines), (&clock, &*deadlines));
        let timer = ResponseTimer::new(&deadline, TIMEOUT, true);
        let mut waiting = pin!(timer.within(never));
        assert!(after(Duration::ZERO, world, &mut waiting).is_pending() && !timer.is_slow());
        assert!(after(TICK, world, &mut waiting).is_pending() && timer.is_slow());
        assert!(after(8 * TICK, world, &mut waiting).is_pending());
        assert_eq!(after(TICK, world, &mut waiting), Poll::Ready(Err(Elapsed)));
    }

    #[test]
    fn the_time_counts_from_the_end_of_the_request_on() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let (deadline, world) = (Deadline::new(&deadlines), (&clock, &*deadlines));
        let timer = ResponseTimer::new(&deadline, TIMEOUT, false);
        let mut waiting = pin!(timer.within(never));
        assert!(after(Duration::ZERO, world, &mut waiting).is_pending());
        assert!(after(3600 * TIMEOUT, world, &mut waiting).is_pending());
        timer.note_sent();
        assert!(after(9 * TICK, world, &mut waiting).is_pending());
        assert_eq!(after(TICK, world, &mut waiting), Poll::Ready(Err(Elapsed)));
    }
}
