use proptest::prelude::*;

use super::Coding::{Brotli, Gzip, Zstd};
use super::*;
use crate::cache::Head;
use crate::h1::parse_response;

fn accepted(values: &[&str]) -> Accepted {
    Accepted::new(values.iter().map(|value| value.as_bytes()))
}

fn of_head<T>(lines: &str, read: impl Fn(u16, &[u8], &Fields) -> T) -> T {
    let head = format!("HTTP/1.1 {lines}\r\n\r\n").replace('|', "\r\n");
    let parsed = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
    read(parsed.status, head.as_bytes(), &parsed.fields)
}

/// The choice if all codings are offered, zstd first, brotli next: by the rules of RFC 9110 section 12.5.3.
#[test]
fn weights_decide_and_then_the_order_of_the_offer() {
    let table: &[(&[&str], Option<Coding>)] = &[
        // The examples of the section.
        (&["compress, gzip"], Some(Gzip)),
        (&[""], None),
        (&["*"], Some(Zstd)),
        (&["compress;q=0.5, gzip;q=1.0"], Some(Gzip)),
        (&["gzip;q=1.0, identity; q=0.5, *;q=0"], Some(Gzip)),
        // Rule 1: the client sends no field.
        (&[], None),
        // Rule 2: identity is refused, and another accepted coding is chosen, if one exists.
        (&["identity;q=0, gzip;q=0.1"], Some(Gzip)),
        (&["identity;q=0"], None),
        (&["identity;q=0, *"], Some(Zstd)),
        // Rule 3: a weight of 0 refuses, whatever "*" says.
        (&["gzip;q=0"], None),
        (&["gzip;q=0.000"], None),
        (&["*;q=0, br"], Some(Brotli)),
        (&["zstd;q=0, *"], Some(Brotli)),
        (&["*;q=0"], None),
        // Rule 4 of preference: the highest weight above 0.
        (&["gzip, br;q=0.9, zstd;q=0.8"], Some(Gzip)),
        (&["br;q=0.001"], Some(Brotli)),
        (&["gzip, deflate, br"], Some(Brotli)),
        (&["gzip, deflate, br, zstd"], Some(Zstd)),
        (&["gzip;q=0.5, identity"], None),
        (&["gzip;q=0.5, *;q=0.7"], Some(Zstd)),
        // Several fields are one list (section 5.3); empty members are ignored (section 5.6.1).
        (&["deflate", "gzip"], Some(Gzip)),
        (&[", ,gzip,, "], Some(Gzip)),
        // Letter case, and the alias (section 8.4.1.3).
        (&["GZip;Q=0.5"], Some(Gzip)),
        (&["x-gzip"], Some(Gzip)),
        (&["X-GZIP;q=0"], None),
        (&["gzip\t;\tq=1"], Some(Gzip)),
        // An invalid qvalue (section 12.4.2) excludes the member.
        (&["gzip;q=1.1"], None),
        (&["gzip;q=-1"], None),
        (&["gzip;q=0.1234, br;q=0.2"], Some(Brotli)),
        (&["gzip;q=, br;q=x, zstd;q=1."], Some(Zstd)),
        (&["gzip;q=1.000"], Some(Gzip)),
        // Names that only begin with the name of a coding.
        (&["gzipped, br1, zst"], None),
        (&["gzip;level=9;q=0"], None),
        (&["gzip;q=0, gzip"], None),
    ];
    for (values, expected) in table {
        let chosen = accepted(values).choose([Zstd, Brotli, Gzip].into_iter());
        assert_eq!(chosen, *expected, "{values:?}");
    }
}

#[test]
fn only_what_is_on_offer_is_chosen() {
    let all = accepted(&["gzip, br, zstd"]);
    assert_eq!(all.choose([Gzip, Brotli].into_iter()), Some(Gzip));
    assert_eq!(all.choose([].into_iter()), None);
    assert!(all.takes(Zstd) && !accepted(&["br;q=0, gzip"]).takes(Brotli));
}

#[test]
fn codings_of_responses_are_told_apart() {
    let table = [
        ("200 OK", Coded::Plain),
        ("200 OK|Content-Encoding: identity", Coded::Plain),
        ("200 OK|Content-Encoding: ", Coded::Plain),
        ("200 OK|Content-Encoding: GZIP", Coded::Known(Gzip)),
        ("200 OK|content-encoding: x-gzip", Coded::Known(Gzip)),
        ("200 OK|Content-Encoding: br", Coded::Known(Brotli)),
        ("200 OK|Content-Encoding: identity, zstd", Coded::Known(Zstd)),
        // Codings that are applied one after the other (section 8.4).
        ("200 OK|Content-Encoding: gzip, br", Coded::Other),
        ("200 OK|Content-Encoding: gzip|Content-Encoding: gzip", Coded::Other),
        ("200 OK|Content-Encoding: aes128gcm", Coded::Other),
    ];
    for (lines, expected) in table {
        assert_eq!(of_head(lines, |_, head, fields| coded(head, fields)), expected, "{lines}");
    }
}

