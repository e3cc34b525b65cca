//! Sessions of HTTP/2 with endpoints that end, or refuse requests, before they have looked at them (RFC 9113
//! sections 6.8 and 8.7).

use std::net::SocketAddr;
use std::sync::Arc;

use h2::Reason;
use model::{AppProtocol, Cluster, ClusterId, Forward, Model, RetryOn};
use testkit::frames::{flag, kind};
use testkit::{FrameClient, H2Upstream, Upstream};

use super::{GET, forward};
use crate::world::World;

fn world(address: SocketAddr, change: impl FnOnce(&mut Forward)) -> World {
    world_with(address, |model| forward(model, change))
}

/// A world whose endpoint speaks HTTP/2.
pub(super) fn world_with(address: SocketAddr, change: impl FnOnce(&mut Model)) -> World {
    World::http(&[address], |model| {
        change(model);
        let cluster = Cluster { version: AppProtocol::Http2, ..Cluster::clone(model.cluster(ClusterId(0))) };
        model.clusters.insert(ClusterId(0), Arc::new(cluster));
    })
}

/// Takes a session, up to the head of its first request.
fn accept(upstream: &Upstream) -> FrameClient {
    let mut connection = upstream.accept();
    connection.read_exactly(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len());
    let mut session = FrameClient::silent(connection);
    session.send(kind::SETTINGS, flag::NONE, 0, &[]);
    session.await_frame(|frame| frame.kind == kind::HEADERS);
    session
}

/// The content that comes on a session until there is so much of it.
fn content(session: &mut FrameClient, len: usize) -> Vec<u8> {
    let mut content = Vec::new();
    while content.len() < len {
        content.extend(session.await_frame(|frame| frame.kind == kind::DATA).payload);
    }
    content
}

#[test]
fn a_refused_stream_counts_as_a_try_and_says_nothing_of_the_session() {
    for (on, requests) in [(RetryOn { error: false, ..RetryOn::default() }, 1), (RetryOn::default(), 3)] {
        let upstream = H2Upstream::clear();
        let world = world(upstream.address(), |forward| {
            forward.retry.on = on;
            forward.retry.tries = Some(3);
        });
        let mut client = world.http_client();
        client.send(GET);
        for _ in 0..requests {
            upstream.accept_request().reset(Reason::REFUSED_STREAM);
        }
        assert_eq!(client.read_response().status, 502);
        assert!(upstream.is_left_alone());
        assert_eq!(upstream.connections(), 1);
    }
}

#[test]
fn a_post_that_a_goodbye_says_was_not_processed_is_sent_again() {
    for code in [0_u8, 2] {
        let upstream = Upstream::new();
        let world = world(upstream.address(), |forward| forward.retry.on.error = false);
        let mut client = world.http_client();
        client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 8\r\n\r\n");
        let mut first = accept(&upstream);
        client.send("body");
        assert_eq!(content(&mut first, 4), b"body");
        first.send(kind::GOAWAY, flag::NONE, 0, &[0, 0, 0, 0, 0, 0, 0, code]);
        drop(first);
        let mut second = accept(&upstream);
        client.send("more");
        assert_eq!(content(&mut second, 8), b"bodymore");
        // `:status: 200`, and the end of the stream.
        second.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x88]);
        assert_eq!(client.read_response().status, 200, "after code {code}");
    }
}

#[test]
fn what_is_longer_than_is_kept_is_not_sent_again() {
    const LEN: usize = 64 << 10;
    let upstream = Upstream::new();
    let world = world(upstream.address(), |_| ());
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LEN}\r\n\r\n"));
    let mut first = accept(&upstream);
    client.send(vec![b'x'; 32 << 10]);
    content(&mut first, 32 << 10);
    first.send(kind::GOAWAY, flag::NONE, 0, &[0; 8]);
    assert_eq!(client.read_response().status, 502);
}

#[test]
fn a_response_with_the_path_of_a_request_is_malformed() {
    let upstream = Upstream::new();
    let world = world(upstream.address(), |forward| forward.retry.on = RetryOn::default());
    let mut client = world.http_client();
    client.send(GET);
    let mut session = accept(&upstream);
    // `:status: 200` and `:path: /` of the static table.
    session.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x88, 0x84]);
    assert_eq!(client.read_response().status, 502);
    world.await_metric(
        "forebay_faults_total",
        &[("side", "upstream"), ("reason", "upstream_bad_response")],
        1,
    );
}
