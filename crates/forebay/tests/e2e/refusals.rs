//! Bad input: what it gets, that it is counted, and that no endpoint ever sees it.

use std::net::IpAddr;

use testkit::{Connection, Ending, Forebay, Upstream};

use crate::{GET, OK, serving, setup, streaming};

/// Sends bytes, expects an answer with this status and the end of the connection, and awaits the count.
fn refused(forebay: &Forebay, bytes: impl AsRef<[u8]>, status: u16, reason: &str) {
    let before = faults(forebay, reason);
    let mut client = forebay.client();
    client.send(bytes.as_ref());
    assert_refused(&mut client, status, &String::from_utf8_lossy(bytes.as_ref()));
    forebay.await_metric("forebay_faults_total", &[("side", "client"), ("reason", reason)], before + 1);
}

fn assert_refused(client: &mut Connection, status: u16, what: &str) {
    let what = &what[..what.len().min(200)];
    let response = client.read_response();
    assert_eq!(response.status, status, "{what:?}");
    assert_eq!(response.header("connection").as_deref(), Some("close"), "{what:?}");
    assert_eq!(client.ending(), Ending::Closed, "{what:?}");
}

fn faults(forebay: &Forebay, reason: &str) -> u64 {
    forebay.metrics().sum("forebay_faults_total", &[("reason", reason)])
}

#[test]
fn a_malformed_start_line_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (line, status, reason) in [
        ("GET  / HTTP/1.1", 400, "bad_request_line"),
        ("GET / HTTP/1.1 ", 400, "bad_request_line"),
        ("GET /", 400, "bad_request_line"),
        ("G(T / HTTP/1.1", 400, "bad_request_line"),
        ("GET x HTTP/1.1", 400, "bad_request_line"),
        ("GET ftp://web.test/ HTTP/1.1", 400, "bad_request_line"),
        ("\u{16}\u{3}\u{1}", 400, "bad_request_line"),
        ("GET / HTTP/1.2", 505, "unsupported_version"),
        ("GET / HTTP/2.0", 505, "unsupported_version"),
        ("PRI * HTTP/2.0", 505, "unsupported_version"),
        ("GET /% HTTP/1.1", 400, "bad_target"),
        ("GET /%00 HTTP/1.1", 400, "bad_target"),
        ("GET /../etc/passwd HTTP/1.1", 400, "bad_target"),
        ("GET /a/%2e%2e/%2e%2e/b HTTP/1.1", 400, "bad_target"),
        ("CONNECT web.test:443 HTTP/1.1", 405, "method_not_allowed"),
    ] {
        refused(&forebay, format!("{line}\r\nHost: web.test\r\n\r\n"), status, reason);
    }
    assert!(upstream.is_left_alone());
}

#[test]
fn a_malformed_header_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (fields, reason) in [
        ("Host : web.test\r\n", "space_before_colon"),
        ("Host: web.test\r\nX: a\r\n b\r\n", "obsolete_fold"),
        ("Host: web.test\r\nX: a\nY: b\r\n", "bare_line_feed"),
        ("Host: web.test\r\nX: a\rb\r\n", "bad_header_value"),
        ("Host: web.test\r\nX: a\0b\r\n", "bad_header_value"),
        ("Host: web.test\r\nX: a\u{7f}b\r\n", "bad_header_value"),
        ("Host: web.test\r\n: a\r\n", "bad_header_name"),
        ("Host: web.test\r\nX Y: a\r\n", "bad_header_name"),
        ("Host: web.test\r\nX\r\n", "bad_header_name"),
        ("X: a\r\n", "missing_host"),
        ("Host: web.test\r\nHost: web.test\r\n", "duplicate_host"),
        ("Host: web.test, other\r\n", "bad_host"),
        ("Host: web.test/\r\n", "bad_host"),
        ("Host: user@web.test\r\n", "bad_host"),
        ("Host: web.test:http\r\n", "bad_host"),
    ] {
        refused(&forebay, format!("GET / HTTP/1.1\r\n{fields}\r\n"), 400, reason);
    }
    assert!(upstream.is_left_alone());
}

#[test]
fn framing_that_could_be_read_in_two_ways_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (fields, reason) in [
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "conflicting_framing"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "conflicting_framing"),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", "bad_content_length"),
        ("Content-Length: 1\r\nContent-Length: 1\r\n", "bad_content_length"),
        ("Content-Length: 1, 1\r\n", "bad_content_length"),
        ("Content-Length: +1\r\n", "bad_content_length"),
        ("Content-Length: -1\r\n", "bad_content_length"),
        ("Content-Length: 0x1\r\n", "bad_content_length"),
        ("Content-Length:\r\n", "bad_content_length"),
        ("Content-Length: 99999999999999999999\r\n", "bad_content_length"),
        ("Transfer-Encoding: gzip, chunked\r\n", "bad_transfer_encoding"),
        ("Transfer-Encoding: chunked, chunked\r\n", "bad_transfer_encoding"),
        ("Transfer-Encoding: identity\r\n", "bad_transfer_encoding"),
        ("Transfer-Encoding: xchunked\r\n", "bad_transfer_encoding"),
        ("Transfer-Encoding: \u{b}chunked\r\n", "bad_header_value"),
        ("Transfer-Encoding : chunked\r\n", "space_before_colon"),
        ("Transfer-Encoding\r\n : chunked\r\n", "obsolete_fold"),
    ] {
        refused(&forebay, format!("POST / HTTP/1.1\r\nHost: web.test\r\n{fields}\r\nG"), 400, reason);
    }
    let old = "POST / HTTP/1.0\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    refused(&forebay, old, 400, "bad_transfer_encoding");
    assert!(upstream.is_left_alone());
}

