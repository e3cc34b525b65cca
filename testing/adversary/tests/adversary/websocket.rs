//! Tunnels: what is in them is nobody's business, and it arrives as it was sent.

use adversary::{Attack, Case, Random, Run, binary};
use testkit::{Connection, Ending, Forebay, TlsClient, Upstream};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "websocket-frames", cases: 40, play: frames },
    Attack { name: "websocket-first-words", cases: 0, play: who_speaks_first },
    Attack { name: "websocket-refused", cases: 0, play: what_follows_an_upgrade_that_is_refused },
];

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Frames of all kinds, whole and cut, masked and not, and what is no frame.
fn frames(run: &Run) {
    let upstream = Upstream::new();
    let forebay = binary::setup()
        .endpoint(upstream.address())
        .tls("web.test")
        .annotation("ssl-redirect", "false")
        .start();
    run.each(|case| play(case, &forebay, &upstream));
}

fn play(case: &mut Case, forebay: &Forebay, upstream: &Upstream) {
    let mut client = if case.random.once_in(3) {
        forebay.tls_client(&TlsClient::new("web.test"))
    } else {
        forebay.client()
    };
    let early = if case.random.once_in(2) { frame(&mut case.random) } else { Vec::new() };
    client.send([UPGRADE.as_bytes(), &early].concat());
    let (mut peer, _) = upstream.accept_request();
    let prompt = if case.random.once_in(2) { frame(&mut case.random) } else { Vec::new() };
    peer.send([SWITCHED.as_bytes(), &prompt].concat());
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.read_exactly(prompt.len()), prompt);
    assert_eq!(peer.read_exactly(early.len()), early);
    for _ in 0..case.random.below(6) {
        let bytes = frame(&mut case.random);
        case.sends(&bytes);
        let (from, to) =
            if case.random.once_in(2) { (&mut client, &mut peer) } else { (&mut peer, &mut client) };
        let pieces = case.random.pieces(&bytes, 4);
        std::thread::scope(|scope| {
            scope.spawn(|| pieces.iter().for_each(|piece| from.send(piece)));
            assert!(to.read_exactly(bytes.len()) == bytes, "{} bytes arrive as others", bytes.len());
        });
    }
    end(case, client, peer);
}

fn end(case: &mut Case, mut client: Connection, mut peer: Connection) {
    let (first, second) =
        if case.random.once_in(2) { (&mut client, &mut peer) } else { (&mut peer, &mut client) };
    first.shutdown_write();
    assert_eq!(second.ending(), Ending::Closed);
    second.send("last words");
    second.shutdown_write();
    assert_eq!(first.read_to_end().0, b"last words");
}

/// A frame (RFC 6455 section 5.2), or something like it.
fn frame(random: &mut Random) -> Vec<u8> {
    let len = *random.pick(&[0, 1, 125, 126, 127, 1000, 65_535, 65_536, 200_000]);
    let mut bytes = vec![random.number() as u8];
    let mask = if random.once_in(2) { 0x80 } else { 0 };
    match len {
        0..=125 => bytes.push(mask | len as u8),
        126..=0xffff => bytes.extend([&[mask | 0x7e], &(len as u16).to_be_bytes()[..]].concat()),
        _ => bytes.extend([&[mask | 0x7f], &(len as u64).to_be_bytes()[..]].concat()),
    }
    bytes.extend(random.bytes(len + if mask == 0 { 0 } else { 4 }));
    if random.once_in(4) {
        bytes.truncate(1 + random.below(bytes.len()));
    }
    if random.once_in(5) {
        bytes.splice(0..0, *b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    }
    bytes
}

/// Data that an endpoint sends before a request reaches no client.
fn who_speaks_first(_: &Run) {
    let upstream = Upstream::new();
    let forebay =
        binary::setup().endpoint(upstream.address()).annotation("proxy-next-upstream", "off").start();
    let mut client = forebay.client();
    client.send(UPGRADE);
    let (mut peer, _) = upstream.accept_request();
    // More than is to be said, at once: it belongs to the tunnel.
    peer.send(format!("{SWITCHED}{SWITCHED}HTTP/1.1 200 OK\r\n\r\n"));
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    let rest = format!("{SWITCHED}HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(client.read_exactly(rest.len()), rest.as_bytes());
    client.send("GET /inside HTTP/1.1\r\n\r\n");
    assert_eq!(peer.read_exactly(24), b"GET /inside HTTP/1.1\r\n\r\n");
    // Data in a tunnel is not parsed as requests: no other endpoint is called.
    assert!(upstream.is_left_alone());
}

/// Data that a client sends in the hope of a tunnel is parsed as a request if there is none, and never
/// reaches the endpoint as it is.
fn what_follows_an_upgrade_that_is_refused(_: &Run) {
    let upstream = Upstream::new();
    let forebay = binary::setup().endpoint(upstream.address()).start();
    for garbage in [&b"\x81\x85\0\0\0\0hello"[..], b"GET /smuggled HTTP/1.1\r\nHost: internal\r\n\r\n"] {
        let mut client = forebay.client();
        client.send([UPGRADE.as_bytes(), garbage].concat());
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(client.read_response().said(), (403, "no"));
        client.shutdown_write();
        let (rest, _) = client.read_to_end();
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 4"), "{rest:?}");
        // The endpoint hears of it neither on this connection nor on another.
        drop(client);
        assert!(peer.is_quiet() || peer.read_to_end().0.is_empty());
        assert!(upstream.is_left_alone());
        drop(peer);
    }
}
