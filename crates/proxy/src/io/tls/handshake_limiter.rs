//! Limits the CPU time of handshakes: their costly steps wait for their turn in the event loop, so that a
//! flood of handshakes does not delay established connections.
//!
//! Between two turns the event loop polls the sockets and serves those that are ready.

use std::cell::Cell;

use clock::Clock;
use tokio::sync::Notify;

use crate::io::line::Line;
use crate::io::turn;
use crate::limits::{GUARD_HANDSHAKES_PER_TICK, HANDSHAKES_MAX, HANDSHAKES_PER_TURN_MAX};

/// The handshakes of a worker that are in progress, and the queue of those that wait for a costly step.
#[derive(Default)]
pub(crate) struct HandshakeLimiter {
    queue: Line,
    /// Wakes [`attend`](Self::attend) when the queue is no longer empty.
    joined: Notify,
    /// Number of handshakes in progress.
    inside: Cell<usize>,
    /// Costly steps that are left until the next tick; none where nobody counts them.
    left: Cell<Option<u32>>,
}

/// A handshake in progress; it is counted until this is dropped.
pub(crate) struct Entry<'a>(&'a HandshakeLimiter);

impl HandshakeLimiter {
    /// Begins a handshake; none if the limit of handshakes in progress is reached.
    pub(crate) fn enter(&self) -> Option<Entry<'_>> {
        if self.inside.get() >= HANDSHAKES_MAX {
            return None;
        }
        self.inside.set(self.inside.get() + 1);
        Some(Entry(self))
    }

    /// Lets waiting handshakes pass, a limited number in each turn of the event loop, in the order in which
    /// they came. It runs as long as it is polled.
    pub(crate) async fn attend(&self, clock: &Clock) {
        loop {
            for _ in 0..HANDSHAKES_PER_TURN_MAX {
                if !self.is_used_up() {
                    self.let_one_pass();
                }
            }
            if self.queue.is_empty() || self.is_used_up() {
                self.joined.notified().await;
            } else {
                // A task that yields runs again only after the event loop has polled its sockets.
                turn::yield_now(clock).await;
            }
        }
    }

    /// Limits the costly steps between two ticks from now on, or removes that limit.
    pub(crate) fn pace(&self, is_paced: bool) {
        self.left.set(is_paced.then_some(GUARD_HANDSHAKES_PER_TICK));
        self.joined.notify_one();
    }

    /// Restores the limit at a tick.
    pub(crate) fn refill(&self) {
        if self.left.get().is_some() {
            self.pace(true);
        }
    }

    fn is_used_up(&self) -> bool {
        self.left.get() == Some(0)
    }

    fn let_one_pass(&self) {
        if self.queue.let_one_pass() {
            self.left.set(self.left.get().map(|left| left.saturating_sub(1)));
        }
    }
}

impl Entry<'_> {
    /// Waits for permission to take a costly step.
    pub(crate) async fn pass(&self) {
        let permission = self.0.queue.join();
        self.0.joined.notify_one();
        permission.await;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use super::*;
    use crate::io::event_loop::EventLoop;

    fn run(test: impl Future<Output = ()>) {
        EventLoop::new(|| ()).expect("an event loop").run(test);
    }

    #[test]
    fn they_pass_in_order_and_others_run_in_between() {
        run(async {
            let handshake_limiter = Rc::new(HandshakeLimiter::default());
            let order = Rc::new(RefCell::new(Vec::new()));
            let attending = Rc::clone(&handshake_limiter);
            let clock = Clock::new(Clock::begin());
            reactor::spawn(async move { attending.attend(&clock).await });
            let waiters = (0..5).map(|number| {
                let (handshake_limiter, order) = (Rc::clone(&handshake_limiter), Rc::clone(&order));
                reactor::spawn(async move {
                    handshake_limiter.enter().expect("there is room").pass().await;
                    order.borrow_mut().push(number);
                })
            });
            let mut most_at_once = 0;
            for waiter in waiters.collect::<Vec<_>>() {
                while !waiter.is_finished() {
                    let before = order.borrow().len();
                    reactor::yield_now().await;
                    most_at_once = most_at_once.max(order.borrow().len() - before);
                }
            }
            assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
            assert!(most_at_once <= HANDSHAKES_PER_TURN_MAX, "{most_at_once}");
        });
    }

    #[test]
    fn the_clock_goes_on_while_handshakes_wait() {
        run(async {
            let handshake_limiter = Rc::new(HandshakeLimiter::default());
            let clock = Clock::new(Clock::begin());
            let began = clock.now();
            let (attending, its_clock) = (Rc::clone(&handshake_limiter), clock.clone());
            reactor::spawn(async move { attending.attend(&its_clock).await });
            // Each handshake that passes joins the queue again, and there are more than pass in one turn:
            // the loop never sleeps.
            let entry = handshake_limiter.enter().expect("there is room");
            let pass = async || {
                while clock.now() == began {
                    entry.pass().await;
                }
            };
            tokio::join!(pass(), pass());
        });
    }

    #[test]
    fn a_tick_has_only_so_many_where_they_are_paced() {
        run(async {
            let handshake_limiter = Rc::new(HandshakeLimiter::default());
            handshake_limiter.pace(true);
            let clock = Clock::new(Clock::begin());
            let attending = Rc::clone(&handshake_limiter);
            reactor::spawn(async move { attending.attend(&clock).await });
            let passed = Rc::new(Cell::new(0));
            for _ in 0..2 * GUARD_HANDSHAKES_PER_TICK + 5 {
                let (handshake_limiter, passed) = (Rc::clone(&handshake_limiter), Rc::clone(&passed));
                reactor::spawn(async move {
                    handshake_limiter.enter().expect("there is room").pass().await;
                    passed.set(passed.get() + 1);
                });
            }
            let settle = async || {
                for _ in 0..10 * GUARD_HANDSHAKES_PER_TICK {
                    reactor::yield_now().await;
                }
                passed.get()
            };
            assert_eq!(settle().await, GUARD_HANDSHAKES_PER_TICK);
            handshake_limiter.refill();
            assert_eq!(settle().await, 2 * GUARD_HANDSHAKES_PER_TICK);
            handshake_limiter.pace(false);
            assert_eq!(settle().await, 2 * GUARD_HANDSHAKES_PER_TICK + 5);
        });
    }

    #[test]
    fn one_that_is_gone_holds_up_nobody() {
        let handshake_limiter = HandshakeLimiter::default();
        let (first, second) =
            (handshake_limiter.enter().expect("room"), handshake_limiter.enter().expect("room"));
        let mut cx = Context::from_waker(Waker::noop());
        let mut gone = Box::pin(first.pass());
        assert!(gone.as_mut().poll(&mut cx).is_pending());
        let mut waiting = pin!(second.pass());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        drop(gone);
        handshake_limiter.let_one_pass();
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn there_are_only_so_many_at_once() {
        let handshake_limiter = HandshakeLimiter::default();
        let mut entries: Vec<_> =
            (0..HANDSHAKES_MAX).map(|_| handshake_limiter.enter().expect("room")).collect();
        assert!(handshake_limiter.enter().is_none());
        entries.pop();
        assert!(handshake_limiter.enter().is_some());
    }
}