#[test]
fn a_malformed_chunk_that_comes_with_its_head_reaches_no_endpoint() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for body in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "0x1\r\na\r\n",
        "1 \r\na\r\n",
        "1\na\r\n",
        "1\r\nab\r\n",
        "1;\u{1}\r\na\r\n",
        "1000000000000000\r\n",
        "1\r\na\r\n0\r\nX: a\r\n b\r\n\r\n",
        "0\r\nX : a\r\n\r\n",
        "0\r\nX: a\n\r\n",
    ] {
        let head = "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        refused(&forebay, format!("{head}{body}"), 400, "bad_chunk");
    }
    assert!(upstream.is_left_alone());
}

#[test]
fn a_malformed_chunk_that_comes_later_breaks_the_request_off() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(6), b"1\r\na\r\n");
    client.send("nonsense\r\n");
    assert_refused(&mut client, 400, "a malformed chunk");
    assert_eq!(peer.ending(), Ending::Reset);
}

/// As nginx does: it would show whoever asks what a proxy in between adds to a request (RFC 9110 section
/// 9.3.8).
#[test]
fn a_trace_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send("TRACE / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert_eq!(client.read_response().status, 405);
    assert!(upstream.is_left_alone());
}

#[test]
fn what_is_too_long_is_refused_before_all_of_it_has_come() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let long = "a".repeat(9000);
    refused(&forebay, format!("GET /{long}"), 414, "line_too_long");
    refused(&forebay, format!("GET /{long} HTTP/1.1\r\nHost: web.test\r\n\r\n"), 414, "line_too_long");
    refused(&forebay, format!("GET / HTTP/1.1\r\nHost: web.test\r\nX: {long}"), 400, "head_too_large");
    let many = format!("X: {}\r\n", "a".repeat(8000)).repeat(5);
    refused(&forebay, format!("GET / HTTP/1.1\r\nHost: web.test\r\n{many}"), 400, "head_too_large");
    let short_fields = "X: a\r\n".repeat(300);
    refused(
        &forebay,
        format!("GET / HTTP/1.1\r\nHost: web.test\r\n{short_fields}\r\n"),
        400,
        "head_too_large",
    );
    assert!(upstream.is_left_alone());
}

#[test]
fn a_body_longer_than_allowed_is_refused_by_its_length_and_by_its_chunks() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-body-size", "10")
        .annotation("proxy-request-buffering", "off")
        .start();
    let post = "POST / HTTP/1.1\r\nHost: web.test\r\n";
    refused(&forebay, format!("{post}Content-Length: 1000000\r\n\r\n"), 413, "body_too_large");
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n");
    refused(&forebay, chunked, 413, "body_too_large");
    assert!(upstream.is_left_alone());

    let mut client = forebay.client();
    client.send(format!("{post}Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n"));
    let (mut peer, _) = upstream.accept_request();
    client.send("5\r\nworld\r\n0\r\n\r\n");
    assert_refused(&mut client, 413, "a chunk too many");
    let (seen, ending) = peer.read_to_end();
    assert_eq!((String::from_utf8_lossy(&seen).as_ref(), ending), ("6\r\nhello \r\n", Ending::Reset));

    let mut client = forebay.client();
    let response = client.ask(&format!("{post}Content-Length: 11\r\n\r\nhello world"));
    assert_eq!((response.status, response.header("connection")), (413, None));
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"), "a body that has come whole is passed over");
}

#[test]
fn a_body_of_just_the_length_allowed_passes() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).annotation("proxy-body-size", "10").start();
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\n0123456789");
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(10), b"0123456789");
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
}

#[test]
fn a_head_that_does_not_come_in_time_is_refused() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("client-header-timeout", "1").start();
    refused(&forebay, "GET / HTTP/1.1\r\nHost: web", 408, "head_timeout");
    assert!(upstream.is_left_alone());
}

#[test]
fn a_connection_on_which_no_request_begins_is_closed_without_a_word() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("client-header-timeout", "1").start();
    assert_eq!(forebay.client().ending(), Ending::Closed);
}

#[test]
fn a_body_that_stands_still_is_refused() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-request-buffering", "off")
        .setting("client-body-timeout", "1")
        .start();
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nabc");
    let (mut peer, _) = upstream.accept_request();
    assert_refused(&mut client, 408, "a slow body");
    assert_eq!(peer.read_to_end(), (b"abc".to_vec(), Ending::Reset));
    forebay.await_metric("forebay_faults_total", &[("reason", "body_timeout")], 1);
}

#[test]
fn an_expectation_that_cannot_be_met_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let request = "POST / HTTP/1.1\r\nHost: web.test\r\nExpect: 200-maybe\r\nContent-Length: 1\r\n\r\n";
    refused(&forebay, request, 417, "unsupported_expectation");
    assert!(upstream.is_left_alone());
}

#[test]
fn a_refusal_does_not_touch_other_connections() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut good = Connection::from_to(IpAddr::from([127, 0, 0, 9]), forebay.address());
    good.send(GET);
    let (mut peer, _) = upstream.accept_request();
    refused(&forebay, "nonsense\r\n\r\n", 400, "bad_request_line");
    peer.send(OK);
    assert_eq!(good.read_response().said(), (200, "ok"));
}
