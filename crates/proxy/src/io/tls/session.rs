//! A TLS session over a TCP connection: reading, writing, and when output is sent.
//!
//! Output is sent as late as possible: with the next write, or before the next wait. So session tickets are
//! sent with the first response, and the last message of a client's handshake with its first request,
//! without packets of their own. Ciphertext is received into the buffer that the caller provides for the
//! plaintext, so that an idle session holds no buffer but the 4 KiB of rustls.

use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

use reactor::{Interest, TcpStream};
use rustix::net::{RecvFlags, recv};
use rustls::{Connection, ProtocolVersion};

use crate::limits::{PLAINTEXT_BYTES_MAX, TLS_PEEK_BYTES};

/// One end of a TLS connection.
pub(crate) struct Session {
    stream: TcpStream,
    tls: Connection,
    /// Ciphertext that was received and has not been passed to `tls` yet.
    unprocessed: Vec<u8>,
    /// The stream took only a part of the output: nothing more is encrypted before it takes the rest.
    is_blocked: bool,
}

impl Session {
    pub(crate) fn new(stream: TcpStream, tls: Connection) -> Self {
        Self { stream, tls, unprocessed: Vec::new(), is_blocked: false }
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(crate) fn tls(&self) -> &Connection {
        &self.tls
    }

    /// Moves the session to the event loop of the calling worker.
    pub(crate) fn adopt(self) -> io::Result<Self> {
        let stream = TcpStream::from_std(self.stream.into_std()?)?;
        Ok(Self { stream, ..self })
    }

    // === the handshake ===

    /// Completes the handshake. The output that is left is sent with the next write, or before the next wait.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.is_handshaking() {
            ready!(self.poll_flush(cx))?;
            ready!(self.poll_receive(cx))?;
            self.process()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Receives a part of the peer's handshake, which [`process`](Self::process) then handles.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; TLS_PEEK_BYTES];
        let len = ready!(self.poll_read_stream(cx, &mut scratch))?;
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.unprocessed.extend_from_slice(&scratch[..len]);
        Poll::Ready(Ok(()))
    }

    /// Takes the next step of the handshake.
    pub(crate) fn process(&mut self) -> io::Result<()> {
        let received = std::mem::take(&mut self.unprocessed);
        self.feed(&received)
    }

    /// Whether the next step takes much CPU time: the second half of a key exchange, or a second
    /// `ClientHello`.
    pub(crate) fn is_next_step_costly(&self) -> bool {
        let is_retried = self.tls.handshake_kind() == Some(rustls::HandshakeKind::FullWithHelloRetryRequest);
        let is_resumed = self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        is_retried || (self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2) && !is_resumed)
    }

    // === plaintext ===

    /// Reads into `space`, which must not be empty. 0 is the end of the stream. An end without
    /// `close_notify` is an error: an attacker may have cut off the rest (RFC 8446 section 6.1).
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.tls.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.poll_decrypt(cx, space))?;
        }
    }

    /// The number of bytes that can be read, without reading them; 0 is the end of the stream. Messages
    /// without data (session tickets, key updates) are processed, so that they do not look like data.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if let Some(known) = self.decrypted() {
                return Poll::Ready(known);
            }
            // Usually nothing has come. Then no buffer is needed.
            if self.unprocessed.is_empty() && self.stream.poll_read_ready(cx).is_pending() {
                return self.pend(cx);
            }
            ready!(self.poll_decrypt(cx, &mut [0; TLS_PEEK_BYTES]))?;
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
            if let Some(known) = self.decrypted() {
                return known;
            }
            if self.unprocessed.is_empty() {
                let len = receive(&self.stream, &mut scratch)?;
                self.take(&scratch[..len])?;
            } else {
                self.process()?;
            }
        }
    }

    /// The state of the plaintext: bytes to read, or its end; none if there is neither.
    fn decrypted(&mut self) -> Option<io::Result<usize>> {
        match self.tls.reader().into_first_chunk() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            known => Some(known.map(<[u8]>::len)),
        }
    }

    /// Receives ciphertext and decrypts it.
    fn poll_decrypt(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<()>> {
        if !self.unprocessed.is_empty() {
            return Poll::Ready(self.process());
        }
        let len = ready!(self.poll_read_stream(cx, scratch))?;
        Poll::Ready(self.take(&scratch[..len]))
    }

    fn poll_read_stream(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.stream.poll_read(cx, scratch);
        if read.is_pending() { self.pend(cx) } else { read }
    }

    /// Sends pending output before a wait for the peer, which may itself wait for that output.
    fn pend<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        // rustls frees the buffer of a large record only when it is about to read. Nothing is read, and this
        // cannot fail in another way.
        let _ = self.tls.read_tls(&mut Blocked);
        Poll::Pending
    }

    fn take(&mut self, ciphertext: &[u8]) -> io::Result<()> {
        if ciphertext.is_empty() {
            self.tls.read_tls(&mut io::empty())?;
            return Ok(());
        }
        self.feed(ciphertext)
    }

    fn feed(&mut self, mut ciphertext: &[u8]) -> io::Result<()> {
        while !ciphertext.is_empty() {
            if self.tls.read_tls(&mut ciphertext)? == 0 {
                // Data after close_notify is ignored (RFC 8446 section 6.1).
                break;
            }
            match self.tls.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > PLAINTEXT_BYTES_MAX => {
                    self.unprocessed = ciphertext.to_vec();
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    self.write_alert();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        Ok(())
    }

    /// Encrypts and writes as much of `slices` as there is room for. Returns how many of their bytes were
    /// taken. They have reached the kernel when [`poll_flush`](Self::poll_flush) is ready.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_blocked {
            ready!(self.poll_flush(cx))?;
        }
        let len = self.tls.writer().write_vectored(slices)?;
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(len))
    }

    /// Writes what has been encrypted.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Sink { stream: &self.stream, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.is_blocked = false;
        Poll::Ready(Ok(()))
    }

    /// Sends `close_notify`: no more data will follow.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tls.send_close_notify();
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.stream.shutdown_write())
    }

    /// Sends `close_notify`, if the socket has room for it.
    pub(crate) fn notify_close(&mut self) {
        if !self.tls.is_handshaking() && !self.is_blocked {
            self.tls.send_close_notify();
            self.write_alert();
        }
    }

    /// Tries once to write pending output, such as an alert. The connection ends in any case.
    fn write_alert(&mut self) {
        let _ = self.tls.write_tls(&mut Now(&self.stream));
    }
}

fn receive(stream: &TcpStream, scratch: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, scratch, RecvFlags::DONTWAIT)?.0)
}

/// The stream as rustls writes to it: "would block" is an error.
struct Sink<'a, 'b> {
    stream: &'a TcpStream,
    cx: &'a Context<'b>,
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.stream.poll_write_vectored(self.cx, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stream without an event loop: what cannot be written at once is not written.
pub(super) struct Now<'a>(pub(super) &'a TcpStream);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader without data.
struct Blocked;

impl Read for Blocked {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}
