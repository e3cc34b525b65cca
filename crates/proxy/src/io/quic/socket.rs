//! The sockets of workers.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::{QUIC_RECEIVE_BUFFER_BYTES, QUIC_SEND_BUFFER_BYTES};

/// The sockets of a worker at one address. There are several where a process with more workers was replaced.
pub(crate) struct WorkerSockets {
    /// The one by which the worker sends.
    pub(super) own: std::net::UdpSocket,
    /// Sockets that it reads besides.
    pub(super) more: Vec<std::net::UdpSocket>,
}

/// Binds one worker's socket.
pub(super) fn bind(address: SocketAddr, only_v6: bool) -> io::Result<std::net::UdpSocket> {
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
