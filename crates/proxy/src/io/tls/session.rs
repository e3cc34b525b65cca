//! A TLS session over a TCP connection: reading, writing, and when output is sent.
//!
//! Output is sent as late as possible: with the next write, or before the next wait. So session tickets are
//! sent with the first response, and the last message of a client's handshake with its first request,
//! without packets of their own. Ciphertext is received into the buffer that the caller provides for the
//! plaintext and decrypted there, and all records of a write are encrypted into one buffer of the worker's
//! thread, so that an idle session holds no buffer.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use reactor::{Interest, TcpStream};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{CommonState, Error};

use super::negotiation::Negotiation;
use super::record::{Fault, Received, Records, first_record};
use crate::limits::{SEALED_BYTES_KEPT_MAX, TLS_PEEK_BYTES};

/// One end of a TLS connection after its handshake.
pub(crate) struct Session {
    link: Link,
    records: Records,
    received: Received,
}

/// One end of a TLS connection during its handshake.
pub(super) struct Handshake {
    link: Link,
    negotiation: Negotiation,
}

/// A connection, and the output that it has not taken yet.
struct Link {
    stream: TcpStream,
    output: Vec<u8>,
    /// How much of the output was sent.
    sent: usize,
    /// The stream took only a part of the output: nothing more is encrypted before it takes the rest.
    is_blocked: bool,
}

thread_local! {
    /// The buffer in which the sessions of this thread encrypt, one after another.
    static SEALED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

// === impl Handshake ===

impl Handshake {
    pub(super) fn new(stream: TcpStream, negotiation: Negotiation) -> Self {
        Self { link: Link::new(stream), negotiation }
    }

    pub(super) fn facts(&self) -> &CommonState {
        self.negotiation.facts()
    }

    /// Makes the handshake. `before_costly` is awaited before steps that take much CPU time.
    pub(super) async fn complete(&mut self, mut before_costly: impl AsyncFnMut()) -> io::Result<()> {
        self.advance()?;
        while !self.negotiation.is_over() {
            poll_fn(|cx| self.link.poll_flush(cx)).await?;
            poll_fn(|cx| self.poll_receive(cx)).await?;
            if self.negotiation.is_next_step_costly() {
                before_costly().await;
            }
            self.advance()?;
        }
        Ok(())
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; TLS_PEEK_BYTES];
        let len = ready!(self.link.stream.poll_read(cx, &mut scratch))?;
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.negotiation.receive(&scratch[..len]);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self) -> io::Result<()> {
        self.negotiation.advance(&mut self.link.output).map_err(|error| {
            self.link.send_now();
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }

    /// The session that the handshake has made. Its last message is sent with the first write, or before the
    /// first wait.
    pub(super) fn finish(self) -> Result<Box<Session>, Error> {
        let (records, received) = self.negotiation.finish()?;
        Ok(Box::new(Session { link: self.link, records, received }))
    }
}

// === impl Session ===

impl Session {
    pub(crate) fn into_stream(self) -> TcpStream {
        self.link.stream
    }

    /// Moves the session to the event loop of the calling worker.
    pub(crate) fn adopt(mut self) -> io::Result<Self> {
        self.link.stream = TcpStream::from_std(self.link.stream.into_std()?)?;
        Ok(self)
    }

    /// Reads into `space`, which must not be empty. 0 is the end of the stream. An end without
    /// `close_notify` is an error: an attacker may have cut off the rest (RFC 8446 section 6.1).
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.received.is_empty() && !self.records.is_ended() {
            return self.poll_read_into(cx, space);
        }
        while self.received.plain().is_empty() && !self.records.is_ended() {
            if self.open_received()? {
                continue;
            }
            if self.received.fits(space.len()) {
                return self.poll_read_into(cx, space);
            }
            let room = self.received.room();
            let len = match self.link.stream.poll_read(cx, room) {
                Poll::Pending => return self.pend(cx),
                Poll::Ready(read) => some(read?)?,
            };
            self.received.filled(len);
        }
        Poll::Ready(Ok(self.received.read(space)))
    }

    /// Receives records into `space` and decrypts them there, until there is data. What has been received
    /// and not decrypted yet fits into `space`.
    fn poll_read_into(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut held = self.received.hand_over(space);
        loop {
            let opened = self.open_all(&mut space[..held])?;
            if opened.plain > 0 || self.records.is_ended() {
                self.received.keep(&space[opened.used..held]);
                return Poll::Ready(Ok(opened.plain));
            }
            space.copy_within(opened.used..held, 0);
            held -= opened.used;
            if held == space.len() {
                // A record that is longer than the space.
                self.received.keep(space);
                return self.poll_read(cx, space);
            }
            match self.link.stream.poll_read(cx, &mut space[held..]) {
                Poll::Pending => {
                    self.received.keep(&space[..held]);
                    return self.pend(cx);
                }
                Poll::Ready(read) => held += some(read?)?,
            }
        }
    }

    /// Decrypts all whole records in `space`, and moves their data to its front.
    fn open_all(&mut self, space: &mut [u8]) -> io::Result<Opened> {
        let mut opened = Opened { plain: 0, used: 0 };
        loop {
            let record = first_record(&mut space[opened.used..]).map_err(|fault| self.fail(fault))?;
            let Some(record) = record else { return Ok(opened) };
            let len = record.len();
            let content = self.records.open(record, &mut self.link.output);
            let content = content.map_err(|fault| self.fail(fault))?;
            let start = opened.used + content.start;
            space.copy_within(start..start + content.len(), opened.plain);
            opened.plain += content.len();
            opened.used += len;
        }
    }

    /// Decrypts the next record that was received, if all of it has come.
    fn open_received(&mut self) -> io::Result<bool> {
        let record = match self.received.record() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(false),
            Err(fault) => return Err(self.fail(fault)),
        };
        let len = record.len();
        let content = self.records.open(record, &mut self.link.output);
        let content = content.map_err(|fault| self.fail(fault))?;
        self.received.opened(len, content);
        Ok(true)
    }

    /// The number of bytes that can be read, without reading them; 0 is the end of the stream. Messages
    /// without data (session tickets, key updates) are processed, so that they do not look like data.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if let Some(known) = self.decrypted()? {
                return Poll::Ready(Ok(known));
            }
            // Usually nothing has come. Then no buffer is needed.
            if self.link.stream.poll_read_ready(cx).is_pending() {
                return self.pend(cx);
            }
            let mut scratch = [0; TLS_PEEK_BYTES];
            match self.link.stream.poll_read(cx, &mut scratch) {
                Poll::Pending => return self.pend(cx),
                Poll::Ready(read) => self.received.keep(&scratch[..some(read?)?]),
            }
        }
    }

    /// The same as [`poll_peek`](Self::poll_peek), without a task: `WouldBlock` if nothing has come. The
    /// socket is read only if the event loop has marked it as ready.
    pub(crate) fn peek_noted(&mut self) -> io::Result<usize> {
        self.peek_by(|stream, scratch| stream.try_io(Interest::READABLE, || receive(stream, scratch)))
    }

    /// The same as [`peek_noted`](Self::peek_noted), but the socket is always read.
    pub(crate) fn peek_now(&mut self) -> io::Result<usize> {
        self.peek_by(receive)
    }

    fn peek_by(&mut self, receive: impl Fn(&TcpStream, &mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut scratch = [0; TLS_PEEK_BYTES];
        loop {
            if let Some(known) = self.decrypted()? {
                return Ok(known);
            }
            let len = some(receive(&self.link.stream, &mut scratch)?)?;
            self.received.keep(&scratch[..len]);
        }
    }

    /// The state of the plaintext: bytes to read, or its end; none if there is neither.
    fn decrypted(&mut self) -> io::Result<Option<usize>> {
        loop {
            let len = self.received.plain().len();
            if len > 0 || self.records.is_ended() {
                return Ok(Some(len));
            }
            if !self.open_received()? {
                return Ok(None);
            }
        }
    }

    /// Sends pending output before a wait for the peer, which may itself wait for that output.
    fn pend<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.records.answer(&mut self.link.output)?;
        if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        self.received.release();
        Poll::Pending
    }

    /// Encrypts and writes as much of `slices` as there is room for. Returns how many of their bytes were
    /// taken. They have reached the kernel when [`poll_flush`](Self::poll_flush) is ready.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.link.is_blocked {
            ready!(self.link.poll_flush(cx))?;
        }
        let len = self.records.seal(slices, self.link.output_for_more())?;
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        if let Poll::Ready(Err(error)) = self.link.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(len))
    }

    /// Writes what has been encrypted.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_flush(cx)
    }

    /// Sends `close_notify`: no more data will follow.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.records.end(&mut self.link.output)?;
        ready!(self.link.poll_flush(cx))?;
        Poll::Ready(self.link.stream.shutdown_write())
    }

    /// Sends `close_notify`, if the socket has room for it.
    pub(crate) fn notify_close(&mut self) {
        if !self.link.is_blocked && self.records.end(&mut self.link.output).is_ok() {
            self.link.send_now();
        }
    }

    /// Tells the peer of its fault. The connection ends.
    fn fail(&mut self, fault: Fault) -> io::Error {
        if !self.link.is_blocked {
            self.records.tell(fault, &mut self.link.output);
            self.link.send_now();
        }
        fault.into()
    }
}

