//! The state that all recorders share, and that a scrape reads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::{CertificateInfo, Labels};

use super::Shortage;
use super::cache::DiskFigures;
use super::canary_figures::CanaryFigures;
use super::fine;
use super::guard::{GuardCells, GuardFigure};
use super::histogram::Layout;
use super::lock;
use super::options::MetricsOptions;
use super::overload::{ClusterOverload, OverloadCells, Overloads};
use super::relay_figures::RelayFigures;
use super::sample::Sample;
use super::series::Series;
use super::sign_ins::SignIns;
use super::stream::{StreamCells, StreamName, Streams};
use super::upstream::{EndpointCells, PortCells, Upstreams};
use super::worker_cells::{CLASSES, WorkerCells};
use crate::refusals::Refusals;
use crate::tail::Tail;

/// The host label of routes without a host.
const UNDEFINED_HOST: &str = "_";

/// The cells of all workers.
#[derive(Debug)]
pub struct Registry {
    pub(super) options: MetricsOptions,
    pub(super) layout: Layout,
    pub(super) workers: Mutex<Vec<Arc<WorkerCells>>>,
    pub(super) upstreams: Mutex<Upstreams>,
    pub(super) overloads: Mutex<Overloads>,
    pub(super) streams: Mutex<Streams>,
    pub(super) config: ConfigCells,
    /// Certificates by host, or `_` for the default one.
    pub(super) certificates: Mutex<Vec<(String, CertificateInfo)>>,
    /// Numbers of problems by severity and reason.
    pub(super) problems: Mutex<Vec<(&'static str, &'static str, usize)>>,
    pub(super) watches_failing: AtomicU64,
    pub(super) panics: AtomicU64,
    /// The result of each check by the check's name.
    pub(super) findings: Mutex<Vec<(&'static str, i8)>>,
    /// Name of the Lease, and whether this process holds it; none without an election.
    pub(super) leader: Mutex<Option<(String, bool)>>,
    pub(super) events_dropped: AtomicU64,
    /// The measurements of the webhook's last verdict; zero before the first.
    pub(super) judged: Mutex<Judged>,
    pub(super) orphans: Orphans,
    /// The live tail of requests.
    pub(super) tail: Arc<Tail>,
    pub(super) refusals: Refusals,
    /// Access-log lines that the writer thread could not write.
    pub(super) log_lines_lost: AtomicU64,
    /// Spans that a collector has taken.
    pub(super) spans_sent: AtomicU64,
    pub(super) spans_dropped: AtomicU64,
    pub(super) guard: GuardCells,
    /// URLs, bytes and evictions of the cache.
    pub(super) cache: [AtomicU64; 3],
    /// Clients with unusual behaviour: the numbers of watched, slowed and refused ones, and the bytes of
    /// their records.
    pub(super) abuse: [AtomicU64; 4],
    /// Fetches of keys that gave some, and that failed.
    pub(super) key_fetches: [AtomicU64; 2],
    /// Canaries whose shares grow over a time.
    pub(super) canaries: Mutex<Vec<CanaryFigures>>,
    /// Certificates that are obtained, by state; empty where none are.
    pub(super) acme: Mutex<Vec<(&'static str, usize)>>,
    /// Sessions of providers.
    pub(super) sign_ins: Mutex<Vec<SignIns>>,
    /// Watches that replicas share, if they do.
    pub(super) relay: Mutex<Option<RelayFigures>>,
    /// Figures of the cache on disk, if it exists.
    pub(super) cache_disk: Mutex<Option<DiskFigures>>,
}

/// Figures that the operating system has of this process at a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// CPU time, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Start of the process, in seconds since the epoch.
    pub start_time_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Virtual memory in bytes.
    pub virtual_bytes: u64,
    /// Bytes read, from `/proc/self/io`.
    pub read_bytes: u64,
    /// Bytes written, from `/proc/self/io`.
    pub write_bytes: u64,
    /// The figures of the allocator; zero where nobody asked for them.
    pub memory: HeapPages,
}

/// Figures of the allocator at a scrape, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapPages {
    /// Pages in which something is in use.
    pub active_bytes: u64,
    /// Free pages that were not returned to the kernel yet.
    pub dirty_bytes: u64,
}

/// The measurements of one verdict of the webhook.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Time from reading the review to the answer.
    pub roundtrip: Duration,
    /// The part of it for the verdict, after the objects around the Ingress were known.
    pub judging: Duration,
    /// The part of that for translating Ingresses.
    pub translation: Duration,
    /// Number of translated Ingresses, including the reviewed one.
    pub ingresses: usize,
    /// Length of the review.
    pub review_bytes: usize,
}

/// An Ingress whose backends lack a Service or endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The namespace of the Ingress.
    pub namespace: String,
    /// The name of the Ingress.
    pub ingress: String,
    /// The Ingress names a Service that does not exist.
    pub lacks_service: bool,
    /// The Ingress names a Service without endpoints.
    pub lacks_endpoint: bool,
}

