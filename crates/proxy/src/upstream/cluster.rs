//! Load balancing: which endpoint of a cluster takes the next request.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use balance::{Ring, Sticky, draw};
use clock::{Moment, Random};
use model::{Balance, EndpointState, HashBy};

use super::ClusterLimits;
use super::checks::Group;
use super::cluster_state::{ClusterState, Health, Member};
use super::pool::{Endpoint, Pool};
use super::protocol::Protocol;

/// A cluster, as one worker uses it.
pub(crate) struct Cluster {
    /// Whether the better of two endpoints is picked, by their response times.
    compares_times: bool,
    /// Set where the request determines the endpoint. On the heap, since few clusters are like that.
    keyed: Option<Box<Keyed>>,
    /// The endpoints that take new requests: the ready ones, or those that are draining if none is ready.
    members: Vec<Rc<Member>>,
    state: Rc<ClusterState>,
    /// The concurrency limits of the endpoints, and their queue.
    limits: Rc<ClusterLimits>,
    /// The health checks of the endpoints; none where they are not checked.
    checks: Option<Box<Checks>>,
    /// The same endpoints with the protocol for clients over TLS; none if it is the same protocol.
    for_tls: Option<Box<Self>>,
}

/// The health checks of a cluster's endpoints.
#[derive(Clone)]
struct Checks {
    group: Arc<Group>,
    /// The endpoints that are left out, since they fail.
    left_out: Vec<SocketAddr>,
}

/// How a request determines its endpoint.
pub(crate) enum Keyed {
    /// By the value of a cookie.
    Cookie(Sticky),
    /// By the hash of one of the request's values.
    Hash(Hashed),
}

/// Endpoints by the hash of a value.
pub(crate) struct Hashed {
    pub(crate) by: Arc<HashBy>,
    /// The hash ring of the endpoints, or of subsets of them.
    ring: Ring,
}

impl Cluster {
    pub(crate) fn new(cluster: &model::Cluster, state: &Rc<ClusterState>, pool: &Pool) -> Self {
        let (protocol, for_tls) = pool.protocols(cluster);
        let since = state.ready_since(cluster, pool.now());
        state.retries.share(pool.shared_retries(cluster));
        let checks = Checks::of(cluster, pool).map(Box::new);
        let speaking = |protocol: &Protocol, variant| {
            Self::speaking(cluster, protocol, pool, state, checks.as_deref(), variant, since)
        };
        let for_tls = for_tls.map(|protocol| Box::new(speaking(&protocol, 1)));
        let cluster = Self { for_tls, ..speaking(&protocol, 0) };
        let cluster = Self { checks, ..cluster };
        state.keep_only(&cluster.members);
        if let Some(checks) = &cluster.checks {
            let records = cluster.members.iter().map(|member| &member.health.record);
            state.outliers.note_checked_out(checks.left_out.len(), &records, pool.now());
        }
        cluster
    }

    /// `since` is the time at which new endpoints have become ready; none where all were ready from the
    /// start.
    fn speaking(
        cluster: &model::Cluster,
        protocol: &Protocol,
        pool: &Pool,
        state: &Rc<ClusterState>,
        checks: Option<&Checks>,
        variant: usize,
        since: Option<Moment>,
    ) -> Self {
        let in_state = |in_state| {
            let left_out = checks.map_or(&[][..], |checks| &checks.left_out);
            let is_chosen =
                |one: &&model::Endpoint| one.state == in_state && !left_out.contains(&one.address);
            let chosen = cluster.endpoints.iter().filter(is_chosen);
            let member = |endpoint: &model::Endpoint| {
                let endpoint = pool.endpoint(endpoint.address, protocol);
                let verdict = checks.map(|checks| checks.group.verdict(endpoint.address));
                Rc::new(Member { health: state.health(&endpoint, since), endpoint, verdict })
            };
            chosen.map(member).collect::<Vec<_>>()
        };
        let ready = in_state(EndpointState::Ready);
        let members = if ready.is_empty() { in_state(EndpointState::Draining) } else { ready };
        let compares_times = cluster.balance == Balance::Ewma;
        if compares_times {
            for member in &members {
                member.endpoint.average_times();
            }
        }
        let keyed = Keyed::of(cluster, &members).map(Box::new);
        let limits = state.limits(variant, &cluster.name, pool);
        let endpoints: Vec<_> = members.iter().map(|member| Rc::clone(&member.endpoint)).collect();
        limits.set_endpoints(&endpoints);
        let state = Rc::clone(state);
        Self { compares_times, keyed, members, state, limits, checks: None, for_tls: None }
    }

