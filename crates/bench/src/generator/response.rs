//! Reads HTTP/1.1 responses: bytes in, verdict out (RFC 9112 section 6.3).
//!
//! Must not be in here: the expected response.

use crate::framing::{Body, Framing, HEADERS_MAX, Malformed, PartialHead};

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    /// Whether the connection can carry another request.
    pub(super) persists: bool,
}

/// Reads the responses of one connection.
#[derive(Debug, Default)]
pub(super) struct ResponseReader {
    partial: PartialHead,
    current: Option<(Response, Body)>,
}

impl ResponseReader {
    /// Takes `bytes`, all of which must belong to one response, since only one request is in flight. The
    /// number of body bytes is added to `body_bytes`.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        is_head: bool,
        body_bytes: &mut u64,
    ) -> Result<Option<Response>, Malformed> {
        while self.current.is_none() && !bytes.is_empty() {
            let (used, head) = self.partial.feed(bytes, |bytes| parse_head(bytes, is_head))?;
            bytes = &bytes[used..];
            // A 1xx is not the final response.
            self.current = head.filter(|(response, _)| response.status >= 200);
        }
        let Some((response, body)) = &mut self.current else { return Ok(None) };
        let before = response.body_bytes;
        let used = body.take(bytes, |data| response.body_bytes += data.len() as u64)?;
        *body_bytes += response.body_bytes - before;
        if used < bytes.len() {
            return Err(Malformed);
        }
        if body.is_done() { Ok(self.current.take().map(|(response, _)| response)) } else { Ok(None) }
    }

    /// Handles the end of the connection. Returns the response if its body ends with the connection.
    pub(super) fn end(&mut self) -> Option<Response> {
        let (response, body) = self.current.take()?;
        (body == Body::UntilClose).then_some(response)
    }
}

/// The head of a response, and the state of its body.
type Head = (Response, Body);

fn parse_head(bytes: &[u8], is_head: bool) -> Result<Option<(Head, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else { return Ok(None) };
    let (Some(status), Some(minor)) = (parsed.code, parsed.version) else { return Err(Malformed) };
    let framing = Framing::of(parsed.headers)?;
    let body = match framing {
        _ if is_head || status < 200 || matches!(status, 204 | 304) => Body::Length(0),
        Framing { chunked: true, .. } => Body::CHUNKED,
        Framing { length: Some(length), .. } => Body::Length(length),
        _ => Body::UntilClose,
    };
    let persists = framing.persists(minor) && body != Body::UntilClose;
    Ok(Some(((Response { status, body_bytes: 0, persists }, body), length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<Option<Response>, Malformed> {
        let mut reader = ResponseReader::default();
        let mut response = None;
        for piece in bytes.chunks(step) {
            assert_eq!(response, None, "whole before its end");
            response = reader.feed(piece, false, &mut 0)?;
        }
        Ok(response.or_else(|| reader.end()))
    }

    #[test]
    fn each_framing_is_read_however_it_is_cut() {
        let table: [(&[u8], Response); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Response { status: 200, body_bytes: 2, persists: true }),
            (
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 \r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                Response { status: 404, body_bytes: 3, persists: true },
            ),
            (b"HTTP/1.0 200 OK\r\n\r\nto the end", Response { status: 200, body_bytes: 10, persists: false }),
            (b"HTTP/1.1 204 \r\nConnection: close\r\n\r\n", Response { status: 204, body_bytes: 0, persists: false }),
        ];
        for (bytes, response) in table {
            for step in 1..=bytes.len() {
                assert_eq!(read(bytes, step), Ok(Some(response)), "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn a_byte_too_many_or_too_few_is_no_answer() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhi", 99), Err(Malformed));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", 99), Ok(None));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", 99), Ok(None));
    }
}
