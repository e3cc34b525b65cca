//! Opens and closes connections to endpoints.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};

use reactor::{TcpStream, UdpSocket};
use socket2::{Domain, Protocol, Socket, Type};

use crate::io::sys;

/// The local addresses to connect from, used in turn. Each has its own range of ports.
pub(crate) struct Sources {
    addresses: Vec<IpAddr>,
    next: Cell<usize>,
}

impl Sources {
    pub(crate) fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, next: Cell::new(0) }
    }

    /// The source addresses that can reach `address`, beginning with the next in turn; none lets the kernel
    /// choose.
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
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        sys::set_bind_address_no_port(&socket)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    TcpStream::connect(socket.into(), address).await
}

/// Binds a UDP socket to one source address, and connects it to one endpoint.
pub(crate) fn connect_datagrams(address: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = StdUdpSocket::bind((source.unwrap_or(any), 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    UdpSocket::from_std(socket)
}
