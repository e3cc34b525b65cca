//! The data plane: client connections in, requests routed and forwarded, connections to endpoints pooled.
//!
//! One thread per CPU, each with an event loop of its own; a request never leaves the thread that it came in
//! on. The folders stand in the order of their imports, the users first (`ARCHITECTURE.md`);
//! `docs/life-of-a-request.md` has the order of a request.
//!
//! Never in here: Kubernetes types, YAML, the filesystem but for nameless files in a folder that it is
//! given, and files that `files` opens for it.

mod listen;

mod drive;

mod forward;

mod cache;

mod answer;

mod admit;

mod route;

mod request;

mod store;

mod replicas;

mod upstream;

mod body;

mod io;

mod limits;
mod load;
mod options;
#[cfg(test)]
mod testing;
mod tls_cells;
mod worker;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use clients::Clients;
use clients::abuse::Abuse;
use clients::quota::RedisState;
use clock::{Clock, Start};
use count_exchange::{CountExchange, Parts, Replicas};
use model::ListenerId;
use observe::Registry;
use observe::log::Writer;
use observe::spans::SpanExporter;
use routing::Snapshot;
use tokio::sync::watch;

use crate::admit::guard::{GuardHandle, Relief};
use crate::body::BodyStore;
use crate::io::deadline::Deadlines;
use crate::io::quic::{CommonSecret, SharedQuic};
use crate::io::ticker::Ticker;
use crate::io::tls::{SharedTls, TlsListeners};
use crate::limits::{CACHE_FORMS_SHARE, FILE_FORMS_BYTES_MAX, START_LOOK};
use crate::listen::listener::{Bound, ClosedByWorker};
use crate::listen::parting::Stopping;
use crate::listen::thread::{Acknowledged, Acknowledgement, Control, WorkerThread};
use crate::replicas::Announcer;
use crate::store::Cache;
use crate::store::forms::Forms;
use crate::upstream::{Pool, SharedPool, Sources};
use crate::worker::{Log, Published, SharedParts, WorkerParts};

pub use crate::admit::guard;
pub use crate::drive::explain;
pub use crate::io::handed::{HandedSockets, handed_descriptor, listening_sockets};
pub use crate::io::quic::QuicLegacy;
pub use crate::limits::CACHE_BYTES_MIN;
pub use crate::listen::ended::WorkerEnds;
pub use crate::listen::listener::ClosedPorts;
use crate::options::Share;
pub use crate::options::{Budget, Options};
pub use crate::replicas::{Elsewhere, ReplicaSecret, other_replicas};
pub use crate::store::{CacheFigures, Purge};
pub use crate::upstream::checks::{HealthChange, HealthNews};
pub use balance::{KeptRun, RolloutNews, RolloutState, RolloutStatus, Rollouts, Stopped};
pub use clients::abuse::{ClientKey, ClientSelector, NoClient, NoticedClient};
pub use count_exchange::{LimitRedis, PasswordSource};

/// A running proxy.
pub struct Proxy {
    addresses: Vec<(ListenerId, SocketAddr)>,
    published: watch::Sender<Published>,
    /// TLS state shared by all generations of the configuration.
    shared_tls: Arc<SharedTls>,
    stopping: watch::Sender<Stopping>,
    guard: GuardHandle,
    acknowledged: Arc<Acknowledged>,
    closed: Arc<watch::Sender<ClosedPorts>>,
    /// The cache, which the workers own.
    cache: Weak<Cache>,
    /// State of abusive clients, which the workers own.
    abuse: Weak<Abuse>,
    start: Start,
    announcer: Announcer,
    rollouts: Arc<Rollouts>,
    /// The exchange of counts with other replicas or Redis.
    counting: Option<CountExchange>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    ticker: Ticker,
    /// Sends spans of traced requests.
    spans: SpanExporter,
    quic: Arc<SharedQuic>,
}

