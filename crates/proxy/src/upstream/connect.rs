//! Opens and closes connections to endpoints.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::Arc;
use std::time::Duration;

use observe::PortCells;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::clock::Moment;
use crate::socket::Socket;
use crate::sys;

/// A connection to an endpoint.
pub(crate) struct Connection {
    socket: Option<Socket>,
    /// When it was opened.
    pub(crate) opened: Moment,
    /// When it was last put back into the pool.
    pub(crate) idle_since: Moment,
    /// How long the endpoint keeps an idle connection, from `Keep-Alive: timeout` in a response; none if it did not say.
    pub(crate) idle_max: Option<Duration>,
    /// Number of requests made on it.
    pub(crate) requests: u64,
    /// Whether it is closed in order, so that data in flight still arrives, rather than reset.
    pub(crate) closes_in_order: bool,
    ports: Arc<PortCells>,
}

/// The local addresses to connect from, used in turn. Each has its own range of ports.
pub(crate) struct Sources {
    addresses: Vec<IpAddr>,
    next: Cell<usize>,
}

impl Connection {
    pub(crate) fn new(socket: Socket, opened: Moment, ports: Arc<PortCells>) -> Self {
        ports.taken();
        Self {
            socket: Some(socket),
            opened,
            idle_since: opened,
            idle_max: None,
            requests: 0,
            closes_in_order: false,
            ports,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.socket.as_ref().expect("a connection loses its socket only when it is dropped or moved")
    }

    /// Whether the connection has neither ended nor received data while it was idle. Usually the state that the event loop has
    /// noted decides without a system call. The socket is read only if it was noted as ready, which it also is after a read that
    /// filled its buffer.
    pub(crate) fn is_quiet(&self) -> bool {
        is_blocked(&self.socket().peek_noted())
    }

    /// The same as [`is_quiet`](Self::is_quiet), but the socket is always read.
    pub(crate) fn is_quiet_now(&self) -> bool {
        is_blocked(&self.socket().peek_now())
    }

    /// Moves the connection to the event loop of the calling worker.
    pub(crate) fn adopt(mut self) -> io::Result<Self> {
        if let Some(socket) = self.socket.take() {
            self.socket = Some(socket.adopt()?);
        }
        Ok(self)
    }
}

fn is_blocked(peeked: &io::Result<usize>) -> bool {
    peeked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

impl Drop for Connection {
    /// Resets the connection, except after a tunnel. No data that matters is in flight when we close a connection, and a reset
    /// leaves no `TIME_WAIT`, which would hold a port for a minute.
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().filter(|_| !self.closes_in_order) {
            socket.reset();
        }
        self.ports.given_back();
    }
}

impl Sources {
    pub(crate) fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, next: Cell::new(0) }
    }

    /// The source addresses that can reach `address`, beginning with the next in turn; none stands for letting the kernel choose.
    pub(crate) fn in_turn(&self, address: SocketAddr) -> impl Iterator<Item = Option<IpAddr>> {
        let matching: Vec<IpAddr> =
            self.addresses.iter().copied().filter(|source| source.is_ipv4() == address.is_ipv4()).collect();
        let first = self.next.replace(self.next.get().wrapping_add(1));
        let count = matching.len().max(1);
        (0..count).map(move |at| {
            if matching.is_empty() { None } else { Some(matching[first.wrapping_add(at) % count]) }
        })
    }
}

/// Connects from one source address.
pub(crate) async fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    if let Some(source) = source {
        sys::set_bind_address_no_port(&socket)?;
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(address).await
}

/// Binds a UDP socket to one source address, and connects it to one endpoint.
pub(crate) fn connect_datagrams(address: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = StdUdpSocket::bind((source.unwrap_or(any), 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    UdpSocket::from_std(socket)
}
