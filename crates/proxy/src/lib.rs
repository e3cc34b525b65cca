//! The data plane: client connections in, requests routed and forwarded, connections to endpoints kept.
//!
//! One thread per CPU, each with an event loop of its own; a request never leaves the thread that it came in on. The
//! modules stand in the order of a request's way through them: see `docs/life-of-a-request.md`.
//!
//! Never in here: Kubernetes types, YAML, the filesystem but for nameless files in a folder that it is given, and files that `files` opens for it.

mod thread;
mod ticker;
mod worker;

mod listener;

mod accept;
mod admission;
mod proxy_header;
mod tls;

mod conn;
mod lingering;

mod h1;
mod h2;

mod client;

mod cache;
mod cache_head;
mod caching;
mod replicas;

mod serve;
mod stage;

mod exchange;
mod progress;
mod report;

mod lookup;

mod conditions;

mod script;

mod filtered;
mod filters;
mod script_state;

mod access;
mod clients;

pub mod guard;

mod affinity;
mod backend;
mod pick;

mod head;

mod trace;

mod upstream;

mod subrequest;

mod mirror;

mod attempt;
mod error_backend;
mod errors;
mod outbound;
mod overload;
mod present;
mod recode;
mod response;
mod upload;

mod folder;
mod forms;
mod parts;

mod deliver;

mod body;
mod tunnel;

mod stream;

mod fault;
mod reply;

mod values;

mod edits;

mod record;

pub mod explain;

mod limit_redis;
mod limits;
mod load;
mod options;

mod buffer;
mod cgi;
mod clock;
mod deadline;
mod pace;
mod parting;
mod pipe;
mod places;
mod random;
mod socket;
mod spare;
mod sys;
mod tls_cells;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use jiff::tz::TimeZone;
use model::ListenerId;
use observe::Registry;
use observe::access::TimeCache;
use observe::log::{Kind, Sink, Writer};
use observe::spans::SpanExporter;
use routing::Snapshot;
use tokio::sync::watch;

use crate::body::BodyStore;
use crate::cache::Cache;
use crate::clients::abuse::Abuse;
use crate::clients::{Clients, Store};
use crate::clock::{Clock, Start};
use crate::deadline::Deadlines;
use crate::forms::Forms;
use crate::guard::{GuardHandle, Relief};
use crate::limit_redis::{RedisParts, RedisThread};
use crate::limits::{CACHE_FORMS_SHARE, FILE_FORMS_BYTES_MAX};
use crate::listener::{Bound, ClosedByWorker};
use crate::parting::Stopping;
use crate::replicas::{Announcer, CountExchange, CountParts, CountThread};
use crate::thread::{Acknowledged, Acknowledgement, Control, WorkerThread};
use crate::ticker::Ticker;
use crate::tls::{SharedTls, TlsListeners};
use crate::upstream::{Pool, SharedPool, Sources};
use crate::worker::{Log, Published, WorkerParts};

pub use crate::cache::{CacheFigures, Purge};
pub use crate::clients::abuse::{ClientKey, NoClient, NoticedClient, Whom};
pub use crate::limit_redis::{LimitRedis, PasswordSource};
pub use crate::limits::CACHE_BYTES_MIN;
pub use crate::listener::ClosedPorts;
use crate::options::Share;
pub use crate::options::{Budget, Options};
pub use crate::replicas::{Elsewhere, ReplicaSecret, other_replicas};

/// A running proxy.
pub struct Proxy {
    addresses: Vec<(ListenerId, SocketAddr)>,
    published: watch::Sender<Published>,
    /// What handshakes of all generations have in common.
    shared_tls: Arc<SharedTls>,
    stopping: watch::Sender<Stopping>,
    guard: GuardHandle,
    acknowledged: Arc<Acknowledged>,
    closed: Arc<watch::Sender<ClosedPorts>>,
    /// The workers have it, and with them it ends.
    cache: Weak<Cache>,
    /// What is known of the behaviour of clients, and where the time of that begins.
    abuse: (Weak<Abuse>, Start),
    announcer: Announcer,
    /// Tells other replicas, or Redis, what is counted, where they count together.
    counting: Counting,
    threads: Vec<JoinHandle<io::Result<()>>>,
    ticker: Ticker,
    /// Sends spans of traced requests.
    spans: SpanExporter,
}

