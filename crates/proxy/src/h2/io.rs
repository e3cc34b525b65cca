//! A socket as the `h2` crate wants it, with an eye on the frames that pass.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::h2::{Begun, FloodGuard};

use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::socket::Socket;
use crate::upstream::Connection;

/// A connection that speaks HTTP/2.
pub(crate) struct Io {
    end: End,
    /// What was read before it was known that it is HTTP/2.
    ahead: Buffer,
    watch: Option<Watch>,
}

/// Whose connection it is.
enum End {
    Client(Socket),
    Endpoint(Connection),
}

/// Follows the frames of a client.
struct Watch {
    guard: FloodGuard,
    clock: Clock,
    seen: Rc<Seen>,
}

/// What was seen in a connection's frames.
#[derive(Default)]
pub(crate) struct Seen {
    /// There were too many that serve no request.
    pub(crate) flood: Cell<bool>,
    /// Streams that were reset because the request was malformed.
    pub(crate) malformed: Cell<u32>,
    /// The frame or header block that has begun and not ended; its time is since 1970.
    pub(crate) begun: Cell<Option<Begun>>,
    /// The socket took less than it was to since this was last set back.
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
            },
            seen,
        )
    }

    /// The connection to an endpoint.
    pub(crate) fn of_endpoint(connection: Connection) -> Self {
        Self { end: End::Endpoint(connection), ahead: Buffer::empty(&Rc::default()), watch: None }
    }
}

impl End {
    fn socket(&self) -> &Socket {
        match self {
            Self::Client(socket) => socket,
            Self::Endpoint(connection) => connection.socket(),
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

    /// Takes note of whether the socket takes what is written.
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
        let socket = this.end.socket();
        match &this.end {
            End::Client(_) if this.ahead.is_empty() => ready!(socket.poll_read_into(cx, space))?,
            // The responses to many requests come together, and the crate reads but a few of them at a time.
            End::Endpoint(_) if this.ahead.is_empty() => _ = ready!(socket.poll_fill(cx, &mut this.ahead))?,
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
        let written = this.end.socket().poll_write_some(cx, &[IoSlice::new(bytes)]);
        let Some(watch) = &mut this.watch else { return written };
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
        let written = this.end.socket().poll_write_some(cx, slices);
        let Some(watch) = &mut this.watch else { return written };
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.end.socket().poll_flush(cx);
        match &self.watch {
            Some(watch) => watch.tried(flushed),
            None => flushed,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end.socket().poll_shutdown(cx)
    }
}
