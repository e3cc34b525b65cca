//! One UDP socket of one worker, and the connections on it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use model::ListenerId;
use observe::{Counter, Reason};
use quinn_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig,
    EndpointEvent, Incoming, ServerConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use reactor::{Interest, UdpSocket};
use tokio::sync::mpsc;
use wire::quic::is_initial;

use super::connection::Connection;
use super::forwarding::{Forwarded, is_envelope};
use super::ids::{WorkerIds, short_id};
use super::packet::{Neighbour, Owner, Packet};
use super::shared::SharedQuic;
use super::socket::WorkerSockets;
use crate::io::tls::QuicConfigs;
use crate::io::wakers::remember;
use crate::limits::{QUIC_BATCH, QUIC_DATAGRAMS_RECEIVED_PER_TURN_MAX, QUIC_RESET_INTERVAL_MIN};
use crate::worker::Worker;

/// Decides on a connection that a client asks for.
type Admit = Rc<dyn Fn(&Rc<Endpoint>, Incoming)>;

/// Sees packets that belong to no connection here, before the endpoint does.
pub(crate) trait Peek {
    /// Takes a packet, or gives it back for the endpoint.
    fn peek(&self, endpoint: &Rc<Endpoint>, packet: Packet) -> Option<Packet>;

    /// Sets the configuration for connections that begin from now on.
    fn configure(&self, crypto: Arc<QuicConfigs>);

    /// Whether it waits for no more packets.
    fn is_idle(&self) -> bool;
}

/// The socket, and the state that its connections share.
pub(crate) struct Endpoint {
    listener: ListenerId,
    /// The address that the socket is bound to.
    local: SocketAddr,
    worker: Rc<Worker>,
    socket: UdpSocket,
    udp: UdpSocketState,
    /// Sockets of the same address that are read besides.
    more: Vec<(UdpSocket, UdpSocketState)>,
    quinn: RefCell<quinn_proto::Endpoint>,
    connections: RefCell<HashMap<ConnectionHandle, Weak<Connection>>>,
    /// The clients whose packets come through other replicas.
    forwarded: RefCell<Forwarded>,
    /// Drivers of connections that wait until the socket takes more.
    blocked: RefCell<Vec<Waker>>,
    /// Packets that wait for connections whose clients are suspected of a flood.
    suspect_packets: Cell<usize>,
    /// Bytes of packets that are made and sent at once.
    scratch: RefCell<Vec<u8>>,
    admit: Admit,
    /// Sees packets first that belong to no connection here, where some host is passed through.
    peek: RefCell<Option<Rc<dyn Peek>>>,
    /// No new connections are taken.
    is_closing: Cell<bool>,
    /// Another process takes new connections, and reads the socket if it has it.
    is_let_go: Cell<bool>,
    /// Connections that are asked for and that nothing has been decided on.
    undecided: Cell<usize>,
    receiver: RefCell<Option<Waker>>,
    has_ended: Cell<bool>,
}

/// Keeps the socket open until a connection that is asked for has been accepted or refused: the handshake
/// needs the packets that come.
pub(crate) struct Undecided(Rc<Endpoint>);

/// Bytes that the kernel may give for one receive: datagrams of one sender that it has joined.
const RECEIVED_BYTES_MAX: usize = 64 << 10;

