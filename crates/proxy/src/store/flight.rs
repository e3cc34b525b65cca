//! Collapsed requests: one request (the leader) fetches a response, and others for the same key wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::object::Object;
use super::purges::Matchers;
use super::{Cache, Key};

/// Requests in progress, by key.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Key, Arc<Flight>>>);

/// A request in progress that others for the same key wait for.
#[derive(Default)]
pub(crate) struct Flight(Mutex<State>);

#[derive(Default)]
struct State {
    phase: Phase,
    waiting: Vec<Waker>,
}

/// The phase of a request in progress.
///
/// ```text
/// Asked ──▶ Coming: the response arrives and can be read
///   ├─────▶ Passed: no response that may be shared: each waiting request goes on by itself
///   └─────▶ Vacant: the leader's client has gone: another request becomes the leader
/// ```
#[derive(Clone, Default)]
pub(crate) enum Phase {
    #[default]
    Asked,
    Coming(Arc<Object>),
    Passed,
    Vacant,
}

/// The role of a request among those in progress for its key.
pub(crate) enum Role {
    /// No other request is in progress: this one goes to the endpoint.
    Lead(Leader),
    /// Another request is in progress: wait for its phase to change.
    Follow(Arc<Flight>),
}

/// The leader's handle. Dropped before a response has arrived, it makes the flight vacant, and another
/// request becomes the leader.
pub(crate) struct Leader {
    cache: Arc<Cache>,
    pub(crate) key: Key,
    flight: Arc<Flight>,
}

impl Flights {
    pub(super) fn join(&self, cache: &Arc<Cache>, key: &[u8]) -> Role {
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(key) {
            return Role::Follow(Arc::clone(flight));
        }
        let (key, flight) = (Key::from(key), Arc::<Flight>::default());
        flights.insert(Arc::clone(&key), Arc::clone(&flight));
        Role::Lead(Leader { cache: Arc::clone(cache), key, flight })
    }
}

impl Flights {
    /// Removes the flights that a purge may match, so that new requests start their own. Tags are unknown
    /// until the response arrives: flights in `Asked` are all removed.
    pub(super) fn remove_matching(&self, matchers: &Matchers) {
        self.0.lock().retain(|_, flight| match &flight.0.lock().phase {
            Phase::Asked => false,
            Phase::Coming(object) => !object.labels.are_meant(matchers),
            Phase::Passed | Phase::Vacant => true,
        });
    }
}

impl Flights {
    /// Removes the flight of a changed key, so that new requests start their own.
    pub(super) fn remove(&self, key: &[u8]) {
        self.0.lock().remove(key);
    }
}

impl Flight {
    /// Ready with the phase as soon as it is no longer `Asked`.
    pub(crate) fn poll_phase(&self, cx: &Context<'_>) -> Poll<Phase> {
        let mut state = self.0.lock();
        if matches!(state.phase, Phase::Asked) {
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(state.phase.clone())
    }

    fn set_phase(&self, phase: Phase) {
        let mut state = self.0.lock();
        state.phase = phase;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Leader {
    /// Publishes a response that other requests may share.
    pub(crate) fn publish(&self, object: Arc<Object>) {
        self.flight.set_phase(Phase::Coming(object));
    }

    /// Ends the flight without a response that may be shared.
    pub(crate) fn pass(self) {
        self.flight.set_phase(Phase::Passed);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut flights = self.cache.flights.0.lock();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        drop(flights);
        let is_open = matches!(self.flight.0.lock().phase, Phase::Asked);
        if is_open {
            self.flight.set_phase(Phase::Vacant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Purge;
    use super::*;

    fn lead(cache: &Arc<Cache>) -> Option<Leader> {
        match cache.join(b"a") {
            Role::Lead(leader) => Some(leader),
            Role::Follow(_) => None,
        }
    }

    fn follow(cache: &Arc<Cache>) -> Arc<Flight> {
        match cache.join(b"a") {
            Role::Lead(_) => panic!("there is one"),
            Role::Follow(flight) => flight,
        }
    }

    fn phase(flight: &Flight) -> Poll<Phase> {
        flight.poll_phase(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_leads_until_it_goes() {
        let cache = Cache::new(1 << 20);
        let leader = lead(&cache).unwrap();
        let flight = follow(&cache);
        assert!(phase(&flight).is_pending() && lead(&cache).is_none());
        drop(leader);
        assert!(matches!(phase(&flight), Poll::Ready(Phase::Vacant)));
        lead(&cache).unwrap().pass();
        assert!(lead(&cache).is_some(), "what passed leaves nothing behind");
    }

    #[test]
    fn after_a_purge_one_leads_again() {
        let cache = Cache::new(1 << 20);
        let leader = lead(&cache).unwrap();
        let flight = follow(&cache);
        cache.purge(&[Purge::Tag("any".to_owned())]);
        let next = lead(&cache).unwrap();
        leader.pass();
        assert!(matches!(phase(&flight), Poll::Ready(Phase::Passed)));
        assert!(lead(&cache).is_none(), "the former one ends nothing but its own");
        drop(next);
    }

    #[test]
    fn who_fails_lets_all_go() {
        let cache = Cache::new(1 << 20);
        let leader = lead(&cache).unwrap();
        let flight = follow(&cache);
        leader.pass();
        assert!(matches!(phase(&flight), Poll::Ready(Phase::Passed)));
    }
}
