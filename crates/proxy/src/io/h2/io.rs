//! A socket for the `h2` crate, which watches the frames that pass.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::h2::{Begun, FloodGuard, ResponseGuard};

use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::socket::Socket;

/// A connection that speaks HTTP/2.
pub(crate) struct Io {
    end: End,
    /// Bytes that were read before the connection was known to be HTTP/2.
    ahead: Buffer,
    watch: Option<Watch>,
    /// A write to an endpoint has failed.
    is_unwritable: bool,
    /// The endpoint's side has ended.
    is_read: bool,
}

/// The peer of the connection.
enum End {
    Client(Socket),
    Endpoint(Connection, ResponseGuard),
}

/// Watches the frames of a client.
struct Watch {
    guard: FloodGuard,
    clock: Clock,
    seen: Rc<Seen>,
}

/// Observations on a connection's frames.
#[derive(Default)]
pub(crate) struct Seen {
    /// Too many frames served no request.
    pub(crate) flood: Cell<bool>,
    /// Streams that were reset because the request was malformed.
    pub(crate) malformed: Cell<u32>,
    /// The frame or header block that is incomplete; its time is since 1970.
    pub(crate) begun: Cell<Option<Begun>>,
    /// The socket has accepted less than was offered since this was last reset.
    pub(crate) is_blocked: Cell<bool>,
}

impl Io {
    /// The connection of a client, watched.
    pub(crate) fn watched(socket: Socket, ahead: Buffer, clock: Clock) -> (Self, Rc<Seen>) {
        let seen = Rc::<Seen>::default();
        let guard = FloodGuard::new(clock.unix());
        (
            Self {
                end: End::Client(socket),
                ahead,
                watch: Some(Watch { guard, clock, seen: Rc::clone(&seen) }),
                is_unwritable: false,
                is_read: false,
            },
            seen,
        )
    }

    /// The connection to an endpoint.
    pub(crate) fn of_endpoint(connection: Connection) -> Self {
        let ahead = Buffer::empty(&Rc::default());
        Self {
            end: End::Endpoint(connection, ResponseGuard::default()),
            ahead,
            watch: None,
            is_unwritable: false,
            is_read: false,
        }
    }

    /// Writes to an endpoint. Before it closed its end, it may have sent a GOAWAY that names unprocessed
    /// requests: a write that fails waits until all of that has been read. The reading side wakes the task.
    fn poll_endpoint<T>(
        &mut self,
        write: impl FnOnce(&Socket) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.is_unwritable {
            let written = write(self.end.socket());
            let has_closed = matches!(&written, Poll::Ready(Err(error)) if is_closed(error));
            if self.is_read || !has_closed {
                return written;
            }
            self.is_unwritable = true;
        }
        if self.is_read { Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) } else { Poll::Pending }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl End {
    fn socket(&self) -> &Socket {
        match self {
            Self::Client(socket) => socket,
            Self::Endpoint(connection, _) => connection.socket(),
        }
    }
}

impl Watch {
    fn received(&mut self, bytes: &[u8]) {
        if self.guard.received(bytes, self.clock.unix()).is_err() {
            self.seen.flood.set(true);
        }
        self.seen.begun.set(self.guard.begun());
    }

    /// Notes whether the socket accepts the bytes.
    fn tried<T>(&self, written: Poll<T>) -> Poll<T> {
        self.seen.is_blocked.set(self.seen.is_blocked.get() || written.is_pending());
        written
    }

    fn sent(&mut self, bytes: &[u8]) {
        let malformed = self.guard.sent(bytes);
        self.seen.malformed.set(self.seen.malformed.get() + malformed);
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = space.filled().len();
        match &mut this.end {
            End::Client(socket) if this.ahead.is_empty() => ready!(socket.poll_read_into(cx, space))?,
            // The responses to many requests arrive together, and the crate reads only a few of them at a
            // time.
            End::Endpoint(connection, guard) if this.ahead.is_empty() => {
                let read = ready!(connection.socket().poll_fill(cx, &mut this.ahead));
                this.is_read = !matches!(read, Ok(1..));
                read?;
                guard
                    .received(this.ahead.data())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            _ => {}
        }
        if !this.ahead.is_empty() {
            let len = this.ahead.len().min(space.remaining());
            space.put_slice(&this.ahead.data()[..len]);
            this.ahead.consume(len);
            this.ahead.release();
        }
        if let Some(watch) = &mut this.watch {
            watch.received(&space.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let slices = [IoSlice::new(bytes)];
        let Some(watch) = &mut this.watch else {
            return this.poll_endpoint(|socket| socket.poll_write_some(cx, &slices));
        };
        let written = this.end.socket().poll_write_some(cx, &slices);
        let len = ready!(watch.tried(written))?;
        watch.sent(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(watch) = &mut this.watch else {
            return this.poll_endpoint(|socket| socket.poll_write_some(cx, slices));
        };
        let written = this.end.socket().poll_write_some(cx, slices);
        let len = ready!(watch.tried(written))?;
        let mut left = len;
        for slice in slices {
            let taken = left.min(slice.len());
            watch.sent(&slice[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.watch {
            Some(watch) => watch.tried(self.end.socket().poll_flush(cx)),
            None => self.poll_endpoint(|socket| socket.poll_flush(cx)),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end.socket().poll_shutdown(cx)
    }
}
