//! Upgrades: what begins as HTTP and goes on as something else, as WebSocket does.

use testkit::{Connection, Ending, Forebay, H2Client, TlsClient, Upstream};

use crate::{GET, OK, serving, setup};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: web.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: x\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: y\r\n\r\n";

/// Both ends of a tunnel that stands.
fn tunnel(forebay: &Forebay, upstream: &Upstream) -> (Connection, Connection) {
    let mut client = forebay.client();
    client.send(UPGRADE);
    let (mut peer, _) = upstream.accept_request();
    peer.send(SWITCHED);
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    (client, peer)
}

#[test]
fn both_sides_agree_and_then_say_what_they_like() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(format!("{UPGRADE}early"));
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"), "{head}");
    assert!(head.contains("\r\nSec-WebSocket-Key: x\r\n"), "{head}");
    peer.send(format!("{SWITCHED}prompt"));
    let head = client.read_head();
    assert_eq!(
        head.to_lowercase().split("\r\n").filter(|line| !line.is_empty()).collect::<Vec<_>>(),
        [
            "http/1.1 101 switching protocols",
            "upgrade: websocket",
            "sec-websocket-accept: y",
            "connection: upgrade",
        ]
    );
    assert_eq!(client.read_exactly(6), b"prompt");
    assert_eq!(peer.read_exactly(5), b"early");
    for _ in 0..3 {
        client.send(b"\x00\xff\r\n\r\n");
        assert_eq!(peer.read_exactly(6), b"\x00\xff\r\n\r\n");
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(client.read_exactly(19), b"HTTP/1.1 200 OK\r\n\r\n");
    }
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);
    drop(peer);
    assert_eq!(client.ending(), Ending::Closed);
    let line = forebay.await_access_log("GET /chat");
    assert!(line.contains("\" 101 "), "{line}");
}

#[test]
fn either_side_may_fall_silent_first() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let (mut client, mut peer) = tunnel(&forebay, &upstream);
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);
    peer.send("still here");
    peer.shutdown_write();
    assert_eq!(client.read_to_end(), (b"still here".to_vec(), Ending::Closed));

    let (mut client, mut peer) = tunnel(&forebay, &upstream);
    peer.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    client.send("still here");
    client.shutdown_write();
    assert_eq!(peer.read_to_end(), (b"still here".to_vec(), Ending::Closed));
}

/// Nothing may be cut off that the other side has not read yet.
#[test]
fn what_was_said_last_arrives_whoever_reads_slowly() {
    const BYTES: usize = 3_000_000;
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let (mut client, mut peer) = tunnel(&forebay, &upstream);
    peer.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(vec![b'x'; BYTES]);
            sender.shutdown_write();
        });
        // The request is over for Forebay when all has been taken from the client.
        forebay.await_access_log("GET /chat");
        let (seen, ending) = peer.read_to_end();
        assert_eq!((seen.len(), ending), (BYTES, Ending::Closed));
    });
}

#[test]
fn a_side_that_breaks_off_ends_the_other() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let (client, mut peer) = tunnel(&forebay, &upstream);
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset);
    let (mut client, peer) = tunnel(&forebay, &upstream);
    peer.reset();
    client.ending();
}

#[test]
fn a_tunnel_in_which_nobody_speaks_is_closed() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-read-timeout", "1")
        .annotation("proxy-send-timeout", "1")
        .start();
    let (mut client, mut peer) = tunnel(&forebay, &upstream);
    assert_eq!(client.ending(), Ending::Closed);
    peer.ending();
}

#[test]
fn an_endpoint_may_decline() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(UPGRADE);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    client.send(UPGRADE);
    peer.read_head();
    peer.send("HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 426);
    client.send(GET);
    assert!(peer.read_head().starts_with("GET / "), "both connections go on");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

/// An upgrade that is not passed on has no effect: the request stays HTTP (RFC 9110 section 7.8).
#[test]
fn only_protocols_that_are_known_are_passed_on() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for name in ["h2c", "TLS/1.3", "SPDY/3.1", "websocket, h2c"] {
        let mut client = forebay.client();
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: upgrade\r\nUpgrade: {name}\r\n\r\n"
        ));
        let (mut peer, head) = upstream.accept_request();
        assert!(!head.to_ascii_lowercase().contains("upgrade"), "{name}: {head}");
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(client.read_response().said(), (200, "ok"), "{name}");
    }
}

