//! Costs that a client of HTTP/2 can cause for others: endpoints' connections, memory, time.

use std::time::{Duration, Instant};

use testkit::frames::{FrameClient, Outcome, flag, frame, header_block, kind};
use testkit::{Canned, Connection, Ending, PATIENCE, Upstream};

use crate::failures::awaits_fault;
use crate::h2::{ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, NO_ERROR, WHOLE, fields, frames, get_block};
use crate::{OK, serving, setup, streaming};

/// Rapid resets (CVE-2023-44487), slowly enough for each request to reach an endpoint: each costs it a
/// connection.
#[test]
fn who_breaks_off_too_many_requests_is_sent_away() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = frames(&forebay);
    let mut begin_and_cancel = |number: u32| {
        let stream = 2 * number + 1;
        client.send(kind::HEADERS, WHOLE, stream, &get_block());
        let (mut peer, _) = upstream.accept_request();
        client.send(kind::RST_STREAM, flag::NONE, stream, &8_u32.to_be_bytes());
        assert_eq!(peer.ending(), Ending::Reset);
    };
    (0..=100).for_each(&mut begin_and_cancel);
    assert_eq!(client.ending(), Some(ENHANCE_YOUR_CALM));
    awaits_fault(&forebay, "client", "http2_flood", 1);
}

/// Streams that an endpoint resets do not count against the client.
#[test]
fn requests_that_endpoints_break_off_are_not_held_against_the_client() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = frames(&forebay);
    for number in 0..150 {
        client.get(2 * number + 1, "web.test", "/");
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
        assert_eq!(client.outcome(2 * number + 1), Outcome::Status(200));
        drop(peer);
        client.await_frame(|frame| frame.kind == kind::RST_STREAM);
    }
}

/// A connection without a request is closed in time, whatever frames are sent on it.
#[test]
fn frames_without_use_do_not_keep_a_connection() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive", "1").start();
    for frame in [(kind::PING, vec![0; 8]), (kind::SETTINGS, Vec::new())] {
        let mut client = frames(&forebay);
        let begun = Instant::now();
        // Each is answered, which is the event that the next one waits for.
        while client.connection().try_send(testkit::frames::frame(frame.0, flag::NONE, 0, &frame.1)).is_ok()
            && client.read().is_some()
        {
            assert!(begun.elapsed() < PATIENCE, "it goes on for ever");
            client.connection().is_quiet_for(Duration::from_millis(50));
        }
    }
}

/// The time for a head counts from its first byte, as in HTTP/1.
#[test]
fn a_head_that_comes_byte_by_byte_is_not_waited_for() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("client-header-timeout", "1").start();
    let mut client = frames(&forebay);
    let begun = Instant::now();
    let block = [get_block(), header_block(&[(b"x", &[b'x'; 4000])])].concat();
    for byte in frame(kind::HEADERS, WHOLE, 1, &block) {
        assert!(begun.elapsed() < PATIENCE, "it is still read");
        if client.connection().try_send([byte]).is_err()
            || !client.connection().is_quiet_for(Duration::from_millis(50))
        {
            break;
        }
    }
    assert_eq!(client.ending(), Some(NO_ERROR));
    awaits_fault(&forebay, "client", "head_timeout", 1);
    assert!(upstream.is_left_alone());
}

/// Trailers may be all that there is of a body.
#[test]
fn a_body_of_trailers_only_passes() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = frames(&forebay);
    client.send_head(1, &fields("POST", "/"), false);
    client.send_head(1, &[(b"x-sum", b"0")], true);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
    assert_eq!(peer.read_raw_chunks(), "0\r\nx-sum: 0\r\n\r\n");
    peer.send(OK);
    assert_eq!(client.outcome(1), Outcome::Status(200));
}

/// However wide a client sets its windows, what it does not read stays with the endpoints.
#[test]
fn a_client_that_reads_none_of_its_streams_costs_little() {
    const STREAMS: u32 = 64;
    let upstream = Canned::saying(&"x".repeat(1 << 20));
    let forebay = setup().endpoint(upstream.address()).start();
    let narrow = Connection::narrow_to(forebay.address());
    let mut client = FrameClient::begin_with(narrow, &[(INITIAL_WINDOW_SIZE, i32::MAX as u32)]);
    client.send(kind::WINDOW_UPDATE, flag::NONE, 0, &(i32::MAX as u32 - 65_535).to_be_bytes());
    client.get(1, "web.test", "/");
    forebay.await_that("the first request", || upstream.heads().len() == 1);
    let before = forebay.resident_kib();
    (1..STREAMS).for_each(|number| client.get(2 * number + 1, "web.test", "/"));
    forebay.await_that("all requests", || upstream.heads().len() == STREAMS as usize);
    // If memory grows it does so soon.
    let other = forebay.client();
    other.is_quiet_for(Duration::from_millis(500));
    let grown = forebay.resident_kib().saturating_sub(before);
    // A stream that is read ahead of keeps more than 100 KiB.
    assert!(grown < u64::from(STREAMS) * 48, "grew by {grown} KiB");
}
