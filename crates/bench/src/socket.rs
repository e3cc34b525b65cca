//! TCP sockets as the loops here want them: never blocking, without Nagle's delay, in as few system calls as can be.
//!
//! Must not be in here: who talks to whom, and what is said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};

/// Enough for the bursts that the benchmarks make; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// What one receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer's end of its stream.
    End,
}

/// Listens on `address`, which must be free.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The next connection; `None` when none waits, or the one that waited is gone again.
pub(crate) fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::accept_with(listener, flags).ok().map(TcpStream::from)
}

/// Begins to connect: the first send that succeeds, or an error, tells how it went.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(socket.into()),
    }
}

/// One receive.
pub(crate) fn receive(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Received> {
    match stream.read(buffer) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if is_transient(&error) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// One send: how many of `bytes` the kernel took, 0 when it has no room.
pub(crate) fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if is_transient(&error) => Ok(0),
        result => result,
    }
}

/// Sockets that never block are not interrupted either: `EINTR` needs no loop of its own.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
