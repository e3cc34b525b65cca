//! The UDP sessions of a worker, of which there is a limited number.

use super::Worker;
use crate::limits::UDP_SESSIONS_MAX;

impl Worker {
    pub(crate) fn session_opened(&self) {
        self.datagram_sessions.set(self.datagram_sessions.get() + 1);
    }

    pub(crate) fn session_closed(&self) {
        self.datagram_sessions.set(self.datagram_sessions.get() - 1);
        self.closed.notify_waiters();
    }

    pub(crate) fn sessions_open(&self) -> usize {
        self.datagram_sessions.get()
    }

    pub(crate) fn has_room_for_session(&self) -> bool {
        self.sessions_open() < self.budget.datagram_sessions.min(UDP_SESSIONS_MAX)
    }
}
