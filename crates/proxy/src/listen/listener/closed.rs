//! The ports that workers cannot bind, published for observers.
//!
//! Must not be in here: any reaction to that.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ListenerId;
use tokio::sync::watch;

/// The ports that cannot be bound, with the error by the number of each worker concerned.
pub type ClosedPorts = BTreeMap<ListenerId, BTreeMap<usize, String>>;

/// Reports the ports that one worker cannot bind.
pub(crate) struct ClosedByWorker {
    pub(crate) all: Arc<watch::Sender<ClosedPorts>>,
    pub(crate) worker: usize,
}

impl ClosedByWorker {
    /// `reason` is the error if a port cannot be bound; none if it is bound, or not configured any more.
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
