//! Lets the costly steps of handshakes pass one by one, so that a flood of them does not hold up established connections.
//!
//! Between two steps the event loop looks at its sockets and serves whatever is ready.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::sync::Notify;

use crate::limits::{HANDSHAKES_MAX, HANDSHAKES_PER_TURN_MAX};

/// A worker's turnstile.
#[derive(Default)]
pub(crate) struct Turnstile {
    queue: RefCell<VecDeque<Rc<Waiter>>>,
    /// Somebody has joined an empty queue.
    joined: Notify,
    /// Handshakes in progress.
    inside: Cell<usize>,
}

#[derive(Default)]
struct Waiter {
    waker: RefCell<Option<Waker>>,
    may_pass: Cell<bool>,
    /// The connection went away while it waited.
    is_gone: Cell<bool>,
}

/// A handshake in progress, counted until it is dropped.
pub(crate) struct Entry<'a>(&'a Turnstile);

impl Turnstile {
    /// Begins a handshake; none when as many as there may be are in progress.
    pub(crate) fn enter(&self) -> Option<Entry<'_>> {
        if self.inside.get() >= HANDSHAKES_MAX {
            return None;
        }
        self.inside.set(self.inside.get() + 1);
        Some(Entry(self))
    }

    /// Lets those pass who wait, for as long as it is polled: a few in each turn of the loop, in the order in which they came.
    pub(crate) async fn attend(&self) {
        loop {
            for _ in 0..HANDSHAKES_PER_TURN_MAX {
                self.let_one_pass();
            }
            if self.queue.borrow().is_empty() {
                self.joined.notified().await;
            } else {
                // What yields is not run again before the loop has looked at its sockets.
                tokio::task::yield_now().await;
            }
        }
    }

    fn let_one_pass(&self) {
        let next = std::iter::from_fn(|| self.queue.borrow_mut().pop_front()).find(|one| !one.is_gone.get());
        if let Some(waiter) = next {
            waiter.may_pass.set(true);
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Entry<'_> {
    /// Waits for the turn to take a costly step.
    pub(crate) async fn pass(&self) {
        let waiting = Waiting(Rc::default());
        self.0.queue.borrow_mut().push_back(Rc::clone(&waiting.0));
        self.0.joined.notify_one();
        poll_fn(|cx| {
            if waiting.0.may_pass.get() {
                return Poll::Ready(());
            }
            *waiting.0.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get() - 1);
    }
}

/// A place in the queue, which is passed over once it is given up.
struct Waiting(Rc<Waiter>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_gone.set(true);
    }
}
