//! HTTP/1.1 towards endpoints: request heads out, response heads in.

use std::cell::RefCell;
use std::time::Duration;

use model::ConnectionHeader;
use observe::Reason;
use wire::Known;
use wire::h1::{Fields, Request, Response, parse_response};

use super::timer::ResponseTimer;
use crate::buffer::Buffer;
use crate::deadline::Elapsed;
use crate::fault::Fault;
use crate::filters::client_certificate::{self, Told};
use crate::filters::forwarded::{self, Forwarded, LastLines};
use crate::limits::RESPONSE_HEAD_BYTES_MAX;
use crate::socket::Socket;

/// What an endpoint is told beside what the client said.
pub(crate) struct HeadOptions<'a> {
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// The lines of the connection's last request, unless this is its first.
    pub(crate) last_lines: Option<&'a RefCell<LastLines>>,
    /// `X-Request-ID`, where one is sent.
    pub(crate) request_id: Option<&'a [u8]>,
    /// Whether `X-Original-URI` is sent.
    pub(crate) original_uri: bool,
    pub(crate) connection: Option<ConnectionHeader>,
    /// Whether the protocol that the client asks for is asked of the endpoint.
    pub(crate) is_upgrade: bool,
    /// Whether names with an underscore are passed on.
    pub(crate) underscores: bool,
    /// What is told of the client's certificate, where the route asks for one.
    pub(crate) client_certificate: Option<Told<'a>>,
}

/// Appends the head of a request as the endpoint is to see it: the client's lines in their order and letter case, less
/// those that end here, after ours.
pub(crate) fn write_request_head(
    head: &[u8],
    request: &Request,
    options: &HeadOptions<'_>,
    out: &mut Buffer,
) {
    out.extend(&head[request.method.clone()]);
    out.extend(b" ");
    out.extend(request.origin_target(head));
    out.extend(b" HTTP/1.1\r\nHost: ");
    out.extend(options.forwarded.host);
    out.extend(b"\r\n");
    if let Some(id) = options.request_id {
        out.extend(b"X-Request-ID: ");
        out.extend(id);
        out.extend(b"\r\n");
    }
    options.forwarded.write(options.last_lines, out);
    if options.original_uri {
        out.extend(b"X-Original-URI: ");
        out.extend(&head[request.target.clone()]);
        out.extend(b"\r\n");
    }
    if let Some(told) = &options.client_certificate {
        told.write(out);
    }
    copy_lines(head, &request.fields, out, |field| {
        ends_at_proxy(field.known)
            || (options.client_certificate.is_some() && client_certificate::replaces(field.known))
            || forwarded::replaces(field.known)
            || matches!(field.known, Known::Host | Known::Expect | Known::Proxy)
            || (field.known == Known::XRequestId && options.request_id.is_some())
            || (field.known == Known::XOriginalUri && options.original_uri)
            || !(field.plain_name || (options.underscores && has_underscores_only(field.name(head))))
    });
    write_connection(head, request, options, out);
    out.extend(if request.fields.chunked { b"Transfer-Encoding: chunked\r\n\r\n" } else { b"\r\n" });
}

