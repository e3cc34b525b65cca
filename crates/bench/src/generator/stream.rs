//! The stream of a connection: a plain socket, or TLS over one.
//!
//! Must not be in here: HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustls::{ClientConnection, HandshakeKind};

use super::outcome::Opened;
use crate::epoll::Epoll;
use crate::socket::{self, Received};

/// Room in the receive buffer for the rest of a record that began in an earlier read.
const RECORD_BYTES_MAX: usize = 16 * 1024 + 256;

/// A non-blocking stream.
pub(super) enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream>),
}

/// TLS over a socket. The handshake is part of the first send.
pub(super) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
    /// When the TCP connection was seen to be open.
    connected: Option<Instant>,
}

/// The result of one receive.
pub(super) enum Arrival {
    /// Number of bytes received, which may be 0 with TLS; with `drained` the socket had no more data.
    Bytes { count: usize, drained: bool },
    /// No data at the moment.
    Nothing,
    /// The peer has ended its stream.
    End,
}

impl Stream {
    /// Begins to connect, and watches the socket as `token`.
    pub(super) fn open(
        target: SocketAddr,
        session: Option<ClientConnection>,
        epoll: &Epoll,
        token: usize,
    ) -> io::Result<Stream> {
        let socket = socket::connect(target)?;
        epoll.add(&socket, token)?;
        Ok(match session {
            None => Stream::Clear(socket),
            Some(session) => Stream::Tls(Box::new(TlsStream { socket, session, connected: None })),
        })
    }

    /// Sends. Returns how many of `bytes` were taken: 0 while the connection is being opened, or without room
    /// in the socket.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Clear(socket) => socket::send(socket, bytes),
            Stream::Tls(stream) => stream.send(bytes),
        }
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        match self {
            Stream::Clear(socket) => Ok(match socket::receive(socket, buffer)? {
                Received::Bytes(count) => Arrival::Bytes { count, drained: count < buffer.len() },
                Received::Nothing => Arrival::Nothing,
                Received::End => Arrival::End,
            }),
            Stream::Tls(stream) => stream.receive(buffer),
        }
    }

    /// Reads. Returns the number of bytes, 0 at the end of the peer's stream, `None` if there is no data at
    /// the moment. Unlike [`Stream::receive`] it works with a `buffer` of any size.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Stream::Clear(socket) => Ok(match socket::receive(socket, buffer)? {
                Received::Bytes(count) => Some(count),
                Received::Nothing => None,
                Received::End => Some(0),
            }),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    /// Whether the kernel has taken everything that was sent.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Clear(_) => Ok(true),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Makes the close of the socket a reset.
    pub(super) fn reset_on_close(&self) -> io::Result<()> {
        let socket = match self {
            Stream::Clear(socket) => socket,
            Stream::Tls(stream) => &stream.socket,
        };
        Ok(set_socket_linger(socket, Some(Duration::ZERO))?)
    }

    /// Whether this protocol can be used: it was agreed on by ALPN, or the stream is plain TCP with prior
    /// knowledge.
    pub(super) fn agrees_on(&self, protocol: &[u8]) -> bool {
        match self {
            Stream::Clear(_) => true,
            Stream::Tls(stream) => stream.session.alpn_protocol() == Some(protocol),
        }
    }

    /// Whether the TCP connection is open, even if the TLS handshake is not complete. Only TLS knows this
    /// before the first send.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.connected.is_some())
    }

    /// The times of opening a connection, which began at `start` and has just been completed.
    pub(super) fn opened(&self, start: Instant) -> Opened {
        match self {
            Stream::Clear(_) => Opened { connect: start.elapsed(), tls: None, resumed: false },
            Stream::Tls(stream) => {
                let connected = stream.connected.unwrap_or(start);
                Opened {
                    connect: connected - start,
                    tls: Some(connected.elapsed()),
                    resumed: stream.session.handshake_kind() == Some(HandshakeKind::Resumed),
                }
            }
        }
    }
}

impl TlsStream {
    /// The request is sent together with the last flight of the handshake, as browsers do.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.shake_hands()? {
            return Ok(0);
        }
        let mut taken = 0;
        loop {
            taken += self.session.writer().write(&bytes[taken..])?;
            if !self.flush()? || taken == bytes.len() {
                return Ok(taken);
            }
        }
    }

    /// Makes progress with the handshake. Returns whether this side may send data.
    fn shake_hands(&mut self) -> io::Result<bool> {
        while self.session.is_handshaking() {
            if !self.flush()? {
                return Ok(false);
            }
            match self.session.read_tls(&mut &self.socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.process()?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether the kernel has taken everything that was to be sent.
    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut &self.socket) {
                Ok(_) => {
                    self.connected.get_or_insert_with(Instant::now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Records are received into the end of `buffer` and decrypted to its start.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        self.flush()?;
        let (plain, records) = buffer.split_at_mut(buffer.len() / 2 + RECORD_BYTES_MAX);
        let received = match socket::receive(&self.socket, records)? {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(Arrival::Nothing),
            Received::End => return Ok(Arrival::End),
        };
        let drained = received < records.len();
        let (mut records, mut count) = (&records[..received], 0);
        // rustls takes no more after the peer's close_notify; from then on only the end of the TCP stream
        // counts.
        while !records.is_empty() && self.session.read_tls(&mut records)? > 0 {
            self.process()?;
            count += self.take(&mut plain[count..])?;
        }
        Ok(Arrival::Bytes { count, drained })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.shake_hands()? {
            return Ok(None);
        }
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            match self.session.read_tls(&mut &self.socket) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => self.process()?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn process(&mut self) -> io::Result<()> {
        self.session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(())
    }

    fn take(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        match self.session.reader().read(plain) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
}
