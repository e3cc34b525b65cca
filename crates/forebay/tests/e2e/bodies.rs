//! Bodies: how long they are, how their ends are told, and that they flow.

use std::time::Duration;

use testkit::{Connection, Ending, Upstream};

use crate::{GET, OK, setup, streaming};

const POST_CHUNKED: &str = "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A megabyte in which no two places look alike.
fn megabyte() -> Vec<u8> {
    (0_u32..1 << 18).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Sends a request, has the upstream answer it, and returns the client's end and the upstream's.
fn answered(
    upstream: &Upstream,
    mut client: Connection,
    request: &str,
    answer: &str,
) -> (Connection, Connection) {
    client.send(request);
    let (mut peer, _) = upstream.accept_request();
    peer.send(answer);
    (client, peer)
}

#[test]
fn a_request_body_with_a_length_goes_on_as_it_comes() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send("PUT / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 6\r\n\r\nab");
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nContent-Length: 6\r\n") && !head.contains("Transfer-Encoding"));
    assert_eq!(peer.read_exactly(2), b"ab");
    client.send("cd");
    assert_eq!(peer.read_exactly(2), b"cd");
    client.send("ef");
    assert_eq!(peer.read_exactly(2), b"ef");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn chunks_go_on_without_their_extensions_and_with_their_trailers() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send(POST_CHUNKED);
    client.send("3;ext=\"1\"\r\nabc\r\n");
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n") && !head.contains("Content-Length"));
    assert_eq!(peer.read_exactly(8), b"3\r\nabc\r\n");
    client.send("00002 ; b\r\nde\r\n0;c\r\nX-Sum: 5\r\nContent-Length: 9\r\nHost: evil\r\n\r\n");
    assert_eq!(peer.read_raw_chunks(), "2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    client.send(GET);
    assert!(peer.read_head().starts_with("GET / "), "both connections are in step");
}

#[test]
fn a_chunked_body_that_comes_with_its_head_goes_on_at_once() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    for (body, seen) in
        [("0\r\n\r\n", "0\r\n\r\n"), ("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")]
    {
        let mut client = forebay.client();
        client.send(format!("{POST_CHUNKED}{body}"));
        let (mut peer, _) = upstream.accept_request();
        assert_eq!(peer.read_raw_chunks(), seen);
        peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response().status, 204);
    }
}

#[test]
fn a_chunked_response_goes_on_as_it_comes_with_its_trailers() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let head = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut client, mut peer) = answered(&upstream, forebay.client(), GET, head);
    assert!(client.read_head().contains("\r\nTrailer: X-Sum\r\n"), "the head does not wait for the body");
    peer.send("3;x\r\nabc\r\n");
    assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    peer.send("1\r\nd\r\n0\r\nX-Sum: 4\r\nSet-Cookie: a\r\nTransfer-Encoding: gzip\r\n\r\n");
    assert_eq!(client.read_raw_chunks(), "1\r\nd\r\n0\r\nX-Sum: 4\r\nSet-Cookie: a\r\n\r\n");
    client.send(GET);
    assert!(peer.read_head().starts_with("GET / "), "both connections are in step");
}

#[test]
fn a_response_that_ends_with_its_connection_ends_in_chunks() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let (mut client, mut peer) = answered(&upstream, forebay.client(), GET, "HTTP/1.1 200 OK\r\n\r\nab");
    assert!(client.read_head().contains("\r\nTransfer-Encoding: chunked\r\n"));
    peer.send("cd");
    peer.shutdown_write();
    let raw = client.read_raw_chunks();
    assert!(raw.ends_with("0\r\n\r\n"), "{raw:?}");
    assert_eq!(raw.split("\r\n").skip(1).step_by(2).collect::<String>(), "abcd");
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"), "the client's connection goes on");
}

