//! What a connection of the generator sends and receives on: a plain socket, or TLS over one.
//!
//! Must not be in here: HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustls::{ClientConnection, HandshakeKind};

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
            Some(session) => Stream::Tls(Box::new(TlsStream { socket, session })),
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

    /// Whether its handshake resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        matches!(self, Stream::Tls(stream)
            if stream.session.handshake_kind() == Some(HandshakeKind::Resumed))
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
                Ok(_) => {}
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
