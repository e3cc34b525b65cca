//! One UDP socket of one worker, and the connections on it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::BytesMut;
use model::ListenerId;
use quinn_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig, EndpointEvent,
    Incoming, ServerConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use reactor::{Interest, UdpSocket};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::ids::{Packet, SharedQuic, WorkerIds, destination_id};
use crate::limits::{QUIC_BATCH, QUIC_RECEIVE_BUFFER_BYTES, QUIC_SEND_BUFFER_BYTES};

/// Decides on a connection that a client asks for.
type Admit = Rc<dyn Fn(&Rc<Endpoint>, Incoming)>;

/// The socket, and the state that its connections share.
pub(crate) struct Endpoint {
    listener: ListenerId,
    /// The address that the socket is bound to.
    local: SocketAddr,
    worker: u8,
    shared: Arc<SharedQuic>,
    socket: UdpSocket,
    udp: UdpSocketState,
    quinn: RefCell<quinn_proto::Endpoint>,
    connections: RefCell<HashMap<ConnectionHandle, Weak<Connection>>>,
    /// Drivers of connections that wait until the socket takes more.
    blocked: RefCell<Vec<Waker>>,
    /// Bytes of packets that are made and sent at once.
    scratch: RefCell<Vec<u8>>,
    admit: Admit,
    /// No new connections are taken.
    is_closing: Cell<bool>,
    receiver: RefCell<Option<Waker>>,
    has_ended: Cell<bool>,
}

/// Bytes that the kernel may give for one receive: datagrams of one sender that it has joined.
const RECEIVED_BYTES_MAX: usize = 64 << 10;

/// Binds one worker's socket.
pub(crate) fn bind(address: SocketAddr, only_v6: bool) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    // The kernel gives less than that where its own bound is lower (`net.core.rmem_max`).
    let _ = socket.set_recv_buffer_size(QUIC_RECEIVE_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(QUIC_SEND_BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl Endpoint {
    /// Starts to receive.
    pub(crate) fn start(
        listener: ListenerId,
        worker: u8,
        shared: &Arc<SharedQuic>,
        socket: std::net::UdpSocket,
        config: Arc<ServerConfig>,
        admit: Admit,
    ) -> io::Result<Rc<Self>> {
        let local = socket.local_addr()?;
        let udp = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let mut endpoint = EndpointConfig::new(Arc::clone(&shared.reset_key) as _);
        let ids = Arc::clone(shared);
        endpoint.cid_generator(move || Box::new(WorkerIds { shared: Arc::clone(&ids), worker }));
        let allows_discovery = !udp.may_fragment();
        let quinn = quinn_proto::Endpoint::new(Arc::new(endpoint), Some(config), allows_discovery, None);
        let mailbox = shared.open_mailbox(listener, local, worker);
        let endpoint = Rc::new(Self {
            listener,
            local,
            worker,
            shared: Arc::clone(shared),
            socket: UdpSocket::from_std(socket)?,
            udp,
            quinn: RefCell::new(quinn),
            connections: RefCell::default(),
            blocked: RefCell::default(),
            scratch: RefCell::default(),
            admit,
            is_closing: Cell::new(false),
            receiver: RefCell::default(),
            has_ended: Cell::new(false),
        });
        reactor::spawn_detached(receive(Rc::clone(&endpoint), mailbox));
        Ok(endpoint)
    }

    /// The address that the socket is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Takes no more connections. The socket is closed when the last one has ended.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        self.wake_receiver();
    }

    /// Takes connections again, before the socket was closed.
    pub(crate) fn open_again(&self) {
        self.is_closing.set(false);
    }

    /// Whether the socket has been closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Sets the configuration of connections that are asked for from now on.
    pub(crate) fn configure(&self, config: Arc<ServerConfig>) {
        self.quinn.borrow_mut().set_server_config(Some(config));
    }

    fn wake_receiver(&self) {
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
                let connection = Connection::new(Rc::clone(self), handle, connection);
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

    fn poll_receive(self: &Rc<Self>, cx: &Context<'_>, space: &mut [u8]) -> Poll<io::Result<()>> {
        let mut metas = [RecvMeta::default(); QUIC_BATCH];
        loop {
            let received = self.socket.poll_io(Interest::READABLE, cx, || {
                let mut chunks = space.chunks_mut(RECEIVED_BYTES_MAX);
                let mut slices: [IoSliceMut<'_>; QUIC_BATCH] =
                    std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
                self.udp.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)
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
                }
            }
        }
    }

    fn take_received(self: &Rc<Self>, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
        let packet = Packet { remote: meta.addr, local: meta.dst_ip, ecn, bytes: BytesMut::from(datagram) };
        let owner = destination_id(datagram).and_then(|id| self.shared.worker_of(id));
        match owner {
            Some(owner) if owner != self.worker => {
                self.shared.hand_over(self.listener, self.local, owner, packet);
            }
            _ => self.take(now, packet),
        }
    }

    fn take(self: &Rc<Self>, now: Instant, packet: Packet) {
        let Packet { remote, local, ecn, bytes } = packet;
        let mut buffer = Vec::new();
        let event = self.quinn.borrow_mut().handle(now, remote, local, ecn, bytes, &mut buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => self.dispatch(handle, event),
            Some(DatagramEvent::NewConnection(incoming)) if self.is_closing.get() => self.refuse(incoming),
            Some(DatagramEvent::NewConnection(incoming)) => (self.admit)(self, incoming),
            Some(DatagramEvent::Response(response)) => self.send_one(&response, &buffer),
            None => {}
        }
    }

    fn dispatch(&self, handle: ConnectionHandle, event: ConnectionEvent) {
        let connection = self.connections.borrow().get(&handle).and_then(Weak::upgrade);
        if let Some(connection) = connection {
            connection.receive(event);
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
    fn send_one(&self, transmit: &Transmit, bytes: &[u8]) {
        let _ = self.try_send(transmit, bytes);
    }

    fn try_send(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
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
        self.is_closing.get() && self.connections.borrow().is_empty()
    }
}

/// Receives for as long as the socket is open.
async fn receive(endpoint: Rc<Endpoint>, mut mailbox: mpsc::Receiver<Packet>) {
    let mut space = vec![0; QUIC_BATCH * RECEIVED_BYTES_MAX];
    poll_fn(|cx| {
        {
            let mut receiver = endpoint.receiver.borrow_mut();
            if !receiver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *receiver = Some(cx.waker().clone());
            }
        }
        endpoint.poll_unblock(cx);
        while let Poll::Ready(Some(packet)) = mailbox.poll_recv(cx) {
            endpoint.take(clock::instant(), packet);
        }
        // An error is about a datagram that was sent, or about memory: the next event is waited for.
        while let Poll::Ready(Err(error)) = endpoint.poll_receive(cx, &mut space) {
            tracing::debug!(%error, "a datagram cannot be received");
        }
        if endpoint.is_over() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    endpoint.has_ended.set(true);
}
