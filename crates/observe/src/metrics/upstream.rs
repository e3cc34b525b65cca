//! Counters of endpoints, and of the local ports that connections to them hold.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check_fault::CheckFault;
use super::local_counter::LocalCounter;
use super::names::{self, Metric};
use crate::limits::ENDPOINTS_UNTIL_SWEEP;

table! {
    /// The way in which a request to an endpoint failed.
    Failure {
        "connect_error" => ConnectError, "The connection could not be made.";
        "connect_timeout" => ConnectTimeout, "The connection took too long.";
        "reset" => Reset, "The connection broke before the end of the response.";
        "read_timeout" => ReadTimeout, "Nothing was received for too long.";
        "send_timeout" => SendTimeout, "Nothing could be sent for too long.";
        "bad_response" => BadResponse, "The response was malformed or too long.";
    }
}

impl Failure {
    /// Whether the request had been sent.
    pub(super) fn is_after_sending(self) -> bool {
        !matches!(self, Self::ConnectError | Self::ConnectTimeout)
    }
}

macro_rules! endpoint_cells {
    ($($field:ident => $metric:ident, $doc:literal;)*) => {
        /// The counters of one endpoint for one worker.
        #[derive(Debug, Default)]
        pub struct EndpointCells {
            $(#[doc = $doc] pub $field: LocalCounter,)*
            failures: [LocalCounter; Failure::ALL.len()],
            /// Why its last health check failed, as [`CheckFault`] numbers it; zero where it passed.
            check_fault: LocalCounter,
        }

        /// The metrics of an endpoint without further labels, in the order of `Totals::plain`.
        pub(super) const ENDPOINT_METRICS: &[Metric] = &[$(names::$metric,)*];

        impl EndpointCells {
            fn plain(&self) -> [&LocalCounter; ENDPOINT_METRICS.len()] {
                [$(&self.$field,)*]
            }
        }

        /// The numbers of `Totals::plain` by the names of the counters.
        pub(super) struct Plain {
            $(pub(super) $field: u64,)*
        }

        impl Totals {
            pub(super) fn by_name(&self) -> Plain {
                let [$($field,)*] = self.plain;
                Plain { $($field,)* }
            }
        }
    };
}

endpoint_cells! {
    opened => UPSTREAM_OPENED, "Connections opened.";
    reused => UPSTREAM_REUSED, "Requests that took an idle connection of this worker.";
    stolen => UPSTREAM_STOLEN, "Requests that took an idle connection of another worker.";
    evicted => UPSTREAM_EVICTED, "Idle connections closed because of the cap.";
    regretted => UPSTREAM_REGRETTED, "Evictions that a new connection soon followed.";
    stale_on_checkout => UPSTREAM_STALE, "Idle connections found closed when one was needed.";
    requests => UPSTREAM_REQUESTS, "Requests sent, retries included.";
    server_errors => UPSTREAM_SERVER_ERRORS, "Responses with a status from 500.";
    idle => UPSTREAM_IDLE, "Idle connections at the moment.";
    ejected => OVERLOAD_EJECTED, "Clusters that eject it at present.";
    ejections => OVERLOAD_EJECTIONS, "Times that it was ejected.";
    connects_paced => OVERLOAD_CONNECTS_PACED, "Requests that did not connect to it since that fails.";
    checks => HEALTH_CHECKS, "Active health checks.";
    checks_failed => HEALTH_CHECKS_FAILED, "Active health checks that failed.";
    check_failing => HEALTH_CHECK_OUT, "Clusters in which it fails its health check.";
    check_panic => HEALTH_CHECK_PANIC, "Clusters among these that use it all the same.";
}

impl EndpointCells {
    /// Counts a request that failed.
    pub fn fail(&self, failure: Failure) {
        self.failures[failure as usize].inc();
    }

    /// Requests that have failed, and responses with a status from 500.
    pub fn failures(&self) -> u64 {
        self.failures.iter().map(LocalCounter::get).sum::<u64>() + self.server_errors.get()
    }

    /// Records why the last health check failed; none where it passed.
    pub fn set_check_fault(&self, fault: Option<CheckFault>) {
        self.check_fault.set(fault.map_or(0, CheckFault::code));
    }
}

/// The local ports that connections from one address to one endpoint hold. They are shared by all workers,
/// because they are written only when a connection is opened or closed, which few requests cause.
#[derive(Debug, Default)]
pub struct PortCells {
    in_use: AtomicU64,
    exhausted: AtomicU64,
}

impl PortCells {
    /// Counts a connection that was opened.
    pub fn taken(&self) {
        self.in_use.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed.
    pub fn given_back(&self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that could not be opened because no port was free (`EADDRNOTAVAIL`).
    pub fn exhausted(&self) {
        self.exhausted.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of ports in use.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(super) fn times_exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }
}

/// The cells of all workers, by endpoint.
#[derive(Debug, Default)]
pub(super) struct Upstreams {
    endpoints: BTreeMap<SocketAddr, Endpoint>,
    ports: BTreeMap<(IpAddr, SocketAddr), Arc<PortCells>>,
    /// Number of endpoints from which removed ones are searched for.
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Endpoint {
    cells: Vec<Arc<EndpointCells>>,
    /// The sums of cells that their workers have released, while other workers still hold some.
    retired: Totals,
}

/// The numbers of one endpoint, summed over workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) plain: [u64; ENDPOINT_METRICS.len()],
    pub(super) failures: [u64; Failure::ALL.len()],
    /// The number of a health check's fault; zero for none.
    pub(super) check_fault: u64,
}

/// Ports in use, and connections that failed because no port was free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortSums {
    pub(super) in_use: u64,
    pub(super) exhausted: u64,
}

impl Upstreams {
    pub(super) fn endpoint(&mut self, address: SocketAddr) -> Arc<EndpointCells> {
        if self.endpoints.len() >= self.sweep_at.max(ENDPOINTS_UNTIL_SWEEP) {
            self.sweep();
            self.sweep_at = 2 * self.endpoints.len();
        }
        let cells = Arc::default();
        let endpoint = self.endpoints.entry(address).or_default();
        endpoint.retire();
        endpoint.cells.push(Arc::clone(&cells));
        cells
    }

    pub(super) fn ports(&mut self, source: IpAddr, endpoint: SocketAddr) -> Arc<PortCells> {
        Arc::clone(self.ports.entry((source, endpoint)).or_default())
    }

    /// Removes endpoints whose cells no worker holds.
    pub(super) fn sweep(&mut self) {
        self.endpoints.retain(|_, endpoint| {
            endpoint.retire();
            !endpoint.cells.is_empty()
        });
        self.ports.retain(|_, cells| Arc::get_mut(cells).is_none());
    }

    pub(super) fn totals(&self) -> Vec<(SocketAddr, Totals)> {
        self.endpoints.iter().map(|(address, endpoint)| (*address, endpoint.totals())).collect()
    }

    /// Calls `visit` with so many endpoints at most, from the one after `after` on: a lock is not held for
    /// all of thousands. Returns the last of them.
    pub(super) fn visit_after(
        &self,
        after: Option<SocketAddr>,
        max: usize,
        visit: &mut impl FnMut(SocketAddr, &Totals),
    ) -> Option<SocketAddr> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (address, endpoint) in self.endpoints.range((from, Bound::Unbounded)).take(max) {
            visit(*address, &endpoint.totals());
            last = Some(*address);
        }
        last
    }

    /// The ports of all endpoints together.
    pub(super) fn port_sums(&self) -> PortSums {
        let mut sums = PortSums::default();
        for cells in self.ports.values() {
            sums.in_use = sums.in_use.wrapping_add(cells.in_use());
            sums.exhausted = sums.exhausted.wrapping_add(cells.times_exhausted());
        }
        sums
    }

    pub(super) fn all_ports(&self) -> Vec<(IpAddr, SocketAddr, Arc<PortCells>)> {
        self.ports.iter().map(|((source, endpoint), cells)| (*source, *endpoint, Arc::clone(cells))).collect()
    }
}

impl Endpoint {
    /// Adds the cells that no worker holds to `retired`, and releases them.
    fn retire(&mut self) {
        let retired = &mut self.retired;
        self.cells.retain_mut(|cells| {
            let gone = Arc::get_mut(cells).is_some();
            if gone {
                retired.add(cells);
            }
            !gone
        });
    }

    fn totals(&self) -> Totals {
        let mut totals = self.retired.clone();
        self.cells.iter().for_each(|cells| totals.add(cells));
        totals
    }
}

impl Totals {
    fn add(&mut self, cells: &EndpointCells) {
        let plain = self.plain.iter_mut().zip(cells.plain());
        let failures = self.failures.iter_mut().zip(&cells.failures);
        for (total, counter) in plain.chain(failures) {
            *total = total.wrapping_add(counter.get());
        }
        // Of several clusters' checks, one is shown.
        self.check_fault = self.check_fault.max(cells.check_fault.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> SocketAddr {
        SocketAddr::new(IpAddr::from(n.to_be_bytes()), 80)
    }

    #[test]
    fn a_worker_that_lets_go_takes_nothing_away() {
        let mut upstreams = Upstreams::default();
        let (one, other) = (upstreams.endpoint(address(1)), upstreams.endpoint(address(1)));
        one.opened.add(3);
        one.fail(Failure::Reset);
        other.opened.add(4);
        drop(one);
        upstreams.sweep();
        let totals = &upstreams.totals()[0].1;
        assert_eq!((totals.plain[0], totals.failures[Failure::Reset as usize]), (7, 1));
        assert_eq!(upstreams.endpoints[&address(1)].cells.len(), 1);
    }

    #[test]
    fn an_endpoint_that_everybody_let_go_of_is_forgotten() {
        let mut upstreams = Upstreams::default();
        drop(upstreams.endpoint(address(1)));
        drop(upstreams.ports(IpAddr::from([127, 0, 0, 1]), address(1)));
        upstreams.sweep();
        assert!(upstreams.endpoints.is_empty() && upstreams.ports.is_empty());
    }

    #[test]
    fn churn_without_scrapes_does_not_grow_memory() {
        let mut upstreams = Upstreams::default();
        for n in 0..10_000 {
            drop(upstreams.endpoint(address(n)));
        }
        assert!(upstreams.endpoints.len() <= ENDPOINTS_UNTIL_SWEEP);
    }

    #[test]
    fn an_idle_connection_may_go_from_one_worker_to_another() {
        let mut upstreams = Upstreams::default();
        let (one, other) = (upstreams.endpoint(address(1)), upstreams.endpoint(address(1)));
        one.idle.inc();
        one.idle.inc();
        other.idle.dec();
        let idle = ENDPOINT_METRICS.iter().position(|metric| *metric == names::UPSTREAM_IDLE).unwrap();
        assert_eq!(upstreams.totals()[0].1.plain[idle], 1);
    }
}
