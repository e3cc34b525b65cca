//! Ports that have to be known beforehand, since a configuration names them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of all addresses, reserved for as long as this lives. A program that sets `SO_REUSEPORT`, as
/// Forebay does, can listen at it.
#[derive(Debug)]
pub struct Port(Socket);

impl Port {
    /// A port of TCP.
    pub fn tcp() -> Self {
        // It does not listen, so that connections pass it by.
        Self::bind(Type::STREAM)
    }

    /// A port of UDP.
    pub fn udp() -> Self {
        let port = Self::bind(Type::DGRAM);
        // A connected socket gets no datagrams of other peers.
        let peer: IpAddr = if has_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        port.0.connect(&SocketAddr::from((peer, 1)).into()).expect("a route to this machine");
        port
    }

    fn bind(kind: Type) -> Self {
        let any: IpAddr =
            if has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let address = SocketAddr::from((any, 0));
        let socket = Socket::new(Domain::for_address(address), kind, None).expect("a socket");
        socket.set_reuse_port(true).expect("a socket option");
        socket.bind(&address.into()).expect("a free port");
        Self(socket)
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        let address = self.0.local_addr().expect("it is bound");
        address.as_socket().expect("it is of IP").port()
    }

    /// Its address for clients on this machine.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number()).into()
    }
}

fn has_ipv6() -> bool {
    std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}
