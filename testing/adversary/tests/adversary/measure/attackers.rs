//! The data that attackers send: in round 0 when they have connected, and in each later one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use adversary::hello::client_hello;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use testkit::frames::{flag, frame, head, header_block, kind, settings_payload};

use super::quic::Way;
use crate::tokens::wrongly_signed;

/// One kind of attacker, of which there are many.
pub(super) struct Attacker {
    pub(super) name: &'static str,
    pub(super) port: Port,
    pub(super) connections: usize,
    pub(super) bytes: fn(u32) -> Vec<u8>,
    /// Whether it reads the answers.
    pub(super) reads: bool,
    /// Stays when there is nothing to send.
    pub(super) stays: bool,
    /// Between two rounds.
    pub(super) pace: Duration,
}

/// Where they go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Http,
    Https,
    Admin,
    Udp,
    /// HTTP/3; such attackers have no bytes.
    Quic(Way),
}

const MANY: usize = 1000;
const SLOWLY: Duration = Duration::from_millis(200);
const BRISKLY: Duration = Duration::from_millis(10);

const fn attacker(name: &'static str, port: Port, bytes: fn(u32) -> Vec<u8>) -> Attacker {
    Attacker { name, port, connections: MANY, bytes, reads: true, stays: true, pace: SLOWLY }
}

const fn quic(name: &'static str, way: Way) -> Attacker {
    attacker(name, Port::Quic(way), |_| Vec::new())
}

/// All of them.
pub(super) static ATTACKERS: &[Attacker] = &[
    attacker("http1-idle", Port::Http, |_| Vec::new()),
    attacker("http1-slow-heads", Port::Http, slow_head),
    attacker("http1-slow-bodies", Port::Http, slow_body),
    attacker("http1-small-chunks", Port::Http, small_chunks),
    attacker("http1-refused", Port::Http, |_| b"nonsense\r\n\r\n".to_vec()),
    Attacker { reads: false, ..attacker("http1-unread", Port::Http, |_| get("/1m")) },
    Attacker {
        stays: false,
        ..attacker("http1-connects", Port::Http, |round| if round == 0 { get("/0") } else { Vec::new() })
    },
    attacker("http1-statuses", Port::Http, |round| get(&format!("/status/{}", 200 + round % 800))),
    Attacker { pace: BRISKLY, ..attacker("bad-tokens", Port::Http, |_| bad_tokens()) },
    // As many requests of that length that need no token, for comparison.
    Attacker { pace: BRISKLY, ..attacker("no-tokens", Port::Http, |_| no_tokens()) },
    // 200 a second, all attackers together.
    Attacker {
        pace: Duration::from_secs(5),
        ..attacker("wrong-passwords", Port::Http, |_| wrong_password())
    },
    Attacker { pace: BRISKLY, connections: 100, ..attacker("mirrors-hang", Port::Http, |_| mirrored()) },
    attacker("http2-pings", Port::Http, |round| {
        opened(round, || frame(kind::PING, flag::NONE, 0, &[0; 8]).repeat(10))
    }),
    attacker("http2-settings", Port::Http, |round| {
        opened(round, || frame(kind::SETTINGS, flag::NONE, 0, &[]).repeat(10))
    }),
    attacker("http2-continuations", Port::Http, continuations),
    attacker("http2-resets-at-once", Port::Http, |round| opened(round, || resets(round))),
    attacker("http2-resets-later", Port::Http, |round| opened(round, || reset_of_the_last(round))),
    attacker("http2-empty-posts", Port::Http, |round| {
        opened(round, || requests(round, "POST", flag::END_HEADERS, 1))
    }),
    Attacker { reads: false, ..attacker("http2-unread", Port::Http, unread) },
    Attacker { pace: BRISKLY, stays: false, ..attacker("tls-hellos", Port::Https, hello) },
    attacker("tls-idle", Port::Https, |round| if round == 0 { hello(0) } else { Vec::new() }),
    attacker("admin-idle", Port::Admin, |_| Vec::new()),
    Attacker {
        connections: 40,
        ..attacker("admin-scrapes", Port::Admin, |_| {
            b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()
        })
    },
    Attacker { pace: BRISKLY, ..quic("quic-forged-addresses", Way::ForgedAddresses) },
    quic("quic-half-open", Way::HalfOpen),
    quic("quic-resets", Way::Resets),
    quic("quic-unfinished", Way::Unfinished),
    quic("quic-qpack", Way::Qpack),
    quic("quic-addresses", Way::Addresses),
    quic("quic-optimistic-acks", Way::OptimisticAcks),
    Attacker { pace: BRISKLY, ..attacker("udp-senders", Port::Udp, |_| b"?".to_vec()) },
];

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: evil.test\r\n\r\n").into_bytes()
}