#[test]
fn responses_without_a_body_have_none_whatever_their_headers_say() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send("HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    assert_eq!(client.read_response_to_head().header("content-length").as_deref(), Some("1000"));
    for (status, fields) in
        [(304, "Content-Length: 1000\r\n"), (204, ""), (304, ""), (304, "Transfer-Encoding: chunked\r\n")]
    {
        client.send(GET);
        assert!(peer.read_head().starts_with("GET"), "the same connection");
        peer.send(format!("HTTP/1.1 {status} X\r\n{fields}\r\n"));
        let response = client.read_response();
        assert_eq!((response.status, response.header("transfer-encoding")), (status, None));
    }
    client.send("HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.read_response_to_head();
    client.send(GET);
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_client_of_http_10_gets_no_chunks() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let request = "GET / HTTP/1.0\r\nHost: web.test\r\nConnection: keep-alive\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n";
    let (mut client, mut peer) = answered(&upstream, forebay.client(), request, answer);
    let head = client.read_head();
    assert!(head.contains("\r\nConnection: close\r\n") && !head.contains("Transfer-Encoding"), "{head}");
    peer.send("2\r\ncd\r\n0\r\nX-Sum: 4\r\n\r\n");
    assert_eq!(client.read_to_end(), (b"abcd".to_vec(), Ending::Closed));

    let mut client = forebay.client();
    for _ in 0..2 {
        client.send(request);
        peer.read_head();
        peer.send(OK);
        let response = client.read_response();
        assert_eq!(response.header("connection").as_deref(), Some("keep-alive"));
    }
    client.send("GET / HTTP/1.0\r\nHost: web.test\r\n\r\n");
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn a_client_is_invited_to_send_its_body_before_an_endpoint_is_troubled() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send("PUT / HTTP/1.1\r\nHost: web.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.read_head(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(upstream.is_left_alone());
    client.send("body");
    let (mut peer, head) = upstream.accept_request();
    assert!(!head.contains("Expect"), "the expectation is met here");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"), "one invitation is enough");
}

#[test]
fn a_client_is_not_invited_to_what_will_be_refused() {
    let expecting =
        |fields: &str| format!("PUT / HTTP/1.1\r\nHost: web.test\r\nExpect: 100-continue\r\n{fields}\r\n");
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).annotation("proxy-body-size", "1k").start();
    assert_eq!(forebay.client().ask(&expecting("Content-Length: 1025\r\n")).status, 413);
    let nobody = setup().start();
    assert_eq!(nobody.client().ask(&expecting("Content-Length: 4\r\n")).status, 503);
    // A body that was sent unasked needs no invitation either.
    let mut client = forebay.client();
    client.send(expecting("Content-Length: 4\r\n") + "body");
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
}

#[test]
fn early_hints_pass_to_those_who_understand_them() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let (mut client, mut peer) = answered(&upstream, forebay.client(), GET, hints);
    assert_eq!(client.read_head(), hints);
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));

    let mut old = forebay.client();
    old.send("GET / HTTP/1.0\r\nHost: web.test\r\n\r\n");
    peer.read_head();
    peer.send(format!("{hints}{OK}"));
    assert_eq!(old.read_response().said(), (200, "ok"));
}

#[test]
fn a_megabyte_arrives_as_it_was_sent_in_both_directions() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let body = &megabyte();
    let mut client = forebay.client();
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sender.send("PUT / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1048576\r\n\r\n");
            sender.send(body);
        });
        let (mut peer, _) = upstream.accept_request();
        assert!(peer.read_exactly(body.len()) == *body, "up");
        scope.spawn(move || {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
            peer.send(body);
        });
        assert!(client.read_response().body == *body, "down");
    });
}

#[test]
fn a_megabyte_in_chunks_arrives_as_it_was_sent() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let body = megabyte();
    let chunks: Vec<u8> = body
        .chunks(70_001)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .chain(*b"0\r\n\r\n")
        .collect();
    let (mut client, mut peer) =
        answered(&upstream, forebay.client(), GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    std::thread::scope(|scope| {
        scope.spawn(|| peer.send(&chunks));
        assert!(client.read_response().body == body);
    });
}

/// More than the kernel's buffers of two connections hold (`tcp_rmem` and `tcp_wmem` allow tens of
/// megabytes), and less than whoever is not held back sends.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 20;

/// Data in transit is in the sockets' buffers and in Forebay's one pipe; nothing else grows.
#[test]
fn an_upstream_that_does_not_read_holds_its_client_back() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-request-buffering", "off")
        .annotation("proxy-body-size", "0")
        .start();
    for framing in ["Content-Length: 1000000000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{framing}\r\n"));
        if framing.starts_with('T') {
            client.send("3b9aca00\r\n");
        }
        client.send("x");
        let (_peer, _) = upstream.accept_request();
        let before = forebay.resident_kib();
        let sent = client.send_until_blocked(Duration::from_millis(300), 2 * IN_FLIGHT_BYTES_MAX);
        assert!(sent < IN_FLIGHT_BYTES_MAX, "{framing}: {sent} bytes were taken");
        let grown = forebay.resident_kib().saturating_sub(before);
        assert!(grown < 4096, "{framing}: grew by {grown} KiB");
    }
}

