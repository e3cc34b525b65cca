//! One request at a time for what many want: who makes it, and who waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::object::Object;
use super::purges::Matchers;
use super::{Cache, Key};

/// The requests that are made, by key.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Key, Arc<Flight>>>);

/// A request that others wait for.
#[derive(Default)]
pub(crate) struct Flight(Mutex<State>);

#[derive(Default)]
struct State {
    phase: Phase,
    waiting: Vec<Waker>,
}

/// How far a request is.
///
/// ```text
/// Asked ──▶ Coming: what it is can be read
///   ├─────▶ Passed: it is not for others, or there is none: each goes on by itself
///   └─────▶ Vacant: its client has gone: another makes it
/// ```
#[derive(Clone, Default)]
pub(crate) enum Phase {
    #[default]
    Asked,
    Coming(Arc<Object>),
    Passed,
    Vacant,
}

/// What a request is to what a key stands for.
pub(crate) enum Role {
    /// It is the one that is made.
    Lead(Leader),
    /// It waits.
    Follow(Arc<Flight>),
}

/// The end of who makes the request. Where it is dropped before a response has come, another takes its place.
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
    /// Lets those that come from now on ask anew for what may be meant by a purge. Of what has not come yet nobody knows the tags.
    pub(super) fn part_with(&self, matchers: &Matchers) {
        self.0.lock().retain(|_, flight| match &flight.0.lock().phase {
            Phase::Asked => false,
            Phase::Coming(object) => !object.labels.are_meant(matchers),
            Phase::Passed | Phase::Vacant => true,
        });
    }
}

impl Flights {
    /// Lets those that come from now on ask anew for what has changed.
    pub(super) fn part_with_key(&self, key: &[u8]) {
        self.0.lock().remove(key);
    }
}

impl Flight {
    /// Ready when it is known what becomes of it.
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

    fn become_(&self, phase: Phase) {
        let mut state = self.0.lock();
        state.phase = phase;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Leader {
    /// A response comes that is for others too.
    pub(crate) fn come(&self, object: Arc<Object>) {
        self.flight.become_(Phase::Coming(object));
    }

    /// There is no response for others.
    pub(crate) fn pass(self) {
        self.flight.become_(Phase::Passed);
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
            self.flight.become_(Phase::Vacant);
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