#[test]
fn what_may_not_be_coded_stays_as_it_is() {
    let table = [
        ("200 OK|Content-Type: text/html", None),
        ("404 Not Found", None),
        // Statuses of sections 15.2, 15.3.5, 15.3.6, 15.3.7 and 15.4.5.
        ("204 No Content", Some(Bar::Status)),
        ("205 Reset Content", Some(Bar::Status)),
        ("206 Partial Content|Content-Range: bytes 0-1/2", Some(Bar::Status)),
        ("304 Not Modified", Some(Bar::Status)),
        ("101 Switching Protocols", Some(Bar::Status)),
        // Range requests (RFC 9110 section 14.4).
        ("200 OK|Content-Range: bytes 0-1/2", Some(Bar::Range)),
        // The directive `no-transform` (RFC 9111 section 5.2.2.6).
        ("200 OK|Cache-Control: no-transform", Some(Bar::NoTransform)),
        ("200 OK|Cache-Control: max-age=1 ,NO-Transform", Some(Bar::NoTransform)),
        ("200 OK|Cache-Control: public|Cache-Control: no-transform", Some(Bar::NoTransform)),
        ("200 OK|Cache-Control: no-transformation", None),
        // Digests of the content (RFC 9530).
        ("200 OK|Content-Digest: sha-256=:x:", Some(Bar::Digest)),
        ("200 OK|Repr-Digest: sha-256=:x:", Some(Bar::Digest)),
        ("200 OK|Content-MD5: x", Some(Bar::Digest)),
        ("200 OK|Content-Type: application/grpc", Some(Bar::Grpc)),
        ("200 OK|Content-Type: Application/gRPC-Web+proto; a=b", Some(Bar::Grpc)),
    ];
    for (lines, expected) in table {
        assert_eq!(of_head(lines, bar), expected, "{lines}");
    }
}

#[test]
fn media_types_come_without_parameters() {
    let table = [
        ("200 OK", None),
        ("200 OK|Content-Type: ", None),
        ("200 OK|Content-Type: ;charset=utf-8", None),
        ("200 OK|Content-Type: text/html", Some("text/html")),
        ("200 OK|Content-Type: Text/HTML ; charset=utf-8", Some("Text/HTML")),
    ];
    for (lines, expected) in table {
        let found = of_head(lines, |_, head, fields| media_type(head, fields).map(<[u8]>::to_vec));
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{lines}");
    }
}

#[test]
fn vary_is_said_once() {
    let table = [
        ("200 OK", false),
        ("200 OK|Vary: Origin", false),
        ("200 OK|Vary: Origin, accept-encoding", true),
        ("200 OK|Vary: Origin|Vary: Accept-Encoding", true),
        ("200 OK|Vary: *", true),
        ("200 OK|Vary: Accept-Encodings", false),
    ];
    for (lines, expected) in table {
        assert_eq!(
            of_head(lines, |_, head, fields| varies_by_coding(Head::new(head, fields).values(b"vary"))),
            expected,
            "{lines}"
        );
    }
}

#[test]
fn tags_become_weak() {
    let table = [
        ("\"a\"", Some("W/\"a\"")),
        ("W/\"a\"", Some("W/\"a\"")),
        ("\"\"", Some("W/\"\"")),
        ("a", None),
        ("\"", None),
    ];
    for (tag, expected) in table {
        assert_eq!(weak_tag(tag.as_bytes()).as_deref(), expected.map(str::as_bytes), "{tag}");
    }
}

proptest! {
    #[test]
    fn anything_is_read_and_nothing_is_chosen_that_was_not_asked_for(value in "[gzipbrstdx*=;q,. 01-]{0,40}") {
        let chosen = accepted(&[&value]).choose(Coding::ALL.into_iter());
        if let Some(coding) = chosen {
            prop_assert!(value.contains(coding.name()) || value.contains('*'));
        }
    }

    #[test]
    fn weights_read_as_they_are_written(thousandths in 0_u16..=1000) {
        let text = format!("gzip;q={}.{:03}", thousandths / 1000, thousandths % 1000);
        prop_assert_eq!(accepted(&[&text]).weights[Gzip as usize], thousandths);
    }
}
