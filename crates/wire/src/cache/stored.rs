//! Heads in the form that a cache stores (RFC 9111 sections 3.1 and 3.2).

use super::directives::Directives;
use super::head::Head;
use crate::field::Field;
use crate::hop_by_hop;

/// Fields of a proxy's own connections that RFC 9111 section 3.1 excludes in addition to hop-by-hop fields.
const OF_PROXIES: [&[u8]; 3] = [b"proxy-authenticate", b"proxy-authentication-info", b"proxy-authorization"];

/// Fields that describe the stored content: a 304, which has no content, does not change them (section 3.2).
const OF_CONTENT: [&[u8]; 5] =
    [b"content-encoding", b"content-length", b"content-md5", b"content-range", b"etag"];

/// Appends the head of a response in its stored form: without hop-by-hop fields, without the fields that the
/// response itself withholds, and without `Age`, which is in [`Freshness`](super::Freshness). If `length` is
/// given, the content's length is written again with this value.
pub fn write_head(
    status: u16,
    reason: &[u8],
    response: Head<'_>,
    directives: &Directives,
    length: Option<u64>,
    out: &mut Vec<u8>,
) {
    write_status_line(status, reason, out);
    for field in response.iter().filter(|field| is_kept(response, field, directives)) {
        if length.is_none() || !is_named(response, field, b"content-length") {
            out.extend(&response.bytes()[field.line()]);
        }
    }
    if let Some(length) = length {
        write_length(length, out);
    }
    out.extend(b"\r\n");
}

/// Appends the stored head after an update by a 304, or by the 200 of a HEAD (section 4.3.5): each field of
/// the new head replaces all stored fields of its name, except those that describe the content.
pub fn write_updated(
    status: u16,
    reason: &[u8],
    stored: Head<'_>,
    update: Head<'_>,
    directives: &Directives,
    out: &mut Vec<u8>,
) {
    let is_new = |field: &Field| is_kept(update, field, directives) && !is_any(update, field, &OF_CONTENT);
    write_status_line(status, reason, out);
    for field in stored.iter() {
        let name = field.name(stored.bytes());
        let is_replaced =
            update.iter().any(|new| is_new(new) && new.name(update.bytes()).eq_ignore_ascii_case(name));
        if !is_replaced && !is_withheld(name, directives) {
            out.extend(&stored.bytes()[field.line()]);
        }
    }
    for field in update.iter().filter(|field| is_new(field)) {
        out.extend(&update.bytes()[field.line()]);
    }
    out.extend(b"\r\n");
}

/// Whether the response to a HEAD describes the same content as a stored one (section 4.3.5): the fields that
/// both have must be equal.
pub fn is_same_content(stored: Head<'_>, head: Head<'_>) -> bool {
    [&b"etag"[..], b"last-modified", b"content-length"]
        .iter()
        .all(|name| head.value(name).is_none_or(|value| stored.value(name) == Some(value)))
}

fn write_status_line(status: u16, reason: &[u8], out: &mut Vec<u8>) {
    out.extend(b"HTTP/1.1 ");
    out.extend(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend(reason);
    out.extend(b"\r\n");
}

fn write_length(length: u64, out: &mut Vec<u8>) {
    out.extend(b"Content-Length: ");
    out.extend(itoa::Buffer::new().format(length).as_bytes());
    out.extend(b"\r\n");
}

fn is_kept(head: Head<'_>, field: &Field, directives: &Directives) -> bool {
    let name = field.name(head.bytes());
    !hop_by_hop::ends_here(field.known)
        && !is_any(head, field, &OF_PROXIES)
        && !name.eq_ignore_ascii_case(b"age")
        && !is_withheld(name, directives)
}

fn is_withheld(name: &[u8], directives: &Directives) -> bool {
    directives.withheld.iter().any(|withheld| name.eq_ignore_ascii_case(withheld))
}

fn is_named(head: Head<'_>, field: &Field, name: &[u8]) -> bool {
    field.name(head.bytes()).eq_ignore_ascii_case(name)
}

fn is_any(head: Head<'_>, field: &Field, names: &[&[u8]]) -> bool {
    names.iter().any(|name| is_named(head, field, name))
}
