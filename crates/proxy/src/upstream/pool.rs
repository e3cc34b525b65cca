//! The connections of one worker to endpoints: idle ones, those of another worker, or newly opened.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use balance::{EndpointLimit, Limited, SharedRetries, WorkerShare};
use clock::{Clock, Moment};
use model::{AppProtocol, PoolCap, UpstreamConnections};
use observe::{EndpointCells, Failure, PortCells, Reason, Registry};
use reactor::{TcpStream, UdpSocket};
use tokio::sync::Notify;

use super::checks::{Board, GroupKey};
use super::connect::{Sources, connect, connect_datagrams};
use super::error::NoConnection;
use super::h2::{Session, Sessions};
use super::protocol::{Protocol, Target};
use super::shared_pool::{IdleConnections, SharedPool};
use crate::io::connection::Connection;
use crate::io::deadline::{Deadline, Deadlines};
use crate::io::socket::Socket;
use crate::io::tls::upstream::{NoSession, TlsConnector};
use crate::limits::{EWMA_DECAY, REGRET_WINDOW, TICK};

/// A worker's endpoints, with their state and their connections.
pub(crate) struct Pool {
    worker: usize,
    clock: Clock,
    deadlines: Rc<Deadlines>,
    shared: Arc<SharedPool>,
    registry: Arc<Registry>,
    sources: Sources,
    settings: RefCell<UpstreamConnections>,
    endpoints: RefCell<HashMap<Target, Rc<Endpoint>>>,
    /// An endpoint has been removed since the shared pool was last swept.
    has_gone: Cell<bool>,
}

/// A worker's state of one endpoint. An address with two protocols counts as two endpoints, whose
/// connections are not mixed.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// The protocol towards the endpoint.
    pub(crate) protocol: Protocol,
    /// TLS towards the endpoint, made when first needed; an error is remembered.
    connector: OnceCell<Result<TlsConnector, NoSession>>,
    /// The counters of the endpoint.
    pub(crate) cells: Arc<EndpointCells>,
    /// Requests in flight, and their limit.
    pub(crate) limit: EndpointLimit,
    idle: Arc<IdleConnections>,
    sessions: Sessions,
    /// Number of clusters in the current configuration that have the endpoint.
    members: Cell<u32>,
    /// The endpoint is no longer configured: its connections finish their requests and are closed.
    gone: Cell<bool>,
    /// Whether a cluster with the endpoint balances by response time.
    is_averaged: Cell<bool>,
    /// Moving average of its response times in seconds, and the time of the last update; none before the
    /// first.
    average: Cell<(f64, Option<Moment>)>,
    /// When connections were recently evicted because the pool was full.
    evictions: RefCell<VecDeque<Moment>>,
    /// The counters of ports towards it, by source address.
    ports: RefCell<Vec<(IpAddr, Arc<PortCells>)>>,
    /// When a connection last failed for lack of a port; none if none has.
    short_of_ports: Cell<Option<Moment>>,
    /// Wakes a waiting request when a connection has been put back.
    returned: Notify,
}

/// A connection for one request.
pub(crate) struct PooledConnection {
    /// The connection itself, an idle or a new one.
    pub(crate) connection: Connection,
    /// The time that it took to open; none if it was idle in the pool.
    pub(crate) connect_time: Option<Duration>,
}

/// How an idle connection is checked before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LivenessCheck {
    /// Checks the state that the event loop noted in its last turn, without a system call. A request that
    /// meets a closed connection is sent again on another.
    EventLoop,
    /// Reads the socket: for requests that cannot be sent again.
    Socket,
}

impl Limited for Endpoint {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn limit(&self) -> &EndpointLimit {
        &self.limit
    }
}

impl Pool {
    pub(crate) fn new(
        worker: usize,
        clock: &Clock,
        deadlines: &Rc<Deadlines>,
        shared: Arc<SharedPool>,
        registry: Arc<Registry>,
        sources: Sources,
    ) -> Self {
        Self {
            worker,
            clock: clock.clone(),
            deadlines: Rc::clone(deadlines),
            shared,
            registry,
            sources,
            settings: RefCell::default(),
            endpoints: RefCell::default(),
            has_gone: Cell::default(),
        }
    }

    /// The protocol towards the endpoints of a cluster, and the one for clients over TLS; none if it is the
    /// same.
    pub(crate) fn protocols(&self, cluster: &model::Cluster) -> (Protocol, Option<Protocol>) {
        Protocol::of(cluster, &self.shared.connector_configs)
    }

    /// The verdicts of health checks.
    pub(crate) fn board(&self) -> &Board {
        &self.shared.board
    }

