//! TLS records after the handshake: content is encrypted and decrypted where it lies, without an allocation.
//!
//! rustls makes the handshake and then hands over the secrets (`rustls::kernel`). Here are the records, the
//! alerts, and the messages that may follow a handshake: key updates and session tickets (RFC 8446 section
//! 4.6). The limits on records without use are those of `BoringSSL`.

mod format;
mod protection;
mod received;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, Error, ExtractedSecrets, ProtocolVersion, SupportedCipherSuite};

use self::format::{CONTENT_BYTES_MAX, alert, kind};
pub(super) use self::format::{Fault, first_record, record_len};
use self::protection::Protection;
pub(super) use self::received::Received;

/// The records of a connection.
pub(super) struct Records {
    peer: Peer,
    outgoing: Protection,
    incoming: Protection,
    /// Records that one key may encrypt.
    key_records_max: u64,
    /// Bytes of content that were sent since the handshake.
    bytes_sent: u64,
    /// The beginning of a handshake message whose rest is in the next record.
    message: Vec<u8>,
    /// The peer has changed its key and asks for a change of ours (RFC 8446 section 4.6.3).
    owes_key_update: bool,
    /// Records without data that have come one after another.
    useless: u8,
    warnings: u8,
    is_ended: bool,
    has_said_end: bool,
}

/// The connection's state in rustls, for new keys and for session tickets.
pub(super) enum Peer {
    /// The peer is a client.
    Client(KernelConnection<ServerConnectionData>),
    /// The peer is a server.
    Server(KernelConnection<ClientConnectionData>),
}

/// Content that fits into one TCP segment with its record, on links with an MTU of 1,500 bytes.
const SEGMENT_BYTES: usize = 1369;
/// Bytes after the handshake that go in records of one segment, so that the client can use each as it comes:
/// about the first congestion window (RFC 6928).
const SHORT_RECORDS_BYTES: u64 = 16 << 10;
/// Content that is encrypted at once.
const BATCH_BYTES_MAX: usize = 4 * CONTENT_BYTES_MAX;
/// Slices that are encrypted at once; what follows is left for the next call.
const SLICES_MAX: usize = 4;
const USELESS_RECORDS_MAX: u8 = 32;
const WARNINGS_MAX: u8 = 4;
/// The longest message that may follow a handshake: a session ticket.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Types of handshake messages (RFC 8446 section 4).
mod message {
    pub(super) const HELLO_REQUEST: u8 = 0;
    pub(super) const CLIENT_HELLO: u8 = 1;
    pub(super) const NEW_SESSION_TICKET: u8 = 4;
    pub(super) const KEY_UPDATE: u8 = 24;
}

impl Records {
    pub(super) fn new(peer: Peer, secrets: &ExtractedSecrets) -> Result<Self, Error> {
        let version = peer.version();
        let protection = |(number, secrets): &(u64, ConnectionTrafficSecrets)| {
            Protection::new(version, *number, secrets)
                .ok_or_else(|| Error::General("the cipher suite is not known".to_owned()))
        };
        Ok(Self {
            outgoing: protection(&secrets.tx)?,
            incoming: protection(&secrets.rx)?,
            key_records_max: peer.key_records_max(),
            peer,
            bytes_sent: 0,
            message: Vec::new(),
            owes_key_update: false,
            useless: 0,
            warnings: 0,
            is_ended: false,
            has_said_end: false,
        })
    }

    /// Whether the peer has said that no more data follows.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    // === outgoing ===

