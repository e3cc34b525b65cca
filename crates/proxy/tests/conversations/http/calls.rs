//! Calls to endpoints: when another try is made, what a dead connection costs, how long is waited.

use std::sync::Arc;
use std::time::Duration;

use model::{Backend, Backends, Cluster, ClusterId, Forward, Split};
use testkit::{Ending, Refusing, Upstream};

use super::{GET, OK, POST, await_fault, forward, goes_on};
use crate::world::{BRIEF, World};

const REUSED: &str = "forebay_upstream_connections_reused_total";

#[test]
fn a_status_asks_for_another_try_but_the_last_one_is_passed_on() {
    let (upstream, world) = two_endpoints(|forward| {
        forward.retry.on.statuses = vec![503];
        forward.retry.tries = None;
    });
    let mut client = world.http_client();
    client.send(GET);
    for _ in 0..2 {
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 503 Service Unavailable\r\nX-From: endpoint\r\nContent-Length: 0\r\n\r\n");
    }
    let response = client.read_response();
    assert_eq!((response.status, response.header("X-From").as_deref()), (503, Some("endpoint")));
}

#[test]
fn what_an_endpoint_may_have_acted_on_is_not_repeated() {
    let (upstream, world) = two_endpoints(|_| ());
    let mut client = world.http_client();
    client.send(POST);
    drop(upstream.accept_request());
    assert_eq!(client.read_response().status, 502);
    await_fault(&world, "upstream_reset");
    assert!(upstream.is_left_alone());
}

/// Two endpoints with one listener, since which of them is asked first is left to chance.
fn two_endpoints(change: impl FnOnce(&mut Forward)) -> (Upstream, World) {
    let upstream = Upstream::everywhere();
    let world = World::http(&[upstream.endpoint(1), upstream.endpoint(2)], |model| forward(model, change));
    (upstream, world)
}

#[test]
fn what_no_endpoint_has_seen_goes_to_another_whatever_the_method() {
    let (nobody, upstream) = (Refusing::default(), Upstream::new());
    let world = World::http(&[nobody.address(), upstream.address()], |_| ());
    let mut client = world.http_client();
    let mut peer = None;
    for _ in 0..4 {
        client.send(POST);
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.read_head();
        assert_eq!(peer.read_exactly(4), b"body");
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
}

#[test]
fn a_policy_of_one_try_makes_one() {
    let nobody = [Refusing::default(), Refusing::default()];
    let world = World::http(&nobody.each_ref().map(Refusing::address), |model| {
        forward(model, |forward| forward.retry.tries = Some(1));
    });
    assert_eq!(world.http_client().ask(GET).status, 502);
    let log = world.stop();
    assert_eq!(log.matches("127.0.0.1:").count(), 1, "{log}");
}

#[test]
fn a_connection_that_died_while_idle_is_no_try() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.retry.tries = Some(1));
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    // It takes the request, and dies before it has said a word.
    client.send(GET);
    peer.read_head();
    drop(peer);
    let (mut fresh, _) = upstream.accept_request();
    fresh.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(world.metrics().sum(REUSED, &[]), 1);
}

#[test]
fn an_endpoint_has_its_time_however_the_ticks_fall() {
    for (milliseconds, reason) in [(50, "upstream_read_timeout"), (350, "upstream_read_timeout")] {
        let upstream = Upstream::new();
        let world = World::http(&[upstream.address()], |model| {
            forward(model, |forward| forward.timeouts.read = Duration::from_millis(milliseconds));
        });
        let mut client = world.http_client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        assert_eq!(client.read_response().status, 504);
        await_fault(&world, reason);
        assert_eq!(peer.ending(), Ending::Reset);
    }
}

#[test]
fn who_resets_while_waiting_is_not_waited_for() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset);
    await_fault(&world, "client_aborted");
}

#[test]
fn who_resets_while_a_response_pauses_is_not_waited_for() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
    client.read_head();
    assert_eq!(client.read_exactly(2), b"ha");
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset);
    await_fault(&world, "client_aborted");
}

#[test]
fn who_has_no_more_to_say_is_still_answered() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let mut client = world.http_client();
    client.send(GET);
    client.shutdown_write();
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn a_request_that_came_early_waits_for_its_turn() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let mut client = world.http_client();
    client.send([GET, GET].concat());
    let (mut peer, _) = upstream.accept_request();
    // Long enough for a look at the client, who has sent more and so is there.
    assert!(peer.is_quiet_for(Duration::from_millis(300)));
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    goes_on(&mut client, &mut peer);
}

#[test]
fn no_other_try_is_made_when_the_time_of_the_request_is_up() {
    let (upstream, world) = two_endpoints(|forward| {
        forward.timeouts.request = Some(BRIEF);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (_peer, _) = upstream.accept_request();
    assert_eq!(client.read_response().status, 504);
    await_fault(&world, "upstream_read_timeout");
    assert!(upstream.is_left_alone());
    // The next request on the connection has all of its time.
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_response_is_cut_off_when_the_time_of_the_request_is_up() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.timeouts.request = Some(BRIEF));
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    assert!(client.read_head().contains("Content-Length: 5"));
    assert_eq!(client.read_exactly(2), b"ab");
    assert_eq!(client.ending(), Ending::Closed);
    await_fault(&world, "upstream_read_timeout");
}

#[test]
fn a_backend_without_endpoints_keeps_its_share_and_one_without_a_weight_takes_nothing() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(Cluster::default()));
        let backends = [(0, 0), (1, 1)].map(|(id, weight)| Backend::new(ClusterId(id), weight));
        forward(model, |forward| {
            forward.backends = Backends::Split(Split::new(backends.to_vec()).unwrap());
        });
    });
    assert_eq!(world.http_client().ask(GET).status, 503);
    assert!(upstream.is_left_alone());
}
