//! The UDP sessions of a worker, of which there is a limited number.

use std::rc::Rc;

use super::Worker;
use crate::limits::UDP_SESSIONS_MAX;

impl Worker {
    pub(crate) fn sessions_open(&self) -> usize {
        self.datagram_sessions.get()
    }

    pub(crate) fn has_room_for_session(&self) -> bool {
        self.sessions_open() < self.budget.datagram_sessions.min(UDP_SESSIONS_MAX)
    }
}

/// Counts a session while it is open.
pub(crate) struct OpenSession(Rc<Worker>);

impl OpenSession {
    pub(crate) fn count(worker: &Rc<Worker>) -> Self {
        worker.datagram_sessions.set(worker.datagram_sessions.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.datagram_sessions.set(self.0.datagram_sessions.get() - 1);
        self.0.closed.notify_waiters();
    }
}
