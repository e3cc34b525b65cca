//! The bytes of the payload server's responses.
//!
//! A response is a script: bytes to send, and pauses between them. Must not be in here: sockets and clocks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Counts;
use super::request::Request;
use super::resource::{Resource, SIZES, Seen};

const SLOW_PAUSE: Duration = Duration::from_millis(100);
const PIECE: &[u8; 16] = b"0123456789abcde\n";

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Send(Arc<[u8]>),
    Wait(Duration),
}

pub(super) type Script = VecDeque<Step>;

/// Header about the end of the connection in a response.
#[derive(Clone, Copy)]
enum Persistence {
    /// No header: HTTP/1.1 connections persist by default.
    Implied,
    Close,
    /// `Connection: keep-alive`, which HTTP/1.0 needs.
    KeepAlive,
}

/// Responses that are made once.
pub(super) struct Answers {
    /// By index in [`SIZES`], then by [`Persistence`].
    fixed: [[Arc<[u8]>; 3]; SIZES.len()],
}

impl Answers {
    pub(super) fn new() -> Answers {
        let fixed = SIZES.map(|size| {
            let body = pieces(size);
            [Persistence::Implied, Persistence::Close, Persistence::KeepAlive]
                .map(|persistence| response(200, TEXT, &body, persistence, false))
        });
        Answers { fixed }
    }

    /// The complete response, if it is one of those that are made once.
    pub(super) fn fixed(&self, request: &Request) -> Option<&Arc<[u8]>> {
        match request.resource {
            Resource::Static(index) if !request.is_head => {
                Some(&self.fixed[index][request.persistence() as usize])
            }
            _ => None,
        }
    }
}

/// The response to `request`, which `peer` sent.
pub(super) fn script(request: &Request, counts: Counts, peer: Option<SocketAddr>) -> Script {
    let answer = |status, kind, body: &[u8]| {
        Step::Send(response(status, kind, body, request.persistence(), request.is_head))
    };
    match &request.resource {
        Resource::Static(index) => [answer(200, TEXT, &pieces(SIZES[*index]))].into(),
        Resource::Bytes(length) => [answer(200, TEXT, &pieces(*length))].into(),
        Resource::Delay(delay) => {
            let body = format!("delayed by {} ms\n", delay.as_millis());
            [Step::Wait(*delay), answer(200, TEXT, body.as_bytes())].into()
        }
        Resource::Status(status) => [answer(*status, TEXT, format!("status {status}\n").as_bytes())].into(),
        Resource::Echo(seen) => [answer(200, JSON, &echo(seen, request, peer))].into(),
        Resource::Chunked(chunks) => chunked(request, *chunks),
        Resource::Slow(pieces) => slow(request, *pieces),
        Resource::Count => {
            let Counts { requests, accepted, open } = counts;
            let body = json!({"requests": requests, "accepted": accepted, "open": open});
            [answer(200, JSON, format!("{body}\n").as_bytes())].into()
        }
        Resource::Missing => [answer(404, TEXT, b"nothing here\n")].into(),
    }
}

/// A body of so many bytes. Copied in large steps: byte by byte it would take the time of a benchmark of a
/// cache, of which each miss has one of its own.
fn pieces(len: usize) -> Vec<u8> {
    let mut body = PIECE.repeat(len.div_ceil(PIECE.len()));
    body.truncate(len);
    body
}

/// The response to bytes that are not a valid request.
pub(super) fn bad_request() -> Script {
    [Step::Send(response(400, TEXT, b"malformed request\n", Persistence::Close, false))].into()
}

/// The interim response to `Expect: 100-continue`.
pub(super) fn go_on() -> Script {
    [Step::Send(Arc::from(*b"HTTP/1.1 100 Continue\r\n\r\n"))].into()
}

/// HTTP/1.0 has no chunks: there the body ends with the connection.
fn chunked(request: &Request, chunks: usize) -> Script {
    let mut bytes = head(200, TEXT, request.persistence());
    let body = if request.minor == 0 {
        PIECE.repeat(chunks)
    } else {
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        let chunk = [b"10\r\n", &PIECE[..], b"\r\n"].concat();
        [chunk.repeat(chunks), b"0\r\n\r\n".to_vec()].concat()
    };
    bytes.extend_from_slice(b"\r\n");
    if !request.is_head {
        bytes.extend_from_slice(&body);
    }
    [Step::Send(bytes.into())].into()
}

fn slow(request: &Request, pieces: usize) -> Script {
    let mut bytes = head(200, TEXT, request.persistence());
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", pieces * PIECE.len()).as_bytes());
    let mut script = Script::from([Step::Send(bytes.into())]);
    if !request.is_head {
        let piece: Arc<[u8]> = Arc::from(*PIECE);
        script.extend((0..pieces).flat_map(|_| [Step::Wait(SLOW_PAUSE), Step::Send(Arc::clone(&piece))]));
    }
    script
}

impl Request {
    /// Whether the connection stays open after the response.
    pub(super) fn keeps_connection(&self) -> bool {
        let ends_with_connection = matches!(self.resource, Resource::Chunked(_)) && self.minor == 0;
        self.persists && !ends_with_connection
    }

    fn persistence(&self) -> Persistence {
        match (self.keeps_connection(), self.minor) {
            (false, _) => Persistence::Close,
            (true, 0) => Persistence::KeepAlive,
            (true, _) => Persistence::Implied,
        }
    }
}

fn echo(seen: &Seen, request: &Request, peer: Option<SocketAddr>) -> Vec<u8> {
    let whole = request.body.len() as u64 == request.body_bytes;
    let body = std::str::from_utf8(&request.body).ok().filter(|_| whole);
    let echo = json!({
        "method": seen.method,
        "target": seen.target,
        "version": format!("HTTP/1.{}", request.minor),
        "headers": seen.headers,
        "body_bytes": request.body_bytes,
        "body": body,
        "peer": peer.map(|peer| peer.to_string()),
    });
    format!("{echo}\n").into_bytes()
}

/// A response in one piece, so that one send suffices.
fn response(status: u16, kind: &str, body: &[u8], persistence: Persistence, is_head: bool) -> Arc<[u8]> {
    let mut bytes = head(status, kind, persistence);
    // RFC 9110 section 8.6: a 204 has no Content-Length; a 304 may omit it.
    let has_body = !matches!(status, 204 | 304);
    if has_body {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    if has_body && !is_head {
        bytes.extend_from_slice(body);
    }
    bytes.into()
}

/// The head of a response without its end, so that more headers can follow.
fn head(status: u16, kind: &str, persistence: Persistence) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        // The reason phrase is optional (RFC 9112 section 4).
        _ => "",
    };
    let connection = match persistence {
        Persistence::Implied => "",
        Persistence::Close => "Connection: close\r\n",
        Persistence::KeepAlive => "Connection: keep-alive\r\n",
    };
    format!("HTTP/1.1 {status} {reason}\r\nServer: payload\r\nContent-Type: {kind}\r\n{connection}")
        .into_bytes()
}