/// Tells what a proxy serves.
#[derive(Clone)]
pub struct Observer {
    published: watch::Receiver<Published>,
    acknowledged: Arc<Acknowledged>,
    closed: Arc<watch::Sender<ClosedPorts>>,
    cache: Weak<Cache>,
    abuse: (Weak<Abuse>, Start),
    announcer: Announcer,
    relief: watch::Receiver<Relief>,
}

impl Observer {
    /// What is done at present about what the process is short of.
    pub fn relief(&self) -> Relief {
        *self.relief.borrow()
    }

    /// The clients whose behaviour was noticed, those first against whom something is held.
    pub fn noticed_clients(&self) -> Vec<NoticedClient> {
        let (abuse, start) = &self.abuse;
        abuse.upgrade().map(|abuse| abuse.list(Clock::new(*start).now())).unwrap_or_default()
    }

    /// Forgets what is held against clients. Returns against how many something was.
    pub fn release_clients(&self, whom: &Whom) -> usize {
        self.abuse.0.upgrade().map_or(0, |abuse| abuse.release(whom))
    }

    /// Forgets what is kept and one of these is about, in both tiers. Whoever asks for it once this has returned is given nothing of what was
    /// asked for before. Returns how many responses were in memory; none without a cache. It looks at everything that is in memory.
    pub fn purge(&self, purges: &[Purge]) -> Option<u64> {
        self.cache.upgrade().map(|cache| cache.purge(purges))
    }

    /// Has all other replicas forget the same, where a cache is shared. It needs a runtime with timers.
    pub async fn purge_elsewhere(&self, purges: &[Purge]) -> Elsewhere {
        self.announcer.purge(&self.snapshot(), purges).await
    }

    /// Whether what is kept is on disk too.
    pub fn has_disk(&self) -> bool {
        self.cache.upgrade().is_some_and(|cache| cache.store().has_tier())
    }

    /// How full the cache is. None without one. It takes locks that requests take too, for some steps each.
    pub fn cache_figures(&self) -> Option<CacheFigures> {
        self.cache.upgrade().map(|cache| cache.figures())
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

    /// The ports of the configuration in force that a worker cannot listen at, and why. They are tried again and again.
    pub fn closed_ports(&self) -> watch::Receiver<ClosedPorts> {
        self.closed.subscribe()
    }
}

impl Proxy {
    /// Binds the listeners of HTTP and HTTPS and starts the workers. Nothing runs if one of them cannot be bound. All other ports, and those
    /// that come with a later configuration, are tried again and again.
    ///
    /// # Errors
    /// Which listener cannot be bound and why; or that a thread cannot be started.
    pub fn start(
        options: &Options,
        snapshot: Arc<Snapshot>,
        registry: &Arc<Registry>,
        log: &Writer,
    ) -> io::Result<Self> {
        let (workers, start) = (options.workers.len(), Clock::begin());
        let Bound { addresses, by_worker } = listener::bind_first(&snapshot, workers)?;
        let (shared_tls, spans) = (SharedTls::new(start)?, spans(registry, &snapshot)?);
        let tls_listeners = TlsListeners::new(&snapshot, &shared_tls, None);
        let (published, control) = watch::channel(Published { snapshot, tls_listeners });
        let ((stopping, stops), shared_pool) = (watch::channel(Stopping::No), SharedPool::new(workers));
        let (bodies, clients, (cache, forms)) = (bodies(options)?, clients(options, start)?, memory(options));
        let guard = GuardHandle::new(workers, start, registry, (control.clone(), &addresses));
        let mut proxy = Self {
            addresses,
            published,
            shared_tls,
            stopping,
            acknowledged: Acknowledged::new(workers),
            closed: Arc::default(),
            cache: cache.as_ref().map(Arc::downgrade).unwrap_or_default(),
            abuse: (Arc::downgrade(&clients.abuse), start),
            announcer: Announcer::new(options.replica_secret.clone(), start),
            counting: counting(options, &clients, &control, start, registry)?,
            threads: Vec::new(),
            ticker: ticker(&guard, &clients.abuse, start, registry)?,
            guard,
            spans,
        };
        for (index, (&cpu, sockets)) in options.workers.iter().zip(by_worker).enumerate() {
            let (acknowledgement, closed) = proxy.told_by(index);
            let control = Control::new(&control, &stops, proxy.guard.orders());
            let (ticks, notices) = (proxy.guard.tick(index), proxy.guard.notices());
            let thread = WorkerThread { cpu, sockets, control, acknowledgement, closed, ticks };
            let (clock, recorder) = (Clock::new(start), registry.recorder());
            let (sink, streams) = (log.sink(Kind::Requests, &recorder), log.sink(Kind::Streams, &recorder));
            let (shared_pool, registry, sources) =
                (Arc::clone(&shared_pool), Arc::clone(registry), options.source_addresses.clone());
            let (hostname, clients) = (Arc::from(options.hostname.as_str()), Arc::clone(&clients));
            let (bodies, spans, budget) = (Arc::clone(&bodies), proxy.spans.sink(), options.budget);
            let (files, cache, forms) = (options.files.clone(), cache.clone(), forms.clone());
            let replica_secret = options.replica_secret.clone();
            let run = move || {
                let deadlines = Deadlines::new(clock.clone(), Arc::clone(&thread.ticks));
                let (sources, timing) = (Sources::new(sources), Rc::clone(&deadlines));
                let pool = Pool::new(index, clock.clone(), timing, shared_pool, registry, sources);
                let parts = WorkerParts {
                    clock,
                    deadlines,
                    pool,
                    clients,
                    bodies,
                    files,
                    cache,
                    forms,
                    replica_secret,
                    recorder,
                    log: log_of(sink, streams, hostname),
                    spans,
                    budget,
                    notices,
                    share: Share { index: index as u32, of: workers as u32 },
                };
                thread::run(thread, parts)
            };
            proxy.threads.push(std::thread::Builder::new().name(format!("worker {index}")).spawn(run)?);
        }
        Ok(proxy)
    }