    /// The group in which a cluster's endpoints are checked; none where they are not.
    pub(crate) fn check_key(&self, cluster: &model::Cluster) -> Option<GroupKey> {
        let check = Arc::clone(cluster.health_check.as_ref()?);
        let (protocol, _) = self.protocols(cluster);
        Some(GroupKey { cluster: cluster.name.as_str().into(), protocol, check })
    }

    /// The bound of the retries of a cluster's Service; none where there is none.
    pub(crate) fn shared_retries(&self, cluster: &model::Cluster) -> Option<Arc<SharedRetries>> {
        cluster.retry_constraint.as_ref().map(|constraint| self.shared.constraints.of(constraint))
    }

    /// The state of an endpoint, created if it does not exist. It is not for the path of a request.
    pub(crate) fn endpoint(&self, address: SocketAddr, protocol: &Protocol) -> Rc<Endpoint> {
        let mut endpoints = self.endpoints.borrow_mut();
        let target = Target { address, protocol: protocol.clone() };
        let idle = || self.shared.idle(&Target { address, protocol: protocol.clone() });
        let endpoint = endpoints.entry(target).or_insert_with(|| {
            Rc::new(Endpoint {
                address,
                protocol: protocol.clone(),
                connector: OnceCell::new(),
                cells: self.registry.endpoint(address),
                limit: EndpointLimit::new(self.clock.now()),
                idle: idle(),
                sessions: Sessions::default(),
                members: Cell::new(0),
                gone: Cell::new(false),
                is_averaged: Cell::new(false),
                average: Cell::default(),
                evictions: RefCell::default(),
                ports: RefCell::default(),
                short_of_ports: Cell::new(None),
                returned: Notify::new(),
            })
        });
        Rc::clone(endpoint)
    }

    /// The present time.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Inputs for the limits of requests in flight: the clock, the counters, and this worker's share of
    /// global limits.
    pub(crate) fn for_limits(&self) -> (&Clock, &Arc<Registry>, WorkerShare) {
        let share = WorkerShare { worker: self.worker as u32, workers: self.shared.workers() as u32 };
        (&self.clock, &self.registry, share)
    }

    /// Sets the limits for idle connections from now on.
    pub(crate) fn configure(&self, settings: &UpstreamConnections) {
        if *self.settings.borrow() != *settings {
            *self.settings.borrow_mut() = settings.clone();
        }
    }

    /// Notes that the endpoint is part of one cluster less. If it is part of none, its idle connections are
    /// closed at once.
    pub(crate) fn leave(&self, endpoint: &Rc<Endpoint>) {
        endpoint.members.set(endpoint.members.get() - 1);
        if endpoint.members.get() > 0 {
            return;
        }
        endpoint.gone.set(true);
        endpoint.close_idle(self.worker, |_| true);
        endpoint.sessions.sweep(self.clock.now(), |_| true);
        let target = Target { address: endpoint.address, protocol: endpoint.protocol.clone() };
        self.endpoints.borrow_mut().remove(&target);
        self.has_gone.set(true);
    }

    /// Closes idle connections that are too old, or that the endpoint has closed.
    pub(crate) fn sweep(&self) {
        let (now, settings) = (self.clock.now(), self.settings.borrow());
        for endpoint in self.endpoints.borrow().values() {
            endpoint.close_idle(self.worker, |connection| {
                is_expired(connection, &settings, now) || !connection.is_quiet()
            });
            endpoint.sessions.sweep(now, |session| is_worn_out(session, &settings, now));
            endpoint.forget_evictions(now);
        }
        if self.has_gone.take() {
            self.shared.sweep();
        }
    }

    /// Takes an idle connection, of this worker or of another one; none if there is none.
    pub(crate) fn take_idle(&self, endpoint: &Endpoint, check: LivenessCheck) -> Option<PooledConnection> {
        let now = self.clock.now();
        let usable = |connection: &Connection| {
            let quiet =
                connection.is_quiet() && (check == LivenessCheck::EventLoop || connection.is_quiet_now());
            if !quiet {
                endpoint.cells.stale_on_checkout.inc();
            }
            quiet && !is_expired(connection, &self.settings.borrow(), now)
        };
        while let Some(connection) = endpoint.idle.take(self.worker) {
            endpoint.cells.idle.dec();
            if usable(&connection) {
                endpoint.cells.reused.inc();
                return Some(PooledConnection { connection, connect_time: None });
            }
        }
        while let Some(connection) = endpoint.idle.steal(self.worker) {
            endpoint.cells.idle.dec();
            if !usable(&connection) {
                continue;
            }
            if let Ok(connection) = connection.adopt() {
                endpoint.cells.stolen.inc();
                return Some(PooledConnection { connection, connect_time: None });
            }
        }
        None
    }

