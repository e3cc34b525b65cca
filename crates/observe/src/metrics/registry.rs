//! What all recorders share, and what a scrape reads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::{CertificateInfo, Labels};

use super::histogram::Layout;
use super::lock;
use super::options::MetricsOptions;
use super::sample::Sample;
use super::series::Series;
use super::stream::{StreamCells, StreamName, Streams};
use super::upstream::{EndpointCells, PortCells, Upstreams};
use super::worker_cells::WorkerCells;

/// The host of routes that no host is named for.
const UNDEFINED_HOST: &str = "_";

/// All cells of all workers.
#[derive(Debug)]
pub struct Registry {
    pub(super) options: MetricsOptions,
    pub(super) layout: Layout,
    pub(super) workers: Mutex<Vec<Arc<WorkerCells>>>,
    pub(super) upstreams: Mutex<Upstreams>,
    pub(super) streams: Mutex<Streams>,
    pub(super) config: ConfigCells,
    /// By host, or `_`.
    pub(super) certificates: Mutex<Vec<(String, CertificateInfo)>>,
    /// Severity, reason and number.
    pub(super) problems: Mutex<Vec<(&'static str, &'static str, usize)>>,
    pub(super) watches_failing: AtomicU64,
    /// A check's name, and what it says.
    pub(super) findings: Mutex<Vec<(&'static str, i8)>>,
    /// Name of the Lease, and whether it is ours; none where there is no election.
    pub(super) leader: Mutex<Option<(String, bool)>>,
    pub(super) events_dropped: AtomicU64,
    /// Time that the webhook's last verdict took, and Ingresses that were looked at for it; zero before there is one.
    pub(super) judged: Mutex<(Duration, usize)>,
    /// Lines that the access log's writer thread was given and could not write.
    pub(super) log_lines_lost: AtomicU64,
}

/// What the operating system says of this process at the time of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// CPU time, user and system.
    pub cpu_seconds: f64,
    /// Start, in seconds since the epoch.
    pub start_time_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Virtual memory in bytes.
    pub virtual_bytes: u64,
    /// Bytes read, from `/proc/self/io`.
    pub read_bytes: u64,
    /// Bytes written, from `/proc/self/io`.
    pub write_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct ConfigCells {
    pub(super) hash: ConfigHash,
    pub(super) successful: AtomicU64,
    pub(super) successful_at_seconds: AtomicU64,
    pub(super) successes: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// The hash of the configuration in service.
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
    /// The hash, which is made if it is not known yet.
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
            streams: Mutex::default(),
            config: ConfigCells::default(),
            certificates: Mutex::default(),
            problems: Mutex::default(),
            watches_failing: AtomicU64::new(0),
            findings: Mutex::default(),
            leader: Mutex::default(),
            events_dropped: AtomicU64::default(),
            judged: Mutex::default(),
            log_lines_lost: AtomicU64::default(),
        })
    }

    /// Cells of an endpoint for one worker, which is their only writer. Kept up while the worker holds them.
    pub fn endpoint(&self, address: std::net::SocketAddr) -> Arc<EndpointCells> {
        lock(&self.upstreams).endpoint(address)
    }

    /// The cells of the ports between a local address and an endpoint, the same for all workers. Kept up while anybody
    /// holds them: to be held for as long as the endpoint is known, and by each connection for as long as it is open.
    pub fn ports(&self, source: std::net::IpAddr, endpoint: std::net::SocketAddr) -> Arc<PortCells> {
        lock(&self.upstreams).ports(source, endpoint)
    }

    /// Cells of a stream for one worker, which is their only writer. Kept up while the worker holds them.
    pub fn stream(&self, name: StreamName) -> Arc<StreamCells> {
        lock(&self.streams).stream(name)
    }

    /// A configuration was taken into service, at a time since the epoch. Its hash is made when somebody asks for it: a large
    /// configuration may change many times between two scrapes.
    pub fn config_applied(&self, hash: impl FnOnce() -> u64 + Send + 'static, at: Duration) {
        let ConfigCells { hash: hash_cell, successful, successful_at_seconds, successes, errors: _ } =
            &self.config;
        *lock(&hash_cell.0) = Hash::Due(Box::new(hash));
        successful.store(1, Ordering::Relaxed);
        successful_at_seconds.store(at.as_secs(), Ordering::Relaxed);
        successes.fetch_add(1, Ordering::Relaxed);
    }

    /// A configuration was refused; the one before stays in service.
    pub fn config_refused(&self) {
        *lock(&self.config.hash.0) = Hash::Known(0);
        self.config.successful.store(0, Ordering::Relaxed);
        self.config.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The certificates of hosts are these from now on.
    pub fn set_certificates(&self, certificates: Vec<(String, CertificateInfo)>) {
        *lock(&self.certificates) = certificates;
    }

    /// So many problems there are with the objects, by severity and reason.
    pub fn set_problems(&self, problems: Vec<(&'static str, &'static str, usize)>) {
        *lock(&self.problems) = problems;
    }

    /// So many watches of the API server are broken.
    pub fn set_watches_failing(&self, watches: usize) {
        self.watches_failing.store(watches as u64, Ordering::Relaxed);
    }

    /// What each check says: 0 ok, 1 warning, 2 failure, -1 where it could not look.
    pub fn set_findings(&self, findings: Vec<(&'static str, i8)>) {
        *lock(&self.findings) = findings;
    }

    /// This process takes part in the election of a leader by the Lease of this name, and leads or follows.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        *lock(&self.leader) = Some((lease.to_owned(), leads));
    }

    /// The webhook has judged an Ingress amid so many, that one included.
    pub fn judged(&self, took: Duration, ingresses: usize) {
        *lock(&self.judged) = (took, ingresses);
    }

    /// So many more Events could not be published.
    pub fn events_dropped(&self, events: u64) {
        self.events_dropped.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn log_lines_lost(&self, lines: u64) {
        self.log_lines_lost.fetch_add(lines, Ordering::Relaxed);
    }

    // The rest is what recorders ask on behalf of a request.

    pub(super) fn cells_per_series(&self) -> usize {
        self.layout.cells
    }

    pub(super) fn leaves_out(&self, labels: &Labels) -> bool {
        self.options.per_host && !self.options.per_undefined_host && labels.host == UNDEFINED_HOST
    }

    /// The status, or its class: 2 for 200. Those that nobody has defined go by their class in any case: endpoints can make up
    /// hundreds, and each would be a series.
    pub(super) fn status_label(&self, status: u16) -> u16 {
        if self.options.status_classes || !is_defined(status) { status / 100 } else { status }
    }

    pub(super) fn observe(&self, series: &Series, sample: &Sample<'_>) {
        let (layout, cells) = (&self.layout, &*series.cells);
        layout.request_duration.observe(cells, nanoseconds(sample.request_time));
        layout.request_size.observe(cells, sample.request_bytes);
        layout.response_size.observe(cells, sample.response_bytes);
        layout.bytes_sent.observe(cells, sample.response_bytes);
        let Some(upstream) = sample.upstream else { return };
        if let Some(time) = upstream.connect {
            layout.connect_duration.observe(cells, nanoseconds(time));
        }
        if let Some(time) = upstream.header {
            layout.header_duration.observe(cells, nanoseconds(time));
        }
        if let Some(time) = upstream.response {
            layout.response_duration.observe(cells, nanoseconds(time));
        }
    }
}

/// Statuses of IANA's registry, and nginx's own.
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

/// Enough for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
