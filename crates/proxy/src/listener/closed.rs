//! The ports that workers cannot listen at, told to who asks.
//!
//! Must not be in here: what is done about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ListenerId;
use tokio::sync::watch;

/// The ports that cannot be listened at, and why, by the number of each worker that cannot.
pub type ClosedPorts = BTreeMap<ListenerId, BTreeMap<usize, String>>;

/// Takes note of the ports that one worker cannot listen at.
pub(crate) struct ClosedByWorker {
    pub(crate) all: Arc<watch::Sender<ClosedPorts>>,
    pub(crate) worker: usize,
}

impl ClosedByWorker {
    /// `reason`: why a port cannot be listened at; none if it can be, or need not be.
    pub(super) fn note(&self, id: ListenerId, reason: Option<&str>) {
        let worker = self.worker;
        self.all.send_if_modified(|all| {
            let known = all.get(&id).and_then(|of_port| of_port.get(&worker));
            if known.map(String::as_str) == reason {
                return false;
            }
            let of_port = all.entry(id).or_default();
            match reason {
                Some(reason) => of_port.insert(worker, reason.to_owned()),
                None => of_port.remove(&worker),
            };
            if of_port.is_empty() {
                all.remove(&id);
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use model::ListenerKind;

    use super::*;

    #[test]
    fn a_port_is_closed_as_long_as_one_worker_cannot_listen_at_it() {
        let all = Arc::new(watch::Sender::<ClosedPorts>::default());
        let mut told = all.subscribe();
        let of = |worker| ClosedByWorker { all: Arc::clone(&all), worker };
        let id = ListenerId { kind: ListenerKind::Http, port: 80, address: None };
        of(0).note(id, None);
        assert!(!told.has_changed().unwrap());
        of(0).note(id, Some("in use"));
        of(1).note(id, Some("in use"));
        of(0).note(id, None);
        let in_use = BTreeMap::from([(1, "in use".to_owned())]);
        assert_eq!(*told.borrow_and_update(), BTreeMap::from([(id, in_use)]));
        of(1).note(id, Some("in use"));
        assert!(!told.has_changed().unwrap());
        of(1).note(id, None);
        assert!(told.borrow_and_update().is_empty());
    }
}
