//! The server name in a TLS `ClientHello`, read without answering it: for connections that are forwarded by
//! name and terminated elsewhere.
//!
//! The reader checks no more than it needs: the terminating server decides whether it can answer the hello.
//! But a hello in which two readers could find different names is refused.

use std::borrow::Cow;

/// Bytes, headers of records included, in which a hello must be complete: as much as one record holds (RFC
/// 8446 section 5.1). Those of browsers have about two thousand.
pub const HELLO_BYTES_MAX: usize = 16 << 10;

/// The interpretation of a connection's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// The beginning of a hello, or no bytes yet.
    Partial,
    /// No hello, a malformed one, or one longer than [`HELLO_BYTES_MAX`].
    NotHello,
    /// A whole hello.
    Hello {
        /// The host that the client wants to speak to (RFC 6066 section 3); visible ASCII, in the client's
        /// letter case. Owned only where the hello is in several records.
        server_name: Option<Cow<'a, [u8]>>,
    },
}

/// Content type `handshake` (RFC 8446 section 5.1).
const RECORD_HANDSHAKE: u8 = 22;
/// Handshake type `client_hello` (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: usize = 1 << 14;
const MESSAGE_HEADER_BYTES: usize = 4;
const RANDOM_BYTES: usize = 32;
const SESSION_ID_BYTES_MAX: usize = 32;
/// Extension `server_name` and its only name type `host_name` (RFC 6066 section 3).
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Longest name in DNS (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Searches for a hello at the front of the received bytes. Bytes after the hello are ignored.
pub fn server_name(bytes: &[u8]) -> Peek<'_> {
    match message(&bytes[..bytes.len().min(HELLO_BYTES_MAX)]) {
        Ok(Some(Cow::Borrowed(message))) => hello(find_name(message).map(|name| name.map(Cow::Borrowed))),
        Ok(Some(Cow::Owned(message))) => {
            hello(find_name(&message).map(|name| name.map(|name| Cow::Owned(name.to_vec()))))
        }
        Ok(None) if bytes.len() < HELLO_BYTES_MAX => Peek::Partial,
        Ok(None) | Err(NotHello) => Peek::NotHello,
    }
}

/// The same for a hello without records, as QUIC carries it (RFC 9001 section 4).
pub fn server_name_in_message(bytes: &[u8]) -> Peek<'_> {
    match message_len(bytes) {
        Ok(Some(len)) if bytes.len() >= len => {
            hello(find_name(&bytes[..len]).map(|name| name.map(Cow::Borrowed)))
        }
        Ok(_) if bytes.len() < HELLO_BYTES_MAX => Peek::Partial,
        Ok(_) | Err(NotHello) => Peek::NotHello,
    }
}

fn hello(found: Result<Option<Cow<'_, [u8]>>, NotHello>) -> Peek<'_> {
    found.map_or(Peek::NotHello, |server_name| Peek::Hello { server_name })
}

struct NotHello;

/// The first handshake message with its header; it may be in several records (RFC 8446 section 5.1). None
/// while it is incomplete. Bytes that cannot be a message are refused at the first wrong byte.
fn message(bytes: &[u8]) -> Result<Option<Cow<'_, [u8]>>, NotHello> {
    let mut rest = bytes;
    let mut message: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    loop {
        let Some(record) = record(rest)? else { return Ok(None) };
        if message.is_empty() {
            message = Cow::Borrowed(record.fragment);
        } else {
            message.to_mut().extend_from_slice(record.fragment);
        }
        match message_len(&message)? {
            Some(len) if message.len() >= len => return Ok(Some(truncated(message, len))),
            _ if record.is_complete => rest = &rest[RECORD_HEADER_BYTES + record.fragment.len()..],
            _ => return Ok(None),
        }
    }
}

