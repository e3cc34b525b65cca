//! The verdicts of health checks, as all workers share them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use balance::checks;
use clock::Moment;
use model::{EndpointState, HealthCheck};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::upstream::protocol::Protocol;

/// The verdicts on all checked endpoints.
pub(crate) struct Board {
    groups: Mutex<HashMap<GroupKey, Arc<Group>>>,
    /// Changed when endpoints may have to be left out or used again.
    changes: watch::Sender<()>,
}

/// Identity of a group of endpoints: clusters with equal keys share their checks.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    /// Name of the cluster.
    pub(crate) cluster: Arc<str>,
    /// The protocol towards the endpoints; for those that depend on the client, the one in clear.
    pub(crate) protocol: Protocol,
    pub(crate) check: Arc<HealthCheck>,
}

/// The endpoints that are checked together.
#[derive(Default)]
pub(crate) struct Group(Mutex<HashMap<SocketAddr, Arc<Verdict>>>);

/// The verdict on one endpoint.
#[derive(Default)]
pub(crate) struct Verdict {
    is_out: AtomicBool,
    /// Wakes the checker of the endpoint before its time.
    prompt: Notify,
    /// When the first of the last passed checks that make the endpoint healthy began, in nanoseconds of the
    /// clock; 0 where there are not enough of them in a row.
    passing_since: AtomicU64,
}

impl Default for Board {
    fn default() -> Self {
        Self { groups: Mutex::default(), changes: watch::channel(()).0 }
    }
}

impl Board {
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

impl GroupKey {
    /// The worker that checks the group's endpoints.
    pub(crate) fn worker(&self, workers: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.cluster.hash(&mut hasher);
        (hasher.finish() % u64::from(workers.max(1))) as u32
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
            let copied = Verdict { is_out: AtomicBool::new(verdict.is_out()), ..Verdict::default() };
            (*address, Arc::new(copied))
        };
        Self(Mutex::new(self.0.lock().iter().map(copy).collect()))
    }
}

impl Verdict {
    /// Whether the endpoint fails its checks.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Records whether the endpoint fails its checks.
    pub(super) fn set_out(&self, is_out: bool) {
        self.is_out.store(is_out, Ordering::Relaxed);
    }

    /// Has the endpoint checked at once: a request to it has failed, or waits in vain.
    pub(crate) fn prompt(&self) {
        self.prompt.notify_one();
    }

    /// Ends when a check has been prompted since the last call.
    pub(super) async fn prompted(&self) {
        self.prompt.notified().await;
    }

    /// Records when the last passed checks began, as many as make an endpoint healthy; none where the last
    /// ones have not all passed.
    pub(super) fn note_passing(&self, since: Option<Moment>) {
        let nanos = since.map_or(0, |since| since.since_begin().as_nanos() as u64);
        self.passing_since.store(nanos, Ordering::Relaxed);
    }

    /// When the last passed checks began; none where the last ones have not all passed.
    pub(crate) fn passing_since(&self) -> Option<Moment> {
        let nanos = self.passing_since.load(Ordering::Relaxed);
        (nanos > 0).then(|| Moment::BEGIN.after(Duration::from_nanos(nanos)))
    }
}

#[cfg(test)]
mod tests {
    use model::{Endpoint, HealthProbe};

    use super::*;

    fn check(rise: u32) -> Arc<HealthCheck> {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(1));
        Arc::new(HealthCheck { probe: HealthProbe::Connect, interval, timeout, rise, fall: 2 })
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
        let board = Board::default();
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
        let board = Board::default();
        let group = board.group(&key("a", 2));
        drop(board.group(&key("b", 2)));
        board.sweep();
        assert_eq!(board.groups.lock().len(), 1);
        group.verdict(address(1)).set_out(true);
        group.retain(|one| *one != address(1));
        assert!(!group.verdict(address(1)).is_out(), "an endpoint that comes back is new");
    }

    #[test]
    fn one_worker_checks_a_cluster() {
        let owners: Vec<_> = (0..100).map(|number| key(&format!("c{number}"), 2).worker(4)).collect();
        assert!((0..4).all(|worker| owners.contains(&worker)) && owners.iter().all(|owner| *owner < 4));
        assert_eq!(key("a", 2).worker(4), key("a", 3).worker(4));
    }
}
