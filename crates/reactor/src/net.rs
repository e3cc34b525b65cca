//! Sockets in non-blocking mode.

use std::io::{self, IoSlice};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::{Errno, writev};
use rustix::net::sockopt::{set_socket_linger, socket_error};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};

use crate::ready::{Interest, Ready};
use crate::source::Source;

/// A connected stream. Reading and writing need no exclusive access.
#[derive(Debug)]
pub struct TcpStream(Source<net::TcpStream>);

/// A socket that accepts connections.
#[derive(Debug)]
pub struct TcpListener(Source<net::TcpListener>);

/// A socket for datagrams.
#[derive(Debug)]
pub struct UdpSocket(Source<net::UdpSocket>);

// === impl TcpStream ===

impl TcpStream {
    /// Watches a connected stream, which must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`Source::new`].
    ///
    /// # Panics
    ///
    /// If the thread has no reactor.
    pub fn from_std(stream: net::TcpStream) -> io::Result<Self> {
        Source::new(stream, Ready::ASSUMED).map(Self)
    }

    /// The stream, which is no longer watched, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`Source::into_inner`].
    pub fn into_std(self) -> io::Result<net::TcpStream> {
        self.0.into_inner()
    }

    /// Connects a socket in non-blocking mode.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect(socket: net::TcpStream, address: SocketAddr) -> io::Result<Self> {
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = Source::new(socket, Ready::UNKNOWN)?;
        stream.ready(Interest::WRITABLE).await;
        socket_error(&stream)??;
        Ok(Self(stream))
    }

    /// As [`Source::poll_ready`], to read.
    pub fn poll_read_ready(&self, cx: &Context<'_>) -> Poll<Ready> {
        self.0.poll_ready(Interest::READABLE, cx)
    }

    /// As [`Source::poll_ready`], to write.
    pub fn poll_write_ready(&self, cx: &Context<'_>) -> Poll<Ready> {
        self.0.poll_ready(Interest::WRITABLE, cx)
    }

    /// Waits until the stream may be ready.
    pub async fn ready(&self, interest: Interest) -> Ready {
        self.0.ready(interest).await
    }

    /// As [`Source::try_io`].
    ///
    /// # Errors
    ///
    /// `WouldBlock` where the stream is not ready; otherwise those of the attempt.
    pub fn try_io<R>(&self, interest: Interest, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.0.try_io(interest, act)
    }

    /// As [`Source::poll_io`], with the same budget.
    pub fn poll_io<R>(
        &self,
        interest: Interest,
        cx: &Context<'_>,
        act: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.0.poll_io(interest, cx, act)
    }

    /// Reads what is there, at most as much as there is space for; 0 is the end. A read that leaves space has
    /// taken everything, so that the next one waits for an event.
    pub fn poll_read(&self, cx: &Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = || Ok(recv(self, &mut *space, RecvFlags::DONTWAIT)?.0);
        let len = ready!(self.0.poll_io(Interest::READABLE, cx, read))?;
        if len > 0 && len < space.len() {
            self.0.clear(Interest::READABLE);
        }
        Poll::Ready(Ok(len))
    }

    /// As [`poll_read`](Self::poll_read), and leaves the bytes where they are.
    pub fn poll_peek(&self, cx: &Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let peek = || Ok(recv(self, &mut *space, RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0);
        self.0.poll_io(Interest::READABLE, cx, peek)
    }

    /// Writes as much as there is room for.
    pub fn poll_write_vectored(&self, cx: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = ready!(self.0.poll_io(Interest::WRITABLE, cx, || write_slices(self, slices)))?;
        if written > 0 && written < slices.iter().map(|slice| slice.len()).sum() {
            self.0.clear(Interest::WRITABLE);
        }
        Poll::Ready(Ok(written))
    }

    /// Writes as much as there is room for at this moment.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where there is no room; otherwise those of `send(2)`.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .try_io(Interest::WRITABLE, || Ok(send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?))
    }

    /// The same, from several slices.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where there is no room; otherwise those of `writev(2)`.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, || write_slices(self, slices))
    }

    /// Closes the sending side.
    ///
    /// # Errors
    ///
    /// The errors of `shutdown(2)`.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.0.get().shutdown(Shutdown::Write)
    }

    /// Has the connection reset when it is closed.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        Ok(set_socket_linger(self, Some(Duration::ZERO))?)
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get().local_addr()
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The errors of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get().peer_addr()
    }
}

/// The process ignores `SIGPIPE`, as all of Rust's do.
fn write_slices(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(match slices {
        [only] => send(stream, only, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?,
        _ => writev(stream, slices)?,
    })
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// === impl TcpListener ===

impl TcpListener {
    /// Watches a listening socket, which must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`Source::new`].
    ///
    /// # Panics
    ///
    /// If the thread has no reactor.
    pub fn from_std(listener: net::TcpListener) -> io::Result<Self> {
        Source::new(listener, Ready::ASSUMED).map(Self)
    }

    /// Accepts a connection, with the address of its peer.
    ///
    /// # Errors
    ///
    /// The errors of `accept4(2)`, and of [`Source::new`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.io(Interest::READABLE, || self.try_accept()).await
    }

    /// The same at once, whatever the reactor has noted.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where there is none; otherwise those of [`accept`](Self::accept).
    pub fn try_accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = acceptfrom_with(self, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).ok_or(io::ErrorKind::InvalidData)?;
        Ok((TcpStream::from_std(stream.into())?, peer))
    }

    /// The address of the socket.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get().local_addr()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// === impl UdpSocket ===

impl UdpSocket {
    /// Watches a socket, which must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`Source::new`].
    ///
    /// # Panics
    ///
    /// If the thread has no reactor.
    pub fn from_std(socket: net::UdpSocket) -> io::Result<Self> {
        Source::new(socket, Ready::ASSUMED).map(Self)
    }

    /// The address of the socket.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get().local_addr()
    }

    /// As [`Source::io`].
    ///
    /// # Errors
    ///
    /// The errors of the attempt.
    pub async fn io<R>(&self, interest: Interest, act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.0.io(interest, act).await
    }

    /// As [`Source::poll_io`], for this socket.
    pub fn poll_io<R>(
        &self,
        interest: Interest,
        cx: &Context<'_>,
        act: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.0.poll_io(interest, cx, act)
    }

    /// As [`Source::try_io`].
    ///
    /// # Errors
    ///
    /// `WouldBlock` where the socket is not ready; otherwise those of the attempt.
    pub fn try_io<R>(&self, interest: Interest, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.0.try_io(interest, act)
    }

    /// As [`Source::poll_ready`], to write.
    pub fn poll_write_ready(&self, cx: &Context<'_>) -> Poll<Ready> {
        self.0.poll_ready(Interest::WRITABLE, cx)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
