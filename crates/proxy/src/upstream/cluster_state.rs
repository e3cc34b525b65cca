//! What a worker knows of a cluster, however often its endpoints and the configuration change.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::limit::ClusterLimits;
use super::outlier::{Outliers, Standing};
use super::pace::Pacer;
use super::pool::{Endpoint, Pool};
use super::retry_budget::RetryBudget;
use crate::clock::Moment;
use crate::random::Random;

/// The state that a worker keeps for a cluster of this id and name.
pub(crate) struct ClusterState {
    /// The next endpoint in turn. It may be beyond the last one if there are fewer endpoints now.
    pub(super) cursor: Cell<usize>,
    /// What is usual among its endpoints.
    pub(crate) outliers: Outliers,
    pub(crate) retries: RetryBudget,
    /// The places at its endpoints, and at the same endpoints for clients that came over TLS where their protocol differs.
    limits: [OnceCell<Rc<ClusterLimits>>; 2],
    /// What is known of each of its endpoints, whatever is spoken with it.
    healths: RefCell<HashMap<SocketAddr, Rc<Health>>>,
}

/// An endpoint of a cluster.
pub(crate) struct Member {
    pub(crate) endpoint: Rc<Endpoint>,
    /// What is known of it in this cluster.
    pub(crate) health: Rc<Health>,
}

/// What a worker knows of an endpoint of a cluster.
pub(crate) struct Health {
    /// How it stands beside the others.
    pub(crate) standing: Standing,
    pub(crate) pacer: Pacer,
    /// When it has become ready; none if it was when the cluster was first used, or when all of its endpoints were others.
    pub(crate) ready_since: Option<Moment>,
}

impl ClusterState {
    /// The first endpoint is random: if all workers began with the same one, it would get more requests.
    pub(crate) fn new(endpoints: usize, random: &Random, now: Moment) -> Rc<Self> {
        Rc::new(Self {
            cursor: Cell::new(random.below(endpoints.max(1))),
            outliers: Outliers::default(),
            retries: RetryBudget::new(now),
            limits: Default::default(),
            healths: RefCell::default(),
        })
    }

    /// When the endpoints of a cluster have become ready of which nothing is known yet; none where nothing is known of any.
    pub(super) fn ready_since(&self, cluster: &model::Cluster, now: Moment) -> Option<Moment> {
        let healths = self.healths.borrow();
        let is_known = |endpoint: &model::Endpoint| healths.contains_key(&endpoint.address);
        cluster.endpoints.iter().any(is_known).then_some(now)
    }

    /// What is known of an endpoint; `since` is for one of which nothing is.
    pub(super) fn health(&self, endpoint: &Endpoint, since: Option<Moment>) -> Rc<Health> {
        let mut healths = self.healths.borrow_mut();
        let health = healths.entry(endpoint.address).or_insert_with(|| Rc::new(Health::new(endpoint, since)));
        Rc::clone(health)
    }

    /// The places at its endpoints; `variant` is 1 for clients that came over TLS where the protocol differs for them.
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
        let standing = Standing::new(Arc::clone(&endpoint.cells));
        Self { standing, pacer: Pacer::default(), ready_since }
    }
}
