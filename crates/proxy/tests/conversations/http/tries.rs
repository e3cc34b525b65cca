//! Tries with a time of their own, and the time between them (Gateway API: `HTTPRouteTimeouts`,
//! `HTTPRouteRetry`).

use std::time::{Duration, Instant};

use model::Forward;
use testkit::{Ending, Upstream};

use super::{GET, OK, POST, await_fault, forward};
use crate::world::{BRIEF, World};

const FAILED: &str = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n";

fn serving(upstream: &Upstream, change: impl FnOnce(&mut Forward)) -> World {
    World::http(&[upstream.address()], |model| forward(model, change))
}

#[test]
fn a_try_that_takes_too_long_is_answered_with_504() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.timeouts.backend_request = Some(BRIEF);
        forward.retry.tries = Some(1);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (_peer, _) = upstream.accept_request();
    assert_eq!(client.read_response().status, 504);
    await_fault(&world, "upstream_read_timeout");
    // The next request has all of its time.
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn each_try_has_its_own_time_and_all_together_that_of_the_request() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.timeouts.backend_request = Some(BRIEF);
        forward.timeouts.request = Some(BRIEF * 7 / 2);
        forward.retry.tries = Some(100);
    });
    let begin = Instant::now();
    let mut client = world.http_client();
    client.send(GET);
    let (_first, _) = upstream.accept_request();
    let (mut second, _) = upstream.accept_request();
    assert!(begin.elapsed() >= BRIEF);
    second.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));

    let begin = Instant::now();
    let mut client = world.http_client();
    client.send(GET);
    let held = std::thread::spawn(move || {
        let first = second.read_head();
        (first, upstream.accept_request(), upstream.accept_request(), upstream)
    });
    assert_eq!(client.read_response().status, 504);
    assert!(begin.elapsed() >= BRIEF * 3, "{:?}", begin.elapsed());
    drop(held.join().unwrap());
}

#[test]
fn a_response_is_cut_off_when_the_time_of_its_try_is_up() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.timeouts.backend_request = Some(BRIEF);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    assert!(client.read_head().contains("Content-Length: 5"));
    assert_eq!(client.read_exactly(2), b"ab");
    assert_eq!(client.ending(), Ending::Closed);
    assert!(upstream.is_left_alone(), "what the client has begun to get is not asked for again");
}

#[test]
fn tries_are_made_for_statuses_that_are_named_and_no_more_than_allowed() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.retry.on.statuses = vec![500];
        forward.retry.on.non_idempotent = true;
        forward.retry.tries = Some(3);
    });
    let mut client = world.http_client();
    for request in [GET, POST] {
        client.send(request);
        let mut peer = upstream.accept();
        for answer in [FAILED, FAILED, OK] {
            peer.read_head();
            if request == POST {
                assert_eq!(peer.read_exactly(4), b"body");
            }
            peer.send(answer);
            if answer == FAILED {
                peer = upstream.accept();
            }
        }
        assert_eq!(client.read_response().said(), (200, "ok"));
        drop(peer);
    }
    client.send(GET);
    for _ in 0..3 {
        let (mut peer, _) = upstream.accept_request();
        peer.send(FAILED);
    }
    assert_eq!(client.read_response().status, 500, "the last answer is the client's");
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(FAILED.replace("500", "503"));
    assert_eq!(client.read_response().status, 503);
}

#[test]
fn a_try_waits_for_as_long_as_it_is_asked_to() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.retry.on.statuses = vec![500];
        forward.retry.backoff = Some(Duration::from_millis(300));
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    let begin = Instant::now();
    peer.send(FAILED);
    let (mut peer, _) = upstream.accept_request();
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn no_try_waits_for_longer_than_the_request_may_take() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.retry.on.statuses = vec![500];
        forward.retry.backoff = Some(Duration::from_secs(60));
        forward.timeouts.request = Some(BRIEF);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(FAILED);
    assert_eq!(client.read_response().status, 504);
    assert!(upstream.is_left_alone());
}

#[test]
fn nobody_waits_for_a_client_that_has_left() {
    let upstream = Upstream::new();
    let world = serving(&upstream, |forward| {
        forward.retry.on.statuses = vec![500];
        forward.retry.backoff = Some(Duration::from_secs(60));
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(FAILED);
    client.reset();
    await_fault(&world, "client_aborted");
    assert!(upstream.is_left_alone());
}