    /// How a worker tells what it serves, and where it cannot listen.
    fn told_by(&self, worker: usize) -> (Acknowledgement, ClosedByWorker) {
        let acknowledgement = Acknowledgement { all: Arc::clone(&self.acknowledged), worker };
        (acknowledgement, ClosedByWorker { all: Arc::clone(&self.closed), worker })
    }

    /// Where clients of HTTP and HTTPS connect to, with the ports that were chosen: for the listeners of the configuration that it was
    /// started with, in their order.
    pub fn addresses(&self) -> &[(ListenerId, SocketAddr)] {
        &self.addresses
    }

    /// Has the workers go over to another configuration. Requests that have begun keep theirs.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let tls_listeners =
            TlsListeners::new(&snapshot, &self.shared_tls, Some(&self.published.borrow().tls_listeners));
        if let Err(error) = self.spans.configure(snapshot.settings.span_export.as_ref()) {
            tracing::error!(%error, "spans are not sent: there is no thread for them");
        }
        self.published.send_replace(Published { snapshot, tls_listeners });
    }

    /// For those who want to know what is served.
    pub fn observer(&self) -> Observer {
        Observer {
            published: self.published.subscribe(),
            acknowledged: Arc::clone(&self.acknowledged),
            closed: Arc::clone(&self.closed),
            cache: self.cache.clone(),
            abuse: self.abuse.clone(),
            announcer: self.announcer.clone(),
            relief: self.guard.orders(),
        }
    }

    /// For who measures what the process has too little of.
    pub fn guard(&self) -> GuardHandle {
        self.guard.clone()
    }

    /// Says that [`stop`](Self::stop) will come after this time. Until then everything is served, but connections of clients end with a
    /// request, one after the other: whoever connects anew may find another proxy, and hardly any are left to be closed without a request.
    pub fn stop_after(&self, time: Duration) {
        self.stopping.send_replace(Stopping::After(time));
    }

    /// Stops accepting, and has every worker end once its requests are done or their time is up.
    pub fn stop(&self) {
        self.stopping.send_replace(Stopping::Now);
    }

