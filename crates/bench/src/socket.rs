//! TCP sockets for the event loops: non-blocking, without Nagle's delay, with as few system calls as
//! possible.
//!
//! Must not be in here: protocols.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};

/// Length of the accept queue, for the bursts of the benchmarks; the kernel limits it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// The result of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Number of bytes received.
    Bytes(usize),
    /// No data at the moment.
    Nothing,
    /// The peer has ended its stream.
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

/// The next connection; `None` if none waits, or the one that waited has been closed.
pub(crate) fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::accept_with(listener, flags).ok().map(TcpStream::from)
}

/// Begins to connect. The first successful send, or an error, shows the result.
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

/// One receive system call.
pub(crate) fn receive(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Received> {
    match stream.read(buffer) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if is_transient(&error) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// One send system call. Returns how many of `bytes` the kernel took; 0 if it has no room.
pub(crate) fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if is_transient(&error) => Ok(0),
        result => result,
    }
}

/// Whether the call can be repeated later. Non-blocking calls are not interrupted, so that `EINTR` does not
/// occur.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