impl Endpoint {
    /// Starts to receive.
    pub(crate) fn start(
        worker: &Rc<Worker>,
        listener: ListenerId,
        sockets: WorkerSockets,
        config: Arc<ServerConfig>,
        admit: Admit,
    ) -> io::Result<Rc<Self>> {
        let local = sockets.own.local_addr()?;
        let (socket, udp) = registered(sockets.own)?;
        let more = sockets.more.into_iter().map(registered).collect::<io::Result<_>>()?;
        let (shared, number) = (&worker.quic, worker.index());
        let mut endpoint = EndpointConfig::new(Arc::clone(&shared.keys.reset) as _);
        let (ids, others) = (Arc::clone(shared.ids()), Arc::clone(shared.others()));
        endpoint.cid_generator(move || {
            let (ids, others) = (Arc::clone(&ids), Arc::clone(&others));
            Box::new(WorkerIds { ids, worker: number, others })
        });
        endpoint.min_reset_interval(QUIC_RESET_INTERVAL_MIN);
        let allows_discovery = !udp.may_fragment();
        let quinn = quinn_proto::Endpoint::new(Arc::new(endpoint), Some(config), allows_discovery, None);
        let mailbox = shared.open_mailbox(listener, local, number);
        let endpoint = Rc::new(Self {
            listener,
            local,
            worker: Rc::clone(worker),
            socket,
            udp,
            more,
            quinn: RefCell::new(quinn),
            connections: RefCell::default(),
            forwarded: RefCell::default(),
            blocked: RefCell::default(),
            suspect_packets: Cell::new(0),
            scratch: RefCell::default(),
            admit,
            peek: RefCell::default(),
            is_closing: Cell::new(false),
            is_let_go: Cell::new(false),
            undecided: Cell::new(0),
            receiver: RefCell::default(),
            has_ended: Cell::new(false),
        });
        reactor::spawn_detached(worker.vital.task(receive(Rc::clone(&endpoint), mailbox)));
        Ok(endpoint)
    }

    /// The address that the socket is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The number of the worker.
    pub(super) fn worker_index(&self) -> u32 {
        self.worker.index()
    }

    pub(super) fn shared(&self) -> &SharedQuic {
        &self.worker.quic
    }

    pub(super) fn forwarded(&self) -> &RefCell<Forwarded> {
        &self.forwarded
    }

    pub(super) fn count(&self, counter: Counter) {
        self.worker.recorder.borrow().count(counter);
    }

    /// The time since 1970.
    pub(super) fn unix(&self) -> Duration {
        self.worker.clock.unix()
    }

