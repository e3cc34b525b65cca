//! The numbers of a registry for live displays: the admin server's console. A reader computes differences by
//! itself, so workers record nothing for it, and nothing is done while nobody looks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::Labels;

use super::check_fault::CheckFault;
use super::fine;
use super::histogram::Histogram;
use super::local_counter::LocalCounter;
use super::series::Series;
use super::stream::{StreamCounter, StreamName};
use super::upstream::{Failure, Totals};
use super::worker_cells::CLASSES;
use super::{Counter, Gauge, Handshake, Registry, Shortage, lock};
use crate::Reason;

/// The increase of a series since it was last read.
#[derive(Debug)]
pub struct SeriesChange<'a> {
    /// Labels of the route.
    pub labels: &'a Arc<Labels>,
    /// The cluster of the selected canary; none without a canary.
    pub canary: Option<&'a Arc<str>>,
    /// The first digit of the status.
    pub class: u8,
    /// Requests by duration, in the buckets of [`latency_bounds`], which are not cumulative.
    pub requests: &'a [u64],
    /// Responses of endpoints by duration, in the same buckets.
    pub responses: &'a [u64],
    /// Requests that were refused or aborted, by reason.
    pub causes: &'a [(Reason, u64)],
}

/// Endpoints that are read while the lock is held.
const ENDPOINTS_AT_ONCE: usize = 256;

/// Upper bounds in seconds of the buckets of a [`SeriesChange`]; one more bucket has none.
pub fn latency_bounds() -> Vec<f64> {
    fine::bounds()
}

/// Reads all series repeatedly, and reports the changes. A new series has changed by all its counts.
#[derive(Debug, Default)]
pub struct SeriesReader {
    /// The known series of each worker, in the worker's order: this order stays, although series disappear.
    workers: Vec<Vec<Known>>,
}

/// A series in the state of the last read.
#[derive(Debug)]
struct Known {
    series: Arc<Series>,
    requests: [u32; fine::BUCKETS],
    responses: [u32; fine::BUCKETS],
    causes: Vec<(Reason, u64)>,
}

/// Totals of all workers: requests that have a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests by the first digit of the status.
    pub classes: [u64; CLASSES],
    /// Requests by duration, in the buckets of [`latency_bounds`], which are not cumulative.
    pub requests: Vec<u64>,
    /// Responses of endpoints by duration, in the same buckets.
    pub responses: Vec<u64>,
}

/// The numbers of an endpoint, summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointTotals {
    /// Number of connections opened.
    pub opened: u64,
    /// Requests that used an idle connection, of any worker.
    pub reused: u64,
    /// Idle connections closed because of the cap.
    pub evicted: u64,
    /// Evictions that a new connection soon followed.
    pub regretted: u64,
    /// Idle connections that turned out to be closed.
    pub stale: u64,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Responses with a status from 500.
    pub server_errors: u64,
    /// Requests that failed, for any reason.
    pub failures: u64,
    /// Failures among these after the request was sent.
    pub failures_after_sending: u64,
    /// Idle connections at present.
    pub idle: u64,
    /// Workers and clusters that have ejected it at present.
    pub ejected: u64,
    /// The number of ejections.
    pub ejections: u64,
    /// Requests that did not connect to it, because connecting fails.
    pub paced: u64,
    /// Active health checks, which are not among the requests.
    pub checks: u64,
    /// Health checks that failed.
    pub checks_failed: u64,
    /// Clusters in which it fails its health check.
    pub check_failing: u64,
    /// Clusters among these that use it all the same, since more than half of the endpoints fail.
    pub check_panic: u64,
    /// Why its last health check failed; none where that has passed, or where the endpoint does not fail.
    pub check_fault: Option<CheckFault>,
}

/// The numbers of a stream, summed over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Connections or sessions that have begun.
    pub opened: u64,
    /// Connections that are open.
    pub active: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Sessions that were ended to make room for new ones.
    pub evicted: u64,
    /// Failed attempts to listen at the port.
    pub listen_failures: u64,
    /// Responses by duration, in the buckets of [`Registry::stream_bounds`], which are not cumulative.
    pub responses: Vec<u64>,
}

