//! Clients that are slower than they may be: cut off with a reason of its own, long before they stand still
//! for too long.

use std::time::Duration;

use model::{MinRate, Model, Transfer};
use testkit::frames::{FrameClient, Outcome, flag, frame, head, header_block, kind};
use testkit::{Canned, Connection, Ending, H2Client, Upstream};

use super::{POST, await_fault, forward};
use crate::world::World;

fn rate(bytes: u32) -> MinRate {
    MinRate { bytes: bytes.try_into().unwrap(), grace: Duration::from_millis(200) }
}

fn buffered() -> Transfer {
    Transfer { request_buffer_bytes: Some(64 << 10), ..Transfer::default() }
}

fn sending(model: &mut Model) {
    model.settings.client.bounds.send_rate_min = Some(rate(100_000));
}

#[test]
fn a_head_that_trickles_in_is_cut_off() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], sending);
    let mut client = world.http_client();
    client.send("GET / HTTP/1.1\r\nHost: web.test\r\n");
    assert_eq!(client.read_response().status, 408);
    await_fault(&world, "head_rate");
}

/// The rate is that of frames whose head has begun: what is between heads has no rate.
#[test]
fn a_head_over_http2_that_trickles_in_is_cut_off_and_an_idle_connection_is_not() {
    let upstream = Canned::saying("hello");
    let world = World::http(&[upstream.address()], sending);
    let head = head("GET", "web.test", "/a");
    let fields: Vec<_> = head.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let block = header_block(&fields);
    let mut idle = FrameClient::begin(world.http_client());
    let trickles: [&dyn Fn(&mut FrameClient); 3] = [
        &|client| client.send_bytes(&frame(kind::HEADERS, flag::END_HEADERS, 1, &block)[..20]),
        &|client| client.send(kind::HEADERS, flag::END_STREAM, 1, &block[..10]),
        &|client| {
            client.send(kind::HEADERS, flag::END_STREAM, 1, &block[..10]);
            client.send_bytes(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[10..])[..5]);
        },
    ];
    for (count, trickle) in (1..).zip(trickles) {
        let mut client = FrameClient::begin(world.http_client());
        trickle(&mut client);
        assert_eq!(client.ending(), Some(0), "a GOAWAY without an error");
        world.await_metric(super::FAULTS, &[("reason", "head_rate")], count);
    }
    let mut preface = world.http_client();
    preface.send("PRI * HTTP/2.0\r\n");
    assert_eq!(preface.ending(), Ending::Closed);
    world.await_metric(super::FAULTS, &[("reason", "head_rate")], 4);
    idle.get(1, "web.test", "/a");
    assert_eq!(idle.outcome(1), Outcome::Status(200));
    assert_eq!(world.metrics().sum(super::FAULTS, &[("reason", "head_timeout")]), 0);
}

#[test]
fn a_body_that_trickles_in_is_cut_off_whether_it_is_read_whole_or_passed_on() {
    for is_read_whole in [true, false] {
        let upstream = Upstream::new();
        let world = World::http(&[upstream.address()], |model| {
            sending(model);
            if is_read_whole {
                forward(model, |forward| forward.transfer = buffered().into());
            }
        });
        let mut client = world.http_client();
        client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10000\r\n\r\nsome");
        assert_eq!(client.read_response().status, 408);
        await_fault(&world, "body_rate");
        let h2 = H2Client::clear(world.http_address());
        let mut call = h2.call("POST", "web.test", "/a", &[("content-length", "10000")], false);
        call.sender.send(b"some".to_vec(), false);
        assert_eq!(call.read_response().status, 408);
        world.await_metric(super::FAULTS, &[("reason", "body_rate")], 2);
        assert_eq!(world.metrics().sum(super::FAULTS, &[("reason", "body_timeout")]), 0);
    }
}

#[test]
fn what_the_endpoint_takes_its_time_for_is_held_against_nobody() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], sending);
    let mut client = world.http_client();
    client.send(POST);
    let (mut peer, _) = upstream.accept_request();
    assert!(client.is_quiet_for(Duration::from_millis(600)), "three times the grace");
    peer.send(super::OK);
    assert_eq!(client.read_response().status, 200);
}

#[test]
fn a_client_that_does_not_take_its_response_is_left() {
    let content = vec![b'x'; 32 << 20];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
    let upstream = Canned::answering([head.into_bytes(), content].concat());
    let world = World::http(&[upstream.address()], |model| {
        model.settings.client.bounds.read_rate_min = Some(rate(1 << 30));
    });
    let mut client = Connection::narrow_to(world.http_address());
    client.send(super::GET);
    await_fault(&world, "send_rate");
    let h2 = H2Client::clear(world.http_address());
    // Nothing is taken of it beyond the window that streams begin with.
    let _call = h2.call("GET", "web.test", "/a", &[], true);
    world.await_metric(super::FAULTS, &[("reason", "send_rate")], 2);
    assert_eq!(world.metrics().sum(super::FAULTS, &[("reason", "send_timeout")]), 0);
}