#[test]
fn a_client_that_does_not_read_holds_its_upstream_back() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
    let (_client, mut peer) = answered(&upstream, Connection::narrow_to(forebay.address()), GET, head);
    let sent = peer.send_until_blocked(Duration::from_millis(300), 2 * IN_FLIGHT_BYTES_MAX);
    assert!(sent < IN_FLIGHT_BYTES_MAX, "{sent} bytes were taken");
}

#[test]
fn a_response_may_come_before_the_request_has_ended() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1000\r\n\r\nabc");
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let response = client.read_response();
    assert_eq!(response.said(), (403, "no"));
    assert_eq!(response.header("connection").as_deref(), Some("close"));
    assert_eq!(client.ending(), Ending::Closed);
    peer.read_to_end();
}

#[test]
fn an_echo_flows_both_ways_at_once() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send(POST_CHUNKED);
    client.send("1\r\n0\r\n");
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(6), b"1\r\n0\r\n");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.read_head();
    for chunk in ["1\r\na\r\n", "2\r\nbc\r\n", "0\r\n\r\n"] {
        client.send(chunk);
        assert_eq!(peer.read_exactly(chunk.len()), chunk.as_bytes());
        peer.send(chunk);
        assert_eq!(client.read_exactly(chunk.len()), chunk.as_bytes());
    }
    client.send(GET);
    let (_other, head) = upstream.accept_request();
    assert!(head.starts_with("GET"), "the client's connection is kept");
    assert_eq!(
        peer.ending(),
        Ending::Reset,
        "a response that began before its request was written is the last one there"
    );
}

/// A client that announces a body and sends none occupies no endpoint's connection, and is answered when the
/// time for its body is over.
#[test]
fn a_body_that_is_announced_is_waited_for_before_an_endpoint_is_asked() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("client-body-timeout", "1").start();
    for head in ["Content-Length: 3\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n"] {
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{head}"));
        assert_eq!(client.read_response().status, 408, "{head}");
        assert_eq!(client.ending(), Ending::Closed);
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{head}"));
        client.reset();
    }
    forebay.await_metric("forebay_faults_total", &[("reason", "client_aborted")], 2);
    assert!(upstream.is_left_alone());
}

/// The endpoint's time to answer counts from the end of the request on, however long that takes to come.
#[test]
fn an_upload_may_take_longer_than_its_answer() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-request-buffering", "off")
        .annotation("proxy-read-timeout", "1")
        .start();
    for (head, piece, end) in [
        ("Content-Length: 30", "0123456789", ""),
        ("Transfer-Encoding: chunked", "a\r\n0123456789\r\n", "0\r\n\r\n"),
    ] {
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{head}\r\n\r\n"));
        client.send(piece);
        let (mut peer, _) = upstream.accept_request();
        assert_eq!(peer.read_exactly(piece.len()), piece.as_bytes());
        for _ in 0..2 {
            // Nothing happens for longer than the endpoint has to answer.
            assert!(client.is_quiet_for(Duration::from_millis(1300)), "{head}");
            client.send(piece);
            assert_eq!(peer.read_exactly(piece.len()), piece.as_bytes());
        }
        client.send(end);
        assert_eq!(peer.read_exactly(end.len()), end.as_bytes());
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"), "{head}");
        // From then on it counts.
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{head}\r\n\r\n{piece}{piece}{piece}{end}"));
        peer.read_head();
        assert_eq!(client.read_response().status, 504, "{head}");
    }
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send(
        "GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\nPOST /2 HTTP/1.1\r\nHost: web.test\r\nContent-Length: 3\r\n\r\nabc\
         POST /3 HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nd\r\n0\r\n\r\n\
         GET /4 HTTP/1.1\r\nHost: nowhere.test\r\n\r\nGET /5 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    );
    let mut peer = upstream.accept();
    for (path, body, answer) in
        [("/1", "", "one"), ("/2", "abc", "two"), ("/3", "1\r\nd\r\n0\r\n\r\n", "three")]
    {
        let head = peer.read_head();
        assert!(head.split(' ').nth(1) == Some(path), "{head}");
        assert_eq!(peer.read_exactly(body.len()), body.as_bytes());
        assert!(peer.is_quiet(), "the next waits for its turn");
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()));
        assert_eq!(client.read_response().said(), (200, answer));
    }
    assert_eq!(client.read_response().status, 404);
    assert!(peer.read_head().starts_with("GET /5 "));
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}