/// Ports that connections from one local address to one endpoint hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTotals {
    /// The local address.
    pub source: IpAddr,
    /// Address of the endpoint.
    pub endpoint: SocketAddr,
    /// Ports in use, which are open connections.
    pub in_use: u64,
    /// Connections that failed because no port was left.
    pub exhausted: u64,
}

impl SeriesReader {
    /// Reports every series that has changed since the last call; the first call reports every series with a
    /// count.
    pub fn read(&mut self, registry: &Registry, mut tell: impl FnMut(&SeriesChange<'_>)) {
        let workers = lock(&registry.workers).clone();
        self.workers.resize_with(workers.len(), Vec::new);
        for (worker, known) in workers.iter().zip(&mut self.workers) {
            let mut before = std::mem::take(known).into_iter().peekable();
            for series in worker.series() {
                // The series before it in the old list are gone, unless this one is new: then all old ones
                // have been visited.
                let is_known = before.find(|one| Arc::ptr_eq(&one.series, &series));
                let mut one = is_known.unwrap_or_else(|| Known::new(series));
                one.read(&mut tell);
                known.push(one);
            }
        }
    }
}

impl Known {
    fn new(series: Arc<Series>) -> Self {
        let (requests, responses) = ([0; fine::BUCKETS], [0; fine::BUCKETS]);
        Self { series, requests, responses, causes: Vec::new() }
    }

    fn read(&mut self, tell: &mut impl FnMut(&SeriesChange<'_>)) {
        let now = self.series.requests.get();
        if now == self.requests {
            return;
        }
        let requests = since(now, &mut self.requests);
        let responses = since(self.series.responses.get(), &mut self.responses);
        let causes = self.new_causes();
        let Some(identity) = self.series.identity() else { return };
        // Statuses are recorded by class if the user requests it.
        let class = if identity.status < 100 { identity.status } else { identity.status / 100 };
        tell(&SeriesChange {
            labels: &identity.labels,
            canary: identity.canary.as_ref(),
            class: class as u8,
            requests: &requests,
            responses: &responses,
            causes: &causes,
        });
    }

    /// Faults since the last time, by reason.
    fn new_causes(&mut self) -> Vec<(Reason, u64)> {
        let now: Vec<_> = self.series.causes.get().collect();
        let before = std::mem::take(&mut self.causes);
        let count_before =
            |reason| before.iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| *count);
        let grown = now.iter().map(|&(reason, count)| (reason, count.saturating_sub(count_before(reason))));
        let grown = grown.filter(|(_, count)| *count > 0).collect();
        self.causes = now;
        grown
    }
}

/// The differences to the previous counts, which the present ones replace.
fn since(now: [u32; fine::BUCKETS], before: &mut [u32; fine::BUCKETS]) -> [u64; fine::BUCKETS] {
    let before = std::mem::replace(before, now);
    std::array::from_fn(|at| u64::from(now[at].wrapping_sub(before[at])))
}

impl Registry {
    /// Upper bounds in seconds of the buckets for responses of streams; one more bucket has no bound.
    pub fn stream_bounds(&self) -> Vec<f64> {
        lock(&self.streams).responses.bounds.clone()
    }

    /// A counter, summed over workers.
    pub fn total(&self, counter: Counter) -> u64 {
        self.sum(|worker| worker.counter(counter))
    }

    /// A gauge, summed over workers.
    pub fn at_present(&self, gauge: Gauge) -> u64 {
        self.sum(|worker| worker.gauge(gauge))
    }

    /// Completed handshakes, summed over workers.
    pub fn handshakes(&self, handshake: Handshake) -> u64 {
        self.sum(|worker| worker.handshake(handshake))
    }

    /// Totals of all workers so far.
    pub fn served(&self) -> Served {
        let buckets = fine::BUCKETS;
        let mut served =
            Served { requests: vec![0; buckets], responses: vec![0; buckets], ..Served::default() };
        for worker in lock(&self.workers).iter() {
            add(&mut served.classes, &worker.classes);
            add(&mut served.requests, &worker.request_times);
            add(&mut served.responses, &worker.response_times);
        }
        served
    }

    /// Faults of a kind, summed over workers.
    pub fn faults(&self, reason: Reason) -> u64 {
        self.sum(|worker| worker.reason(reason))
    }