    /// Whether other endpoints than before are left out by their health checks.
    pub(crate) fn is_outdated(&self, cluster: &model::Cluster) -> bool {
        self.checks.as_ref().is_some_and(|checks| checks.left_out != checks.group.left_out(cluster))
    }

    /// Has silent endpoints checked, and has those probed whose checks have passed since they were ejected.
    /// Returns the time after which another one will have been silent for that long.
    pub(crate) fn attend_checks(&self, silence: Duration, now: Moment) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for member in self.members() {
            let (Some(verdict), record) = (&member.verdict, &member.health.record) else { continue };
            match record.is_silent_in(silence, now) {
                None => {}
                Some(rest) if rest.is_zero() => verdict.prompt(),
                Some(rest) => next = Some(next.map_or(rest, |next| next.min(rest))),
            }
            if let Some(since) = verdict.passing_since().filter(|_| record.is_ejected()) {
                record.note_checks_passed(since, now);
            }
        }
        next
    }

    /// Notes that the cluster is part of the configuration, so that its endpoints keep idle connections.
    pub(crate) fn join(&self) {
        self.everyone().for_each(|endpoint| endpoint.join());
    }

    /// Undoes [`join`](Self::join). Endpoints that are in no other cluster close their idle connections at
    /// once.
    pub(crate) fn leave(&self, pool: &Pool) {
        self.everyone().for_each(|endpoint| pool.leave(endpoint));
    }

    fn everyone(&self) -> impl Iterator<Item = &Rc<Endpoint>> {
        let for_tls = self.for_tls.iter().flat_map(|cluster| &cluster.members);
        self.members.iter().chain(for_tls).map(|member| &member.endpoint)
    }

    /// The cluster for a client, which depends on whether the client came over TLS.
    pub(crate) fn for_client(&self, is_tls: bool) -> &Self {
        self.for_tls.as_deref().filter(|_| is_tls).unwrap_or(self)
    }

    /// The concurrency limits of its endpoints, and their queue.
    pub(crate) fn limits(&self) -> &Rc<ClusterLimits> {
        &self.limits
    }

    /// The number of endpoints to choose from.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The endpoints to choose from.
    pub(crate) fn members(&self) -> &[Rc<Member>] {
        &self.members
    }

    /// The member for an endpoint; one that the cluster no longer has starts with fresh health.
    #[cold]
    pub(crate) fn member(&self, endpoint: &Rc<Endpoint>) -> Rc<Member> {
        let known = self.members.iter().find(|member| Rc::ptr_eq(&member.endpoint, endpoint));
        let unknown = || {
            let health = Rc::new(Health::new(endpoint, None));
            Rc::new(Member { endpoint: Rc::clone(endpoint), health, verdict: None })
        };
        known.map_or_else(unknown, Rc::clone)
    }

    /// The state of the cluster, which outlives configurations.
    pub(crate) fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Whether the better of two endpoints is picked.
    pub(crate) fn compares_times(&self) -> bool {
        self.compares_times && self.members.len() > 1
    }

    /// Picks an endpoint for which `was_tried` is false; none if there is no other.
    pub(crate) fn pick(
        &self,
        was_tried: impl Fn(&Endpoint) -> bool,
        random: &Random,
        now: Moment,
    ) -> Option<&Rc<Endpoint>> {
        let picked = self.pick_member(|member| !was_tried(&member.endpoint), random, now);
        picked.map(|member| &member.endpoint)
    }

    /// The same, as a member of this cluster.
    pub(crate) fn pick_member(
        &self,
        is_fit: impl Fn(&Member) -> bool,
        random: &Random,
        now: Moment,
    ) -> Option<&Rc<Member>> {
        if self.compares_times() {
            self.better_of_two(is_fit, random, now)
        } else {
            self.next_in_turn(is_fit)
        }
    }

    /// How a request determines its endpoint; none where it does not.
    pub(crate) fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_deref()
    }

    /// The endpoint that the value of a cookie names; none if it names none.
    pub(crate) fn of_cookie(&self, sticky: &Sticky, value: &[u8]) -> Option<&Rc<Member>> {
        self.members.get(sticky.find(value)?)
    }

    /// Picks an endpoint that `is_fit`, with a key for a cookie; none if there is none.
    pub(crate) fn pick_with_key(
        &self,
        sticky: &Sticky,
        is_fit: impl Fn(&Member) -> bool,
        random: &Random,
    ) -> Option<(&Rc<Member>, String)> {
        let (place, key) = sticky.pick(random, |place| is_fit(&self.members[place]))?;
        Some((&self.members[place], key))
    }

    /// The endpoint for the hash of a value. If it is not fit, or its slow start rejects the value
    /// (`takes`), the next one on the ring is used, or another one of the subset: all other values keep
    /// their endpoints. The draw for `takes` is derived from the value, or random within a subset.
    ///
    /// "Endpoints cut into ceil(n/size) sets of exactly `size` (the last filled up by reuse), random
    /// inside."
    pub(crate) fn of_hash(
        &self,
        hashed: &Hashed,
        value: &[u8],
        is_fit: impl Fn(&Member) -> bool,
        takes: impl Fn(&Member, &dyn Fn() -> f64) -> bool,
        random: &Random,
    ) -> Option<&Rc<Member>> {
        let Some(size) = hashed.by.subset else {
            let member = |place: usize| &*self.members[place];
            let takes = |place| takes(member(place), &|| draw(value));
            let place = hashed.ring.find_if(value, |place| is_fit(member(place)) && takes(place));
            let place = place.or_else(|| hashed.ring.find_if(value, |place| is_fit(member(place))));
            return self.members.get(place.or_else(|| hashed.ring.find(value))?);
        };
        let (set, first) = (hashed.ring.find(value)?, random.below(size));
        let in_set = |at: usize| self.of_set(set, size, (first + at) % size);
        let find = |is_wanted: &dyn Fn(&Member) -> bool| {
            (0..size).filter_map(in_set).find(|member| is_wanted(member))
        };
        find(&|member| is_fit(member) && takes(member, &|| random.chance()))
            .or_else(|| find(&|member| is_fit(member)))
            .or_else(|| in_set(0))
    }

    /// All endpoints for the hash of a value: one, or those of a subset.
    pub(crate) fn all_of_hash(&self, hashed: &Hashed, value: &[u8]) -> Vec<&Rc<Member>> {
        let Some(place) = hashed.ring.find(value) else { return Vec::new() };
        let size = hashed.by.subset.unwrap_or(1);
        (0..size).filter_map(|at| self.of_set(place, size, at)).collect()
    }

    fn of_set(&self, set: usize, size: usize, at: usize) -> Option<&Rc<Member>> {
        self.members.get((set * size + at) % self.members.len())
    }

    fn next_in_turn(&self, is_fit: impl Fn(&Member) -> bool) -> Option<&Rc<Member>> {
        let cursor = &self.state.cursor;
        (0..self.members.len()).find_map(|_| {
            let in_range = |at| if at < self.members.len() { at } else { 0 };
            let at = in_range(cursor.get());
            cursor.set(in_range(at + 1));
            let member = &self.members[at];
            is_fit(member).then_some(member)
        })
    }

    /// The power of two choices: nearly as good as choosing the best of all, but not all workers send to the
    /// same endpoint. An ejected endpoint whose probe is due wins, whatever its response time was.
    fn better_of_two(
        &self,
        is_fit: impl Fn(&Member) -> bool,
        random: &Random,
        now: Moment,
    ) -> Option<&Rc<Member>> {
        let count = self.members.len();
        let first = random.below(count);
        let second = (first + 1 + random.below(count - 1)) % count;
        let two = [&self.members[first], &self.members[second]];
        let time = |member: &Rc<Member>| {
            let is_probe = member.health.record.is_ejected() && member.health.record.is_probe_due(now);
            if is_probe { 0.0 } else { member.endpoint.response_time(now) }
        };
        let fit = two.into_iter().filter(|member| is_fit(member));
        let better = fit.min_by(|a, b| time(a).total_cmp(&time(b)));
        better.or_else(|| self.next_in_turn(is_fit))
    }
}

impl Checks {
    fn of(cluster: &model::Cluster, pool: &Pool) -> Option<Self> {
        let group = pool.board().group(&pool.check_key(cluster)?);
        Some(Self { left_out: group.left_out(cluster), group })
    }
}

impl Keyed {
    fn of(cluster: &model::Cluster, members: &[Rc<Member>]) -> Option<Self> {
        let addresses = || members.iter().map(|member| member.endpoint.address.to_string());
        match &cluster.balance {
            Balance::RoundRobin | Balance::Ewma => None,
            Balance::Cookie(affinity) => {
                Some(Self::Cookie(Sticky::new(affinity, &cluster.name, &addresses().collect::<Vec<_>>())))
            }
            Balance::Hash(by) => {
                let ring = match by.subset {
                    None => Ring::new(addresses()),
                    Some(size) => {
                        let sets = 1..=members.len().div_ceil(size);
                        Ring::new(sets.map(|number| format!("set{number}")))
                    }
                };
                Some(Self::Hash(Hashed { by: Arc::clone(by), ring }))
            }
        }
    }
}
