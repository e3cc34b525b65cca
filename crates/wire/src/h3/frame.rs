//! The layout of frames (RFC 9114 section 7): kind, length, payload.

use crate::varint;

/// The kinds of frames.
pub(super) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
    /// Priority of a request (RFC 9218 section 7.2).
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;
    /// Priority of a push.
    pub(crate) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf0701;

    /// Whether HTTP/2 has given this kind a meaning that HTTP/3 has not (RFC 9114 section 7.2.8).
    pub(crate) fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// The front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: u64,
    pub(super) len: u64,
}

/// Reads fronts of frames that may come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderReader {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

const HEADER_BYTES_MAX: usize = 2 * varint::BYTES_MAX;

impl HeaderReader {
    /// Whether a frame has begun and its front is incomplete.
    pub(super) fn has_begun(&self) -> bool {
        self.len > 0
    }

    /// Reads on; none once all of `input` has been read.
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Option<Header> {
        // Nearly every front comes whole.
        if self.len == 0
            && let Some((header, len)) = parse(input)
        {
            *input = &input[len..];
            return Some(header);
        }
        while let Some((first, rest)) = input.split_first() {
            *self.bytes.get_mut(usize::from(self.len))? = *first;
            self.len += 1;
            *input = rest;
            if let Some((header, _)) = parse(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(header);
            }
        }
        None
    }
}

fn parse(bytes: &[u8]) -> Option<(Header, usize)> {
    let (kind, kind_len) = varint::read(bytes)?;
    let (len, len_len) = varint::read(&bytes[kind_len..])?;
    Some((Header { kind, len }, kind_len + len_len))
}

/// Appends the front of a frame.
pub(super) fn write_header(kind: u64, len: usize, out: &mut Vec<u8>) {
    varint::write(kind, out);
    varint::write(len as u64, out);
}

/// Appends a whole frame.
pub(super) fn write(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    write_header(kind, payload.len(), out);
    out.extend_from_slice(payload);
}