    fn sum(&self, cell: impl Fn(&super::WorkerCells) -> &LocalCounter) -> u64 {
        lock(&self.workers).iter().fold(0, |sum, worker| sum.wrapping_add(cell(worker).get()))
    }

    /// Shortages of the process: use in thousandths of the limit, none without a measurement; and the level,
    /// 0 for no shortage.
    pub fn shortages(&self) -> impl Iterator<Item = (Shortage, Option<u64>, u64)> {
        let level = |cell: &std::sync::atomic::AtomicU64| cell.load(std::sync::atomic::Ordering::Relaxed);
        self.guard.all().map(move |(of, cells)| (of, cells.permille(), level(&cells.level)))
    }

    /// All endpoints that workers know, by address.
    pub fn endpoints(&self) -> Vec<(SocketAddr, EndpointTotals)> {
        let totals = self.endpoint_totals().into_iter();
        totals.map(|(address, totals)| (address, EndpointTotals::of(&totals))).collect()
    }

    /// The same, not by name.
    fn endpoint_totals(&self) -> Vec<(SocketAddr, Totals)> {
        lock(&self.upstreams).sweep();
        let mut all = Vec::new();
        self.each_endpoint(|address, totals| all.push((address, totals.clone())));
        all
    }

    /// Calls `visit` with each endpoint, by address. A worker that opens the first connection to an endpoint
    /// waits for the lock: it is given back in between.
    pub(super) fn each_endpoint(&self, mut visit: impl FnMut(SocketAddr, &Totals)) {
        let mut last = None;
        loop {
            last = lock(&self.upstreams).visit_after(last, ENDPOINTS_AT_ONCE, &mut visit);
            if last.is_none() {
                return;
            }
        }
    }

    /// The ports in use, by local address and endpoint.
    pub fn ports_in_use(&self) -> Vec<PortTotals> {
        let all = lock(&self.upstreams).all_ports();
        let totals = all.into_iter().map(|(source, endpoint, cells)| PortTotals {
            source,
            endpoint,
            in_use: cells.in_use(),
            exhausted: cells.times_exhausted(),
        });
        totals.collect()
    }

    /// All streams, by name.
    pub fn streams(&self) -> Vec<(StreamName, StreamTotals)> {
        let mut streams = lock(&self.streams);
        streams.sweep();
        let responses = Arc::clone(&streams.responses);
        let totals = streams.totals().into_iter();
        totals.map(|(name, cells)| (name, StreamTotals::of(&responses, &cells))).collect()
    }
}

fn add(sums: &mut [u64], cells: &[LocalCounter]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum = sum.wrapping_add(cell.get());
    }
}

impl EndpointTotals {
    fn of(totals: &Totals) -> Self {
        let plain = totals.by_name();
        Self {
            opened: plain.opened,
            reused: plain.reused.wrapping_add(plain.stolen),
            evicted: plain.evicted,
            regretted: plain.regretted,
            stale: plain.stale_on_checkout,
            requests: plain.requests,
            server_errors: plain.server_errors,
            failures: totals.failures.iter().sum(),
            failures_after_sending: Failure::ALL
                .iter()
                .filter(|failure| failure.is_after_sending())
                .map(|failure| totals.failures[*failure as usize])
                .sum(),
            idle: plain.idle,
            ejected: plain.ejected,
            ejections: plain.ejections,
            paced: plain.connects_paced,
            checks: plain.checks,
            checks_failed: plain.checks_failed,
            check_failing: plain.check_failing,
            check_panic: plain.check_panic,
            check_fault: CheckFault::of_code(totals.check_fault).filter(|_| plain.check_failing > 0),
        }
    }
}

