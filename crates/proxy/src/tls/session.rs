//! A TLS session over a TCP connection: what is read and written through it, and when what goes out.
//!
//! Output leaves as late as it may: with the next write, or before the next wait. So session tickets go out with the first
//! response, and the last message of a client's handshake with its first request, at no packet of their own. Ciphertext is
//! read into the room that the caller has for the plaintext, so that an idle session holds no buffer but rustls' own 4 KiB.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use rustls::{Connection, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::limits::{PLAINTEXT_BYTES_MAX, TLS_PEEK_BYTES};

/// One end of a TLS connection.
pub(crate) struct Session {
    stream: TcpStream,
    tls: Connection,
    /// What has been read from the stream and not yet been given to `tls`.
    unprocessed: Vec<u8>,
    /// The stream took less than it was given: no more is encrypted before it takes the rest.
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

    // The handshake.

    /// Carries the handshake to its end. What is left to be sent then leaves with what is written next, or before the next
    /// wait.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.is_handshaking() {
            ready!(self.poll_flush(cx))?;
            ready!(self.poll_receive(cx))?;
            self.process()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads something of the peer's handshake; [`process`](Self::process) acts on it.
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

    /// Whether the next step is one that a CPU feels: the second half of a key exchange, or a second `ClientHello`.
    pub(crate) fn is_next_step_costly(&self) -> bool {
        let is_retried = self.tls.handshake_kind() == Some(rustls::HandshakeKind::FullWithHelloRetryRequest);
        let is_resumed = self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        is_retried || (self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2) && !is_resumed)
    }

    // Plaintext.

    /// Reads into `space`, of which there must be some; 0 is the end, and an end without notice is an error: whoever cut the
    /// connection may have cut off the rest (RFC 8446 section 6.1).
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.tls.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.poll_decrypt(cx, space))?;
        }
    }

    /// How much there is to be read, without taking it; 0 is the end. What the peer sends beside data (session tickets, key
    /// updates) is taken in, so that it does not look like data.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if let Some(known) = self.decrypted() {
                return Poll::Ready(known);
            }
            // Most often nothing has come, and no room for it need be made.
            if self.unprocessed.is_empty() && self.stream.poll_read_ready(cx)?.is_pending() {
                return self.pend(cx);
            }
            ready!(self.poll_decrypt(cx, &mut [0; TLS_PEEK_BYTES]))?;
        }
    }

    /// As [`poll_peek`](Self::poll_peek), without a task: `WouldBlock` where nothing has come. The socket is asked only where the
    /// event loop has noted it ready.
    pub(crate) fn peek_noted(&mut self) -> io::Result<usize> {
        self.peek_by(|stream, scratch| stream.try_io(Interest::READABLE, || receive(stream, scratch)))
    }

    /// As [`peek_noted`](Self::peek_noted), and the socket is asked, whatever the event loop has noted.
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

    /// What is known of the plaintext: some, its end, or nothing.
    fn decrypted(&mut self) -> Option<io::Result<usize>> {
        match self.tls.reader().into_first_chunk() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            known => Some(known.map(<[u8]>::len)),
        }
    }

    /// Reads ciphertext and decrypts it.
    fn poll_decrypt(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<()>> {
        if !self.unprocessed.is_empty() {
            return Poll::Ready(self.process());
        }
        let len = ready!(self.poll_read_stream(cx, scratch))?;
        Poll::Ready(self.take(&scratch[..len]))
    }

    fn poll_read_stream(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut space = ReadBuf::new(scratch);
        match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(space.filled().len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.pend(cx),
        }
    }

    /// What has to be done before a wait for the peer, which may itself be waiting for what has not been written yet.
    fn pend<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        // rustls gives up the room that a large record took when it is about to read, and not before. Nothing is read, and
        // nothing else can fail.
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
                // Nothing that follows a notice of the end counts (RFC 8446 section 6.1).
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

    /// Encrypts and writes what of `slices` has room; returns how much of them was taken. All of that has reached the kernel
    /// when [`poll_flush`](Self::poll_flush) is done.
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
            match self.tls.write_tls(&mut Sink { stream: &mut self.stream, cx }) {
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

    /// Says to the peer that no more will come.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tls.send_close_notify();
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Says to the peer that no more will come, if the socket has room for that.
    pub(crate) fn notify_close(&mut self) {
        if !self.tls.is_handshaking() && !self.is_blocked {
            self.tls.send_close_notify();
            self.write_alert();
        }
    }

    /// Writes once what there is to write. A peer that does not take it learns less of why the connection ends.
    fn write_alert(&mut self) {
        let _ = self.tls.write_tls(&mut Now(&self.stream));
    }
}

fn receive(stream: &TcpStream, scratch: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, scratch, RecvFlags::DONTWAIT)?.0)
}

/// The stream as rustls writes to it: "not now" is an error.
struct Sink<'a, 'b> {
    stream: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write_vectored(self.cx, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stream without an event loop: what does not go at once does not go.
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

/// A reader that has nothing yet.
struct Blocked;

impl Read for Blocked {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}
