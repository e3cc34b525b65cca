//! One QUIC connection over a UDP socket of its own: packets in and out, and its timers.
//!
//! Must not be in here: HTTP.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Transmit, VarInt};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use super::clients::QuicClients;
use super::code;
use crate::epoll::Epoll;

/// Receives that one system call makes.
const BATCH: usize = 8;
/// Most bytes of one receive: datagrams that the kernel has joined.
const RECEIVED_BYTES_MAX: usize = 64 * 1024;

/// Most datagrams that one system call sends.
const DATAGRAMS_PER_SEND_MAX: usize = 16;

/// Receive buffer of a socket: as much as arrives while the thread serves others.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// Room for what a thread receives at once.
pub(crate) struct ReceiveBuffer(Vec<u8>);

/// A connection that is open or is being opened.
pub(super) struct Link {
    socket: UdpSocket,
    udp: UdpSocketState,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    /// Datagrams that the socket had no room for.
    unsent: Option<Transmit>,
    /// Their bytes, or room for the next ones.
    scratch: Vec<u8>,
}

/// The points in time at which connections have something to do without a packet.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The earliest entry of each connection; none if it has none.
    armed: Vec<Option<Instant>>,
}

impl Default for ReceiveBuffer {
    fn default() -> ReceiveBuffer {
        ReceiveBuffer(vec![0; BATCH * RECEIVED_BYTES_MAX])
    }
}

impl Link {
    /// Begins a connection, and watches its socket as `token`.
    pub(super) fn open(
        target: SocketAddr,
        clients: &QuicClients,
        epoll: &Epoll,
        token: usize,
    ) -> io::Result<Link> {
        let socket =
            Socket::new(Domain::for_address(target), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        // The kernel gives less where its own bound is lower.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        socket.bind(&any.into())?;
        // A socket that is connected learns that the port is closed.
        socket.connect(&target.into())?;
        let socket = UdpSocket::from(socket);
        let udp = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let (endpoint, handle, connection) = clients.begin(token, target, !udp.may_fragment())?;
        epoll.add(&socket, token)?;
        Ok(Link { socket, udp, endpoint, handle, connection, unsent: None, scratch: Vec::new() })
    }

    /// Receives all that has arrived. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// When nobody listens at the port, while the connection is being opened.
    pub(super) fn receive(&mut self, buffer: &mut ReceiveBuffer) -> io::Result<u64> {
        let mut received = 0;
        let mut metas = [RecvMeta::default(); BATCH];
        loop {
            let mut pieces = buffer.0.chunks_mut(RECEIVED_BYTES_MAX);
            let mut slices: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| IoSliceMut::new(pieces.next().unwrap_or_default()));
            let count = match self.udp.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(received),
                Err(error) if self.connection.is_handshaking() => return Err(error),
                // Anybody can send such an error; an open connection ends by its own timers.
                Err(_) => continue,
            };
            let now = Instant::now();
            for (meta, bytes) in metas.iter().zip(buffer.0.chunks(RECEIVED_BYTES_MAX)).take(count) {
                received += meta.len as u64;
                for datagram in bytes[..meta.len].chunks(meta.stride.max(1)) {
                    self.take(now, meta, datagram);
                }
            }
            if count < BATCH {
                return Ok(received);
            }
        }
    }

    fn take(&mut self, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let mut answer = Vec::new();
        let datagram = BytesMut::from(datagram);
        let event = self.endpoint.handle(now, meta.addr, meta.dst_ip, ecn, datagram, &mut answer);
        // A client has nothing to say to packets of other connections.
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Handles timers that are due, and exchanges what connection and endpoint have to know of each other.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Sends all that is to be sent, as far as the socket has room.
    pub(super) fn transmit(&mut self, now: Instant) {
        let datagrams_max = self.udp.max_gso_segments().min(DATAGRAMS_PER_SEND_MAX);
        loop {
            if self.unsent.is_none() {
                self.scratch.clear();
                self.unsent = self.connection.poll_transmit(now, datagrams_max, &mut self.scratch);
            }
            let Some(transmit) = &self.unsent else { return };
            let datagrams = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &self.scratch[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: None,
            };
            let sent = self.udp.try_send(UdpSockRef::from(&self.socket), &datagrams);
            if sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                return;
            }
            // Any other error is a packet that was lost.
            self.unsent = None;
        }
    }

    /// Tells the server that the connection ends.
    pub(super) fn close(&mut self) {
        let now = Instant::now();
        self.unsent = None;
        self.connection.close(now, VarInt::from_u32(code::NO_ERROR), Bytes::new());
        self.transmit(now);
    }
}

impl Timers {
    /// The next point in time at which [`Timers::due`] has something.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Notes the timer of a connection; none if it has none.
    pub(crate) fn arm(&mut self, token: usize, due: Option<Instant>) {
        let Some(due) = due else { return };
        if self.armed.len() <= token {
            self.armed.resize(token + 1, None);
        }
        // A later one is looked at when the earlier one ends: most are put off by each packet.
        if self.armed[token].is_none_or(|armed| due < armed) {
            self.armed[token] = Some(due);
            self.heap.push(Reverse((due, token)));
        }
    }

    /// A connection whose timer may be due; it has to be armed again.
    pub(crate) fn due(&mut self, now: Instant) -> Option<usize> {
        while self.next().is_some_and(|due| due <= now) {
            let Reverse((due, token)) = self.heap.pop()?;
            if self.armed[token] == Some(due) {
                self.armed[token] = None;
                return Some(token);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_connection_is_due_once_at_its_earliest_timer() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut timers = Timers::default();
        timers.arm(3, Some(at(20)));
        timers.arm(3, Some(at(10)));
        timers.arm(1, Some(at(15)));
        timers.arm(1, Some(at(30)));
        timers.arm(0, None);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.due(at(9)), None);
        assert_eq!((timers.due(at(25)), timers.due(at(25)), timers.due(at(25))), (Some(3), Some(1), None));
        assert_eq!(timers.next(), None);
    }
}
