//! Slow clients: in sending, reading, and the handshake. Some of them are honest.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use adversary::endpoint::faucet;
use adversary::hello::client_hello;
use adversary::{Attack, Run, binary};
use testkit::{Connection, Forebay, H2Client, H2Upstream, TlsClient, Upstream};

use crate::admin::lives;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "slow-heads", cases: 0, play: heads_byte_by_byte },
    Attack { name: "slow-uploads", cases: 0, play: uploads_longer_than_the_read_timeout },
    Attack { name: "slow-readers", cases: 0, play: clients_that_do_not_read },
];

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Several times what the timers of these tests allow.
const LONGEST_LIFE: Duration = Duration::from_secs(30);

/// `proxy-read-timeout` is about the answer, which begins when the request has been sent.
fn uploads_longer_than_the_read_timeout(_: &Run) {
    thread::scope(|scope| {
        let ways = [
            ("HTTP/1 with a length", scope.spawn(|| upload("Content-Length: 50\r\n", false))),
            ("HTTP/1 in chunks", scope.spawn(|| upload("Transfer-Encoding: chunked\r\n", true))),
            ("HTTP/2", scope.spawn(upload_by_h2)),
            ("HTTP/2 on both sides", scope.spawn(upload_by_h2_to_h2)),
        ];
        let broken: Vec<_> =
            ways.into_iter().filter_map(|(name, way)| way.join().err().map(|_| name)).collect();
        assert!(broken.is_empty(), "broken off while they went on: {broken:?}");
    });
}

/// Three times the timeout, in pieces of a fraction of it.
const PIECES: usize = 10;
const PACE: Duration = Duration::from_millis(300);

fn waiting_for(upstream: std::net::SocketAddr) -> testkit::Setup {
    binary::setup()
        .endpoint(upstream)
        .annotation("proxy-read-timeout", "1")
        .annotation("proxy-next-upstream", "off")
        .annotation("proxy-request-buffering", "off")
}

fn upload(framing: &str, is_chunked: bool) {
    let upstream = Upstream::new();
    let forebay = waiting_for(upstream.address()).start();
    let mut client = forebay.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{framing}\r\n"));
    let piece = if is_chunked { "5\r\nhello\r\n" } else { "hello" };
    client.send(piece);
    let (mut peer, _) = upstream.accept_request();
    peer.read_exactly(piece.len());
    for _ in 1..PIECES {
        assert!(client.is_quiet_for(PACE), "an answer comes before the request has ended");
        client.send(piece);
        assert_eq!(peer.read_exactly(piece.len()), piece.as_bytes());
    }
    if is_chunked {
        client.send("0\r\n\r\n");
        peer.read_exactly(5);
    }
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

fn upload_by_h2() {
    let upstream = Upstream::new();
    let forebay = waiting_for(upstream.address()).start();
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/", &[("content-length", "50")], false);
    call.sender.send("hello", false);
    let (mut peer, _) = upstream.accept_request();
    peer.read_exactly(5);
    for number in 1..PIECES {
        thread::sleep(PACE);
        call.sender.send("hello", number + 1 == PIECES);
        assert_eq!(peer.read_exactly(5), b"hello");
    }
    peer.send(OK);
    assert_eq!(call.read_response().said(), (200, "ok"));
}

fn upload_by_h2_to_h2() {
    let upstream = H2Upstream::clear();
    let forebay = waiting_for(upstream.address()).annotation("backend-protocol", "GRPC").start();
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/", &[], false);
    call.sender.send("hello", false);
    let mut peer = upstream.accept_request();
    peer.body.read_exactly(5);
    for number in 1..PIECES {
        thread::sleep(PACE);
        call.sender.send("hello", number + 1 == PIECES);
        assert_eq!(peer.body.read_exactly(5), b"hello");
    }
    peer.answer(200, &[], b"ok");
    assert_eq!(call.read_response().said(), (200, "ok"));
}

/// The timer of a head counts from its first byte, that of a handshake from the connection.
fn heads_byte_by_byte(_: &Run) {
    let upstream = Upstream::new();
    let forebay = binary::setup()
        .endpoint(upstream.address())
        .tls("web.test")
        .setting("client-header-timeout", "1")
        .setting("keep-alive", "1")
        .start();
    let hello = client_hello("web.test");
    let long_head = format!("GET / HTTP/1.1\r\nHost: web.test\r\nX: {}", "x".repeat(1000));
    let forebay = &forebay;
    let lasting: Vec<&str> = thread::scope(|scope| {
        let ways = [
            ("a head", scope.spawn(|| lives(forebay.client(), long_head.as_bytes(), LONGEST_LIFE))),
            ("empty lines", scope.spawn(|| lives(forebay.client(), &b"\r\n".repeat(500), LONGEST_LIFE))),
            (
                "a ClientHello",
                scope.spawn(|| lives(Connection::to(forebay.https_address()), &hello, LONGEST_LIFE)),
            ),
            (
                "a preface of HTTP/2",
                scope.spawn(|| lives(forebay.client(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", LONGEST_LIFE)),
            ),
            ("nothing over TLS", scope.spawn(|| lives(over_tls(forebay), b"", LONGEST_LIFE))),
            ("a head over TLS", scope.spawn(|| lives(over_tls(forebay), long_head.as_bytes(), LONGEST_LIFE))),
        ];
        ways.into_iter().filter_map(|(name, way)| way.join().expect("no panic").then_some(name)).collect()
    });
    assert!(lasting.is_empty(), "connections that live on by {lasting:?}");
    assert!(upstream.is_left_alone());
}

/// With TLS 1.2, in which nothing follows a handshake that would look like an answer.
fn over_tls(forebay: &Forebay) -> Connection {
    forebay.tls_client(&TlsClient::new("web.test").only_12())
}

/// Data that a client does not read stays with the endpoint.
fn clients_that_do_not_read(_: &Run) {
    const CLIENTS: usize = 50;
    const KIB_MAX: u64 = 8 << 10;
    let written = Arc::new(AtomicU64::new(0));
    let endpoint = faucet(&written);
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    let before = forebay.resident_kib();
    let clients: Vec<Connection> = (0..CLIENTS)
        .map(|_| {
            let mut client = Connection::narrow_to(forebay.address());
            client.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
            client
        })
        .collect();
    crate::await_standstill(&written);
    let grown = forebay.resident_kib().saturating_sub(before);
    assert!(grown < KIB_MAX, "{grown} KiB for {CLIENTS} clients that read nothing");
    drop(clients);
}
