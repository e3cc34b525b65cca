//! The listeners of a worker that serve HTTP/3.

use model::ListenerId;

use super::Worker;

impl Worker {
    /// Notes whether a listener serves HTTP/3.
    pub(crate) fn note_http3(&self, listener: ListenerId, is_served: bool) {
        let mut http3 = self.http3.borrow_mut();
        http3.retain(|one| *one != listener);
        if is_served {
            http3.push(listener);
        }
    }

    /// Whether a listener serves HTTP/3.
    pub(crate) fn serves_http3(&self, listener: ListenerId) -> bool {
        self.http3.borrow().contains(&listener)
    }

    /// Whether the worker drains, or is about to.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_draining() || self.parting.get().is_some()
    }
}