/// Reports a proxy's state, purges its cache, and lifts verdicts on clients.
#[derive(Clone)]
pub struct Observer {
    published: watch::Receiver<Published>,
    acknowledged: Arc<Acknowledged>,
    closed: Arc<watch::Sender<ClosedPorts>>,
    cache: Weak<Cache>,
    abuse: Weak<Abuse>,
    start: Start,
    announcer: Announcer,
    relief: watch::Receiver<Relief>,
    rollouts: Arc<Rollouts>,
}

impl Observer {
    /// The present relief from shortages.
    pub fn relief(&self) -> Relief {
        *self.relief.borrow()
    }

    /// The clients with conspicuous behaviour, those under a verdict first.
    pub fn noticed_clients(&self) -> Vec<NoticedClient> {
        self.abuse.upgrade().map(|abuse| abuse.list(Clock::new(self.start).now())).unwrap_or_default()
    }

    /// Lifts the verdicts on clients. Returns how many clients were under a verdict.
    pub fn release_clients(&self, clients: &ClientSelector) -> usize {
        self.abuse.upgrade().map_or(0, |abuse| abuse.release(clients))
    }

    /// Purges the responses that match, in memory and on disk. A request that begins after this has returned
    /// gets no response that was requested before. Returns the number of responses removed from memory; none
    /// without a cache. It scans everything in memory.
    pub fn purge(&self, purges: &[Purge]) -> Option<u64> {
        self.cache.upgrade().map(|cache| cache.purge(purges))
    }

    /// Has all other replicas purge the same, where a cache is shared.
    pub async fn purge_elsewhere(&self, purges: &[Purge]) -> Elsewhere {
        self.announcer.purge(&self.snapshot(), purges).await
    }

    /// Whether the cache has a disk.
    pub fn has_disk(&self) -> bool {
        self.cache.upgrade().is_some_and(|cache| cache.store().has_tier())
    }

    /// Figures of the cache. None without one. It takes locks that requests take too, for some steps each.
    pub fn cache_figures(&self) -> Option<CacheFigures> {
        self.cache.upgrade().map(|cache| cache.figures())
    }

    /// The canaries whose shares grow over a time.
    pub fn rollouts(&self) -> &Arc<Rollouts> {
        &self.rollouts
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.borrow().snapshot)
    }

    /// The generation that every worker serves, or a later one; 0 while a worker has not begun.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.by_all()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.acknowledged.workers()
    }

    /// Waits until every worker serves a generation or a later one.
    pub async fn reached(&self, generation: u64) {
        self.acknowledged.reached(generation).await;
    }

    /// The ports of the configuration in force that a worker cannot bind, and why. They are retried again
    /// and again.
    pub fn closed_ports(&self) -> watch::Receiver<ClosedPorts> {
        self.closed.subscribe()
    }
}

