//! A worker: one thread with an event loop of its own, and everything that its requests need.
//!
//! Nothing in here is shared with other workers except the idle upstream connections, which another may
//! take.

mod alternatives;
mod checks;
mod config;
mod fairness;
mod http3;
mod last_place;
mod log;
mod notices;
mod offline;
mod parts;
mod rollouts;
mod sessions;
mod upkeep;
mod used;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clients::Clients;
use clients::abuse::AbuseCounter;
use clock::{Clock, Moment, Random};
use coders::Coders;
use model::{ClusterId, HostName, LabelTexts, Labels, ListenerId};
use observe::spans::SpanSink;
use observe::{Counter, Gauge, Reason, Recorder};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::Notify;
use wire::h1::{Request, Response};

use crate::admit::guard::Relief;
use crate::body::BodyStore;
use crate::drive::lingering::Lingering;
use crate::io::buffer::Buffers;
use crate::io::deadline::{Deadline, Deadlines};
use crate::io::handed::HandedSockets;
use crate::io::permits::Permits;
use crate::io::pipe::Pipes;
use crate::io::quic::SharedQuic;
use crate::io::spare::Spare;
use crate::io::tls::HandshakeLimiter;
use crate::io::vital::Vital;
use crate::limits::{
    ABUSE_DELAYED_MAX, CACHE_REFRESHES_MAX, IDLE_CLOSED_PER_TURN, MIRRORS_MAX, UNHELD_TOLD_INTERVAL,
};
use crate::listen::parting::Parting;
use crate::load::LoadMeter;
use crate::options::{Budget, Share};
use crate::replicas::Peers;
use crate::store::Cache;
use crate::store::forms::Forms;
use crate::tls_cells::TlsCells;
use crate::upstream::checks::Checkers;
use crate::upstream::{Cluster, ClusterLimits, ClusterState, Pool};
pub(crate) use alternatives::Alternatives;
pub(crate) use config::{Published, WorkerConfig};
pub(crate) use fairness::Fairness;
pub(crate) use last_place::LastPlace;
pub(crate) use log::Log;
pub(crate) use notices::Notices;
pub(crate) use parts::{SharedParts, WorkerParts};
pub(crate) use rollouts::{RolloutHandles, plans};
pub(crate) use sessions::OpenSession;
use used::Upstream;

