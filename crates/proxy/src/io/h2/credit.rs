//! Bound of the content that the streams of one client may hand over before it has been written.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use crate::limits::HTTP2_UNWRITTEN_BYTES_MAX;

/// Bounds the content that waits to be written on a client's connection, all streams together: the windows
/// of HTTP/2 are the client's to set, and bound nothing where it sets them wide and does not read.
pub(crate) struct Credit {
    /// Bytes that may still be handed over.
    left: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl Default for Credit {
    fn default() -> Self {
        Self { left: Cell::new(HTTP2_UNWRITTEN_BYTES_MAX), waiting: RefCell::default() }
    }
}

impl Credit {
    /// Bytes that may be handed over now. Where there are none, the task is woken when there are.
    pub(crate) fn poll_left(&self, cx: &Context<'_>) -> Poll<usize> {
        let left = self.left.get();
        if left > 0 {
            return Poll::Ready(left);
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Subtracts bytes that were handed over.
    pub(crate) fn spend(&self, len: usize) {
        self.left.set(self.left.get().saturating_sub(len));
    }

    /// Resets the bound: all that was handed over has been written.
    pub(crate) fn renew(&self) {
        if self.left.replace(HTTP2_UNWRITTEN_BYTES_MAX) == 0 {
            self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }
}