impl Proxy {
    /// Binds the listeners of HTTP and HTTPS and starts the workers. Nothing runs if one of them cannot be
    /// bound. All other ports, and those of a later configuration, are retried again and again.
    ///
    /// # Errors
    /// The listener that cannot be bound, with the error; or that a thread cannot be started.
    pub fn start(
        options: &Options,
        snapshot: Arc<Snapshot>,
        registry: &Arc<Registry>,
        log: &Writer,
    ) -> std::io::Result<Self> {
        let (workers, start) = (options.workers.len(), Clock::begin());
        options.rollouts.follow(worker::plans(&snapshot), Clock::new(start).unix());
        let Bound { addresses, by_worker } =
            crate::listen::listener::bind_first(&snapshot, workers, &options.handed)?;
        let shared_tls = SharedTls::new(start, options.fallback_certificate.as_ref())?;
        let spans = spans(registry, &snapshot)?;
        let tls_listeners = TlsListeners::new(&snapshot, &shared_tls, None);
        let (published, control) = watch::channel(Published { snapshot, tls_listeners });
        let shared_pool = SharedPool::new(workers, Arc::clone(&options.health_news));
        let (stopping, stops) = watch::channel(Stopping::No);
        let (clients, (cache, forms)) = (clients(options, start)?, memory(options));
        let guard = GuardHandle::new(workers, start, registry, (control.clone(), &addresses));
        let (announcer, mut announcements) = Announcer::new(options.replica_secret.is_some());
        let mut proxy = Self {
            addresses,
            published,
            shared_tls,
            stopping,
            acknowledged: Acknowledged::new(workers),
            closed: Arc::default(),
            cache: cache.as_ref().map(Arc::downgrade).unwrap_or_default(),
            abuse: Arc::downgrade(&clients.abuse),
            start,
            announcer,
            counting: counting(options, &clients, &control, start, registry)?,
            threads: Vec::new(),
            ticker: Ticker::start(
                guard.ticks(),
                Clock::new(start),
                judging(&clients.abuse, &options.rollouts, start, registry),
            )?,
            rollouts: Arc::clone(&options.rollouts),
            guard,
            spans,
            quic: quic(options)?,
        };
        let shared = shared_parts(options, clients, cache, forms, &proxy)?;
        for (index, (&cpu, sockets)) in options.workers.iter().zip(by_worker).enumerate() {
            let (acknowledgement, closed) = proxy.told_by(index);
            let control = Control::new(&control, &stops, proxy.guard.orders());
            let (ticks, announcements) = (proxy.guard.tick(index), announcements.take());
            let ends = Arc::clone(&options.worker_ends);
            let thread =
                WorkerThread { cpu, sockets, control, acknowledgement, closed, ticks, ends, announcements };
            let (clock, recorder) = (Clock::new(start), registry.recorder());
            let sinks = log.sinks(&recorder);
            let (shared_pool, registry, sources) =
                (Arc::clone(&shared_pool), Arc::clone(registry), options.source_addresses.clone());
            let (hostname, spans) = (Arc::from(options.hostname.as_str()), proxy.spans.sink());
            let shared = shared.clone();
            let run = move || {
                let deadlines = Deadlines::new(clock.clone(), Arc::clone(&thread.ticks));
                let pool = Pool::new(index, &clock, &deadlines, shared_pool, registry, Sources::new(sources));
                let log = Log::new(sinks, hostname);
                let share = Share { index: index as u32, of: workers as u32 };
                let parts = WorkerParts { clock, deadlines, pool, recorder, log, spans, share, shared };
                listen::thread::run(thread, parts)
            };
            proxy.threads.push(std::thread::Builder::new().name(format!("worker {index}")).spawn(run)?);
        }
        proxy.await_workers()?;
        Ok(proxy)
    }

    /// Waits until every worker serves. A worker that cannot begin, such as for want of a descriptor, fails
    /// the start: a process with fewer workers would never be ready, and would not end either.
    fn await_workers(&mut self) -> std::io::Result<()> {
        while self.acknowledged.by_all() == 0 {
            if let Some(ended) = self.threads.iter().position(JoinHandle::is_finished) {
                return match self.threads.swap_remove(ended).join() {
                    Ok(result) => result.and(Err(std::io::Error::other("a worker has ended"))),
                    Err(panic) => std::panic::resume_unwind(panic),
                };
            }
            std::thread::park_timeout(START_LOOK);
        }
        Ok(())
    }

    /// The ends through which a worker reports the generation that it serves and the ports that it cannot
    /// bind.
    fn told_by(&self, worker: usize) -> (Acknowledgement, ClosedByWorker) {
        let acknowledgement = Acknowledgement { all: Arc::clone(&self.acknowledged), worker };
        (acknowledgement, ClosedByWorker { all: Arc::clone(&self.closed), worker })
    }

    /// Addresses of the HTTP and HTTPS listeners of the first configuration, in their order, with the ports
    /// that were chosen.
    pub fn addresses(&self) -> &[(ListenerId, SocketAddr)] {
        &self.addresses
    }

