//! HTTP/1 towards clients: request heads in, response heads out.

use std::time::Duration;

use observe::Reason;
use wire::Known;
use wire::h1::{Fields, Request, RequestLimits, Response, Version, parse_request};

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::relay::Framing;
use crate::reply;
use crate::socket::Socket;
use crate::upstream::h1::{copy_lines, ends_at_proxy};

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    /// The client closed.
    Gone,
    /// It is refused.
    Refused(Reason),
}

/// Reads a request head, of which `buffer` holds the beginning; it stays there.
pub(crate) async fn read_request(
    socket: &Socket,
    buffer: &mut Buffer,
    fields: Fields,
    limits: RequestLimits,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<Request, NoRequest> {
    let mut spare = Some(fields);
    deadline.start(timeout);
    loop {
        if is_worth_parsing(buffer.data(), limits) {
            let parsed = parse_request(buffer.data(), limits, spare.take().unwrap_or_default());
            match parsed.map_err(|fault| NoRequest::Refused(reply::malformed(fault)))? {
                Some(request) => return Ok(request),
                None => spare = Some(Fields::default()),
            }
        }
        match deadline.guard(|cx| socket.poll_fill_small(cx, buffer)).await {
            Err(Elapsed) => return Err(NoRequest::Refused(Reason::HeadTimeout)),
            Ok(Ok(0) | Err(_)) => return Err(NoRequest::Gone),
            Ok(Ok(_)) => {}
        }
    }
}

/// A head that trickles in is parsed when its end has come or a limit is passed, not at every byte: otherwise a slow client
/// could have the worker do the square of the work.
fn is_worth_parsing(bytes: &[u8], limits: RequestLimits) -> bool {
    bytes.ends_with(b"\n")
        || bytes.len() > limits.line_bytes_max
        || memchr::memmem::find(bytes, b"\r\n\r\n").is_some()
}

/// How a response goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// How its body ends.
    pub(crate) framing: Framing,
    /// Whether the connection stays open afterwards.
    pub(crate) keep_alive: bool,
    /// What the client speaks.
    pub(crate) version: Version,
}

/// Appends the head of a response as the client is to see it. A value for `Strict-Transport-Security` replaces the
/// endpoint's.
pub(crate) fn write_response_head(
    head: &[u8],
    response: &Response,
    delivery: Delivery,
    strict_transport_security: Option<&str>,
    date: &str,
    out: &mut Buffer,
) {
    write_status_line(head, response, out);
    copy_lines(head, &response.fields, out, |field| {
        ends_at_proxy(field.known)
            || field.known == Known::Server
            || (field.known == Known::StrictTransportSecurity && strict_transport_security.is_some())
    });
    if let Some(value) = strict_transport_security {
        out.extend(b"Strict-Transport-Security: ");
        out.extend(value.as_bytes());
        out.extend(b"\r\n");
    }
    if response.fields.find(Known::Date).is_none() {
        out.extend(b"Date: ");
        out.extend(date.as_bytes());
        out.extend(b"\r\n");
    }
    if delivery.framing == Framing::Chunked {
        out.extend(b"Transfer-Encoding: chunked\r\n");
    }
    if let Some(option) = connection_option(delivery.version, delivery.keep_alive) {
        out.extend(b"Connection: ");
        out.extend(option.as_bytes());
        out.extend(b"\r\n");
    }
    out.extend(b"\r\n");
}

/// Appends the head of a 101 or another interim response.
pub(crate) fn write_interim_head(head: &[u8], response: &Response, out: &mut Buffer) {
    write_status_line(head, response, out);
    let switches = response.status == 101;
    copy_lines(head, &response.fields, out, |field| {
        (ends_at_proxy(field.known) && !(switches && field.known == Known::Upgrade))
            || field.known == Known::Server
    });
    out.extend(if switches { b"Connection: upgrade\r\n\r\n" } else { b"\r\n" });
}

/// The option that says what becomes of the connection, where the version's default does not.
pub(crate) fn connection_option(version: Version, keep_alive: bool) -> Option<&'static str> {
    match (version, keep_alive) {
        (_, false) => Some("close"),
        (Version::Http10, true) => Some("keep-alive"),
        (Version::Http11, true) => None,
    }
}

fn write_status_line(head: &[u8], response: &Response, out: &mut Buffer) {
    out.extend(b"HTTP/1.1 ");
    out.extend(itoa::Buffer::new().format(response.status).as_bytes());
    out.extend(b" ");
    out.extend(&head[response.reason.clone()]);
    out.extend(b"\r\n");
}
