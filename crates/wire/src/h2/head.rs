//! Heads from HTTP/2 to HTTP/1 and back (RFC 9113 section 8.2 and 8.3, RFC 8441 section 4).

use crate::field::Known;
use crate::h1::Malformed;

/// The pseudo-header fields of a request (RFC 9113 section 8.3.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Pseudo<'a> {
    /// The field `:method`, such as `GET`.
    pub method: &'a [u8],
    /// The field `:authority`: host and port.
    pub authority: Option<&'a [u8]>,
    /// The field `:path`; none for CONNECT.
    pub path: Option<&'a [u8]>,
    /// The field `:protocol` of an extended CONNECT (RFC 8441).
    pub protocol: Option<&'a [u8]>,
}

/// Appends a request's head in the form of HTTP/1.1. `has_body` means that content may follow; without a
/// `content-length` the head then has `transfer-encoding: chunked`.
///
/// An extended CONNECT for WebSocket becomes the `Upgrade` of RFC 6455 with `websocket_key`. A field with
/// another meaning in HTTP/1 than in HTTP/2 is refused; the parser of the head checks the rest.
///
/// # Errors
/// A field that HTTP/2 does not have (RFC 9113 section 8.2.2), or a request that HTTP/1 cannot express.
pub fn write_request_head<'a>(
    pseudo: Pseudo<'_>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    has_body: bool,
    websocket_key: &str,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let opens_websocket = match pseudo.protocol {
        None => false,
        Some(b"websocket") if pseudo.method == b"CONNECT" => true,
        Some(_) => return Err(Malformed::Upgrade),
    };
    let target = match pseudo.path {
        Some(path) => path,
        None if pseudo.method == b"CONNECT" => pseudo.authority.unwrap_or_default(),
        None => return Err(Malformed::Target),
    };
    if !is_text(pseudo.method) || !is_text(target) {
        return Err(Malformed::Target);
    }
    out.extend_from_slice(if opens_websocket { b"GET" } else { pseudo.method });
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(authority) = pseudo.authority {
        write_line(b"host", authority, out)?;
    }
    let mut has_length = false;
    let mut crumbs = Vec::new();
    for (name, value) in fields {
        let known = Known::of(name);
        match (known, pseudo.authority) {
            // RFC 9113 section 8.3.1: a server should treat a request as malformed if the two differ.
            (Known::Host, Some(authority)) if !value.eq_ignore_ascii_case(authority) => {
                return Err(Malformed::DuplicateHost);
            }
            (Known::Host, Some(_)) => continue,
            // HTTP/2 may cut a cookie into crumbs, HTTP/1 may not (RFC 9113 section 8.2.3).
            (Known::Other, _) if name == b"cookie" => {
                crumbs.push(value);
                continue;
            }
            (Known::ContentLength, _) => has_length = true,
            (Known::Te, _) if value != b"trailers" => return Err(Malformed::ForbiddenField),
            _ if is_forbidden(known) => return Err(Malformed::ForbiddenField),
            _ => {}
        }
        write_line(name, value, out)?;
    }
    if !crumbs.is_empty() {
        write_line(b"cookie", &crumbs.join(&b"; "[..]), out)?;
    }
    if opens_websocket {
        write_line(b"connection", b"upgrade", out)?;
        write_line(b"upgrade", b"websocket", out)?;
        write_line(b"sec-websocket-key", websocket_key.as_bytes(), out)?;
    } else if has_body && !has_length {
        write_line(b"transfer-encoding", b"chunked", out)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends a response's head in the form of HTTP/1.1. `has_body` has the same meaning as in
/// [`write_request_head`].
///
/// # Errors
/// A field that HTTP/2 does not have (RFC 9113 section 8.2.2).
pub fn write_response_head<'a>(
    status: u16,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    has_body: bool,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.extend_from_slice(b" \r\n");
    let mut has_length = false;
    for (name, value) in fields {
        let known = Known::of(name);
        if is_forbidden(known) {
            return Err(Malformed::ForbiddenField);
        }
        has_length |= known == Known::ContentLength;
        write_line(name, value, out)?;
    }
    if has_body && !has_length {
        write_line(b"transfer-encoding", b"chunked", out)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends trailer fields as lines. Fields that frame or route a message are not allowed (RFC 9110 section
/// 6.5.1).
pub fn write_trailers<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        let line = out.len();
        if Known::of(name) != Known::Other || write_line(name, value, out).is_err() {
            out.truncate(line);
        }
    }
}

/// The fields of a head or of trailers in the form of HTTP/1, without those that HTTP/2 has no use for (RFC
/// 9113 section 8.2.2, RFC 8441 section 5). A start line is skipped.
pub fn lines(head: &[u8]) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        Some(line)
    })
    .filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let known = Known::of(name);
        let ends_here =
            is_forbidden(known) || name.contains(&b' ') || name.eq_ignore_ascii_case(b"sec-websocket-accept");
        (!ends_here).then_some((known, name, value))
    })
}