#[test]
fn an_endpoint_goes_over_to_nothing_but_what_it_was_asked_for() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let mut client = forebay.client();
        client.send(UPGRADE);
        let (mut peer, _) = upstream.accept_request();
        peer.send(answer);
        assert_eq!(client.read_response().status, 502, "{answer}");
        assert_eq!(peer.ending(), Ending::Reset, "{answer}");
    }
}

#[test]
fn an_upgrade_that_nobody_is_there_for_fails_as_any_request() {
    let forebay = setup().start();
    assert_eq!(forebay.client().ask(UPGRADE).status, 503);
}

/// A request with a body stays HTTP (RFC 9110 section 7.8 lets a server ignore the wish): `curl --http2` asks
/// for h2c with every request.
#[test]
fn a_request_with_a_body_stays_as_it_is() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQ\r\nContent-Length: 4\r\n\r\n",
    );
    client.send("body");
    let (mut peer, head) = upstream.accept_request();
    assert!(!head.contains("Upgrade") && !head.contains("HTTP2-Settings"), "{head}");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_client_that_goes_away_before_the_answer_takes_its_upgrade_along() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(UPGRADE);
    let (mut peer, _) = upstream.accept_request();
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset);
}

#[test]
fn a_tunnel_may_be_encrypted() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send(UPGRADE);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nX-Forwarded-Proto: https\r\n"), "{head}");
    peer.send(format!("{SWITCHED}prompt"));
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.read_exactly(6), b"prompt");
    let large = vec![b'x'; 1_000_000];
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(&large));
        assert!(peer.read_exactly(large.len()) == large);
    });
    let mut sender = peer.sender();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(&large));
        assert!(client.read_exactly(large.len()) == large);
    });
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);
    peer.send("still here");
    drop((sender, peer));
    assert_eq!(client.read_to_end(), (b"still here".to_vec(), Ending::Closed));
}

/// RFC 8441: the stream is the tunnel, and the endpoint sees a handshake of RFC 6455.
#[test]
fn a_stream_of_http2_may_be_a_tunnel() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for client in [
        H2Client::clear(forebay.address()),
        H2Client::tls(forebay.https_address(), &TlsClient::new("web.test")),
    ] {
        // The settings of the other end come before any answer.
        let mut first = client.call("GET", "unknown.test", "/", &[], true);
        assert_eq!(first.read_response().status, 404);
        let headers = [
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
            ("origin", "http://web.test"),
        ];
        let mut call = client.connect("websocket", "web.test", "/chat?a=b", &headers);
        let (mut peer, head) = upstream.accept_request();
        let head = head.to_lowercase();
        assert!(head.starts_with("get /chat?a=b http/1.1\r\n"), "{head}");
        for line in [
            "host: web.test",
            "connection: upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-protocol: chat",
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} is not in {head}");
        }
        assert!(head.contains("\r\nsec-websocket-key: "), "{head}");
        peer.send(format!(
            "{}Sec-WebSocket-Protocol: chat\r\n\r\n",
            SWITCHED.trim_end_matches("\r\n").to_owned() + "\r\n"
        ));
        let (response, mut received) = call.head().expect("an answer");
        assert_eq!(
            (response.status, response.header("sec-websocket-protocol").as_deref()),
            (200, Some("chat"))
        );
        assert_eq!(response.header("sec-websocket-accept"), None, "it is of HTTP/1 only");
        for text in ["one", "two"] {
            call.sender.send(text, false);
            assert_eq!(peer.read_exactly(3), text.as_bytes());
            peer.send(text);
            assert_eq!(received.read_exactly(3), text.as_bytes());
        }
        call.sender.send("", true);
        assert_eq!(peer.ending(), Ending::Closed);
        peer.send("still here");
        drop(peer);
        assert_eq!(received.read_to_end().0, b"still here");
        // The connection goes on.
        let mut other = client.call("GET", "unknown.test", "/", &[], true);
        assert_eq!(other.read_response().status, 404);
    }
}

#[test]
fn other_tunnels_than_websocket_are_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let client = H2Client::clear(forebay.address());
    client.get("unknown.test", "/");
    let mut call = client.connect("connect-udp", "web.test", "/", &[]);
    assert!(matches!(call.read_response().status, 400 | 501));
    assert!(upstream.is_left_alone());
}

#[test]
fn an_endpoint_may_decline_a_tunnel_on_a_stream() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let client = H2Client::clear(forebay.address());
    client.get("unknown.test", "/");
    let mut call = client.connect("websocket", "web.test", "/chat", &[("sec-websocket-version", "13")]);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(call.read_response().said(), (403, "no"));
}
