//! Load balancing: which endpoint of a cluster takes the next request.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use model::{Balance, EndpointState, HashBy};

use super::pool::{Endpoint, Pool};
use super::protocol::Protocol;
use super::ring::Ring;
use super::sticky::Sticky;
use crate::clock::Moment;
use crate::random::Random;

/// The state that a worker keeps for a cluster of this id and name, however often its endpoints change.
pub(crate) struct ClusterState {
    /// The next endpoint in turn. It may be beyond the last one if there are fewer endpoints now.
    cursor: Cell<usize>,
}

impl ClusterState {
    /// The first endpoint is random: if all workers began with the same one, it would get more requests.
    pub(crate) fn new(endpoints: usize, random: &Random) -> Rc<Self> {
        Rc::new(Self { cursor: Cell::new(random.below(endpoints.max(1))) })
    }
}

/// A cluster, as one worker uses it.
pub(crate) struct Cluster {
    /// Whether the better of two endpoints is picked, by their response times.
    compares_times: bool,
    /// The request says which endpoint is picked. On the heap, since few clusters are like that.
    keyed: Option<Box<Keyed>>,
    /// The endpoints that take new requests: the ready ones, or those that are draining if none is ready.
    endpoints: Vec<Rc<Endpoint>>,
    state: Rc<ClusterState>,
    /// The same endpoints with the protocol for clients that came over TLS; none if it is the same protocol.
    for_tls: Option<Box<Self>>,
}

/// How a request says which endpoint is picked.
pub(crate) enum Keyed {
    /// By a cookie.
    Cookie(Sticky),
    /// By the hash of one of its values.
    Hash(Hashed),
}

/// Endpoints by the hash of a value.
pub(crate) struct Hashed {
    pub(crate) by: Arc<HashBy>,
    /// Of the endpoints, or of sets of them.
    ring: Ring,
}

impl Cluster {
    pub(crate) fn new(cluster: &model::Cluster, state: &Rc<ClusterState>, pool: &Pool) -> Self {
        let (protocol, for_tls) = pool.protocols(cluster);
        let for_tls = for_tls.map(|protocol| Box::new(Self::speaking(cluster, state, &protocol, pool)));
        Self { for_tls, ..Self::speaking(cluster, state, &protocol, pool) }
    }

    fn speaking(
        cluster: &model::Cluster,
        state: &Rc<ClusterState>,
        protocol: &Protocol,
        pool: &Pool,
    ) -> Self {
        let in_state = |state| {
            let chosen = cluster.endpoints.iter().filter(move |endpoint| endpoint.state == state);
            chosen.map(|endpoint| pool.endpoint(endpoint.address, protocol)).collect::<Vec<_>>()
        };
        let ready = in_state(EndpointState::Ready);
        let endpoints = if ready.is_empty() { in_state(EndpointState::Draining) } else { ready };
        let compares_times = cluster.balance == Balance::Ewma;
        if compares_times {
            for endpoint in &endpoints {
                endpoint.average_times();
            }
        }
        let keyed = Keyed::of(cluster, &endpoints).map(Box::new);
        Self { compares_times, keyed, endpoints, state: Rc::clone(state), for_tls: None }
    }

    /// Notes that the cluster is part of the configuration, so that its endpoints keep idle connections.
    pub(crate) fn join(&self) {
        self.everyone().for_each(|endpoint| endpoint.join());
    }

    /// Undoes [`join`](Self::join). Endpoints that are in no other cluster close their idle connections at once.
    pub(crate) fn leave(&self, pool: &Pool) {
        self.everyone().for_each(|endpoint| pool.leave(endpoint));
    }

    fn everyone(&self) -> impl Iterator<Item = &Rc<Endpoint>> {
        let for_tls = self.for_tls.iter().flat_map(|cluster| &cluster.endpoints);
        self.endpoints.iter().chain(for_tls)
    }

    /// The cluster for a client, which depends on whether the client came over TLS.
    pub(crate) fn for_client(&self, is_tls: bool) -> &Self {
        self.for_tls.as_deref().filter(|_| is_tls).unwrap_or(self)
    }

    /// The number of endpoints to choose from.
    pub(crate) fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// The endpoints to choose from.
    pub(crate) fn endpoints(&self) -> &[Rc<Endpoint>] {
        &self.endpoints
    }

    /// Whether the better of two endpoints is picked.
    pub(crate) fn compares_times(&self) -> bool {
        self.compares_times && self.endpoints.len() > 1
    }

