//! The head of a request as it is sent to an endpoint.

use std::cell::RefCell;

use model::{ConnectionHeader, HeaderNames};
use wire::h1::Request;
use wire::hop_by_hop::ends_here;
use wire::{Field, Known};

use super::{HeadEdits, HeadWriter};
use crate::io::buffer::Buffer;
use crate::request::forwarded::{self, Forwarded, LastLines};

/// Options of a request's head, beside the client's fields.
pub(crate) struct RequestOptions<'a> {
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// `Host`, where it is neither the client's nor a trusted hop's.
    pub(crate) host: Option<&'a [u8]>,
    /// Path and query, where they are not the client's.
    pub(crate) target: Option<&'a [u8]>,
    /// The lines of the connection's last request, unless this is its first.
    pub(crate) last_lines: Option<&'a RefCell<LastLines>>,
    /// `X-Request-ID`, where one is sent.
    pub(crate) request_id: Option<&'a [u8]>,
    /// Whether `X-Original-URI` is sent.
    pub(crate) original_uri: bool,
    pub(crate) connection: Option<ConnectionHeader>,
    /// Whether the client's request for another protocol is forwarded.
    pub(crate) is_upgrade: bool,
    /// Names of fields that are passed on.
    pub(crate) names: HeaderNames,
    /// Whether the body that the client has announced is not sent: its length is then 0.
    pub(crate) is_bodiless: bool,
    /// Whether the request is sent as HTTP/1.0.
    pub(crate) is_http_1_0: bool,
    /// Whether the length of a chunked body is written later, with the [end of the head](end_request_head).
    pub(crate) awaits_length: bool,
}

/// Length of the body of a request whose head awaits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(u64),
    /// The body is sent in chunks.
    Unknown,
}

/// Appends the head of a request for the endpoint: the client's lines after ours.
pub(crate) fn write_request_head(
    head: &[u8],
    request: &Request,
    options: &RequestOptions<'_>,
    edits: &HeadEdits<'_>,
    out: &mut Buffer,
) {
    let mut writer = HeadWriter::new(out, head.len());
    let method = &head[request.method.clone()];
    let target = options.target.unwrap_or_else(|| request.origin_target(head));
    let host = options.host.unwrap_or(options.forwarded.host);
    let version: &[u8] = if options.is_http_1_0 { b" HTTP/1.0\r\nHost: " } else { b" HTTP/1.1\r\nHost: " };
    writer.write([method, b" ", target, version, host, b"\r\n"]);
    if let Some(id) = options.request_id.filter(|_| !edits.replaces(b"X-Request-ID")) {
        writer.write([b"X-Request-ID: ", id, b"\r\n"]);
    }
    if !edits.is_empty() && forwarded::NAMES.iter().any(|name| edits.replaces(name.as_bytes())) {
        options.forwarded.write_but(|name| edits.replaces(name.as_bytes()), &mut writer);
    } else {
        options.forwarded.write(options.last_lines, &mut writer);
    }
    if options.original_uri && !edits.replaces(b"X-Original-URI") {
        writer.write([b"X-Original-URI: ", &head[request.target.clone()], b"\r\n"]);
    }
    writer.settings(edits);
    writer.pass(head, &request.fields, |field| {
        is_left_out(field, head, options.names, edits, |known| {
            ends_here(known)
                || forwarded::replaces(known)
                || matches!(known, Known::Host | Known::Expect | Known::Proxy)
                || (known == Known::XRequestId && options.request_id.is_some())
                || (known == Known::XOriginalUri && options.original_uri)
                || (known == Known::ContentLength && options.is_bodiless)
        })
    });
    writer.additions(edits);
    write_request_connection(head, request, options, &mut writer);
    match (request.fields.chunked, options.awaits_length) {
        _ if options.is_bodiless => end_with_length(BodyLength::Known(0), &mut writer),
        (false, _) => writer.end(),
        (true, false) => end_with_length(BodyLength::Unknown, &mut writer),
        (true, true) => {}
    }
}

/// Appends the end of a head that awaits the length of its body.
pub(crate) fn end_request_head(length: BodyLength, out: &mut Buffer) {
    end_with_length(length, &mut HeadWriter::new(out, 0));
}

fn end_with_length(length: BodyLength, writer: &mut HeadWriter<'_>) {
    match length {
        BodyLength::Known(length) => {
            writer.field("Content-Length", itoa::Buffer::new().format(length).as_bytes());
            writer.end();
        }
        BodyLength::Unknown => writer.write([b"Transfer-Encoding: chunked\r\n\r\n"]),
    }
}

fn write_request_connection(
    head: &[u8],
    request: &Request,
    options: &RequestOptions<'_>,
    writer: &mut HeadWriter<'_>,
) {
    if options.is_upgrade {
        writer.write([b"Connection: upgrade\r\n"]);
        for field in request.fields.iter().filter(|field| field.known == Known::Upgrade) {
            writer.write([&head[field.line()]]);
        }
        return;
    }
    match options.connection {
        Some(ConnectionHeader::Close) => writer.write([b"Connection: close\r\n"]),
        Some(ConnectionHeader::KeepAlive) => writer.write([b"Connection: keep-alive\r\n"]),
        None => {}
    }
}

/// Whether a client's field is left out of a request: for its name, for an edit, or because it is one of
/// those in `ends`. A name with other characters than dashes is left out where the name with dashes would
/// be, since an endpoint may take it for that.
#[inline]
pub(super) fn is_left_out(
    field: &Field,
    head: &[u8],
    names: HeaderNames,
    edits: &HeadEdits<'_>,
    ends: impl Fn(Known) -> bool,
) -> bool {
    let is_replaced = || !edits.edits.is_empty() && edits.replaces_alike(field.name(head));
    if field.plain_name {
        return ends(field.known) || is_replaced();
    }
    let odd = known_of_odd(field.name(head), names);
    odd.is_none_or(|known| known == Known::ContentLength || ends(known)) || is_replaced()
}

/// The name that an endpoint may take for this one with other characters than dashes; none if it does not
/// pass.
#[cold]
fn known_of_odd(name: &[u8], names: HeaderNames) -> Option<Known> {
    passes_name(name, names).then(|| Known::alike(name))
}

/// Whether a field of this name may be passed on.
pub(crate) fn passes_name(name: &[u8], names: HeaderNames) -> bool {
    let allows = |special: &[u8]| name.iter().all(|b| b.is_ascii_alphanumeric() || special.contains(b));
    match names {
        HeaderNames::Plain => allows(b"-"),
        HeaderNames::Underscores => allows(b"-_"),
        HeaderNames::All => true,
    }
}