fn truncated(message: Cow<'_, [u8]>, len: usize) -> Cow<'_, [u8]> {
    match message {
        Cow::Borrowed(message) => Cow::Borrowed(&message[..len]),
        Cow::Owned(mut message) => {
            message.truncate(len);
            Cow::Owned(message)
        }
    }
}

/// A record, or its received part.
struct Record<'a> {
    fragment: &'a [u8],
    is_complete: bool,
}

fn record(bytes: &[u8]) -> Result<Option<Record<'_>>, NotHello> {
    // The version is 3.1 in the hello of most clients and 3.3 in a second one; receivers ignore the minor
    // number (RFC 8446 section 5.1).
    let is_handshake = bytes.first().is_none_or(|&kind| kind == RECORD_HANDSHAKE);
    let is_tls = bytes.get(1).is_none_or(|&major| major == 3);
    if !is_handshake || !is_tls {
        return Err(NotHello);
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    // A handshake record is never empty.
    if len == 0 || len > RECORD_BYTES_MAX {
        return Err(NotHello);
    }
    let fragment = &rest[..len.min(rest.len())];
    Ok(Some(Record { fragment, is_complete: fragment.len() == len }))
}

/// Length of the message with its header; none before the header is complete.
fn message_len(message: &[u8]) -> Result<Option<usize>, NotHello> {
    if message.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
        return Err(NotHello);
    }
    let &[_, high, middle, low, ..] = message else { return Ok(None) };
    let len = MESSAGE_HEADER_BYTES + u32::from_be_bytes([0, high, middle, low]) as usize;
    if len + RECORD_HEADER_BYTES > HELLO_BYTES_MAX { Err(NotHello) } else { Ok(Some(len)) }
}

/// The server's name in a whole `ClientHello` (RFC 8446 section 4.1.2).
fn find_name(message: &[u8]) -> Result<Option<&[u8]>, NotHello> {
    let mut hello = Reader(message);
    hello.take(MESSAGE_HEADER_BYTES)?;
    let version = hello.take(2)?;
    hello.take(RANDOM_BYTES)?;
    let session = hello.vector8()?;
    let suites = hello.vector16()?;
    let compressions = hello.vector8()?;
    if version[0] != 3
        || session.len() > SESSION_ID_BYTES_MAX
        || suites.is_empty()
        || !suites.len().is_multiple_of(2)
        || compressions.is_empty()
    {
        return Err(NotHello);
    }
    // Before TLS 1.3 a hello may end here (RFC 5246 section 7.4.1.2).
    if hello.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Reader(hello.vector16()?);
    if !hello.0.is_empty() {
        return Err(NotHello);
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.u16()?, extensions.vector16()?);
        // "There MUST NOT be more than one extension of the same type" (RFC 8446 section 4.2).
        if kind == SERVER_NAME && name.replace(host_name(content)?).is_some() {
            return Err(NotHello);
        }
    }
    Ok(name)
}

/// The host in an extension `server_name`: a list in which names of other types are ignored, and "MUST NOT"
/// be "more than one name of the same `name_type`" (RFC 6066 section 3).
fn host_name(extension: &[u8]) -> Result<&[u8], NotHello> {
    let mut extension = Reader(extension);
    let mut list = Reader(extension.vector16()?);
    if !extension.0.is_empty() {
        return Err(NotHello);
    }
    let mut host = None;
    while !list.0.is_empty() {
        let (kind, name) = (list.take(1)?[0], list.vector16()?);
        if kind == HOST_NAME && host.replace(name).is_some() {
            return Err(NotHello);
        }
    }
    host.filter(|name| {
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
    })
    .ok_or(NotHello)
}

/// Reads from the front; fails when there is not enough.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], NotHello> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(NotHello)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, NotHello> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector after a length of one byte (RFC 8446 section 3.4).
    fn vector8(&mut self) -> Result<&'a [u8], NotHello> {
        let len = self.take(1)?[0];
        self.take(len.into())
    }

    /// A vector after a length of two bytes.
    fn vector16(&mut self) -> Result<&'a [u8], NotHello> {
        let len = self.u16()?;
        self.take(len.into())
    }
}

#[cfg(test)]
mod tests;
