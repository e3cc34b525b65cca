//! The form of a record, and the faults that one may have.

use std::io;

/// A fault of the peer, or of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io::tls) struct Fault {
    /// The alert that tells the peer; none if it has sent one itself.
    pub(super) alert: Option<u8>,
    pub(super) reason: &'static str,
}

pub(in crate::io::tls) const HEADER_BYTES: usize = 5;
/// Content of one record (RFC 8446 section 5.1).
pub(in crate::io::tls) const CONTENT_BYTES_MAX: usize = 1 << 14;
/// Bytes that the protection of a record may take in TLS 1.2 (RFC 5246 section 6.2.3); TLS 1.3 allows 256.
pub(super) const EXPANSION_BYTES_MAX: usize = 2048;

/// Types of content (RFC 8446 section 5.1).
pub(super) mod kind {
    pub(in crate::io::tls) const ALERT: u8 = 21;
    pub(in crate::io::tls) const HANDSHAKE: u8 = 22;
    pub(in crate::io::tls) const DATA: u8 = 23;
}

/// Alerts (RFC 8446 section 6).
pub(super) mod alert {
    pub(in crate::io::tls) const CLOSE_NOTIFY: u8 = 0;
    pub(in crate::io::tls) const UNEXPECTED_MESSAGE: u8 = 10;
    pub(in crate::io::tls) const BAD_RECORD_MAC: u8 = 20;
    pub(in crate::io::tls) const RECORD_OVERFLOW: u8 = 22;
    pub(in crate::io::tls) const DECODE_ERROR: u8 = 50;
    pub(in crate::io::tls) const INTERNAL_ERROR: u8 = 80;
    pub(in crate::io::tls) const USER_CANCELED: u8 = 90;
    pub(in crate::io::tls) const NO_RENEGOTIATION: u8 = 100;
    pub(in crate::io::tls) const WARNING: u8 = 1;
    pub(in crate::io::tls) const FATAL: u8 = 2;
}

/// The length of the first record with its header, where the header has come.
pub(in crate::io::tls) fn record_len(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    Some(HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// The first record, if all of it has come. A fault if its header promises more than a record may have.
pub(in crate::io::tls) fn first_record(bytes: &mut [u8]) -> Result<Option<&mut [u8]>, Fault> {
    match record_len(bytes) {
        Some(len) if len > HEADER_BYTES + CONTENT_BYTES_MAX + EXPANSION_BYTES_MAX => Err(Fault::OVERFLOW),
        Some(len) => Ok(bytes.get_mut(..len)),
        None => Ok(None),
    }
}

impl Fault {
    pub(super) const DECODE: Self = Self::new(alert::DECODE_ERROR, "a malformed record");
    pub(super) const UNEXPECTED: Self = Self::new(alert::UNEXPECTED_MESSAGE, "an unexpected message");
    pub(super) const OVERFLOW: Self = Self::new(alert::RECORD_OVERFLOW, "a record is too long");
    pub(super) const KEYS: Self = Self::new(alert::INTERNAL_ERROR, "no new keys");

    pub(super) const fn new(alert: u8, reason: &'static str) -> Self {
        Self { alert: Some(alert), reason }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault.reason)
    }
}
