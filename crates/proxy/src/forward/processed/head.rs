//! Heads between the form that is sent and the one that a processor sees.
//!
//! Never in here: what a processor may change.

use deciders::processing::{Head, HeadField};
use wire::h1::Response;

use crate::request::processing::field;
use crate::request::reply::phrase;

/// How the end of a body is told in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framed {
    /// As in the received head.
    AsReceived,
    Length(u64),
    Chunked,
    /// Not at all: what sends the head adds it.
    Later,
}

/// The head of a request, and its version of HTTP.
pub(super) struct RequestHead {
    pub(super) head: Head,
    version: Vec<u8>,
}

impl RequestHead {
    /// Takes the head of a request for an endpoint apart.
    pub(super) fn read(bytes: &[u8], scheme: &[u8]) -> Self {
        let mut lines =
            bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut words = lines.next().unwrap_or_default().split(|&byte| byte == b' ');
        let mut word = || words.next().unwrap_or_default().to_vec();
        let method = word();
        let path = word();
        let version = word();
        let mut fields: Vec<HeadField> = lines.filter_map(field).collect();
        let host = fields.iter().position(|field| field.name.eq_ignore_ascii_case("host"));
        let authority = host.map(|at| fields.remove(at).value).unwrap_or_default();
        let pseudo = vec![
            (":method", method),
            (":scheme", scheme.to_vec()),
            (":authority", authority),
            (":path", path),
        ];
        Self { head: Head { pseudo, fields }, version }
    }

    /// Writes the head. Without its end, lines may be added.
    pub(super) fn write(&self, framed: Framed, has_end: bool) -> Vec<u8> {
        let head = &self.head;
        let mut out = Vec::with_capacity(head.byte_len() + 64);
        let method = head.pseudo(":method");
        let path = head.pseudo(":path");
        let host = head.pseudo(":authority");
        for part in [method, b" ", path, b" ", &self.version, b"\r\nHost: ", host, b"\r\n"] {
            out.extend_from_slice(part);
        }
        write_fields(head, framed, &mut out);
        if has_end {
            out.extend_from_slice(b"\r\n");
        }
        out
    }
}

/// Takes the head of a response apart.
pub(super) fn of_response(response: &Response, head: &[u8]) -> Head {
    let status = itoa::Buffer::new().format(response.status).as_bytes().to_vec();
    let name = |field: &wire::Field| String::from_utf8_lossy(field.name(head)).into_owned();
    let fields = response.fields.iter().map(|field| HeadField::new(&name(field), field.value(head)));
    Head { pseudo: vec![(":status", status)], fields: fields.collect() }
}

/// Writes the head of a response. `reason` is what its sender says about the status.
pub(super) fn write_response(head: &Head, status: u16, reason: &[u8], framed: Framed) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.byte_len() + 64);
    let own = head.pseudo(":status");
    let own_status = std::str::from_utf8(own).ok().and_then(|text| text.parse().ok()).unwrap_or(status);
    let reason = if own_status == status { reason } else { phrase(own_status).as_bytes() };
    for part in [b"HTTP/1.1 ", own, b" ", reason, b"\r\n"] {
        out.extend_from_slice(part);
    }
    write_fields(head, framed, &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

fn write_fields(head: &Head, framed: Framed, out: &mut Vec<u8>) {
    let is_framing =
        |name: &str| ["content-length", "transfer-encoding"].iter().any(|it| name.eq_ignore_ascii_case(it));
    let is_kept = |field: &&HeadField| framed == Framed::AsReceived || !is_framing(&field.name);
    for HeadField { name, value, .. } in head.fields.iter().filter(is_kept) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    match framed {
        Framed::AsReceived | Framed::Later => {}
        Framed::Length(length) => {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        Framed::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] =
        b"POST /a?b HTTP/1.1\r\nHost: web.test\r\nX-A:  1 \r\nContent-Length: 3\r\nConnection: upgrade\r\n\r\n";

    #[test]
    fn a_request_comes_out_as_it_went_in() {
        let request = RequestHead::read(REQUEST, b"https");
        assert_eq!(request.head.pseudo(":authority"), b"web.test");
        assert_eq!(request.head.pseudo(":scheme"), b"https");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(request.write(Framed::AsReceived, true)),
            "POST /a?b HTTP/1.1\r\nHost: web.test\r\nX-A: 1\r\nContent-Length: 3\r\nConnection: upgrade\r\n\r\n"
        );
        assert!(text(request.write(Framed::Length(7), true)).ends_with("\r\nContent-Length: 7\r\n\r\n"));
        let chunked = text(request.write(Framed::Chunked, true));
        assert!(chunked.ends_with("\r\nTransfer-Encoding: chunked\r\n\r\n") && !chunked.contains("Length"));
        assert!(text(request.write(Framed::Later, false)).ends_with("Connection: upgrade\r\n"));
    }

    #[test]
    fn a_response_keeps_what_its_sender_says_about_its_status() {
        let bytes = b"HTTP/1.1 200 Fine\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut response = Response::default();
        assert!(response.parse(bytes).unwrap());
        let mut head = of_response(&response, bytes);
        assert_eq!(write_response(&head, 200, b"Fine", Framed::AsReceived), bytes);
        head.pseudo[0].1 = b"404".to_vec();
        let written = write_response(&head, 200, b"Fine", Framed::Length(2));
        assert_eq!(written, b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n");
    }
}
