//! A stream in the form that the `h2` library needs: `AsyncRead` and `AsyncWrite`.
//!
//! Nothing here wakes a task: the generator polls when the socket is ready. Must not be in here: HTTP.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::outcome::Opened;
use super::stream::Stream;

/// The protocol that is offered and expected in ALPN.
pub(super) const ALPN_H2: &[u8] = b"h2";

pub(super) struct Transport {
    stream: Stream,
    facts: Rc<Facts>,
    /// Counts the bytes received.
    received: Rc<Cell<u64>>,
}

/// The state of a transport, which remains visible after the library has taken the transport.
pub(super) struct Facts {
    start: Instant,
    /// The TCP connection is open; the TLS handshake may not be complete.
    pub(super) is_connected: Cell<bool>,
    /// Set when the first byte was sent, which is after the TLS handshake if there is one.
    pub(super) opened: Cell<Option<Opened>>,
}

impl Transport {
    /// Wraps a stream that was opened at `start`. The number of received bytes is added to `received`.
    pub(super) fn new(stream: Stream, start: Instant, received: Rc<Cell<u64>>) -> (Transport, Rc<Facts>) {
        let facts = Rc::new(Facts { start, is_connected: Cell::new(false), opened: Cell::new(None) });
        (Transport { stream, facts: Rc::clone(&facts), received }, facts)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.stream.send(bytes);
        self.facts.is_connected.set(self.facts.is_connected.get() || self.stream.is_connected());
        let count = sent?;
        if count > 0 && self.facts.opened.get().is_none() {
            if !self.stream.agrees_on(ALPN_H2) {
                return Err(io::Error::other("the server does not offer HTTP/2"));
            }
            self.facts.opened.set(Some(self.stream.opened(self.facts.start)));
        }
        Ok(count)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.stream.read(buffer.initialize_unfilled()) {
            Ok(None) => Poll::Pending,
            Ok(Some(count)) => {
                buffer.advance(count);
                self.received.set(self.received.get() + count as u64);
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.send(bytes) {
            Ok(0) if !bytes.is_empty() => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream.flush() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Everything has been sent. The socket is reset when it is closed, so that its port is free at once.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.reset_on_close())
    }
}