/// The data of the records at the front of a buffer.
struct Opened {
    /// Bytes of data, which are at the front now.
    plain: usize,
    /// Bytes of the records.
    used: usize,
}

/// The end of the connection, before the peer has said that no more follows, is an error.
fn some(len: usize) -> io::Result<usize> {
    if len == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(len) }
}

fn receive(stream: &TcpStream, scratch: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, scratch, RecvFlags::DONTWAIT)?.0)
}

// === impl Link ===

impl Link {
    fn new(stream: TcpStream) -> Self {
        Self { stream, output: Vec::new(), sent: 0, is_blocked: false }
    }

    /// The output, with memory for more.
    fn output_for_more(&mut self) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = SEALED.take();
        }
        &mut self.output
    }

    /// Writes at once where the socket has room, which it nearly always has: the task is registered only
    /// when there is none.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let stream = &self.stream;
            match stream.try_io(Interest::WRITABLE, || Ok(send(stream, rest, SendFlags::NOSIGNAL)?)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    ready!(stream.poll_write_ready(cx));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.is_blocked = false;
        self.release();
        Poll::Ready(Ok(()))
    }

    /// Tries once to send the output, such as an alert. The connection ends in any case.
    fn send_now(&mut self) {
        let _ = self.stream.try_write(&self.output[self.sent..]);
        self.sent = self.output.len();
    }

    /// Gives the memory of the output back to the thread.
    fn release(&mut self) {
        if self.output.capacity() == 0 {
            return;
        }
        let mut output = std::mem::take(&mut self.output);
        self.sent = 0;
        output.clear();
        let kept = SEALED.take();
        // A handshake's output is short, and brings its own memory.
        let is_better = output.capacity() > kept.capacity() && output.capacity() <= SEALED_BYTES_KEPT_MAX;
        SEALED.set(if is_better { output } else { kept });
    }
}