    /// Waits for the workers to end.
    ///
    /// # Errors
    /// That of the first worker whose event loop failed.
    ///
    /// # Panics
    /// Where a worker has panicked, with what it said.
    pub fn join(self) -> io::Result<()> {
        for thread in self.threads {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(self.counting);
        // Their deadlines, too, were its ticks.
        drop(self.ticker);
        // All spans have been left, and are sent now.
        drop(self.spans);
        Ok(())
    }
}

/// What sends spans of traced requests.
fn spans(registry: &Arc<Registry>, snapshot: &Snapshot) -> io::Result<SpanExporter> {
    let spans = SpanExporter::new(registry);
    spans.configure(snapshot.settings.span_export.as_ref())?;
    Ok(spans)
}

/// What the checks of clients remember.
fn clients(options: &Options, start: Start) -> io::Result<Arc<Clients>> {
    let store = options.limit_redis.as_ref().map(|_| Store::new(Clock::new(start).unix()));
    Clients::start(options.workers.len(), store)
}

/// The thread that has replicas count together, if they do.
#[derive(Debug)]
enum Counting {
    Alone,
    /// They tell each other.
    Replicas(#[expect(dead_code, reason = "it runs until it is dropped")] CountThread),
    /// Redis counts.
    Redis(#[expect(dead_code, reason = "it runs until it is dropped")] RedisThread),
}

/// Starts what has replicas count together: Redis where there is one.
fn counting(
    options: &Options,
    clients: &Arc<Clients>,
    published: &watch::Receiver<Published>,
    start: Start,
    registry: &Arc<Registry>,
) -> io::Result<Counting> {
    if let Some(redis) = options.limit_redis.clone() {
        let (clients, clock) = (Arc::clone(clients), Clock::new(start));
        let parts = RedisParts { redis, clients, clock, recorder: registry.recorder() };
        return RedisThread::start(parts).map(Counting::Redis);
    }
    let (Some(secret), Some(port)) = (&options.replica_secret, options.replicas_udp_port) else {
        return Ok(Counting::Alone);
    };
    let mut replica = [0; 8];
    SystemRandom::new().fill(&mut replica).map_err(|_| io::Error::other("no randomness"))?;
    let parts = CountParts {
        exchange: CountExchange::new(secret.clone(), u64::from_be_bytes(replica)),
        port,
        clients: Arc::clone(clients),
        published: published.clone(),
        clock: Clock::new(start),
        recorder: registry.recorder(),
    };
    CountThread::start(parts).map(Counting::Replicas)
}

/// A worker's end of the access log.
fn log_of(sink: Sink, streams: Sink, hostname: Arc<str>) -> Log {
    Log { sink, streams, time: TimeCache::new(TimeZone::system()), hostname, pid: std::process::id() }
}

/// Tells the workers that time passes, and judges clients beside that.
fn ticker(
    guard: &GuardHandle,
    abuse: &Arc<Abuse>,
    start: Start,
    registry: &Arc<Registry>,
) -> io::Result<Ticker> {
    Ticker::start(guard.ticks(), Clock::new(start), judging(abuse, start, registry))
}

/// Judges clients by what the workers have counted, at each tick.
fn judging(abuse: &Arc<Abuse>, start: Start, registry: &Arc<Registry>) -> impl FnMut() + Send + 'static {
    let (abuse, registry, clock) = (Arc::downgrade(abuse), Arc::clone(registry), Clock::new(start));
    move || {
        clock.update();
        if let Some(figures) = abuse.upgrade().and_then(|abuse| abuse.tick(clock.now())) {
            registry.set_abuse(figures.clients, figures.bytes);
        }
    }
}

/// Where bodies of requests are kept that are read whole.
fn bodies(options: &Options) -> io::Result<Arc<BodyStore>> {
    let folder = options.body_folder.as_ref().map(OwnedFd::try_clone).transpose()?;
    Ok(Arc::new(BodyStore::new(folder)))
}

/// The cache, and what keeps compressed forms of what is in memory.
fn memory(options: &Options) -> (Option<Arc<Cache>>, Option<Arc<Forms>>) {
    let for_forms = options.cache_bytes.unwrap_or(0) / CACHE_FORMS_SHARE;
    let cache = |bytes| Cache::with_disk(bytes - for_forms, options.cache_disk.clone());
    let for_files = if options.files.is_some() { FILE_FORMS_BYTES_MAX } else { 0 };
    let forms = Some(for_forms + for_files).filter(|&bytes| bytes > 0).map(Forms::new);
    (options.cache_bytes.map(cache), forms)
}