    /// Publishes another configuration to the workers. Requests that have begun keep theirs.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.rollouts.follow(worker::plans(&snapshot), Clock::new(self.start).unix());
        let tls_listeners =
            TlsListeners::new(&snapshot, &self.shared_tls, Some(&self.published.borrow().tls_listeners));
        if let Err(error) = self.spans.configure(snapshot.settings.span_export.as_ref()) {
            tracing::error!(%error, "spans are not sent: there is no thread for them");
        }
        self.published.send_replace(Published { snapshot, tls_listeners });
    }

    /// An observer of the proxy's state.
    pub fn observer(&self) -> Observer {
        Observer {
            published: self.published.subscribe(),
            acknowledged: Arc::clone(&self.acknowledged),
            closed: Arc::clone(&self.closed),
            cache: self.cache.clone(),
            abuse: self.abuse.clone(),
            start: self.start,
            announcer: self.announcer.clone(),
            relief: self.guard.orders(),
            rollouts: Arc::clone(&self.rollouts),
        }
    }

    /// The handle for the thread that measures shortages.
    pub fn guard(&self) -> GuardHandle {
        self.guard.clone()
    }

    /// Announces that [`stop`](Self::stop) follows after this time. Until then everything is served, but
    /// client connections are closed with a response, one after the other: clients that reconnect may reach
    /// another proxy, and hardly any connection is left to be closed while idle.
    pub fn stop_after(&self, time: Duration) {
        self.stopping.send_replace(Stopping::After(time));
    }

    /// Leaves the listening sockets to another process that has taken them over. After this time
    /// [`stop`](Self::stop) follows, and until then client connections are closed with a response, one after
    /// the other.
    pub fn hand_over(&self, time: Duration) {
        self.stopping.send_replace(Stopping::HandedOver(time));
    }

    /// The sockets and keys of QUIC, for a process that replaces this one; none where HTTP/3 is not served.
    /// The connections of this process are then finished by it, whichever of the two gets their packets.
    ///
    /// # Errors
    /// Descriptors cannot be copied, or a thread cannot be started.
    pub fn bequeath_quic(&self) -> std::io::Result<Option<QuicLegacy>> {
        self.quic.bequeath()
    }

    /// Stops accepting, and has every worker end once its requests are done or their time is up.
    pub fn stop(&self) {
        self.stopping.send_replace(Stopping::Now);
    }

    /// Has a worker panic.
    #[cfg(debug_assertions)]
    pub fn panic_worker(&self, worker: u32) {
        self.stopping.send_replace(Stopping::Panic(worker));
    }

    /// Waits for all workers to end.
    ///
    /// # Errors
    /// The error of the first worker whose event loop failed.
    ///
    /// # Panics
    /// Where a worker has panicked, with its message.
    pub fn join(self) -> std::io::Result<()> {
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        for ended in ended {
            match ended {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        self.quic.await_predecessor();
        drop(self.counting);
        // The workers' deadlines needed its ticks until here.
        drop(self.ticker);
        // All spans have been queued, and are sent now.
        drop(self.spans);
        Ok(())
    }
}

/// The exporter for spans of traced requests.
fn spans(registry: &Arc<Registry>, snapshot: &Snapshot) -> std::io::Result<SpanExporter> {
    let spans = SpanExporter::new(registry);
    spans.configure(snapshot.settings.span_export.as_ref())?;
    Ok(spans)
}

/// The keys and mailboxes of QUIC. With a secret, replicas know each other's connections.
fn quic(options: &Options) -> std::io::Result<Arc<SharedQuic>> {
    let secret = options.replica_secret.as_ref();
    let secret = secret.map(|secret| CommonSecret { key: secret.key(), own: secret.own() });
    let workers = u32::try_from(options.workers.len()).unwrap_or(u32::MAX);
    SharedQuic::new(secret.as_ref(), workers, options.handed.take_quic())
}

/// The memory of the checks of clients.
fn clients(options: &Options, start: Start) -> std::io::Result<Arc<Clients>> {
    let redis = options.limit_redis.as_ref().map(|_| RedisState::new(Clock::new(start).unix()));
    Clients::start(options.workers.len(), redis, io::sys::yield_to_others)
}

/// Starts the exchange of counts, if they are shared: with Redis where there is one.
fn counting(
    options: &Options,
    clients: &Arc<Clients>,
    published: &watch::Receiver<Published>,
    start: Start,
    registry: &Arc<Registry>,
) -> std::io::Result<Option<CountExchange>> {
    let parts =
        Parts { clients: Arc::clone(clients), clock: Clock::new(start), recorder: registry.recorder() };
    if let Some(redis) = options.limit_redis.clone() {
        return CountExchange::with_redis(redis, parts).map(Some);
    }
    let (Some(secret), Some(port)) = (&options.replica_secret, options.replicas_udp_port) else {
        return Ok(None);
    };
    let published = published.clone();
    let replicas = move || {
        let snapshot = Arc::clone(&published.borrow().snapshot);
        let own = snapshot.settings.replicas.as_ref().map(|replicas| replicas.own);
        Replicas { own, others: other_replicas(&snapshot).iter().map(SocketAddr::ip).collect() }
    };
    CountExchange::with_replicas(secret.key().clone(), port, replicas, parts).map(Some)
}

/// Judges clients and canaries by the workers' counts, at each tick.
fn judging(
    abuse: &Arc<Abuse>,
    rollouts: &Arc<Rollouts>,
    start: Start,
    registry: &Arc<Registry>,
) -> impl FnMut() + Send + 'static {
    let (abuse, registry, clock) = (Arc::downgrade(abuse), Arc::clone(registry), Clock::new(start));
    let rollouts = Arc::clone(rollouts);
    move || {
        clock.update();
        rollouts.tick(clock.unix());
        if let Some(figures) = abuse.upgrade().and_then(|abuse| abuse.tick(clock.now())) {
            registry.set_abuse(figures.clients, figures.bytes);
        }
    }
}

