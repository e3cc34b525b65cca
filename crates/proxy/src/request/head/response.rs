//! The head of a response as it is sent to the client.

use std::rc::Rc;

use wire::Known;
use wire::h1::{Response, Version};
use wire::hop_by_hop::ends_here;

use super::{HeadEdits, HeadWriter, SERVER};
use crate::body::Framing;
use crate::io::buffer::Buffer;

const UPGRADE_REQUIRED: u16 = 426;

/// Framing and version of a response to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Framing of the body.
    pub(crate) framing: Framing,
    /// Whether the connection stays open afterwards.
    pub(crate) keep_alive: bool,
    /// The client's version of HTTP.
    pub(crate) version: Version,
}

/// Appends the head of a response for the client. `date` is called only where the endpoint has sent none;
/// `tell` appends lines of its own.
pub(crate) fn write_response_head(
    head: &[u8],
    response: &Response,
    delivery: Delivery,
    edits: &HeadEdits<'_>,
    (date, tell): (impl FnOnce() -> Rc<str>, impl FnOnce(&mut HeadWriter<'_>)),
    out: &mut Buffer,
) {
    let mut writer = HeadWriter::new(out, head.len());
    match edits.status {
        Some((status, reason)) => writer.status_line(status, reason.as_bytes()),
        None => writer.status_line(response.status, &head[response.reason.clone()]),
    }
    // The field says which protocol is required (RFC 9110 section 15.5.22).
    let requires_upgrade = response.status == UPGRADE_REQUIRED;
    writer.pass(head, &response.fields, |field| {
        (ends_here(field.known) && !(requires_upgrade && field.known == Known::Upgrade))
            || (field.known == Known::Server && !edits.passes_server)
            || edits.replaces(field.name(head))
    });
    writer.edits(edits);
    if edits.passes_server && response.fields.find(Known::Server).is_none() {
        writer.field("Server", SERVER.as_bytes());
    }
    if response.fields.find(Known::Date).is_none() {
        writer.field("Date", date().as_bytes());
    }
    tell(&mut writer);
    if delivery.framing == Framing::Chunked {
        writer.write([b"Transfer-Encoding: chunked\r\n"]);
    }
    if requires_upgrade {
        writer.connection(Some("upgrade"));
    }
    writer.connection(connection_option(delivery.version, delivery.keep_alive));
    writer.end();
}

/// Appends the head of a 101 or another interim response.
pub(crate) fn write_interim_head(head: &[u8], response: &Response, edits: &HeadEdits<'_>, out: &mut Buffer) {
    let mut writer = HeadWriter::new(out, head.len());
    writer.status_line(response.status, &head[response.reason.clone()]);
    let switches = response.status == 101;
    writer.pass(head, &response.fields, |field| {
        (ends_here(field.known) && !(switches && field.known == Known::Upgrade))
            || (field.known == Known::Server && !edits.passes_server)
            || edits.replaces(field.name(head))
    });
    writer.edits(edits);
    writer.connection(switches.then_some("upgrade"));
    writer.end();
}

/// The `Connection` option, where it differs from the version's default.
pub(crate) fn connection_option(version: Version, keep_alive: bool) -> Option<&'static str> {
    match (version, keep_alive) {
        (_, false) => Some("close"),
        (Version::Http10, true) => Some("keep-alive"),
        (Version::Http11, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use wire::h1::{Fields, parse_response};

    use super::*;
    use crate::io::buffer::Buffers;

    const KEPT: Delivery = Delivery { framing: Framing::Raw, keep_alive: true, version: Version::Http11 };

    fn response(fields: &str, delivery: Delivery, edits: &HeadEdits<'_>) -> String {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let parsed = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
        let mut out = Buffer::empty(&Rc::new(Buffers::default()));
        write_response_head(head.as_bytes(), &parsed, delivery, edits, (|| "now".into(), |_| ()), &mut out);
        String::from_utf8(out.data().to_vec()).unwrap()
    }

    #[test]
    fn without_edits_fields_pass_as_they_came() {
        let fields = "DATE: then\r\nx-A: 1\r\nContent-Length: 0\r\n";
        let expected = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        assert_eq!(response(fields, KEPT, &HeadEdits::default()), expected);
    }

    #[test]
    fn what_ends_here_does_not_pass() {
        let fields = "Connection: x-a\r\nX-A: 1\r\nServer: s\r\nKeep-Alive: timeout=5\r\nX-B: 2\r\n";
        let text = response(fields, Delivery { framing: Framing::Chunked, ..KEPT }, &HeadEdits::default());
        assert_eq!(text, "HTTP/1.1 200 OK\r\nX-B: 2\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    #[test]
    fn a_required_upgrade_is_named() {
        let head =
            "HTTP/1.1 426 Upgrade Required\r\nConnection: x\r\nUpgrade: h2c\r\nDate: then\r\nX: 1\r\n\r\n";
        let parsed = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
        let mut out = Buffer::empty(&Rc::new(Buffers::default()));
        let delivery = Delivery { keep_alive: false, ..KEPT };
        let none = HeadEdits::default();
        write_response_head(head.as_bytes(), &parsed, delivery, &none, (|| "now".into(), |_| ()), &mut out);
        assert_eq!(
            String::from_utf8(out.data().to_vec()).unwrap(),
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nDate: then\r\nConnection: upgrade\r\nConnection: close\r\n\r\n"
        );
        // Only with that status: in any other response it is the endpoint's offer to this proxy.
        assert!(!response("Upgrade: h2c\r\n", KEPT, &none).contains("Upgrade"));
    }

    #[test]
    fn edits_take_the_place_of_fields_whatever_their_letter_case() {
        let mut edits = HeadEdits::default();
        edits.remove("X-Gone");
        edits.set("X-Set", &b"1"[..]);
        edits.set("X-Set", b"2".to_vec());
        let text = response("x-set: a\r\nX-SET: b\r\nx-gone: c\r\nDate: then\r\nX-C: d\r\n", KEPT, &edits);
        assert_eq!(text, "HTTP/1.1 200 OK\r\nDate: then\r\nX-C: d\r\nX-Set: 2\r\n\r\n");
    }

    #[test]
    fn an_odd_length_is_written_anew() {
        let text = response("Date: then\r\nContent-Length: \t007\r\nX-A: 1\r\n", KEPT, &HeadEdits::default());
        assert_eq!(text, "HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 7\r\nX-A: 1\r\n\r\n");
    }

    #[test]
    fn the_connection_is_spoken_of_only_where_the_version_has_another_default() {
        assert_eq!(connection_option(Version::Http11, true), None);
        assert_eq!(connection_option(Version::Http10, true), Some("keep-alive"));
        assert_eq!(connection_option(Version::Http11, false), Some("close"));
    }
}