/// Whether a field concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
fn is_forbidden(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Writes a line. A value with a line break is refused, because it would be two lines; a value with white
/// space at an end is malformed (RFC 9113 section 8.2.1).
fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if name.is_empty() || !name.iter().all(|&b| IN_NAME[b as usize]) {
        return Err(Malformed::FieldName);
    }
    let is_blank = |end: Option<&u8>| matches!(end, Some(b' ' | b'\t'));
    if is_blank(value.first()) || is_blank(value.last()) || memchr::memchr3(b'\r', b'\n', 0, value).is_some()
    {
        return Err(Malformed::FieldValue);
    }
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The bytes that a name may contain: no upper-case letters (RFC 9113 section 8.2.1).
static IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_graphic() && b != b':' && !b.is_ascii_uppercase();
        byte += 1;
    }
    table
};

/// Whether a text is allowed in a request line.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| b > b' ' && b != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = [(&'static [u8], &'static [u8])];

    fn head(pseudo: Pseudo<'_>, fields: &Fields, has_body: bool) -> Result<String, Malformed> {
        let mut out = Vec::new();
        write_request_head(pseudo, fields.iter().copied(), has_body, "a2V5", &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    const GET: Pseudo<'_> =
        Pseudo { method: b"GET", authority: Some(b"a.test"), path: Some(b"/x?y"), protocol: None };

    #[test]
    fn a_request_reads_as_http_1() {
        assert_eq!(
            head(GET, &[(b"accept", b"*/*")], false).unwrap(),
            "GET /x?y HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n"
        );
        assert_eq!(
            head(Pseudo { authority: None, ..GET }, &[(b"host", b"b.test"), (b"te", b"trailers")], true)
                .unwrap(),
            "GET /x?y HTTP/1.1\r\nhost: b.test\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            head(GET, &[(b"host", b"A.test"), (b"content-length", b"3")], true).unwrap(),
            "GET /x?y HTTP/1.1\r\nhost: a.test\r\ncontent-length: 3\r\n\r\n"
        );
        assert_eq!(
            head(GET, &[(b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2")], false).unwrap(),
            "GET /x?y HTTP/1.1\r\nhost: a.test\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n"
        );
    }

    #[test]
    fn an_extended_connect_becomes_an_upgrade() {
        let connect = Pseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..GET };
        assert_eq!(
            head(connect, &[(b"sec-websocket-version", b"13")], true).unwrap(),
            "GET /x?y HTTP/1.1\r\nhost: a.test\r\nsec-websocket-version: 13\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-key: a2V5\r\n\r\n"
        );
        assert_eq!(head(Pseudo { protocol: Some(b"x"), ..connect }, &[], true), Err(Malformed::Upgrade));
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        let cases: &[(&Fields, Malformed)] = &[
            (&[(b"connection", b"close")], Malformed::ForbiddenField),
            (&[(b"transfer-encoding", b"chunked")], Malformed::ForbiddenField),
            (&[(b"te", b"gzip")], Malformed::ForbiddenField),
            (&[(b"host", b"evil.test")], Malformed::DuplicateHost),
            (&[(b"x", b"1\r\ny: 2")], Malformed::FieldValue),
            (&[(b"x", b"1\ny: 2")], Malformed::FieldValue),
            (&[(b"x", b" 1")], Malformed::FieldValue),
            (&[(b"x", b"1\t")], Malformed::FieldValue),
            (&[(b"x", b" ")], Malformed::FieldValue),
            (&[(b"x\r\ny", b"1")], Malformed::FieldName),
            (&[(b"X", b"1")], Malformed::FieldName),
            (&[(b"x:", b"1")], Malformed::FieldName),
        ];
        for (fields, why) in cases {
            assert_eq!(head(GET, fields, false), Err(*why), "{fields:?}");
        }
        for path in [&b""[..], b"/ HTTP/1.1\r\nx: y", b"/a b"] {
            assert_eq!(head(Pseudo { path: Some(path), ..GET }, &[], false), Err(Malformed::Target));
        }
    }

    #[test]
    fn lines_lose_what_http_2_does_not_have() {
        let head =
            b"HTTP/1.1 200 OK: fine\r\nConnection: close\r\nX-A:  b \r\nSec-WebSocket-Accept: c\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(lines(head).collect::<Vec<_>>(), [(Known::Other, &b"X-A"[..], &b"b"[..])]);
    }

    #[test]
    fn trailers_do_not_frame() {
        let mut out = Vec::new();
        let fields: &Fields = &[(b"grpc-status", b"0"), (b"content-length", b"3"), (b"x", b"\n")];
        write_trailers(fields.iter().copied(), &mut out);
        assert_eq!(out, b"grpc-status: 0\r\n");
    }
}
