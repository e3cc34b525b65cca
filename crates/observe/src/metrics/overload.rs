//! Load of clusters whose endpoints receive more requests than they can serve.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::overload::Priority;

use super::local_counter::LocalCounter;
use super::lock;

table! {
    /// The end of a request's wait for a slot at an endpoint.
    Wait {
        "served" => Served, "It waited and got a place.";
        "timeout" => TimedOut, "It waited for too long.";
        "full" => Full, "There was no room to wait.";
        "refused" => Refused, "Its route has no request wait.";
        "client_gone" => ClientGone, "Its client went away while it waited.";
        "watched" => Watched, "It went on all the same, since its route only watches.";
    }
}

/// The cells of one cluster for one worker, which is their only writer.
#[derive(Debug, Default)]
pub struct OverloadCells {
    queued: AtomicU64,
    endpoints: Mutex<Vec<EndpointOverload>>,
    waits: [[LocalCounter; PRIORITIES.len()]; Wait::ALL.len()],
    retries_denied: LocalCounter,
}

/// The priorities of requests, with their names.
pub const PRIORITIES: [(Priority, &str); 3] =
    [(Priority::Critical, "critical"), (Priority::Normal, "normal"), (Priority::Sheddable, "sheddable")];

/// Numbers of requests by their result, in the order of [`Wait`], and by their priority.
pub type Waits = [[u64; PRIORITIES.len()]; Wait::ALL.len()];

/// Limits and load of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointOverload {
    /// Address of the endpoint.
    pub address: SocketAddr,
    /// The most concurrent requests; none if the limit is not known.
    pub limit: Option<u64>,
    /// Requests at present.
    pub in_flight: u64,
}

/// The load of a cluster, over all workers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterOverload {
    /// Requests that wait.
    pub queued: u64,
    /// Its endpoints, by address.
    pub endpoints: Vec<EndpointOverload>,
    /// Counters since the start.
    pub totals: OverloadTotals,
}

/// Counters of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverloadTotals {
    /// The results of waiting for a slot.
    pub waits: Waits,
    /// Tries that a retry budget did not allow.
    pub retries_denied: u64,
}

/// The cells of all workers, by cluster.
#[derive(Debug, Default)]
pub(super) struct Overloads(BTreeMap<String, Cluster>);

#[derive(Debug, Default)]
struct Cluster {
    cells: Vec<Arc<OverloadCells>>,
    /// Counters of workers that have released their cells.
    retired: OverloadTotals,
}

impl OverloadCells {
    /// Counts the result of a request.
    pub fn count(&self, wait: Wait, priority: Priority) {
        self.waits[wait as usize][priority as usize].inc();
    }

    /// Counts a try that the retry budget did not allow.
    pub fn count_denied_retry(&self) {
        self.retries_denied.inc();
    }

    fn add_to(&self, totals: &mut OverloadTotals) {
        let cells = self.waits.iter().flatten();
        totals.waits.iter_mut().flatten().zip(cells).for_each(|(total, count)| *total += count.get());
        totals.retries_denied += self.retries_denied.get();
    }

    /// Publishes the present state. It takes a lock, so it is meant for ticks, not for requests.
    pub fn show(&self, queued: u64, endpoints: impl Iterator<Item = EndpointOverload>) {
        self.queued.store(queued, Ordering::Relaxed);
        let mut shown = lock(&self.endpoints);
        shown.clear();
        shown.extend(endpoints);
    }
}

impl Overloads {
    pub(super) fn cluster(&mut self, name: &str) -> Arc<OverloadCells> {
        let cluster = self.0.entry(name.to_owned()).or_default();
        let cells = Arc::default();
        cluster.cells.push(Arc::clone(&cells));
        cells
    }

    /// The load of each cluster. Clusters that no worker uses any more are dropped.
    pub(super) fn all(&mut self) -> BTreeMap<String, ClusterOverload> {
        self.0.retain(|_, cluster| {
            cluster.retire();
            !cluster.cells.is_empty()
        });
        self.0.iter().map(|(name, cluster)| (name.clone(), cluster.overload())).collect()
    }
}

impl Cluster {
    fn retire(&mut self) {
        let retired = &mut self.retired;
        self.cells.retain_mut(|cells| {
            let is_gone = Arc::get_mut(cells).is_some();
            if is_gone {
                cells.add_to(retired);
            }
            !is_gone
        });
    }

    fn overload(&self) -> ClusterOverload {
        let mut all = ClusterOverload { totals: self.retired, ..ClusterOverload::default() };
        let mut endpoints: BTreeMap<SocketAddr, EndpointOverload> = BTreeMap::new();
        for cells in &self.cells {
            all.queued += cells.queued.load(Ordering::Relaxed);
            cells.add_to(&mut all.totals);
            for one in lock(&cells.endpoints).iter() {
                let total = endpoints.entry(one.address).or_insert(EndpointOverload {
                    address: one.address,
                    limit: None,
                    in_flight: 0,
                });
                total.in_flight += one.in_flight;
                total.limit = one.limit.map(|limit| limit + total.limit.unwrap_or(0)).or(total.limit);
            }
        }
        all.endpoints = endpoints.into_values().collect();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(limit: Option<u64>, in_flight: u64) -> EndpointOverload {
        EndpointOverload { address: ([192, 0, 2, 1], 80).into(), limit, in_flight }
    }

    #[test]
    fn workers_are_added_up_and_a_cluster_that_nobody_has_is_forgotten() {
        let mut overloads = Overloads::default();
        let (one, other) = (overloads.cluster("a"), overloads.cluster("a"));
        one.show(2, [endpoint(Some(10), 3)].into_iter());
        other.show(1, [endpoint(None, 4)].into_iter());
        one.count(Wait::Served, Priority::Normal);
        other.count(Wait::Served, Priority::Normal);
        one.count_denied_retry();
        let all = overloads.all();
        assert_eq!((all["a"].queued, &*all["a"].endpoints), (3, &[endpoint(Some(10), 7)][..]));
        drop(one);
        let all = overloads.all();
        assert_eq!(
            (
                all["a"].queued,
                all["a"].totals.waits[Wait::Served as usize][Priority::Normal as usize],
                all["a"].totals.retries_denied
            ),
            (1, 2, 1),
            "what was counted stays"
        );
        drop(other);
        assert!(overloads.all().is_empty());
    }
}
