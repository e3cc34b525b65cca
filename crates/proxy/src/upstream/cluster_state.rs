//! A worker's state of a cluster, which outlives changes of its endpoints and of the configuration.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use balance::{Copies, HealthRecord, Outliers, Pacer, RetryBudget, Standing};
use clock::{Moment, Random};

use super::ClusterLimits;
use super::checks::Verdict;
use super::pool::{Endpoint, Pool};

/// The state of a cluster with this id and name.
pub(crate) struct ClusterState {
    /// The next endpoint in turn. It may be beyond the last one if there are fewer endpoints now.
    pub(super) cursor: Cell<usize>,
    /// Statistics of its endpoints, by which outliers are found.
    pub(crate) outliers: Outliers,
    pub(crate) retries: RetryBudget,
    /// When it was out of use, for routes that fall back to other clusters.
    pub(crate) standing: Standing,
    /// Copies of requests to it, where it is the target of mirrors; made with the first one.
    copies: OnceCell<Rc<Copies>>,
    /// The concurrency limits of its endpoints, and those for clients over TLS where the protocol differs.
    limits: [OnceCell<Rc<ClusterLimits>>; 2],
    /// The health of each of its endpoints, whatever the protocol.
    healths: RefCell<HashMap<SocketAddr, Rc<Health>>>,
}

/// An endpoint of a cluster.
pub(crate) struct Member {
    pub(crate) endpoint: Rc<Endpoint>,
    /// The endpoint's health in this cluster.
    pub(crate) health: Rc<Health>,
    /// The verdict of its health checks; none where it is not checked.
    pub(crate) verdict: Option<Arc<Verdict>>,
}

/// The health of an endpoint in a cluster, as one worker observes it.
pub(crate) struct Health {
    /// Whether the endpoint is ejected, and its recent results.
    pub(crate) record: HealthRecord,
    pub(crate) pacer: Pacer,
    /// When the endpoint became ready; none if it was when the cluster was first used, or when all of its
    /// endpoints were replaced.
    pub(crate) ready_since: Option<Moment>,
}

impl ClusterState {
    /// The first endpoint is random: if all workers began with the same one, it would get more requests.
    pub(crate) fn new(endpoints: usize, random: &Random, now: Moment) -> Rc<Self> {
        Rc::new(Self {
            cursor: Cell::new(random.below(endpoints.max(1))),
            outliers: Outliers::default(),
            retries: RetryBudget::new(now),
            standing: Standing::default(),
            copies: OnceCell::new(),
            limits: Default::default(),
            healths: RefCell::default(),
        })
    }

    /// The copies of requests to the cluster.
    pub(crate) fn copies(&self) -> &Rc<Copies> {
        self.copies.get_or_init(Rc::default)
    }

    /// The time at which new endpoints of a cluster have become ready; none where all of its endpoints are
    /// new.
    pub(super) fn ready_since(&self, cluster: &model::Cluster, now: Moment) -> Option<Moment> {
        let healths = self.healths.borrow();
        let is_known = |endpoint: &model::Endpoint| healths.contains_key(&endpoint.address);
        cluster.endpoints.iter().any(is_known).then_some(now)
    }

    /// The health of an endpoint, created if it is new; `since` is for a new one.
    pub(super) fn health(&self, endpoint: &Endpoint, since: Option<Moment>) -> Rc<Health> {
        let mut healths = self.healths.borrow_mut();
        let health = healths.entry(endpoint.address).or_insert_with(|| Rc::new(Health::new(endpoint, since)));
        Rc::clone(health)
    }

    /// The concurrency limits of its endpoints; `variant` is 1 for clients over TLS where the protocol
    /// differs for them.
    pub(super) fn limits(&self, variant: usize, name: &str, pool: &Pool) -> Rc<ClusterLimits> {
        let limits = self.limits[variant].get_or_init(|| {
            let (clock, registry, share) = pool.for_limits();
            ClusterLimits::new(name, clock, registry, share)
        });
        Rc::clone(limits)
    }

    /// Forgets the endpoints that the cluster no longer has.
    pub(super) fn keep_only(&self, members: &[Rc<Member>]) {
        let mut healths = self.healths.borrow_mut();
        if healths.len() > members.len() {
            let kept: HashMap<_, _> =
                members.iter().map(|member| (member.endpoint.address, Rc::clone(&member.health))).collect();
            *healths = kept;
        }
    }
}

impl Health {
    pub(super) fn new(endpoint: &Endpoint, ready_since: Option<Moment>) -> Self {
        let record = HealthRecord::new(Arc::clone(&endpoint.cells));
        Self { record, pacer: Pacer::default(), ready_since }
    }
}
