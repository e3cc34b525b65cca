//! Reads requests: bytes in, [`Request`] out (RFC 9112).
//!
//! Must not be in here: responses.

use crate::framing::{Body, Framing, HEADERS_MAX, Malformed, PartialHead};

use super::resource::Resource;

/// Longest part of a body that is kept for `/echo`.
const ECHO_BODY_BYTES_MAX: usize = 64 * 1024;

/// A complete request.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) resource: Resource,
    pub(super) is_head: bool,
    /// The minor version of HTTP/1.
    pub(super) minor: u8,
    /// Whether the connection stays open for another request.
    pub(super) persists: bool,
    pub(super) body_bytes: u64,
    /// Kept for [`Resource::Echo`] only, up to [`ECHO_BODY_BYTES_MAX`].
    pub(super) body: Vec<u8>,
}

/// The state of a [`RequestReader`] after new bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    /// More bytes are needed.
    Partial,
    /// More bytes are needed, and the client waits for a 100 (Continue).
    ContinueExpected,
    Whole(Request),
}

/// Reads the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct RequestReader {
    partial: PartialHead,
    /// The request whose body is being read.
    current: Option<(Request, Body)>,
}

struct Head {
    request: Request,
    body: Body,
    expects_continue: bool,
}

impl RequestReader {
    /// Takes from the front of `bytes` at most what belongs to one request, and returns the number of bytes
    /// taken.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Malformed> {
        if self.current.is_some() {
            return self.feed_body(bytes);
        }
        match self.partial.feed(bytes, parse_head)? {
            (used, None) => Ok((used, Progress::Partial)),
            (used, Some(head)) if head.body.is_done() => Ok((used, Progress::Whole(head.request))),
            (used, Some(head)) => {
                self.current = Some((head.request, head.body));
                let waits = head.expects_continue && used == bytes.len();
                Ok((used, if waits { Progress::ContinueExpected } else { Progress::Partial }))
            }
        }
    }

    fn feed_body(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Malformed> {
        let Some((request, body)) = &mut self.current else { return Ok((0, Progress::Partial)) };
        let used = body.take(bytes, |data| request.keep(data))?;
        let whole = if body.is_done() { self.current.take() } else { None };
        Ok((used, whole.map_or(Progress::Partial, |(request, _)| Progress::Whole(request))))
    }
}

impl Request {
    fn keep(&mut self, data: &[u8]) {
        self.body_bytes += data.len() as u64;
        if matches!(self.resource, Resource::Echo(_)) {
            let room = ECHO_BODY_BYTES_MAX - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
}

fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else { return Ok(None) };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Malformed);
    };
    let framing = Framing::of(parsed.headers)?;
    let body = if framing.chunked { Body::CHUNKED } else { Body::Length(framing.length.unwrap_or(0)) };
    let request = Request {
        resource: Resource::of(method, target, parsed.headers),
        is_head: method == "HEAD",
        minor,
        persists: framing.persists(minor),
        body_bytes: 0,
        body: Vec::new(),
    };
    let expects_continue = parsed.headers.iter().any(|header| header.name.eq_ignore_ascii_case("expect"));
    Ok(Some((Head { request, body, expects_continue }, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Vec<Request> {
        let mut reader = RequestReader::default();
        let mut requests = Vec::new();
        for mut piece in bytes.chunks(step) {
            while !piece.is_empty() {
                let (used, progress) = reader.feed(piece).expect("well-formed");
                if let Progress::Whole(request) = progress {
                    requests.push(request);
                }
                piece = &piece[used..];
            }
        }
        requests
    }

    #[test]
    fn pipelined_requests_are_read_however_they_are_cut() {
        let bytes = b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\
            PUT /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n\
            HEAD /1k HTTP/1.0\r\n\r\n";
        for step in 1..=bytes.len() {
            let requests = read(bytes, step);
            let bodies: Vec<_> = requests.iter().map(|request| request.body.as_slice()).collect();
            assert_eq!(bodies, [&b"abc"[..], b"de", b""], "cut every {step} bytes");
            assert!(requests[0].persists && requests[2].is_head && !requests[2].persists);
        }
    }

    #[test]
    fn a_client_that_waits_for_100_is_told() {
        let mut reader = RequestReader::default();
        let head = b"POST / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
        assert_eq!(reader.feed(head), Ok((head.len(), Progress::ContinueExpected)));
    }
}
