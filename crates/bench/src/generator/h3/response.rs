//! Reads the response on a request's stream: bytes in, verdict out (RFC 9114 section 4.1).
//!
//! Must not be in here: the expected response.

use super::qpack::Fields;
use super::{frame, varint};
use crate::framing::Malformed;
use crate::generator::response::Response;

/// Longest field section, in bytes.
const FIELDS_BYTES_MAX: u64 = 64 * 1024;

/// Reads the response of one request.
#[derive(Debug, Default)]
pub(super) struct ResponseReader {
    state: State,
    /// The beginning of a frame's type and length, or of a field section.
    partial: Vec<u8>,
    head: Option<Fields>,
    body_bytes: u64,
    /// A field section has ended the body.
    has_trailers: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// In the type and the length of a frame.
    #[default]
    Prefix,
    /// In a field section with so many bytes.
    Fields(usize),
    /// Number of bytes of a DATA frame that are still to come.
    Data(u64),
    /// The same of a frame of a type without meaning here.
    Unknown(u64),
}

impl ResponseReader {
    /// Takes all of `bytes`, which continue the stream.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Prefix => {
                    if let Some((kind, length)) = self.take_prefix(&mut bytes) {
                        self.begin(kind, length)?;
                    }
                }
                State::Fields(length) => {
                    let missing = *length - self.partial.len();
                    let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
                    self.partial.extend_from_slice(piece);
                    bytes = rest;
                    if self.partial.len() == *length {
                        self.end_fields()?;
                    }
                }
                State::Data(left) => {
                    let count = skip(left, &mut bytes);
                    self.body_bytes += count;
                    if *left == 0 {
                        self.state = State::Prefix;
                    }
                }
                State::Unknown(left) => {
                    skip(left, &mut bytes);
                    if *left == 0 {
                        self.state = State::Prefix;
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes of the body so far.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the head of the final response is complete.
    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Handles the end of the stream. `is_head` is set for a request HEAD, whose response has no body.
    pub(super) fn end(&self, is_head: bool) -> Result<Response, Malformed> {
        let is_whole = matches!(self.state, State::Prefix) && self.partial.is_empty();
        let Some(Fields { status: Some(status), length }) = self.head.filter(|_| is_whole) else {
            return Err(Malformed);
        };
        let has_no_body = is_head || matches!(status, 204 | 304);
        if !has_no_body && length.is_some_and(|length| length != self.body_bytes) {
            return Err(Malformed);
        }
        Ok(Response { status, body_bytes: self.body_bytes, persists: true })
    }

    fn take_prefix(&mut self, bytes: &mut &[u8]) -> Option<(u64, u64)> {
        while let Some((first, rest)) = bytes.split_first() {
            self.partial.push(*first);
            *bytes = rest;
            let mut prefix = &*self.partial;
            if let Some(kind) = varint::take(&mut prefix)
                && let Some(length) = varint::take(&mut prefix)
            {
                self.partial.clear();
                return Some((kind, length));
            }
        }
        None
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<(), Malformed> {
        self.state = match kind {
            frame::HEADERS if !self.has_trailers && (2..=FIELDS_BYTES_MAX).contains(&length) => {
                State::Fields(length as usize)
            }
            frame::DATA if self.head.is_none() || self.has_trailers => return Err(Malformed),
            frame::DATA if length > 0 => State::Data(length),
            frame::HEADERS
            | frame::SETTINGS
            | frame::CANCEL_PUSH
            | frame::PUSH_PROMISE
            | frame::GOAWAY
            | frame::MAX_PUSH_ID => return Err(Malformed),
            reserved if frame::RESERVED.contains(&reserved) => return Err(Malformed),
            _ if length > 0 => State::Unknown(length),
            _ => State::Prefix,
        };
        Ok(())
    }

    fn end_fields(&mut self) -> Result<(), Malformed> {
        let fields = Fields::parse(&self.partial)?;
        self.partial.clear();
        self.state = State::Prefix;
        match (self.head, fields.status) {
            (Some(_), None) => self.has_trailers = true,
            (None, Some(100..=199)) => {}
            (None, Some(_)) => self.head = Some(fields),
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

/// Takes at most `left` bytes from the front of `bytes`; their number.
fn skip(left: &mut u64, bytes: &mut &[u8]) -> u64 {
    let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *bytes = &bytes[count..];
    *left -= count as u64;
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<Response, Malformed> {
        let mut reader = ResponseReader::default();
        for piece in bytes.chunks(step) {
            reader.feed(piece)?;
        }
        reader.end(false)
    }

    /// An early hint, a head with a length, a frame without meaning, two pieces of body and trailers.
    const WHOLE: &[u8] =
        b"\x01\x03\0\0\xd8\x01\x06\0\0\xd9\x54\x013\x21\x02??\0\x01a\0\0\0\x02bc\x01\x07\0\0\x22ab\x01c";

    #[test]
    fn a_response_is_read_however_it_is_cut() {
        for step in 1..=WHOLE.len() {
            let response = Response { status: 200, body_bytes: 3, persists: true };
            assert_eq!(read(WHOLE, step), Ok(response), "{step}");
        }
    }

    #[test]
    fn a_stream_that_ends_early_or_breaks_the_order_is_no_answer() {
        for end in 0..WHOLE.len() {
            let is_before_trailers = end == WHOLE.len() - 9;
            assert_eq!(read(&WHOLE[..end], 64).is_ok(), is_before_trailers, "{end}");
        }
        for bytes in [
            // DATA before HEADERS, SETTINGS, a frame of HTTP/2, a push, and HEADERS after trailers.
            &b"\0\x01a"[..],
            b"\x01\x03\0\0\xd9\x04\0",
            b"\x01\x03\0\0\xd9\x06\0",
            b"\x01\x03\0\0\xd9\x05\0",
            b"\x01\x03\0\0\xd9\x01\x02\0\0\x01\x02\0\0",
            // A second final head, and a body that is one byte too long.
            b"\x01\x03\0\0\xd9\x01\x03\0\0\xd9",
            b"\x01\x06\0\0\xd9\x54\x011\0\x02ab",
        ] {
            assert_eq!(read(bytes, 64), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }
}
