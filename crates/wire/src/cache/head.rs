//! Fields by name, in any head.

use super::harmless::is_harmless;
use crate::field::Field;
use crate::h1::{Fields, Request, Response};

/// The fields of a head, with the bytes that their positions refer to.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    bytes: &'a [u8],
    fields: &'a Fields,
}

impl<'a> Head<'a> {
    /// Creates a view; `bytes` is the buffer that the head was parsed from.
    pub fn new(bytes: &'a [u8], fields: &'a Fields) -> Self {
        Self { bytes, fields }
    }

    /// The head of a request.
    pub fn of_request(bytes: &'a [u8], request: &'a Request) -> Self {
        Self::new(bytes, &request.fields)
    }

    /// The head of a response.
    pub fn of_response(bytes: &'a [u8], response: &'a Response) -> Self {
        Self::new(bytes, &response.fields)
    }

    /// The values of all lines of a name, in their order.
    pub fn values(self, name: &[u8]) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.fields
            .iter()
            .filter(move |field| field.name(self.bytes).eq_ignore_ascii_case(name))
            .map(move |field| field.value(self.bytes))
    }

    /// The value of the first line with a name.
    pub fn value(self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.find_name(self.bytes, name).map(|field| field.value(self.bytes))
    }

    /// Whether a line has this name.
    pub fn has(self, name: &[u8]) -> bool {
        self.fields.find_name(self.bytes, name).is_some()
    }

    /// The names of fields that are not known to be harmless ([`is_harmless`]).
    pub fn unknown_names(self) -> impl Iterator<Item = &'a [u8]> {
        let unknown = self.fields.iter().filter(move |field| !is_harmless(field, self.bytes));
        unknown.map(move |field| field.name(self.bytes))
    }

    /// Every field, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a Field> {
        self.fields.iter()
    }

    /// The bytes that the head's positions refer to.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// Heads for tests, written as lines.
#[cfg(test)]
pub(super) mod sample {
    use crate::h1::{Fields, Request, RequestLimits, Response, parse_request, parse_response};

    /// A response with its bytes; `lines` are separated by `|`.
    pub(in crate::cache) fn response(status: u16, lines: &str) -> (Vec<u8>, Response) {
        let text = format!("HTTP/1.1 {status} X\r\n{}\r\n", joined(lines)).into_bytes();
        let response = parse_response(&text, Fields::default()).unwrap().unwrap();
        (text, response)
    }

    /// A GET with its bytes.
    pub(in crate::cache) fn request(lines: &str) -> (Vec<u8>, Request) {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", joined(lines)).into_bytes();
        let limits = RequestLimits { line_bytes_max: 1 << 16, head_bytes_max: 1 << 16 };
        let request = parse_request(&text, limits, Fields::default()).unwrap().unwrap();
        (text, request)
    }

    fn joined(lines: &str) -> String {
        lines.split('|').filter(|line| !line.is_empty()).flat_map(|line| [line, "\r\n"]).collect()
    }
}