/// The function that finds these Ingresses; none before the first configuration.
#[derive(Default)]
pub(super) struct Orphans(Mutex<Option<FindOrphans>>);

type FindOrphans = Box<dyn FnMut() -> Vec<Orphan> + Send>;

impl Orphans {
    pub(super) fn find(&self) -> Vec<Orphan> {
        lock(&self.0).as_mut().map(|find| find()).unwrap_or_default()
    }
}

impl fmt::Debug for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Orphans")
    }
}

#[derive(Debug, Default)]
pub(super) struct ConfigCells {
    pub(super) hash: ConfigHash,
    pub(super) successful: AtomicU64,
    pub(super) successful_at_seconds: AtomicU64,
    pub(super) successes: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// The hash of the configuration in force, which is computed when it is first needed.
#[derive(Default)]
pub(super) struct ConfigHash(Mutex<Hash>);

enum Hash {
    Known(u64),
    Due(Box<dyn FnOnce() -> u64 + Send>),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Known(0)
    }
}

impl ConfigHash {
    /// The hash; computes it if it is not known yet.
    pub(super) fn get(&self) -> u64 {
        let mut hash = lock(&self.0);
        let known = match std::mem::take(&mut *hash) {
            Hash::Known(known) => known,
            Hash::Due(make) => make(),
        };
        *hash = Hash::Known(known);
        known
    }
}

impl fmt::Debug for ConfigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigHash")
    }
}

impl Registry {
    /// A registry without workers.
    pub fn new(options: MetricsOptions) -> Arc<Self> {
        Arc::new(Self {
            layout: Layout::new(&options),
            options,
            workers: Mutex::default(),
            upstreams: Mutex::default(),
            overloads: Mutex::default(),
            streams: Mutex::default(),
            config: ConfigCells::default(),
            certificates: Mutex::default(),
            problems: Mutex::default(),
            watches_failing: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            findings: Mutex::default(),
            leader: Mutex::default(),
            events_dropped: AtomicU64::default(),
            judged: Mutex::default(),
            orphans: Orphans::default(),
            tail: Arc::default(),
            refusals: Refusals::default(),
            log_lines_lost: AtomicU64::default(),
            spans_sent: AtomicU64::default(),
            spans_dropped: AtomicU64::default(),
            guard: GuardCells::default(),
            cache: Default::default(),
            abuse: Default::default(),
            key_fetches: Default::default(),
            canaries: Mutex::default(),
            acme: Mutex::default(),
            sign_ins: Mutex::default(),
            relay: Mutex::default(),
            cache_disk: Mutex::default(),
        })
    }

    /// The live tail of ended requests.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// The last requests that firewalls refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The cells of an endpoint for one worker, which is their only writer. They stay in use while the
    /// worker holds them.
    pub fn endpoint(&self, address: std::net::SocketAddr) -> Arc<EndpointCells> {
        lock(&self.upstreams).endpoint(address)
    }

    /// The cells of a cluster for one worker, which is their only writer. They stay in use while the worker
    /// holds them.
    pub fn overload(&self, cluster: &str) -> Arc<OverloadCells> {
        lock(&self.overloads).cluster(cluster)
    }

    /// The load of clusters, by name.
    pub fn overloads(&self) -> std::collections::BTreeMap<String, ClusterOverload> {
        lock(&self.overloads).all()
    }

    /// The cells for the ports between a local address and an endpoint, shared by all workers. They stay in
    /// use while at least one holder exists: hold them as long as the endpoint is known, and with each
    /// connection as long as it is open.
    pub fn ports(&self, source: std::net::IpAddr, endpoint: std::net::SocketAddr) -> Arc<PortCells> {
        lock(&self.upstreams).ports(source, endpoint)
    }

    /// The largest number of ports that connections from one address to one endpoint hold.
    pub fn ports_in_use_max(&self) -> u64 {
        lock(&self.upstreams).all_ports().iter().map(|(_, _, cells)| cells.in_use()).max().unwrap_or(0)
    }

    /// The cells of a stream for one worker, which is their only writer. They stay in use while the worker
    /// holds them.
    pub fn stream(&self, name: StreamName) -> Arc<StreamCells> {
        lock(&self.streams).stream(name)
    }

