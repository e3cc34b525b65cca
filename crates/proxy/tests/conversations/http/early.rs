//! Answers before the end of a body, to clients that write all of it before they read.

use std::time::{Duration, Instant};

use h2::Reason;
use testkit::{Connection, Ending, H2Client, H2Upstream, Upstream};

use super::{GET, forward, sessions};
use crate::world::World;

/// More than the buffers of both ends and the kernel hold.
const LONG: usize = 8 << 20;
/// More than the window of a stream.
const MORE: usize = 200 << 10;

fn refusing() -> World {
    World::http(&[], |model| forward(model, |forward| forward.body_bytes_max = Some(1).into()))
}

/// Writes a body to its end, and then reads.
fn answered(client: &mut Connection) -> u16 {
    for _ in 0..LONG / (64 << 10) {
        client.send(vec![b'x'; 64 << 10]);
    }
    let response = client.read_response();
    assert_eq!(response.header("Connection").as_deref(), Some("close"));
    client.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    response.status
}

#[test]
fn an_answer_reaches_a_client_that_writes_first() {
    let world = refusing();
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
    assert_eq!(answered(&mut client), 413);
    // No Ingress has the host.
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: other.test\r\nContent-Length: {LONG}\r\n\r\n"));
    assert_eq!(answered(&mut client), 404);
    let mut client = world.http_client();
    client.send(format!(
        "POST /a HTTP/1.1\r\nHost: other.test\r\nTransfer-Encoding: chunked\r\n\r\n{LONG:x}\r\n"
    ));
    assert_eq!(answered(&mut client), 404);
}

#[test]
fn an_endpoint_s_early_answer_reaches_such_a_client() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    for stays in [true, false] {
        let mut client = world.http_client();
        client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\nx"));
        let (mut peer, _) = upstream.accept_request();
        peer.read_exactly(1);
        peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        let _peer = stays.then_some(peer);
        for _ in 0..LONG / (64 << 10) {
            client.send(vec![b'x'; 64 << 10]);
        }
        assert_eq!(client.read_response().status, 403);
    }
}

#[test]
fn a_connection_that_was_to_stay_open_does_so_after_an_early_answer() {
    let upstream = H2Upstream::clear();
    let world = sessions::world_with(upstream.address(), |_| ());
    let chunked = ("Transfer-Encoding: chunked", "5\r\nbegin\r\n", "4\r\nrest\r\n0\r\n\r\n");
    let by_length = ("Content-Length: 9", "begin", "rest");
    for (framing, begin, rest) in [chunked, by_length] {
        let mut client = world.http_client();
        client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\n{framing}\r\n\r\n{begin}"));
        upstream.accept_request().answer(200, &[], b"early");
        let response = client.read_response();
        assert_eq!(response.said(), (200, "early"));
        assert_eq!(response.header("Connection"), None);
        client.send(format!("{rest}{GET}"));
        upstream.accept_request().answer(200, &[], b"next");
        assert_eq!(client.read_response().said(), (200, "next"));
    }
    // More than is kept for another try, of which the endpoint reads nothing.
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {MORE}\r\n\r\n"));
    let mut peer = upstream.accept_request();
    client.send(vec![b'x'; MORE - 1]);
    peer.answer(200, &[], b"early");
    assert_eq!(client.read_response().said(), (200, "early"));
    client.send(format!("x{GET}"));
    upstream.accept_request().answer(200, &[], b"next");
    assert_eq!(client.read_response().said(), (200, "next"));
    // One whose body does not end.
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\nx"));
    upstream.accept_request().answer(200, &[], b"early");
    assert_eq!(client.read_response().said(), (200, "early"));
    client.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn over_http_2_the_stream_is_reset_without_an_error_after_the_answer() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.body_bytes_max = Some(1 << 20).into());
    });
    let h2 = H2Client::clear(world.http_address());
    let length = LONG.to_string();
    let mut call = h2.call("POST", "web.test", "/a", &[("content-length", length.as_str())], false);
    assert_eq!(call.read_response().status, 413);
    assert_eq!(call.sender.await_reset().unwrap(), Reason::NO_ERROR);
    // The early answer is the endpoint's.
    let mut call = h2.call("POST", "web.test", "/a", &[], false);
    call.sender.send("begun", false);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(call.read_response().said(), (403, "no"));
    assert_eq!(call.sender.await_reset().unwrap(), Reason::NO_ERROR);
}

#[test]
fn a_worker_that_stops_does_not_wait_for_the_rest_of_a_body() {
    let world = refusing();
    let mut client = world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\nx"));
    assert_eq!(client.read_response().status, 413);
    // A worker that goes on reads what comes for up to 30 s.
    let begin = Instant::now();
    std::thread::spawn(move || {
        while client.try_send("x").is_ok() {
            client.is_quiet_for(Duration::from_millis(100));
        }
    });
    world.stop();
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
}