    /// Appends records with as much of the content as is encrypted at once. Returns how much that is.
    pub(super) fn seal(&mut self, content: &[io::IoSlice<'_>], out: &mut Vec<u8>) -> Result<usize, Fault> {
        let mut parts = Parts::new(content);
        let mut len = 0;
        while len < BATCH_BYTES_MAX {
            let (record, record_len) = parts.next(self.record_bytes_max());
            if record_len == 0 {
                break;
            }
            self.renew_key_if_due(out)?;
            self.outgoing.seal(kind::DATA, &record, out)?;
            self.bytes_sent += record_len as u64;
            len += record_len;
        }
        Ok(len)
    }

    /// Appends the answers that the peer waits for, if there are any.
    pub(super) fn answer(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.owes_key_update { self.renew_key(out) } else { Ok(()) }
    }

    /// Appends `close_notify`, once.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if std::mem::replace(&mut self.has_said_end, true) {
            return Ok(());
        }
        self.outgoing.seal(kind::ALERT, &[&[alert::WARNING, alert::CLOSE_NOTIFY]], out)
    }

    /// Appends the alert of a fault.
    pub(super) fn tell(&mut self, fault: Fault, out: &mut Vec<u8>) {
        if let Some(alert) = fault.alert {
            // The connection ends in any case.
            let _ = self.outgoing.seal(kind::ALERT, &[&[alert::FATAL, alert]], out);
        }
    }

    fn record_bytes_max(&self) -> usize {
        if self.bytes_sent < SHORT_RECORDS_BYTES { SEGMENT_BYTES } else { CONTENT_BYTES_MAX }
    }

    /// A key may encrypt a limited number of records (RFC 8446 section 5.5). TLS 1.2 cannot change it.
    fn renew_key_if_due(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.outgoing.number() < self.key_records_max && !self.owes_key_update {
            return Ok(());
        }
        if !self.is_tls13() {
            return Err(Fault::new(alert::INTERNAL_ERROR, "the keys of the connection are used up"));
        }
        self.renew_key(out)
    }

    /// Says that the key changes, and changes it.
    fn renew_key(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        const UPDATE_NOT_REQUESTED: [u8; 5] = [message::KEY_UPDATE, 0, 0, 1, 0];
        self.outgoing.seal(kind::HANDSHAKE, &[&UPDATE_NOT_REQUESTED], out)?;
        self.owes_key_update = false;
        let (number, secrets) = self.peer.next_outgoing().map_err(|_| Fault::KEYS)?;
        self.outgoing = Protection::new(ProtocolVersion::TLSv1_3, number, &secrets).ok_or(Fault::KEYS)?;
        Ok(())
    }

    // === incoming ===

    /// Decrypts a whole record where it lies, and returns where its data is: nowhere, if it has none.
    pub(super) fn open(&mut self, record: &mut [u8], out: &mut Vec<u8>) -> Result<Range<usize>, Fault> {
        if self.is_ended {
            // Data after close_notify is ignored (RFC 8446 section 6.1).
            return Ok(0..0);
        }
        let (kind, content) = self.incoming.open(record)?;
        if kind != kind::HANDSHAKE && !self.message.is_empty() {
            return Err(Fault::UNEXPECTED);
        }
        if kind == kind::DATA && !content.is_empty() {
            self.useless = 0;
            return Ok(content);
        }
        self.useless += 1;
        if self.useless > USELESS_RECORDS_MAX {
            return Err(Fault::new(alert::UNEXPECTED_MESSAGE, "too many records without data"));
        }
        let content = &record[content];
        match kind {
            kind::DATA => {}
            kind::ALERT => self.take_alert(content)?,
            kind::HANDSHAKE => self.take_messages(content, out)?,
            _ => return Err(Fault::UNEXPECTED),
        }
        Ok(0..0)
    }

    fn take_alert(&mut self, content: &[u8]) -> Result<(), Fault> {
        let &[level, description] = content else { return Err(Fault::DECODE) };
        match description {
            alert::CLOSE_NOTIFY => self.is_ended = true,
            alert::USER_CANCELED if self.is_tls13() => {}
            _ if level == alert::WARNING && !self.is_tls13() && self.warnings < WARNINGS_MAX => {
                self.warnings += 1;
            }
            _ => return Err(Fault { alert: None, reason: "the peer has sent an alert" }),
        }
        Ok(())
    }

    /// Handles the handshake messages of a record; the last may be continued in the next one.
    fn take_messages(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        if content.is_empty() {
            return Err(Fault::UNEXPECTED);
        }
        let mut received = std::mem::take(&mut self.message);
        received.extend_from_slice(content);
        let mut rest = &received[..];
        while let Some(message) = Message::first(rest)? {
            rest = message.rest;
            match message.kind {
                message::KEY_UPDATE if self.is_tls13() => self.take_key_update(&message)?,
                message::NEW_SESSION_TICKET => self.peer.keep_ticket(message.body)?,
                message::HELLO_REQUEST | message::CLIENT_HELLO if !self.is_tls13() => {
                    self.refuse_renegotiation(out)?;
                }
                _ => return Err(Fault::UNEXPECTED),
            }
        }
        self.message = rest.to_vec();
        Ok(())
    }

    fn take_key_update(&mut self, message: &Message<'_>) -> Result<(), Fault> {
        let &[is_requested @ (0 | 1)] = message.body else { return Err(Fault::DECODE) };
        if !message.rest.is_empty() {
            // The next bytes are under the new key, so that it cannot be in this record.
            return Err(Fault::UNEXPECTED);
        }
        let (number, secrets) = self.peer.next_incoming().map_err(|_| Fault::KEYS)?;
        self.incoming = Protection::new(ProtocolVersion::TLSv1_3, number, &secrets).ok_or(Fault::KEYS)?;
        self.owes_key_update |= is_requested == 1;
        Ok(())
    }

    /// A new handshake on this connection is refused, as by OpenSSL's default (RFC 5246 section 7.2.2).
    fn refuse_renegotiation(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX {
            return Err(Fault::UNEXPECTED);
        }
        self.outgoing.seal(kind::ALERT, &[&[alert::WARNING, alert::NO_RENEGOTIATION]], out)
    }

    fn is_tls13(&self) -> bool {
        self.peer.version() == ProtocolVersion::TLSv1_3
    }
}

