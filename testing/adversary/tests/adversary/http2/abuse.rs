//! Requests that are cheap for a client and expensive for the proxy or an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use adversary::endpoint::faucet;
use adversary::{Run, binary};
use testkit::frames::{Frame, FrameClient, Outcome, flag, frame, head, header_block, kind};
use testkit::{Canned, Connection, Forebay};

use super::{ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE};

/// Between two signs of life, of which each alone looks harmless.
const PACE: Duration = Duration::from_millis(100);
/// Several times what the timers of these tests allow.
const LONGEST_LIFE: Duration = Duration::from_secs(30);

fn block(method: &str) -> Vec<u8> {
    let fields = head(method, "web.test", "/");
    header_block(&fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

/// A name, what is sent first, and the pieces that follow now and again.
type Way = (&'static str, Vec<u8>, Vec<Vec<u8>>);

/// The keep-alive timer and that of heads go on whatever frames come.
pub(super) fn frames_do_not_keep_an_idle_connection(_: &Run) {
    let endpoint = Canned::saying("hello");
    let forebay = binary::setup()
        .endpoint(endpoint.address())
        .setting("keep-alive", "1")
        .setting("client-header-timeout", "1")
        .start();
    let ping = frame(kind::PING, flag::NONE, 0, &[0; 8]);
    let settings = frame(kind::SETTINGS, flag::NONE, 0, &[]);
    let whole = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block("GET"));
    let begun = frame(kind::HEADERS, flag::END_STREAM, 1, &block("GET"));
    let more = frame(kind::CONTINUATION, flag::NONE, 1, &header_block(&[(b"a", b"b")]));
    let update = frame(kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 0, 0, 1]);
    let bytes = |frame: Vec<u8>| frame.into_iter().map(|byte| vec![byte]).collect::<Vec<_>>();
    let again = |frame: &Vec<u8>| vec![frame.clone(); 1000];
    let ways: [Way; 8] = [
        ("PING", Vec::new(), again(&ping)),
        ("PING after a request", whole.clone(), again(&ping)),
        ("empty SETTINGS", Vec::new(), again(&settings)),
        ("WINDOW_UPDATE after a request", whole.clone(), again(&update)),
        ("HEADERS byte by byte", Vec::new(), bytes(whole.clone())),
        (
            "HEADERS byte by byte after a request",
            whole.clone(),
            bytes(frame(kind::HEADERS, 5, 3, &block("GET"))),
        ),
        ("CONTINUATION after CONTINUATION", begun, again(&more)),
        ("PING byte by byte", Vec::new(), bytes(vec![ping; 100].concat())),
    ];
    let forebay = &forebay;
    let lasting: Vec<&str> = thread::scope(|scope| {
        let lives =
            ways.map(|(name, first, then)| (name, scope.spawn(move || lives(forebay, &first, &then))));
        lives.into_iter().filter_map(|(name, life)| life.join().expect("no panic").then_some(name)).collect()
    });
    assert!(lasting.is_empty(), "connections that live on by {lasting:?}");
}

/// Whether a connection lives on that sends `first`, and then a piece of `then` now and again.
fn lives(forebay: &Forebay, first: &[u8], then: &[Vec<u8>]) -> bool {
    let mut client = FrameClient::begin(forebay.client());
    client.send_bytes(first);
    let end = Instant::now() + LONGEST_LIFE;
    for piece in then.iter().cycle() {
        if !client.try_send_all(std::slice::from_ref(piece)) || has_ended(&mut client) {
            return false;
        }
        if Instant::now() > end {
            return true;
        }
        thread::sleep(PACE);
    }
    true
}

/// Whether the other end has said GOAWAY, or closed.
fn has_ended(client: &mut FrameClient) -> bool {
    while !client.connection().is_quiet() {
        match client.read() {
            None | Some(Frame { kind: kind::GOAWAY, .. }) => return true,
            Some(_) => {}
        }
    }
    false
}

/// An endpoint must not pay for requests that are given up as soon as it has them.
pub(super) fn resets_of_requests_in_progress(_: &Run) {
    const MOST: u32 = 400;
    let endpoint = Canned::answering("");
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    let mut client = FrameClient::begin(forebay.client());
    for number in 0..MOST {
        let stream = 2 * number + 1;
        let is_taken = client.try_send_all(&[frame(kind::HEADERS, 5, stream, &block("GET"))]);
        let is_over = loop {
            if !is_taken {
                break true;
            }
            if endpoint.heads().len() > number as usize {
                break false;
            }
            if !client.connection().is_quiet()
                && matches!(client.read(), None | Some(Frame { kind: kind::GOAWAY, .. }))
            {
                break true;
            }
            thread::yield_now();
        };
        if is_over {
            let asked = endpoint.heads().len();
            assert!((100..=200).contains(&asked), "{asked} requests were given up before it was too much");
            let code = client.ending();
            assert!(matches!(code, Some(ENHANCE_YOUR_CALM)), "GOAWAY with {code:?}");
            return;
        }
        client.try_send_all(&[frame(kind::RST_STREAM, flag::NONE, stream, &8_u32.to_be_bytes())]);
    }
    panic!("{} requests that were given up are not too much", endpoint.heads().len());
}

/// Data that endpoints send and clients do not read is not buffered for each stream.
pub(super) fn streams_that_nobody_reads(_: &Run) {
    const CLIENTS: usize = 2;
    const STREAMS: u32 = 128;
    const KIB_MAX: u64 = 12 << 10;
    let written = Arc::new(AtomicU64::new(0));
    let endpoint = faucet(&written);
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    assert_eq!(forebay.admin("/healthz").status, 200);
    let before = forebay.resident_kib();
    let most = 0x7fff_ffff;
    let clients: Vec<FrameClient> = (0..CLIENTS)
        .map(|_| {
            let connection = Connection::narrow_to(forebay.address());
            let mut client = FrameClient::begin_with(connection, &[(INITIAL_WINDOW_SIZE, most)]);
            client.send(kind::WINDOW_UPDATE, flag::NONE, 0, &(most - 65_535).to_be_bytes());
            for number in 0..STREAMS {
                client.get(2 * number + 1, "web.test", "/");
            }
            client
        })
        .collect();
    crate::await_standstill(&written);
    let grown = forebay.resident_kib().saturating_sub(before);
    let taken = written.load(Ordering::Relaxed) >> 10;
    assert!(
        grown < KIB_MAX,
        "{grown} KiB for {CLIENTS} clients that read nothing of {STREAMS} streams ({taken} KiB written)"
    );
    drop(clients);
}

/// An endpoint is called only when there is data for it.
pub(super) fn announced_bodies_that_do_not_come(_: &Run) {
    const STREAMS: u32 = 128;
    let endpoint = Canned::saying("hello");
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    let mut client = FrameClient::begin(forebay.client());
    for number in 0..STREAMS {
        client.send(kind::HEADERS, flag::END_HEADERS, 2 * number + 1, &block("POST"));
    }
    client.send(kind::PING, flag::NONE, 0, &[0; 8]);
    client.await_frame(|frame| frame.kind == kind::PING);
    // Another client's request passes through the same loop after them.
    assert_eq!(forebay.get("/").status, 200);
    let connections = endpoint.connections();
    assert!(connections <= 2, "{STREAMS} requests without their bodies opened {connections} connections");
    client.send(kind::DATA, flag::END_STREAM, 1, b"hello");
    assert_eq!(client.outcome(1), Outcome::Status(200));
}
