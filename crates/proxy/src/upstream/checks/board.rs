//! The verdicts of health checks, as all workers share them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use balance::checks;
use model::EndpointState;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::key::GroupKey;
use super::news::HealthNews;
use super::together::Together;
use super::verdict::Verdict;

/// The verdicts on all checked endpoints.
pub(crate) struct Board {
    groups: Mutex<HashMap<GroupKey, Arc<Group>>>,
    /// Changed when endpoints may have to be left out or used again.
    changes: watch::Sender<()>,
    /// The exchange of reports with the other replicas.
    pub(crate) together: Together,
    /// Changes of verdicts, for those who watch the cluster.
    pub(super) news: Arc<HealthNews>,
}

/// The endpoints that are checked together.
#[derive(Default)]
pub(crate) struct Group(Mutex<HashMap<SocketAddr, Arc<Verdict>>>);

impl Board {
    /// A board without verdicts, which tells `news` of changes.
    pub(crate) fn new(news: Arc<HealthNews>) -> Self {
        let changes = watch::channel(()).0;
        Self { groups: Mutex::default(), changes, together: Together::default(), news }
    }

    /// The group with this key. A new one takes over the verdicts of a group of the same cluster with another
    /// check, so that a change of settings puts no failing endpoint back.
    pub(crate) fn group(&self, key: &GroupKey) -> Arc<Group> {
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(key) {
            return Arc::clone(group);
        }
        let is_same = |other: &GroupKey| other.cluster == key.cluster && other.protocol == key.protocol;
        let before = groups.iter().find(|(other, _)| is_same(other)).map(|(_, group)| group);
        let group = Arc::new(before.map_or_else(Group::default, |group| group.with_same_verdicts()));
        groups.insert(key.clone(), Arc::clone(&group));
        group
    }

    /// Forgets the groups that no cluster and no checker uses.
    pub(crate) fn sweep(&self) {
        self.groups.lock().retain(|_, group| Arc::strong_count(group) > 1);
    }

    /// Has the workers look at the verdicts again.
    pub(crate) fn publish(&self) {
        self.changes.send_replace(());
    }

    /// Reports each publication.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl Group {
    /// The verdict on an endpoint, which is in use at first: it is ready by its `EndpointSlice`.
    pub(crate) fn verdict(&self, address: SocketAddr) -> Arc<Verdict> {
        Arc::clone(self.0.lock().entry(address).or_default())
    }

    /// Forgets the endpoints that are no longer checked.
    pub(crate) fn retain(&self, is_checked: impl Fn(&SocketAddr) -> bool) {
        self.0.lock().retain(|address, _| is_checked(address));
    }

    /// The endpoints of a cluster that are left out: those that fail, unless these are more than half of the
    /// ready ones.
    pub(crate) fn left_out(&self, cluster: &model::Cluster) -> Vec<SocketAddr> {
        let verdicts = self.0.lock();
        let ready = || cluster.endpoints.iter().filter(|endpoint| endpoint.state == EndpointState::Ready);
        let is_out = |address: &SocketAddr| verdicts.get(address).is_some_and(|verdict| verdict.is_out());
        let out: Vec<_> = ready().map(|endpoint| endpoint.address).filter(is_out).collect();
        if checks::is_panic(out.len(), ready().count()) { Vec::new() } else { out }
    }

    fn with_same_verdicts(&self) -> Self {
        let copy = |(address, verdict): (&SocketAddr, &Arc<Verdict>)| {
            (*address, Arc::new(Verdict::new(verdict.is_out())))
        };
        Self(Mutex::new(self.0.lock().iter().map(copy).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Endpoint, HealthCheck, HealthProbe};

    use super::*;
    use crate::upstream::protocol::Protocol;

    fn check(rise: u32) -> Arc<HealthCheck> {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(1));
        Arc::new(HealthCheck { probe: HealthProbe::Connect, interval, timeout, rise, fall: 2, always: false })
    }

    fn key(cluster: &str, rise: u32) -> GroupKey {
        GroupKey { cluster: cluster.into(), protocol: Protocol::default(), check: check(rise) }
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    fn cluster(ready: &[u8], draining: &[u8]) -> model::Cluster {
        let endpoint = |state| move |&last: &u8| Endpoint { address: address(last), state };
        let ready = ready.iter().map(endpoint(EndpointState::Ready));
        let endpoints = ready.chain(draining.iter().map(endpoint(EndpointState::Draining))).collect();
        model::Cluster { endpoints, ..model::Cluster::default() }
    }

    #[test]
    fn those_that_fail_are_left_out_up_to_half() {
        let group = Group::default();
        for last in [1, 2] {
            group.verdict(address(last)).set_out(true);
        }
        assert_eq!(group.left_out(&cluster(&[1, 2, 3, 4], &[])), [address(1), address(2)]);
        assert_eq!(group.left_out(&cluster(&[1, 3], &[])), [address(1)]);
        assert_eq!(group.left_out(&cluster(&[1, 2, 3], &[4, 5])), [], "more than half of the ready ones");
        assert_eq!(group.left_out(&cluster(&[], &[1])), []);
    }

    #[test]
    fn a_change_of_the_check_keeps_the_verdicts() {
        let board = Board::new(Arc::default());
        let first = board.group(&key("a", 2));
        first.verdict(address(1)).set_out(true);
        assert!(Arc::ptr_eq(&first, &board.group(&key("a", 2))));
        let second = board.group(&key("a", 3));
        assert!(second.verdict(address(1)).is_out() && !second.verdict(address(2)).is_out());
        // The copy is separate from the first, which may be in use for a while.
        second.verdict(address(1)).set_out(false);
        assert!(first.verdict(address(1)).is_out());
        assert!(!board.group(&key("b", 2)).verdict(address(1)).is_out());
    }

    #[test]
    fn unused_groups_and_removed_endpoints_are_forgotten() {
        let board = Board::new(Arc::default());
        let group = board.group(&key("a", 2));
        drop(board.group(&key("b", 2)));
        board.sweep();
        assert_eq!(board.groups.lock().len(), 1);
        group.verdict(address(1)).set_out(true);
        group.retain(|one| *one != address(1));
        assert!(!group.verdict(address(1)).is_out(), "an endpoint that comes back is new");
    }
}