    /// Records that a configuration came into force, at a time since the epoch. The hash is computed when a
    /// scrape needs it: a large configuration may change many times between two scrapes.
    pub fn config_applied(&self, hash: impl FnOnce() -> u64 + Send + 'static, at: Duration) {
        let ConfigCells { hash: hash_cell, successful, successful_at_seconds, successes, errors: _ } =
            &self.config;
        *lock(&hash_cell.0) = Hash::Due(Box::new(hash));
        successful.store(1, Ordering::Relaxed);
        successful_at_seconds.store(at.as_secs(), Ordering::Relaxed);
        successes.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a configuration was refused; the previous one stays in force.
    pub fn config_refused(&self) {
        *lock(&self.config.hash.0) = Hash::Known(0);
        self.config.successful.store(0, Ordering::Relaxed);
        self.config.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the certificates of hosts.
    pub fn set_certificates(&self, certificates: Vec<(String, CertificateInfo)>) {
        *lock(&self.certificates) = certificates;
    }

    /// Sets the number of problems by severity and reason.
    pub fn set_problems(&self, problems: Vec<(&'static str, &'static str, usize)>) {
        *lock(&self.problems) = problems;
    }

    /// Sets the number of watches on the API server that fail.
    pub fn set_watches_failing(&self, watches: usize) {
        self.watches_failing.store(watches as u64, Ordering::Relaxed);
    }

    /// Counts a panic of any thread.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the result of each check: 0 ok, 1 warning, 2 failure, -1 unknown.
    pub fn set_findings(&self, findings: Vec<(&'static str, i8)>) {
        *lock(&self.findings) = findings;
    }

    /// Sets the figures of the cache on disk.
    pub fn set_cache_disk(&self, figures: DiskFigures) {
        *lock(&self.cache_disk) = Some(figures);
    }

    /// Records that this process takes part in the election with this Lease, and whether it leads.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        *lock(&self.leader) = Some((lease.to_owned(), leads));
    }

    /// Sets the measurement of a shortage. The beginning of a shortage is counted.
    pub fn set_shortage(&self, of: Shortage, figure: GuardFigure) {
        self.guard.set(of, figure);
    }

    /// Records that the webhook has judged an Ingress.
    pub fn judged(&self, judged: Judged) {
        *lock(&self.judged) = judged;
    }

    /// Sets the function that finds Ingresses whose backends lack something. Scrapes call it, so changes
    /// between two scrapes cost nothing.
    pub fn set_orphans(&self, find: impl FnMut() -> Vec<Orphan> + Send + 'static) {
        *lock(&self.orphans.0) = Some(Box::new(find));
    }

    /// Adds to the number of Events that could not be published.
    pub fn events_dropped(&self, events: u64) {
        self.events_dropped.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn log_lines_lost(&self, lines: u64) {
        self.log_lines_lost.fetch_add(lines, Ordering::Relaxed);
    }

    pub(crate) fn spans_sent(&self, spans: u64) {
        self.spans_sent.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn spans_dropped(&self, spans: u64) {
        self.spans_dropped.fetch_add(spans, Ordering::Relaxed);
    }

    // The functions below serve recorders while a request is recorded.

    pub(super) fn cells_per_series(&self) -> usize {
        self.layout.cells
    }

    pub(super) fn leaves_out(&self, labels: &Labels) -> bool {
        self.options.per_host && !self.options.per_undefined_host && labels.host() == UNDEFINED_HOST
    }

    /// The status, or its class: 2 for 200. An undefined status is always recorded by class: endpoints could
    /// invent hundreds, and each would be a series.
    pub(super) fn status_label(&self, status: u16) -> u16 {
        if self.options.status_classes || !is_defined(status) { status / 100 } else { status }
    }

    pub(super) fn observe(&self, worker: &WorkerCells, series: &Series, sample: &Sample<'_>) {
        let (layout, cells) = (&self.layout, &*series.cells);
        layout.request_duration.observe(cells, nanoseconds(sample.request_time));
        let bucket = fine::bucket(nanoseconds(sample.request_time));
        series.requests.count(bucket);
        worker.request_times[bucket].inc();
        worker.classes[usize::from(sample.status / 100).min(CLASSES - 1)].inc();
        layout.request_size.observe(cells, sample.request_bytes);
        layout.response_size.observe(cells, sample.response_bytes);
        layout.bytes_sent.observe(cells, sample.response_bytes);
        if let Some(result) = sample.cache {
            cells[layout.cache + result as usize].inc();
        }
        if let Some(reason) = sample.reason {
            series.causes.count(reason);
        }
        let Some(upstream) = sample.upstream else { return };
        if let Some(time) = upstream.connect {
            layout.connect_duration.observe(cells, nanoseconds(time));
        }
        if let Some(time) = upstream.header {
            layout.header_duration.observe(cells, nanoseconds(time));
        }
        if let Some(time) = upstream.response {
            layout.response_duration.observe(cells, nanoseconds(time));
            let bucket = fine::bucket(nanoseconds(time));
            series.responses.count(bucket);
            worker.response_times[bucket].inc();
        }
    }
}

/// Whether a status is in IANA's registry, or one of nginx's own.
fn is_defined(status: u16) -> bool {
    matches!(
        status,
        100..=104
            | 200..=208
            | 226
            | 300..=308
            | 400..=418
            | 421..=426
            | 428
            | 429
            | 431
            | 444
            | 451
            | 494..=499
            | 500..=508
            | 510
            | 511
    )
}

/// A time as nanoseconds, which suffice for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