    /// Picks an endpoint for which `was_tried` is false; none if there is no other.
    pub(crate) fn pick(
        &self,
        was_tried: impl Fn(&Endpoint) -> bool,
        random: &Random,
        now: Moment,
    ) -> Option<&Rc<Endpoint>> {
        if self.compares_times() {
            self.better_of_two(was_tried, random, now)
        } else {
            self.next_in_turn(was_tried)
        }
    }

    /// How a request says which endpoint is picked; none where it does not.
    pub(crate) fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_deref()
    }

    /// The endpoint that the value of a cookie stands for; none if it stands for none.
    pub(crate) fn of_cookie(&self, sticky: &Sticky, value: &[u8]) -> Option<&Rc<Endpoint>> {
        self.endpoints.get(sticky.find(value)?)
    }

    /// Picks an endpoint for which `was_tried` is false, with a key for a cookie; none if there is no other.
    pub(crate) fn pick_with_key(
        &self,
        sticky: &Sticky,
        was_tried: impl Fn(&Endpoint) -> bool,
        random: &Random,
    ) -> Option<(&Rc<Endpoint>, String)> {
        let (place, key) = sticky.pick(random, |place| !was_tried(&self.endpoints[place]))?;
        Some((&self.endpoints[place], key))
    }

    /// The endpoint that a value leads to by its hash.
    ///
    /// "Endpoints cut into ceil(n/size) sets of exactly `size` (the last filled up by reuse), random inside."
    pub(crate) fn of_hash(&self, hashed: &Hashed, value: &[u8], random: &Random) -> Option<&Rc<Endpoint>> {
        let place = hashed.ring.find(value)?;
        let Some(size) = hashed.by.subset else { return self.endpoints.get(place) };
        self.of_set(place, size, random.below(size))
    }

    /// All endpoints that a value may lead to: one, or those of a set.
    pub(crate) fn all_of_hash(&self, hashed: &Hashed, value: &[u8]) -> Vec<&Rc<Endpoint>> {
        let Some(place) = hashed.ring.find(value) else { return Vec::new() };
        let size = hashed.by.subset.unwrap_or(1);
        (0..size).filter_map(|at| self.of_set(place, size, at)).collect()
    }

    fn of_set(&self, set: usize, size: usize, at: usize) -> Option<&Rc<Endpoint>> {
        self.endpoints.get((set * size + at) % self.endpoints.len())
    }

    fn next_in_turn(&self, was_tried: impl Fn(&Endpoint) -> bool) -> Option<&Rc<Endpoint>> {
        (0..self.endpoints.len()).find_map(|_| {
            let in_range = |at| if at < self.endpoints.len() { at } else { 0 };
            let at = in_range(self.state.cursor.get());
            self.state.cursor.set(in_range(at + 1));
            let endpoint = &self.endpoints[at];
            (!was_tried(endpoint)).then_some(endpoint)
        })
    }

    /// The power of two choices: nearly as good as choosing the best of all, but not all workers send to the same endpoint.
    fn better_of_two(
        &self,
        was_tried: impl Fn(&Endpoint) -> bool,
        random: &Random,
        now: Moment,
    ) -> Option<&Rc<Endpoint>> {
        let count = self.endpoints.len();
        let first = random.below(count);
        let second = (first + 1 + random.below(count - 1)) % count;
        let two = [&self.endpoints[first], &self.endpoints[second]];
        let better = two
            .into_iter()
            .filter(|endpoint| !was_tried(endpoint))
            .min_by(|a, b| a.response_time(now).total_cmp(&b.response_time(now)));
        better.or_else(|| self.next_in_turn(was_tried))
    }
}

impl Keyed {
    fn of(cluster: &model::Cluster, endpoints: &[Rc<Endpoint>]) -> Option<Self> {
        let addresses = || endpoints.iter().map(|endpoint| endpoint.address.to_string());
        match &cluster.balance {
            Balance::RoundRobin | Balance::Ewma => None,
            Balance::Cookie(affinity) => {
                Some(Self::Cookie(Sticky::new(affinity, &cluster.name, &addresses().collect::<Vec<_>>())))
            }
            Balance::Hash(by) => {
                let ring = match by.subset {
                    None => Ring::new(addresses()),
                    Some(size) => {
                        let sets = 1..=endpoints.len().div_ceil(size);
                        Ring::new(sets.map(|number| format!("set{number}")))
                    }
                };
                Some(Self::Hash(Hashed { by: Arc::clone(by), ring }))
            }
        }
    }
}
