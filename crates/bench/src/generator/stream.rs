//! What a connection of the generator sends and receives on: a plain socket, or TLS over one.
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

/// The part of the receive buffer that a record which was begun before may need beside those that come whole.
const RECORD_BYTES_MAX: usize = 16 * 1024 + 256;

/// A stream that never blocks.
pub(super) enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream>),
}

/// TLS over a socket; the handshake is part of the first send.
pub(super) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
    /// When the socket was seen to be connected.
    connected: Option<Instant>,
}

/// What one receive brought.
pub(super) enum Arrival {
    /// So many bytes, which with TLS may be none; with `drained` the socket had no more.
    Bytes { count: usize, drained: bool },
    /// Nothing for now.
    Nothing,
    /// The peer's end of its stream.
    End,
}

impl Stream {
    /// Begins to connect, and is watched as `token`.
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

    /// How many of `bytes` are on their way: 0 while the connection is being made, or when there is no room.
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

    /// How many bytes came, 0 at the peer's end of its stream; `None` for nothing for now. Unlike [`Stream::receive`] it asks
    /// no size of `buffer`.
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

    /// Whether all that was sent is with the kernel.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Clear(_) => Ok(true),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Has the socket reset instead of closed.
    pub(super) fn reset_on_close(&self) -> io::Result<()> {
        let socket = match self {
            Stream::Clear(socket) => socket,
            Stream::Tls(stream) => &stream.socket,
        };
        Ok(set_socket_linger(socket, Some(Duration::ZERO))?)
    }

    /// Whether this may be spoken: by ALPN, or in the clear with prior knowledge.
    pub(super) fn agrees_on(&self, protocol: &[u8]) -> bool {
        match self {
            Stream::Clear(_) => true,
            Stream::Tls(stream) => stream.session.alpn_protocol() == Some(protocol),
        }
    }

    /// Whether the server has taken the connection, though a handshake may follow that has not ended: only TLS knows
    /// before the first send.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.connected.is_some())
    }

    /// How it came to be, which began at `start` and has just ended.
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
    /// The request leaves together with the last flight of the handshake, as a browser's does.
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

    /// Goes on with the handshake as far as it can; whether this side may send.
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

    /// Whether all that was to be sent is with the kernel.
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

    /// Records come into the end of `buffer`, and what was in them leaves at its start.
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
        // It takes no more after the peer's close_notify; what counts is then the end of the socket's stream.
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