/// Fields that speak of one connection only (RFC 9110 section 7.6.1). `Transfer-Encoding` is among them: a body that is
/// passed on in chunks gets its own.
pub(crate) fn ends_at_proxy(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Copies header lines but those that `drops` names and those that `Connection` lists. Neighbours are copied together.
/// `Content-Length` stays whatever `Connection` says: without it, the body that follows would be read as another message. One that is
/// written in an odd way, such as `\t00`, is written anew.
pub(crate) fn copy_lines(
    head: &[u8],
    fields: &Fields,
    out: &mut Buffer,
    drops: impl Fn(&wire::Field) -> bool,
) {
    let mut run = 0..0;
    for field in fields {
        let is_listed = || fields.is_listed(head, field.name(head));
        if drops(field) || (field.known != Known::ContentLength && is_listed()) {
            continue;
        }
        let line = field.line();
        if field.known == Known::ContentLength && !field.is_plain_number(head) {
            out.extend(&head[run]);
            run = line.end..line.end;
            write_length(fields.content_length, out);
        } else if run.end == line.start {
            run.end = line.end;
        } else {
            out.extend(&head[run]);
            run = line;
        }
    }
    out.extend(&head[run]);
}

fn write_length(length: Option<u64>, out: &mut Buffer) {
    let Some(length) = length else { return };
    out.extend(b"Content-Length: ");
    out.extend(itoa::Buffer::new().format(length).as_bytes());
    out.extend(b"\r\n");
}

fn write_connection(head: &[u8], request: &Request, options: &HeadOptions<'_>, out: &mut Buffer) {
    if options.is_upgrade {
        out.extend(b"Connection: upgrade\r\n");
        for field in request.fields.iter().filter(|field| field.known == Known::Upgrade) {
            out.extend(&head[field.line()]);
        }
        return;
    }
    match options.connection {
        Some(ConnectionHeader::Close) => out.extend(b"Connection: close\r\n"),
        Some(ConnectionHeader::KeepAlive) => out.extend(b"Connection: keep-alive\r\n"),
        None => {}
    }
}

fn has_underscores_only(name: &[u8]) -> bool {
    name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Reads a response head; it stays at the front of `buffer`. `is_eager` where the body may be read along with it as far as it has
/// come: what a stream of HTTP/2 has no room for would be kept meanwhile.
pub(crate) async fn read_response_head(
    socket: &Socket,
    buffer: &mut Buffer,
    fields: Fields,
    is_eager: bool,
    timer: &ResponseTimer<'_>,
) -> Result<Response, Fault> {
    if !buffer.is_empty()
        && let Some(response) = parse(buffer, Fields::default())?
    {
        return Ok(response);
    }
    let mut spare = Some(fields);
    loop {
        let read = timer.within(|cx| {
            if is_eager { socket.poll_fill(cx, buffer) } else { socket.poll_fill_small(cx, buffer) }
        });
        match read.await {
            Err(Elapsed) => return Err(Fault::sent(Reason::UpstreamReadTimeout)),
            Ok(Ok(0) | Err(_)) => return Err(Fault::sent(Reason::UpstreamReset)),
            Ok(Ok(_)) => {}
        }
        if let Some(response) = parse(buffer, spare.take().unwrap_or_default())? {
            return Ok(response);
        }
    }
}

fn parse(buffer: &Buffer, fields: Fields) -> Result<Option<Response>, Fault> {
    let parsed =
        parse_response(buffer.data(), fields).map_err(|_| Fault::sent(Reason::UpstreamBadResponse))?;
    if parsed.is_none() && buffer.len() > RESPONSE_HEAD_BYTES_MAX {
        return Err(Fault::sent(Reason::UpstreamHeadTooLarge));
    }
    Ok(parsed)
}

/// How long the endpoint says it keeps the connection (`Keep-Alive: timeout=N`), less a second: a request that is on its
/// way when the connection closes may not be repeatable.
pub(crate) fn keep_alive_hint(head: &[u8], response: &Response) -> Option<Duration> {
    let field = response.fields.find(Known::KeepAlive)?;
    let seconds = wire::field::list(field.value(head)).find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(8)?;
        name.eq_ignore_ascii_case(b"timeout=")
            .then(|| std::str::from_utf8(value).ok()?.parse::<u64>().ok())?
    })?;
    Some(Duration::from_secs(seconds.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_hint_leaves_a_margin() {
        let hint = |value: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nKeep-Alive: {value}\r\n\r\n");
            let response = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
            keep_alive_hint(head.as_bytes(), &response)
        };
        assert_eq!(hint("timeout=5"), Some(Duration::from_secs(4)));
        assert_eq!(hint("max=3, Timeout=20"), Some(Duration::from_secs(19)));
        assert_eq!(hint("max=3"), None);
        assert_eq!(hint("timeout=x"), None);
    }
}