impl StreamTotals {
    fn of(responses: &Histogram, cells: &[u64]) -> Self {
        let of = |counter: StreamCounter| cells[counter as usize];
        Self {
            opened: of(StreamCounter::Opened),
            active: of(StreamCounter::Active),
            received: of(StreamCounter::BytesReceived),
            sent: of(StreamCounter::BytesSent),
            evicted: of(StreamCounter::Evicted),
            listen_failures: of(StreamCounter::ListenFailures),
            responses: responses.buckets(cells).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::LabelTexts;

    use super::*;
    use crate::{Method, MetricsOptions, Recorder, Sample};

    fn labels(path: &str) -> Arc<Labels> {
        Arc::new(Labels::from(LabelTexts {
            path: path.to_owned(),
            host: "a.test".to_owned(),
            ..LabelTexts::default()
        }))
    }

    fn record(recorder: &mut Recorder, labels: &Arc<Labels>, status: u16, millis: u64) {
        let sample = Sample {
            method: Method::Get,
            status,
            request_bytes: 1,
            response_bytes: 1,
            request_time: Duration::from_millis(millis),
            upstream: None,
            canary: None,
            reason: None,
            cache: None,
        };
        recorder.request(labels, &sample);
    }

    /// Path, class, requests and the number of requests below 5 ms.
    fn changes(reader: &mut SeriesReader, registry: &Registry) -> Vec<(String, u8, u64, u64)> {
        let mut all = Vec::new();
        reader.read(registry, |change| {
            let requests = change.requests.iter().sum();
            let is_quick = |(bound, _): &(&f64, &u64)| **bound < 0.005;
            let bounds = latency_bounds();
            let quick = bounds.iter().zip(change.requests).filter(is_quick).map(|(_, count)| count).sum();
            all.push((change.labels.path().to_owned(), change.class, requests, quick));
        });
        all.sort();
        all
    }

    fn told(path: &str, class: u8, requests: u64, quick: u64) -> (String, u8, u64, u64) {
        (path.to_owned(), class, requests, quick)
    }

    #[test]
    fn a_reader_tells_what_came_since_it_last_read() {
        let registry = Registry::new(MetricsOptions::default());
        let (mut one, mut other) = (registry.recorder(), registry.recorder());
        let (stays, goes) = (labels("/stays"), labels("/goes"));
        let mut reader = SeriesReader::default();
        assert!(changes(&mut reader, &registry).is_empty());
        record(&mut one, &stays, 200, 1);
        record(&mut one, &goes, 404, 1);
        assert_eq!(changes(&mut reader, &registry), [told("/goes", 4, 1, 1), told("/stays", 2, 1, 1)]);
        assert!(changes(&mut reader, &registry).is_empty());
        drop(goes);
        record(&mut one, &stays, 200, 9);
        record(&mut other, &stays, 503, 1);
        assert_eq!(changes(&mut reader, &registry), [told("/stays", 2, 1, 0), told("/stays", 5, 1, 1)]);
        record(&mut other, &stays, 503, 1);
        assert_eq!(changes(&mut reader, &registry), [told("/stays", 5, 1, 1)], "who goes takes nobody along");
    }

    #[test]
    fn statuses_by_class_are_the_same_class() {
        let registry = Registry::new(MetricsOptions { status_classes: true, ..MetricsOptions::default() });
        let mut recorder = registry.recorder();
        record(&mut recorder, &labels("/"), 204, 1);
        let label = labels("/x");
        record(&mut recorder, &label, 302, 1);
        assert_eq!(changes(&mut SeriesReader::default(), &registry), [told("/x", 3, 1, 1)]);
    }

    #[test]
    fn totals_are_those_of_all_workers() {
        let registry = Registry::new(MetricsOptions::default());
        let (one, other) = (registry.recorder(), registry.recorder());
        one.count(Counter::Requests);
        other.count(Counter::Requests);
        one.reason(Reason::UnknownHost);
        one.inc(Gauge::ConnectionsActive);
        assert_eq!((registry.total(Counter::Requests), registry.faults(Reason::UnknownHost)), (2, 1));
        assert_eq!(registry.at_present(Gauge::ConnectionsActive), 1);
        let address = ([192, 0, 2, 1], 80).into();
        let (cells, others) = (registry.endpoint(address), registry.endpoint(address));
        cells.opened.inc();
        cells.reused.inc();
        others.stolen.inc();
        others.fail(Failure::Reset);
        let (_, totals) = registry.endpoints()[0];
        assert_eq!((totals.opened, totals.reused, totals.failures), (1, 2, 1));
        let ports = registry.ports([192, 0, 2, 9].into(), address);
        ports.taken();
        assert_eq!(registry.ports_in_use()[0].in_use, 1);
    }
}
