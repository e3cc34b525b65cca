//! The data plane: client connections in, requests routed and forwarded, connections to endpoints kept.
//!
//! One thread per CPU, each with an event loop of its own; a request never leaves the thread that it came in on. The
//! modules stand in the order of a request's way through them: see `docs/life-of-a-request.md`.
//!
//! Never in here: Kubernetes types, YAML, the filesystem but for nameless files in a folder that it is given.

mod thread;
mod ticker;
mod worker;

mod listener;

mod accept;
mod proxy_header;
mod tls;

mod conn;

mod h1;
mod h2;

mod client;

mod serve;
mod stage;

mod exchange;
mod progress;
mod report;

mod lookup;

mod conditions;

mod script;

mod filters;
mod script_state;

mod access;
mod clients;

mod affinity;
mod backend;

mod head;

mod trace;

mod upstream;

mod subrequest;

mod mirror;

mod attempt;
mod error_backend;
mod errors;
mod outbound;
mod response;

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

mod limits;
mod options;

mod buffer;
mod cgi;
mod clock;
mod deadline;
mod pipe;
mod places;
mod random;
mod socket;
mod spare;
mod sys;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use jiff::tz::TimeZone;
use model::ListenerId;
use observe::Registry;
use observe::access::TimeCache;
use observe::log::{Kind, Writer};
use observe::spans::SpanExporter;
use routing::Snapshot;
use tokio::sync::{Notify, watch};

use crate::body::BodyStore;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::deadline::Deadlines;
use crate::listener::Bound;
use crate::thread::{Acknowledged, Acknowledgement, Control, WorkerThread};
use crate::ticker::Ticker;
use crate::tls::{SharedTls, TlsListeners};
use crate::upstream::{Pool, SharedPool, Sources};
use crate::worker::{Log, Published, WorkerParts};

pub use crate::options::{Budget, Options};

/// A running proxy.
pub struct Proxy {
    addresses: Vec<(ListenerId, SocketAddr)>,
    published: watch::Sender<Published>,
    /// What handshakes of all generations have in common.
    shared_tls: Arc<SharedTls>,
    stopping: watch::Sender<bool>,
    acknowledged: Arc<Acknowledged>,
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
}

impl Observer {
    /// The configuration in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.borrow().snapshot)
    }

    /// The generation that every worker serves, or a later one; 0 while a worker has not begun.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.by_all()
    }

    /// Waits until every worker serves a generation or a later one.
    pub async fn reached(&self, generation: u64) {
        self.acknowledged.reached(generation).await;
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
        let Bound { addresses, by_worker: mut sockets } =
            listener::bind_first(&snapshot, options.workers.len())?;
        let (start, hostname) = (Clock::begin(), Arc::from(options.hostname.as_str()));
        let shared_tls = SharedTls::new(start)?;
        let tls_listeners = TlsListeners::new(&snapshot, &shared_tls, None);
        let spans = SpanExporter::new(registry);
        spans.configure(snapshot.settings.span_export.as_ref())?;
        let (published, control) = watch::channel(Published { snapshot, tls_listeners });
        let (stopping, stops) = watch::channel(false);
        let shared_pool = SharedPool::new(options.workers.len());
        let clients = Clients::start()?;
        let folder = options.body_folder.as_ref().map(OwnedFd::try_clone).transpose()?;
        let bodies = Arc::new(BodyStore::new(folder));
        let ticks: Vec<Arc<Notify>> = options.workers.iter().map(|_| Arc::default()).collect();
        let ticker = Ticker::start(ticks.clone())?;
        let mut proxy = Self {
            addresses,
            published,
            shared_tls,
            stopping,
            acknowledged: Acknowledged::new(options.workers.len()),
            threads: Vec::new(),
            ticker,
            spans,
        };
        for (index, (&cpu, ticks)) in options.workers.iter().zip(ticks).enumerate() {
            let acknowledgement = Acknowledgement { all: Arc::clone(&proxy.acknowledged), worker: index };
            let control = Control { published: control.clone(), stopping: stops.clone() };
            let thread = WorkerThread { cpu, sockets: sockets.remove(0), control, acknowledgement, ticks };
            let (clock, recorder) = (Clock::new(start), registry.recorder());
            let sink = log.sink(Kind::Requests, &recorder);
            let streams = log.sink(Kind::Streams, &recorder);
            let (shared_pool, registry, sources) =
                (Arc::clone(&shared_pool), Arc::clone(registry), options.source_addresses.clone());
            let (hostname, budget, clients) = (Arc::clone(&hostname), options.budget, Arc::clone(&clients));
            let spans = proxy.spans.sink();
            let bodies = Arc::clone(&bodies);
            let run = move || {
                let deadlines = Deadlines::new(clock.clone());
                let sources = Sources::new(sources);
                let pool =
                    Pool::new(index, clock.clone(), Rc::clone(&deadlines), shared_pool, registry, sources);
                let time = TimeCache::new(TimeZone::system());
                let log = Log { sink, streams, time, hostname, pid: std::process::id() };
                let parts =
                    WorkerParts { clock, deadlines, pool, clients, bodies, recorder, log, spans, budget };
                thread::run(thread, parts)
            };
            proxy.threads.push(std::thread::Builder::new().name(format!("worker {index}")).spawn(run)?);
        }
        Ok(proxy)
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
        Observer { published: self.published.subscribe(), acknowledged: Arc::clone(&self.acknowledged) }
    }

    /// Stops accepting, and has every worker end once its requests are done or their time is up.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
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
        // Their deadlines, too, were its ticks.
        drop(self.ticker);
        // All spans have been left, and are sent now.
        drop(self.spans);
        Ok(())
    }
}