    /// Takes no more connections. The socket is closed when the last one has ended.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        self.wake_receiver();
    }

    /// Leaves new connections, and the socket, to the process that replaces this one.
    pub(crate) fn let_go(&self) {
        self.is_let_go.set(true);
        self.close();
    }

    /// Takes connections again, before the socket was closed.
    pub(crate) fn open_again(&self) {
        self.is_closing.set(false);
    }

    /// Whether another process reads the socket.
    fn is_read_elsewhere(&self) -> bool {
        self.is_let_go.get() && self.shared().neighbours.successor_reads()
    }

    /// Whether the socket has been closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Sets the configuration of connections that are asked for from now on.
    pub(crate) fn configure(&self, config: Arc<ServerConfig>) {
        self.quinn.borrow_mut().set_server_config(Some(config));
    }

    pub(crate) fn wake_receiver(&self) {
        if let Some(receiver) = &*self.receiver.borrow() {
            receiver.wake_by_ref();
        }
    }

    // === Connections that are asked for ===

    /// Opens the connection. It may fail at its first packet.
    pub(crate) fn accept(
        self: &Rc<Self>,
        incoming: Incoming,
        config: Arc<ServerConfig>,
    ) -> Result<Rc<Connection>, ConnectionError> {
        let mut buffer = Vec::new();
        let accepted = self.quinn.borrow_mut().accept(incoming, clock::instant(), &mut buffer, Some(config));
        match accepted {
            Ok((handle, connection)) => {
                let windows = self.worker.fairness.send_windows.clone();
                let connection = Connection::new(Rc::clone(self), handle, connection, windows);
                self.connections.borrow_mut().insert(handle, Rc::downgrade(&connection));
                Ok(connection)
            }
            Err(error) => {
                if let Some(response) = error.response {
                    self.send_one(&response, &buffer);
                }
                Err(error.cause)
            }
        }
    }

    /// Notes that a connection is asked for, until the value is dropped.
    pub(crate) fn undecided(self: &Rc<Self>) -> Undecided {
        self.undecided.set(self.undecided.get() + 1);
        Undecided(Rc::clone(self))
    }

    /// Refuses a connection.
    pub(crate) fn refuse(&self, incoming: Incoming) {
        let mut buffer = Vec::new();
        let response = self.quinn.borrow_mut().refuse(incoming, &mut buffer);
        self.send_one(&response, &buffer);
    }

    /// Has the client show that it receives at its address, before it costs more.
    pub(crate) fn retry(&self, incoming: Incoming) {
        let mut buffer = Vec::new();
        let response = self.quinn.borrow_mut().retry(incoming, &mut buffer);
        match response {
            Ok(response) => self.send_one(&response, &buffer),
            Err(error) => self.ignore(error.into_incoming()),
        }
    }

    /// Drops the first packet of a connection without an answer.
    pub(crate) fn ignore(&self, incoming: Incoming) {
        self.quinn.borrow_mut().ignore(incoming);
    }

    // === Receiving ===

    /// Receives for a turn of the loop. Ready where there may be more, which is for the next one.
    fn poll_receive(self: &Rc<Self>, cx: &Context<'_>, space: &mut [u8]) -> Poll<io::Result<()>> {
        let mut received = self.poll_receive_from(&self.socket, &self.udp, cx, space);
        for (socket, udp) in &self.more {
            if let Poll::Ready(result) = self.poll_receive_from(socket, udp, cx, space) {
                received = Poll::Ready(result);
            }
        }
        received
    }

    fn poll_receive_from(
        self: &Rc<Self>,
        socket: &UdpSocket,
        udp: &UdpSocketState,
        cx: &Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<()>> {
        let mut metas = [RecvMeta::default(); QUIC_BATCH];
        let mut taken = 0;
        while taken < QUIC_DATAGRAMS_RECEIVED_PER_TURN_MAX {
            let received = socket.poll_io(Interest::READABLE, cx, || {
                let mut chunks = space.chunks_mut(RECEIVED_BYTES_MAX);
                let mut slices: [IoSliceMut<'_>; QUIC_BATCH] =
                    std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
                udp.recv(UdpSockRef::from(socket), &mut slices, &mut metas)
            });
            let count = match received {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            };
            let now = clock::instant();
            for (meta, bytes) in metas.iter().zip(space.chunks(RECEIVED_BYTES_MAX)).take(count) {
                for datagram in bytes[..meta.len].chunks(meta.stride.max(1)) {
                    self.take_received(now, meta, datagram);
                    taken += 1;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn take_received(self: &Rc<Self>, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        if is_envelope(datagram) {
            return self.take_forwarded(now, meta, datagram);
        }
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let (remote, local) = (meta.addr, meta.dst_ip);
        let packet = || Packet { remote, local, ecn, bytes: BytesMut::from(datagram), via: None };
        match self.shared().owner_of(datagram) {
            Owner::Worker(owner) => self.give(now, owner, packet()),
            Owner::Process(neighbour) => self.give_to_process(now, neighbour, packet()),
            owner @ (Owner::Replica(_) | Owner::Gone(_)) => {
                self.take_for_replica(now, owner, meta, packet());
            }
            Owner::Nobody if self.is_let_go.get() => {
                self.give_to_process(now, Neighbour::Successor, packet());
            }
            Owner::Nobody => self.take_unknown(now, packet()),
        }
    }

    /// Gives a packet to the worker that has its connection.
    pub(super) fn give(self: &Rc<Self>, now: Instant, owner: u32, packet: Packet) {
        if owner == self.worker.index() {
            return self.take_own(now, packet);
        }
        let is_taken = self.shared().hand_over(self.listener, self.local, owner, packet);
        self.count(if is_taken { Counter::QuicToWorker } else { Counter::QuicForwardFull });
    }

    /// Takes a packet that no connection here has, or that begins one.
    fn take_unknown(self: &Rc<Self>, now: Instant, packet: Packet) {
        let left = match self.peek() {
            Some(peek) => peek.peek(self, packet),
            None => Some(packet),
        };
        if let Some(packet) = left {
            self.take(now, packet);
        }
    }

    /// Takes a packet that another worker has handed over.
    fn take_handed_over(self: &Rc<Self>, packet: Packet) {
        let is_unknown = || self.shared().owner_of(&packet.bytes) == Owner::Nobody;
        if self.peek.borrow().is_some() && is_unknown() {
            self.take_unknown(clock::instant(), packet);
        } else {
            self.take_own(clock::instant(), packet);
        }
    }

    /// Takes a packet of one of the connections here.
    pub(super) fn take_own(self: &Rc<Self>, now: Instant, packet: Packet) {
        self.forwarded.borrow_mut().note(packet.remote, packet.via, now);
        self.take(now, packet);
    }

    pub(super) fn take(self: &Rc<Self>, now: Instant, packet: Packet) {
        let Packet { remote, local, ecn, bytes, via } = packet;
        if is_initial(&bytes) && self.worker.fairness.half_open.is_closed_to(remote, self.worker.clock.now())
        {
            return self.worker.recorder.borrow().reason(Reason::HandshakeLimit);
        }
        let mut buffer = Vec::new();
        let (short, len) = (short_id(&bytes), bytes.len());
        let event = self.quinn.borrow_mut().handle(now, remote, local, ecn, bytes, &mut buffer);
        match (event, short) {
            (Some(DatagramEvent::ConnectionEvent(handle, event)), _) => {
                self.dispatch(handle, event, remote, len);
            }
            (Some(DatagramEvent::NewConnection(incoming)), _) if self.is_closing.get() => {
                self.refuse(incoming);
            }
            (Some(DatagramEvent::NewConnection(incoming)), _) => (self.admit)(self, incoming),
            (Some(DatagramEvent::Response(response)), Some(id)) => {
                self.send_reset(&id, via.is_some(), &response, &buffer);
            }
            (Some(DatagramEvent::Response(response)), None) => self.send_one(&response, &buffer),
            (None, _) => {}
        }
    }

    fn dispatch(&self, handle: ConnectionHandle, event: ConnectionEvent, from: SocketAddr, len: usize) {
        let connection = self.connections.borrow().get(&handle).and_then(Weak::upgrade);
        if let Some(connection) = connection {
            if let Some(farewell) = connection.farewell_to(from, len) {
                self.send_one(&farewell.transmit(from), &farewell.bytes);
            }
            connection.receive(event);
        }
    }

    // === For what is passed through ===

    pub(crate) fn peek(&self) -> Option<Rc<dyn Peek>> {
        self.peek.borrow().clone()
    }

    pub(crate) fn set_peek(&self, peek: Option<Rc<dyn Peek>>) {
        *self.peek.borrow_mut() = peek;
        self.wake_receiver();
    }

    /// Takes a packet that is not passed through.
    pub(crate) fn take_here(self: &Rc<Self>, packet: Packet) {
        self.take(clock::instant(), packet);
    }

    /// Sends an endpoint's datagram to a client.
    pub(crate) fn send_to_client(&self, client: SocketAddr, from: Option<IpAddr>, bytes: &[u8]) {
        self.send_plain(client, from, None, bytes);
    }

    /// Notes that the packets of a client are passed through here, or no more.
    pub(crate) fn set_passing(&self, client: SocketAddr, is_here: bool) {
        let worker = if is_here { Some(self.worker.index()) } else { None };
        self.shared().set_passing(self.listener, client, worker);
    }

    /// Gives a packet to another worker that passes the packets of its client through. The packet is returned
    /// where there is none.
    pub(crate) fn give_to_passing(&self, packet: Packet) -> Option<Packet> {
        let worker = self.shared().passing(self.listener, packet.remote);
        match worker.filter(|worker| *worker != self.worker.index()) {
            Some(worker) => {
                let is_taken = self.shared().hand_over(self.listener, self.local, worker, packet);
                self.count(if is_taken { Counter::QuicToWorker } else { Counter::QuicForwardFull });
                None
            }
            None => Some(packet),
        }
    }

    // === For connections ===

    /// Notes what a connection has to tell its endpoint. Returns the answer.
    pub(super) fn note(&self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.forget(handle);
        }
        self.quinn.borrow_mut().handle_event(handle, event)
    }

    fn forget(&self, handle: ConnectionHandle) {
        self.connections.borrow_mut().remove(&handle);
        if self.is_closing.get() {
            self.wake_receiver();
        }
    }

    /// Datagrams that one call of the kernel may send.
    pub(super) fn datagrams_per_send(&self) -> usize {
        self.udp.max_gso_segments()
    }

    pub(super) fn suspect_packets(&self) -> &Cell<usize> {
        &self.suspect_packets
    }

    pub(super) fn scratch(&self) -> &RefCell<Vec<u8>> {
        &self.scratch
    }

    /// Sends datagrams. False where the socket takes none at this moment: then the task is woken when it
    /// does.
    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8], waker: &Waker) -> bool {
        match self.try_send(transmit, bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked.borrow_mut().push(waker.clone());
                self.wake_receiver();
                false
            }
            // A datagram that the network does not take is lost, and is repeated as one that is lost on the
            // way.
            _ => true,
        }
    }

    /// Sends a packet that is worth no wait.
    pub(super) fn send_one(&self, transmit: &Transmit, bytes: &[u8]) {
        let _ = self.try_send(transmit, bytes);
    }

    /// Sends a datagram as it is. It may be lost.
    pub(super) fn send_plain(
        &self,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
    ) {
        let datagram = quinn_udp::Transmit {
            destination,
            ecn: ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: bytes,
            segment_size: None,
            src_ip,
        };
        let _ = self
            .socket
            .try_io(Interest::WRITABLE, || self.udp.try_send(UdpSockRef::from(&self.socket), &datagram));
    }

    fn try_send(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
        if self.send_via(transmit, bytes) {
            return Ok(());
        }
        let datagrams = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.socket
            .try_io(Interest::WRITABLE, || self.udp.try_send(UdpSockRef::from(&self.socket), &datagrams))
    }

    fn poll_unblock(&self, cx: &Context<'_>) {
        if !self.blocked.borrow().is_empty() && self.socket.poll_write_ready(cx).is_ready() {
            self.blocked.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }

    fn is_over(&self) -> bool {
        let is_passing = self.peek.borrow().as_ref().is_some_and(|peek| !peek.is_idle());
        let has_connections = self.undecided.get() > 0 || !self.connections.borrow().is_empty();
        self.is_closing.get() && !has_connections && !is_passing
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        let Self(endpoint) = self;
        endpoint.undecided.set(endpoint.undecided.get() - 1);
        if endpoint.is_closing.get() {
            endpoint.wake_receiver();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let all = std::iter::once(&self.socket).chain(self.more.iter().map(|(socket, _)| socket));
        self.shared().leave(self.local, all.map(|socket| socket.as_fd().as_raw_fd()));
    }
}

/// A socket that the worker's event loop polls, and what its kernel can do.
fn registered(socket: std::net::UdpSocket) -> io::Result<(UdpSocket, UdpSocketState)> {
    let udp = UdpSocketState::new(UdpSockRef::from(&socket))?;
    Ok((UdpSocket::from_std(socket)?, udp))
}

/// Receives for as long as the socket is open.
async fn receive(endpoint: Rc<Endpoint>, mut mailbox: mpsc::Receiver<Packet>) {
    let mut space = vec![0; QUIC_BATCH * RECEIVED_BYTES_MAX];
    poll_fn(|cx| {
        remember(&mut endpoint.receiver.borrow_mut(), cx);
        endpoint.poll_unblock(cx);
        while let Poll::Ready(Some(packet)) = mailbox.poll_recv(cx) {
            endpoint.take_handed_over(packet);
        }
        while !endpoint.is_read_elsewhere() {
            match endpoint.poll_receive(cx, &mut space) {
                // An error is about a datagram that was sent, or about memory: the next event is waited for.
                Poll::Ready(Err(error)) => tracing::debug!(%error, "a datagram cannot be received"),
                // Others are served before there is more: a flood waits in the kernel, or is dropped there.
                Poll::Ready(Ok(())) => {
                    reactor::wake_after_poll(cx);
                    break;
                }
                Poll::Pending => break,
            }
        }
        // The kernel goes on to give this socket its share of what comes to the address, for as long as other
        // workers have their own: it is read until the worker ends, and closes it.
        let is_needed = endpoint.worker.is_draining();
        if endpoint.is_over() && !is_needed { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    endpoint.has_ended.set(true);
}
