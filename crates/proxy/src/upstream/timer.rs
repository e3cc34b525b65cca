//! The wait for a response: nginx's `proxy_read_timeout`.

use std::cell::Cell;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::deadline::{Deadline, Elapsed};

/// Bounds the wait for a response head. The time counts from the end of the request on: an endpoint need not say anything
/// before it has been sent all of it, however long that takes. Each piece of the head renews it.
pub(crate) struct ResponseTimer<'d> {
    deadline: &'d Deadline,
    timeout: Duration,
    /// Nothing more of the request will be sent.
    is_sent: Cell<bool>,
}

impl<'d> ResponseTimer<'d> {
    /// `deadline` must be of no other use until the head has come, and while `is_sent` is false not after it either.
    pub(crate) fn new(deadline: &'d Deadline, timeout: Duration, is_sent: bool) -> Self {
        Self { deadline, timeout, is_sent: Cell::new(is_sent) }
    }

    /// Nothing more of the request will be sent: the time begins to count.
    pub(crate) fn note_sent(&self) {
        self.is_sent.set(true);
        self.deadline.start(self.timeout);
    }

    /// Polls for the next piece of the head.
    pub(crate) fn within<T>(
        &self,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> impl Future<Output = Result<T, Elapsed>> {
        if self.is_sent.get() {
            self.deadline.start(self.timeout);
        } else {
            self.deadline.stop();
        }
        self.deadline.guard(poll)
    }
}