/// A handshake message.
struct Message<'a> {
    kind: u8,
    body: &'a [u8],
    /// The bytes after it.
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    /// The first message, if all of it has come.
    fn first(bytes: &'a [u8]) -> Result<Option<Self>, Fault> {
        let Some((&[kind, high, middle, low], rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let len = u32::from_be_bytes([0, high, middle, low]) as usize;
        if len > MESSAGE_BYTES_MAX {
            return Err(Fault::DECODE);
        }
        Ok(rest.split_at_checked(len).map(|(body, rest)| Self { kind, body, rest }))
    }
}

impl Peer {
    fn version(&self) -> ProtocolVersion {
        match self {
            Self::Client(kernel) => kernel.protocol_version(),
            Self::Server(kernel) => kernel.protocol_version(),
        }
    }

    fn key_records_max(&self) -> u64 {
        let suite = match self {
            Self::Client(kernel) => kernel.negotiated_cipher_suite(),
            Self::Server(kernel) => kernel.negotiated_cipher_suite(),
        };
        match suite {
            SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
        }
    }

    fn next_outgoing(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(kernel) => kernel.update_tx_secret(),
            Self::Server(kernel) => kernel.update_tx_secret(),
        }
    }

    fn next_incoming(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(kernel) => kernel.update_rx_secret(),
            Self::Server(kernel) => kernel.update_rx_secret(),
        }
    }

    /// Keeps a server's session ticket for the next connection.
    fn keep_ticket(&mut self, body: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Server(kernel) if kernel.protocol_version() == ProtocolVersion::TLSv1_3 => {
                kernel.handle_new_session_ticket(body).map_err(|_| Fault::DECODE)
            }
            _ => Err(Fault::UNEXPECTED),
        }
    }
}

type Slices<'a> = [&'a [u8]; SLICES_MAX];

/// Content in several slices, taken in pieces.
struct Parts<'a> {
    rest: Slices<'a>,
}

impl<'a> Parts<'a> {
    fn new(content: &'a [io::IoSlice<'a>]) -> Self {
        let mut rest: Slices<'a> = [&[]; SLICES_MAX];
        for (part, slice) in rest.iter_mut().zip(content) {
            *part = slice;
        }
        Self { rest }
    }

    /// The next bytes, at most so many.
    fn next(&mut self, bytes_max: usize) -> (Slices<'a>, usize) {
        let mut taken: Slices<'a> = [&[]; SLICES_MAX];
        let mut len = 0;
        for (taken, rest) in taken.iter_mut().zip(&mut self.rest) {
            let (first, after) = rest.split_at(rest.len().min(bytes_max - len));
            (*taken, *rest) = (first, after);
            len += first.len();
        }
        (taken, len)
    }
}