/// Storage for request bodies that are read whole.
fn bodies(options: &Options) -> std::io::Result<Arc<BodyStore>> {
    let folder = options.body_folder.as_ref().map(OwnedFd::try_clone).transpose()?;
    Ok(Arc::new(BodyStore::new(folder)))
}

/// The parts that all workers have.
fn shared_parts(
    options: &Options,
    clients: Arc<Clients>,
    cache: Option<Arc<Cache>>,
    forms: Option<Arc<Forms>>,
    proxy: &Proxy,
) -> std::io::Result<SharedParts> {
    Ok(SharedParts {
        clients,
        bodies: bodies(options)?,
        files: options.files.clone(),
        cache,
        forms,
        replica_secret: options.replica_secret.clone(),
        sign_ins: options.sign_ins.clone(),
        budget: options.budget,
        quic: Arc::clone(&proxy.quic),
        rollouts: Arc::clone(&options.rollouts),
        handed: Arc::clone(&options.handed),
        alternatives: Arc::default(),
        notices: proxy.guard.notices(),
    })
}

/// The cache, and the table of compressed forms of contents in memory.
fn memory(options: &Options) -> (Option<Arc<Cache>>, Option<Arc<Forms>>) {
    let for_forms = options.cache_bytes.unwrap_or(0) / CACHE_FORMS_SHARE;
    let cache = |bytes| Cache::with_disk(bytes - for_forms, options.cache_disk.clone());
    let for_files = if options.files.is_some() { FILE_FORMS_BYTES_MAX } else { 0 };
    let forms = Some(for_forms + for_files).filter(|&bytes| bytes > 0).map(Forms::new);
    (options.cache_bytes.map(cache), forms)
}