    /// Opens a connection. If no local port is left, waits for an idle connection instead; the caller limits
    /// the wait.
    pub(crate) async fn open(
        &self,
        endpoint: &Endpoint,
        check: LivenessCheck,
    ) -> Result<PooledConnection, NoConnection> {
        let begin = self.clock.now();
        loop {
            match self.open_from_any_source(endpoint, begin).await {
                Err(NoConnection::PortsExhausted) => {}
                done => return done,
            }
            // Another worker does not wake this one when it puts a connection back: look again at each tick.
            let mut returned = pin!(endpoint.returned.notified());
            let _ = Deadline::new(&self.deadlines).within(TICK, |cx| returned.as_mut().poll(cx)).await;
            if let Some(pooled) = self.take_idle(endpoint, check) {
                return Ok(pooled);
            }
        }
    }

    /// A session with an endpoint that speaks HTTP/2.
    pub(crate) async fn session(&self, endpoint: &Endpoint) -> Result<Rc<Session>, NoConnection> {
        let session = endpoint.sessions.get(|| self.open_session(endpoint)).await?;
        if session.used.get() > 0 {
            endpoint.cells.reused.inc();
        }
        Ok(session)
    }

    async fn open_session(&self, endpoint: &Endpoint) -> Result<Session, NoConnection> {
        let pooled = self.open_from_any_source(endpoint, self.clock.now()).await?;
        let is_https = endpoint.protocol.tls.is_some();
        Ok(Session::begin(pooled.connection, is_https, self.clock.clone()))
    }

    /// Opens a new connection for a stream, which is never put back.
    pub(crate) async fn open_stream(&self, endpoint: &Endpoint) -> Result<Connection, NoConnection> {
        Ok(self.open_from_any_source(endpoint, self.clock.now()).await?.connection)
    }

    /// Opens a UDP socket for datagrams to and from an endpoint.
    pub(crate) fn open_datagrams(&self, endpoint: &Endpoint) -> Result<UdpSocket, Reason> {
        let mut sources = self.sources.in_turn(endpoint.address);
        let opened = sources.find_map(|source| connect_datagrams(endpoint.address, source).ok());
        opened.ok_or_else(|| {
            endpoint.cells.fail(Failure::ConnectError);
            Reason::ConnectFailed
        })
    }

    async fn open_from_any_source(
        &self,
        endpoint: &Endpoint,
        begin: Moment,
    ) -> Result<PooledConnection, NoConnection> {
        let (stream, ports) = self.connect_from_any_source(endpoint).await?;
        let socket = endpoint.establish(stream).await.map_err(NoConnection::NoSession)?;
        let now = self.clock.now();
        endpoint.note_opened(now);
        Ok(PooledConnection {
            connection: Connection::new(socket, now, ports),
            connect_time: Some(now.since(begin)),
        })
    }

    async fn connect_from_any_source(
        &self,
        endpoint: &Endpoint,
    ) -> Result<(TcpStream, Arc<PortCells>), NoConnection> {
        for source in self.sources.in_turn(endpoint.address) {
            match connect(endpoint.address, source).await {
                Ok(stream) => {
                    let local = stream.local_addr().map_err(NoConnection::Failed)?;
                    return Ok((stream, endpoint.ports(local.ip(), &self.registry)));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    let source = source.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                    endpoint.ports(source, &self.registry).exhausted();
                    endpoint.short_of_ports.set(Some(self.clock.now()));
                }
                Err(error) => return Err(NoConnection::Failed(error)),
            }
        }
        Err(NoConnection::PortsExhausted)
    }

    /// Whether connections to the endpoint fail at the moment because no local port is left.
    pub(crate) fn is_short_of_ports(&self, endpoint: &Endpoint) -> bool {
        endpoint.short_of_ports.get().is_some_and(|at| self.clock.now().since(at) <= 3 * TICK)
    }

    /// When a connection to an endpoint was last put back by this worker; none where it has no idle one.
    pub(crate) fn last_return(&self, endpoint: &Endpoint) -> Option<Moment> {
        endpoint.idle.last_return(self.worker)
    }