fn slow_head(round: u32) -> Vec<u8> {
    if round == 0 { b"GET / HTTP/1.1\r\nHost: evil.test\r\nX: ".to_vec() } else { b"x".to_vec() }
}

fn slow_body(round: u32) -> Vec<u8> {
    if round == 0 {
        b"POST /0 HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 100000\r\n\r\nx".to_vec()
    } else {
        b"x".to_vec()
    }
}

fn small_chunks(round: u32) -> Vec<u8> {
    let head = b"POST /0 HTTP/1.1\r\nHost: evil.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    if round == 0 { head.to_vec() } else { b"1;xxxxxxxxxxxxxxxx\r\nx\r\n".repeat(20) }
}

/// Requests with tokens whose signatures are wrong, each another one: with all attackers 100,000 a second
/// where there is the CPU for it.
fn bad_tokens() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let token = wrongly_signed(NUMBER.fetch_add(1, Ordering::Relaxed));
    format!("GET /0 HTTP/1.1\r\nHost: guarded.test\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// The same requests for a host that does not exist.
fn no_tokens() -> Vec<u8> {
    let token = wrongly_signed(0);
    format!("GET /0 HTTP/1.1\r\nHost: nowhere.test\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// A request with a password that no request had before.
fn wrong_password() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let text = format!("alice:wrong-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let encoded = STANDARD.encode(text);
    format!("GET /0 HTTP/1.1\r\nHost: members.test\r\nAuthorization: Basic {encoded}\r\n\r\n").into_bytes()
}

/// A request of which a copy goes where nobody answers.
fn mirrored() -> Vec<u8> {
    b"GET /0 HTTP/1.1\r\nHost: mirrored.test\r\n\r\n".to_vec()
}

// === HTTP/2 ===

fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let settings = frame(kind::SETTINGS, flag::NONE, 0, &settings_payload(settings));
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat()
}

fn opened(round: u32, then: impl Fn() -> Vec<u8>) -> Vec<u8> {
    if round == 0 { preface(&[]) } else { then() }
}

fn block(method: &str, path: &str) -> Vec<u8> {
    header_block(&head(method, "evil.test", path).map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

/// The stream of a round's request, where each has so many.
fn stream(round: u32, of: u32, index: u32) -> u32 {
    2 * ((round - 1) * of + index) + 1
}

fn requests(round: u32, method: &str, flags: u8, count: u32) -> Vec<u8> {
    let block = block(method, "/1k");
    (0..count).flat_map(|index| frame(kind::HEADERS, flags, stream(round, count, index), &block)).collect()
}

fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, flag::NONE, stream, &8_u32.to_be_bytes())
}

fn resets(round: u32) -> Vec<u8> {
    const EACH: u32 = 10;
    let block = block("GET", "/1k");
    let both = |index| {
        let stream = stream(round, EACH, index);
        [frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block), reset(stream)].concat()
    };
    (0..EACH).flat_map(both).collect()
}

/// Requests that are given up when the endpoint has them.
fn reset_of_the_last(round: u32) -> Vec<u8> {
    let block = block("GET", "/delay/1000");
    let request = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream(round, 1, 0), &block);
    if round == 1 { request } else { [reset(stream(round - 1, 1, 0)), request].concat() }
}

fn continuations(round: u32) -> Vec<u8> {
    match round {
        0 => preface(&[]),
        1 => frame(kind::HEADERS, flag::END_STREAM, 1, &block("GET", "/1k")),
        _ => frame(kind::CONTINUATION, flag::NONE, 1, &header_block(&[(b"a", b"b")])).repeat(20),
    }
}

/// Eight long answers on each connection, with all the window that there is.
fn unread(round: u32) -> Vec<u8> {
    const MOST: u32 = 0x7fff_ffff;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let block = block("GET", "/1m");
    let requests = (0..8).flat_map(|index| frame(kind::HEADERS, 5, 2 * index + 1, &block));
    match round {
        0 => {
            let window = frame(kind::WINDOW_UPDATE, flag::NONE, 0, &(MOST - 65_535).to_be_bytes());
            [preface(&[(INITIAL_WINDOW_SIZE, MOST)]), window].concat()
        }
        1 => requests.collect(),
        _ => Vec::new(),
    }
}

/// A handshake that is begun and not gone on with.
fn hello(round: u32) -> Vec<u8> {
    if round == 0 { client_hello("web.test") } else { Vec::new() }
}