/// The state of a worker.
pub(crate) struct Worker {
    pub(crate) clock: Clock,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) pipes: Pipes,
    pub(crate) random: Random,
    pub(crate) pool: Pool,
    /// Clusters whose limits have work to do on ticks.
    limited: RefCell<Vec<Rc<ClusterLimits>>>,
    pub(crate) handshakes: HandshakeLimiter,
    /// Rates, quotas and credentials of clients, shared by all workers.
    pub(crate) clients: Arc<Clients>,
    /// Counts of clients' behaviour on this worker.
    pub(crate) abuse: AbuseCounter,
    /// Slots for delayed requests of abusive clients.
    pub(crate) delayed: Permits,
    /// Bounds on clients that cost much.
    pub(crate) fairness: Fairness,
    /// The values of the last address that was looked up in the databases.
    pub(crate) last_place: LastPlace,
    /// Room for bodies that are read whole, shared by all workers.
    pub(crate) bodies: Arc<BodyStore>,
    /// Cached responses, shared by all workers; none without a cache.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Compressed forms of contents in memory, shared by all workers; none where nothing is stored in
    /// memory.
    pub(crate) forms: Option<Arc<Forms>>,
    /// Other replicas of this Forebay.
    pub(crate) peers: Peers,
    /// Slots for refreshes of stale responses.
    pub(crate) refreshes: Permits,
    /// Encoders and decoders of content codings.
    pub(crate) coders: Rc<Coders>,
    load: LoadMeter,
    /// Files that are served, shared by all workers; none where there is no root for them.
    pub(crate) files: Option<Arc<::files::Store>>,
    /// Counters of connections over TLS that do not speak HTTP.
    pub(crate) tls_cells: TlsCells,
    /// Slots for mirrored requests.
    pub(crate) mirrors: Permits,
    /// The health checks that this worker makes.
    pub(crate) checkers: Checkers,
    /// Canaries whose shares grow over a time, shared by all workers.
    pub(crate) rollouts: RolloutHandles,
    pub(crate) recorder: RefCell<Recorder>,
    /// Labels for requests without a route.
    pub(crate) no_labels: Arc<Labels>,
    pub(crate) log: Log,
    /// The queue for spans of traced requests.
    pub(crate) spans: SpanSink,
    config: RefCell<Rc<WorkerConfig>>,
    /// Memory for the heads of requests and responses.
    pub(crate) requests: Spare<Request>,
    pub(crate) responses: Spare<Response>,
    date: RefCell<(u64, Rc<str>)>,
    /// Client connections that are still read after their last response.
    pub(crate) lingering: Lingering,
    draining: Cell<bool>,
    parting: Cell<Option<Parting>>,
    connections: Cell<usize>,
    /// Connections among them that have been woken to close and have not closed yet.
    leaving: Cell<usize>,
    datagram_sessions: Cell<usize>,
    budget: Budget,
    /// Relief from shortages, as ordered by the guard.
    relief: Cell<Relief>,
    share: Share,
    /// A descriptor that is given up to accept and refuse a connection when there are no others.
    spare_descriptor: RefCell<Option<OwnedFd>>,
    /// Listening sockets of another process, shared by all workers.
    pub(crate) handed: Arc<HandedSockets>,
    /// Notices for the log, shared by all workers.
    pub(crate) notices: Arc<Notices>,
    /// When a warning about streamed bodies that should be read whole was last logged.
    told_of_unheld: Cell<Option<Moment>>,
    /// When a warning about lowered compression levels was last logged.
    told_of_ease: Cell<Option<Moment>>,
    serial: Cell<u64>,
    /// Keys and mailboxes of QUIC, shared by all workers.
    pub(crate) quic: Arc<SharedQuic>,
    /// Hosts that clients have reached over HTTP/3, known to all workers.
    pub(crate) alternatives: Arc<Alternatives>,
    /// Listeners that serve HTTP/3.
    http3: RefCell<Vec<ListenerId>>,
    /// Notified when a connection has been closed.
    closed: Notify,
    /// The tasks without which this worker serves nobody.
    pub(crate) vital: Vital,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts, first: Published) -> Rc<Self> {
        parts.pool.configure(&first.snapshot.settings.upstream);
        let shared = parts.shared;
        let config = WorkerConfig::new(first, None);
        Rc::new(Self {
            deadlines: parts.deadlines,
            clock: parts.clock,
            buffers: Rc::default(),
            pipes: Pipes::default(),
            random: Random::new(),
            pool: parts.pool,
            limited: RefCell::default(),
            handshakes: HandshakeLimiter::default(),
            abuse: AbuseCounter::new(&shared.clients.abuse),
            delayed: Permits::new(ABUSE_DELAYED_MAX),
            fairness: Fairness::default(),
            last_place: LastPlace::default(),
            clients: shared.clients,
            bodies: shared.bodies,
            cache: shared.cache,
            forms: shared.forms,
            peers: Peers::new(shared.replica_secret, shared.sign_ins),
            refreshes: Permits::new(CACHE_REFRESHES_MAX),
            coders: Coders::new(parts.recorder.codings()),
            load: LoadMeter::default(),
            files: shared.files,
            tls_cells: TlsCells::default(),
            mirrors: Permits::new(MIRRORS_MAX),
            checkers: Checkers::default(),
            rollouts: RolloutHandles::new(shared.rollouts),
            recorder: RefCell::new(parts.recorder),
            no_labels: Arc::new(Labels::from(LabelTexts {
                host: HostName::Any.to_string(),
                ..LabelTexts::default()
            })),
            log: parts.log,
            spans: parts.spans,
            config: RefCell::new(Rc::new(config)),
            requests: Spare::default(),
            responses: Spare::default(),
            date: RefCell::new((u64::MAX, Rc::from(""))),
            lingering: Lingering::default(),
            draining: Cell::new(false),
            parting: Cell::new(None),
            connections: Cell::new(0),
            leaving: Cell::new(0),
            datagram_sessions: Cell::new(0),
            budget: shared.budget,
            share: parts.share,
            spare_descriptor: RefCell::new(spare_descriptor()),
            handed: shared.handed,
            notices: shared.notices,
            relief: Cell::default(),
            told_of_unheld: Cell::new(None),
            told_of_ease: Cell::new(None),
            serial: Cell::new(0),
            quic: shared.quic,
            alternatives: shared.alternatives,
            http3: RefCell::default(),
            closed: Notify::new(),
            vital: Vital::default(),
        })
    }

    /// The configuration for a request that begins now.
    pub(crate) fn config(&self) -> Rc<WorkerConfig> {
        Rc::clone(&self.config.borrow())
    }

    /// Replaces a configuration that is no longer in force by the one that is.
    pub(crate) fn renew(&self, config: &mut Rc<WorkerConfig>) {
        if !Rc::ptr_eq(config, &self.config.borrow()) {
            *config = self.config();
        }
    }

    /// Changes to another configuration. Requests in flight keep the one that they began with; endpoints
    /// that are not part of the new one lose their idle connections at once.
    pub(crate) fn install(&self, next: Published) {
        let previous = self.config();
        self.pool.configure(&next.snapshot.settings.upstream);
        let config = WorkerConfig::new(next, Some(&previous));
        self.change_to(config, &previous);
    }

    fn change_to(&self, config: WorkerConfig, previous: &WorkerConfig) {
        let gone: Vec<_> = previous.gone_from(&config).collect();
        // A cluster's replacement is prepared before the cluster leaves, so that endpoints of both keep
        // their connections.
        for (id, _) in gone.iter().filter(|(_, upstream)| upstream.ready.get().is_some()) {
            if let Some(upstream) = config.upstream(*id) {
                self.make_ready(upstream);
            }
        }
        for (_, upstream) in gone {
            upstream.is_in_force.set(false);
            upstream.ready.get().into_iter().for_each(|cluster| cluster.leave(&self.pool));
        }
        *self.config.borrow_mut() = Rc::new(config);
        self.rollouts.forget();
    }

    /// A cluster of a configuration.
    pub(crate) fn cluster<'a>(&self, config: &'a WorkerConfig, id: ClusterId) -> &'a Cluster {
        let known = config.used.cell(id).get();
        self.make_ready(known.unwrap_or_else(|| self.first_use(config, id)))
    }

    /// A cluster that this worker uses for the first time. A request may do so that keeps a configuration
    /// which is no longer in force: a cluster that has not changed since is the one of the present
    /// configuration.
    #[cold]
    fn first_use<'a>(&self, config: &'a WorkerConfig, id: ClusterId) -> &'a Rc<Upstream> {
        let cluster = config.snapshot.cluster(id);
        let cell = config.used.cell(id);
        cell.get_or_init(|| {
            let present = self.config();
            let is_same = |one: &&Arc<model::Cluster>| Arc::ptr_eq(one, cluster);
            if present.snapshot.clusters_by_id().find(id).as_ref().is_some_and(is_same) {
                let in_force = present.used.cell(id);
                // Both configurations may share the place, which is being filled.
                if std::ptr::eq(in_force, cell) {
                    return Upstream::new(cluster, None);
                }
                return Rc::clone(in_force.get_or_init(|| Upstream::new(cluster, None)));
            }
            let gone = Upstream::new(cluster, None);
            gone.is_in_force.set(false);
            gone
        })
    }

    fn make_ready<'a>(&self, upstream: &'a Upstream) -> &'a Cluster {
        upstream.ready.get_or_init(|| {
            let endpoints = upstream.model.endpoints.len();
            let new = || ClusterState::new(endpoints, &self.random, self.clock.now());
            let state = upstream.state.get_or_init(new);
            let cluster = Cluster::new(&upstream.model, state, &self.pool);
            cluster.join();
            if !upstream.is_in_force.get() {
                cluster.leave(&self.pool);
            }
            cluster
        })
    }

    /// Whether connections begin with a PROXY header.
    pub(crate) fn expects_proxy_header(&self) -> bool {
        self.config.borrow().settings().client.proxy_header_timeout.is_some()
    }

    /// Parts that a tunnel needs.
    pub(crate) fn for_tunnels(&self) -> (&Rc<Deadlines>, &Pipes) {
        (&self.deadlines, &self.pipes)
    }

    /// The present second, for `Date`.
    pub(crate) fn date(&self) -> Rc<str> {
        let seconds = self.clock.unix().as_secs();
        let mut date = self.date.borrow_mut();
        if date.0 != seconds {
            *date = (seconds, wire::date::imf_fixdate(seconds).into());
        }
        Rc::clone(&date.1)
    }

    // === Connections ===

    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.set(self.serial.get() + 1);
        self.serial.get()
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.set(self.connections.get() + 1);
        let recorder = self.recorder.borrow();
        recorder.count(Counter::ConnectionsHandled);
        recorder.inc(Gauge::ConnectionsActive);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.set(self.connections.get() - 1);
        self.leaving.set(self.leaving.get().saturating_sub(1));
        self.recorder.borrow().dec(Gauge::ConnectionsActive);
        self.closed.notify_waiters();
    }

    /// Whether another client connection may be opened, possibly in place of an idle one; a refusal is
    /// counted.
    pub(crate) fn has_room(&self) -> bool {
        if self.connections.get() - self.leaving.get() < self.connections_max() {
            return true;
        }
        let has_room = self.make_room();
        if !has_room {
            self.recorder.borrow().reason(Reason::ConnectionLimit);
        }
        self.tell_of_connections(has_room);
        has_room
    }

    /// Logs that the limit of connections is reached.
    #[cold]
    fn tell_of_connections(&self, has_room: bool) {
        let notice = if has_room { &self.notices.connections } else { &self.notices.connections_refused };
        if !notice.is_due(self.clock.now()) {
            return;
        }
        let max_of_worker = self.connections_max();
        let by = if max_of_worker < self.budget.connections { "forebay-connections" } else { "descriptors" };
        if has_room {
            tracing::warn!(
                max_of_worker,
                by,
                "a worker has as many connections as it may: those that wait for a request are closed; told once a minute"
            );
        } else {
            tracing::warn!(
                max_of_worker,
                by,
                "a worker has as many connections as it may, and all are busy: new ones are refused; told once a minute"
            );
        }
    }

    /// Limit of client connections: the worker's share of the configured number, as far as there are
    /// descriptors.
    fn connections_max(&self) -> usize {
        let bound = self.config.borrow().settings().client.bounds.connections;
        bound.map_or(usize::MAX, |bound| self.share.of(bound.get())).min(self.budget.connections)
    }

    /// The worker's number, from 0 on.
    pub(crate) fn index(&self) -> u32 {
        self.share.index
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> u32 {
        self.share.of
    }

    /// Closes some idle connections, the longest idle first. Several at a time, since finding one takes a
    /// look at all. True if there are any.
    pub(crate) fn make_room(&self) -> bool {
        let count = (self.connections_max() / IDLE_CLOSED_PER_TURN).max(1);
        let told = self.deadlines.fire_idlest(count);
        self.leaving.set((self.leaving.get() + told).min(self.connections.get()));
        told > 0
    }

    /// Whether a warning about a streamed body that should be read whole is due.
    pub(crate) fn is_to_tell_of_unheld(&self) -> bool {
        self.is_to_tell(&self.told_of_unheld, UNHELD_TOLD_INTERVAL)
    }

    fn is_to_tell(&self, told: &Cell<Option<Moment>>, interval: Duration) -> bool {
        let now = self.clock.now();
        let is_due = told.get().is_none_or(|at| now.since(at) >= interval);
        if is_due {
            told.set(Some(now));
        }
        is_due
    }

    /// Runs `act`, which needs a descriptor, when none are left. False where the spare one is gone too, or
    /// nothing was done.
    pub(crate) fn with_spare_descriptor(&self, act: impl FnOnce() -> bool) -> bool {
        let mut spare = self.spare_descriptor.borrow_mut();
        let is_done = spare.take().is_some() && act();
        *spare = spare_descriptor();
        is_done
    }

    // === Draining ===

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether connections of a listener are closed after their present request: the worker drains, or the
    /// listener is no longer configured.
    pub(crate) fn is_closing(&self, listener: ListenerId) -> bool {
        self.is_draining() || self.config.borrow().snapshot.hosts_of(listener).is_none()
    }

    /// Begins to close connections after a request, one after the other over this time.
    pub(crate) fn part_over(&self, time: Duration) {
        self.parting.set(Some(Parting::new(self.clock.now(), time)));
    }

    /// Whether a connection is closed after its present request, since its turn has come.
    pub(crate) fn parts_with(&self, serial: u64) -> bool {
        self.parting.get().is_some_and(|parting| parting.includes(serial, self.clock.now()))
    }

    /// Closes idle connections, and all others after their present request; ends when none is left, or when
    /// their time is up.
    pub(crate) async fn drain(&self) {
        self.draining.set(true);
        // One more turn of the event loop: a connection whose next request has arrived is not idle.
        reactor::yield_now().await;
        self.deadlines.fire_idle();
        let timeout = self.config().settings().client.shutdown_timeout;
        let mut drained = pin!(async {
            while self.connections.get() + self.datagram_sessions.get() > 0 {
                self.closed.notified().await;
            }
        });
        // Connections that are still open then are cut off.
        let _ = Deadline::new(&self.deadlines).within(timeout, |cx| drained.as_mut().poll(cx)).await;
    }
}

// === impl Open ===

/// Counts a client connection while it is open.
pub(crate) struct Open(Rc<Worker>);

impl Open {
    pub(crate) fn count(worker: Rc<Worker>) -> Self {
        worker.connection_opened();
        Self(worker)
    }

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// A placeholder descriptor: an eventfd is the cheapest kind.
fn spare_descriptor() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