    /// Puts a connection back, after a request that left it in a state for another one.
    pub(crate) fn put_back(&self, endpoint: &Endpoint, mut connection: Connection) {
        let (now, settings) = (self.clock.now(), self.settings.borrow());
        connection.idle_since = now;
        let cap = match settings.cap {
            PoolCap::Auto => None,
            PoolCap::Fixed(cap) => Some(cap as usize),
        };
        if endpoint.gone.get() || cap == Some(0) || is_expired(&connection, &settings, now) {
            return;
        }
        match endpoint.idle.put(self.worker, connection, cap) {
            None => {
                endpoint.cells.idle.inc();
                if endpoint.short_of_ports.get().is_some() {
                    endpoint.returned.notify_one();
                }
            }
            Some(evicted) => {
                drop(evicted);
                endpoint.cells.evicted.inc();
                endpoint.evictions.borrow_mut().push_back(now);
            }
        }
    }
}

fn is_expired(connection: &Connection, settings: &UpstreamConnections, now: Moment) -> bool {
    let idle_max = connection.idle_max.map_or(settings.idle_timeout, |hint| hint.min(settings.idle_timeout));
    connection.requests >= settings.requests
        || now.since(connection.idle_since) >= idle_max
        || now.since(connection.opened) >= settings.lifetime
}

/// Whether a session should be replaced by a new one. Its calls continue.
fn is_worn_out(session: &Session, settings: &UpstreamConnections, now: Moment) -> bool {
    session.used.get() >= settings.requests
        || now.since(session.opened) >= settings.lifetime
        || session.is_idle() && now.since(session.idle_since.get()) >= settings.idle_timeout
}

/// The weight that remains of an average after this time.
fn fading(last: Moment, now: Moment) -> f64 {
    (-now.since(last).as_secs_f64() / EWMA_DECAY.as_secs_f64()).exp()
}

impl Endpoint {
    /// Notes that the endpoint is part of one more cluster.
    pub(crate) fn join(&self) {
        self.members.set(self.members.get() + 1);
    }

    /// Whether a request would have to wait for a new connection.
    pub(crate) fn must_connect(&self) -> bool {
        match self.protocol.version {
            AppProtocol::Http1 => self.idle.is_empty(),
            AppProtocol::Http2 => !self.sessions.have_room(),
            AppProtocol::FastCgi => true,
        }
    }

    /// Moving average of its response times in seconds. It fades while there are no responses, so that an
    /// endpoint that was slow is tried again; zero before the first response, so that a new endpoint is
    /// tried.
    pub(crate) fn response_time(&self, now: Moment) -> f64 {
        let (average, last) = self.average.get();
        average * last.map_or(0.0, |last| fading(last, now))
    }

    /// Starts to compute the average of its response times.
    pub(crate) fn average_times(&self) {
        self.is_averaged.set(true);
    }

    /// Updates the average with a response, if a cluster balances by it. The longer ago the last response
    /// was, the more this one counts.
    pub(crate) fn note_response(&self, took: Duration, now: Moment) {
        if !self.is_averaged.get() {
            return;
        }
        let sample = took.as_secs_f64();
        let average = match self.average.get() {
            (_, None) => sample,
            (average, Some(last)) => {
                let weight = fading(last, now);
                average * weight + sample * (1.0 - weight)
            }
        };
        self.average.set((average, Some(now)));
    }

    /// Makes the TLS handshake on a TCP connection, if the protocol needs one.
    async fn establish(&self, stream: TcpStream) -> Result<Socket, NoSession> {
        let Some(profile) = &self.protocol.tls else { return Ok(Socket::clear(stream)) };
        let connector = self.connector.get_or_init(|| profile.connector(self.address.ip()));
        let session = Box::pin(connector.as_ref().map_err(|&error| error)?.handshake(stream)).await?;
        Ok(Socket::tls(session))
    }

    fn note_opened(&self, now: Moment) {
        self.cells.opened.inc();
        self.forget_evictions(now);
        if self.evictions.borrow_mut().pop_front().is_some() {
            self.cells.regretted.inc();
        }
    }

    fn forget_evictions(&self, now: Moment) {
        let mut evictions = self.evictions.borrow_mut();
        while evictions.front().is_some_and(|&at| now.since(at) > REGRET_WINDOW) {
            evictions.pop_front();
        }
    }

    fn close_idle(&self, worker: usize, is_due: impl Fn(&Connection) -> bool) {
        for _closed in self.idle.sweep(worker, |connection| !is_due(connection)) {
            self.cells.idle.dec();
        }
    }

    fn ports(&self, source: IpAddr, registry: &Registry) -> Arc<PortCells> {
        let mut known = self.ports.borrow_mut();
        let found = known.iter().position(|(address, _)| *address == source);
        let at = found.unwrap_or_else(|| {
            known.push((source, registry.ports(source, self.address)));
            known.len() - 1
        });
        Arc::clone(&known[at].1)
    }
}
