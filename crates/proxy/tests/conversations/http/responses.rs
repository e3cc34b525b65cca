//! A route's rules for responses: the length of heads, the pace of bodies, and the addresses that they name.

use std::iter;
use std::time::{Duration, Instant};

use model::{Pace, ResponsePolicy, Substitution};
use testkit::{Connection, Ending, Response, Upstream};

use super::{GET, OK, await_fault, forward, goes_on};
use crate::world::World;

/// Both ends of a request, where responses are treated so.
fn asked(policy: ResponsePolicy, request: &str) -> (World, Connection, Connection) {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.transfer.response = Some(Box::new(policy)));
    });
    let mut client = world.http_client();
    client.send(request);
    let (peer, _) = upstream.accept_request();
    (world, client, peer)
}

fn substitution(from: &str, to: &str) -> Substitution {
    Substitution { from: from.to_owned(), to: to.to_owned() }
}

fn cookies(response: &Response) -> Vec<&str> {
    let named = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie"));
    named.map(|(_, value)| value.as_str()).collect()
}

fn read_ahead(bytes: u64) -> ResponsePolicy {
    ResponsePolicy { read_ahead_bytes: bytes, ..ResponsePolicy::default() }
}

#[test]
fn a_head_may_be_as_long_as_it_may_be() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.transfer.response_head_bytes_max = 4096);
    });
    let head = |len: usize| {
        let rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: \r\n\r\n".len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: {}\r\n\r\nok", "a".repeat(len - rest))
    };
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(head(4096));
    assert_eq!(client.read_response().said(), (200, "ok"));
    client.send(GET);
    peer.read_head();
    peer.send(head(4097));
    assert_eq!(client.read_response().status, 502);
    await_fault(&world, "upstream_head_too_large");
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(&head(9000)[..5000]);
    assert_eq!(client.read_response().status, 502, "its end is not waited for");
}

#[test]
fn a_response_is_read_ahead_of_a_client_that_does_not_read() {
    const LEN: usize = 40_000;
    let (_world, mut client, mut peer) = asked(read_ahead(1 << 20), GET);
    let body = vec![b'x'; LEN];
    peer.send([format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n").as_bytes(), &body].concat());
    client.read_head();
    assert!(client.read_exactly(LEN) == body);
    goes_on(&mut client, &mut peer);
}

#[test]
fn more_is_taken_from_the_endpoint_than_the_client_takes() {
    // The bytes in the proxy's memory for a client that does not read. The kernel's share varies, and is
    // subtracted, with the framing of its chunks. A piece of 16 KiB of which the kernel has a part still
    // counts for the stock. Without any stock the body would be spliced, and a pipe holds as much as its
    // pages do.
    let held = |bytes: usize| {
        let upstream = Upstream::new();
        let world = World::http(&[upstream.address()], |model| {
            forward(model, |forward| forward.transfer.response = Some(Box::new(read_ahead(bytes as u64))));
        });
        let mut client = Connection::narrow_to(world.http_address());
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4000000\r\n");
        client.read_head();
        let mut sent = 0;
        let held_now = || {
            sent += peer.send_until_blocked(Duration::from_millis(300), (64 << 20) - sent);
            sent.saturating_sub(peer.in_flight_to_peer() + client.in_flight_from_peer())
        };
        iter::repeat_with(held_now).take(30).find(|held| *held > bytes / 2).expect("the stock is filled")
    };
    for bytes in [64 << 10, 1 << 20] {
        let held = held(bytes);
        assert!(held < bytes * 2, "{held} bytes with a stock of {bytes}");
    }
}

#[test]
fn chunks_and_their_trailers_pass_a_stock() {
    let (_world, mut client, mut peer) = asked(read_ahead(4096), GET);
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.read_head();
    peer.send("3\r\nabc\r\n");
    assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    peer.send("2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.read_raw_chunks(), "2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n");
    goes_on(&mut client, &mut peer);
}

#[test]
fn what_was_read_of_a_body_that_is_cut_off_is_sent() {
    let (world, mut client, mut peer) = asked(read_ahead(4096), GET);
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    client.read_head();
    peer.send("abc");
    assert_eq!(client.read_exactly(3), b"abc");
    drop(peer);
    let (rest, ending) = client.read_to_end();
    assert!(rest.is_empty() && matches!(ending, Ending::Closed | Ending::Reset));
    await_fault(&world, "upstream_reset");
}

#[test]
fn a_body_is_sent_no_faster_than_its_pace() {
    // 100 KiB at once, at a pace at which they would take longer than a test is patient, and the rest in the
    // seconds after.
    let pace = Some(Pace { bytes_per_second: 1 << 10, after_bytes: 100 << 10 });
    let (_world, mut client, mut peer) = asked(ResponsePolicy { pace, ..read_ahead(64 << 10) }, GET);
    let body = vec![b'x'; 102 << 10];
    let begin = Instant::now();
    peer.send(
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat(),
    );
    client.read_head();
    client.read_exactly(body.len());
    assert!(begin.elapsed() >= Duration::from_millis(850), "{:?}", begin.elapsed());
    goes_on(&mut client, &mut peer);
}

#[test]
fn places_are_named_as_those_outside_know_them() {
    let policy = ResponsePolicy {
        location: Some(substitution("http://in.test/", "https://out.test/x/")),
        cookie_domain: Some(substitution("in.test", "out.test")),
        cookie_path: Some(substitution("/a", "/")),
        ..ResponsePolicy::default()
    };
    let (_world, mut client, mut peer) = asked(policy, GET);
    peer.send(
        "HTTP/1.1 302 Found\r\nLocation: http://in.test/b?c\r\nRefresh: 1; url=http://in.test/d\r\n\
         Set-Cookie: a=1; Path=/a/b; Domain=in.test\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
    );
    let response = client.read_response();
    assert_eq!(response.header("Location").as_deref(), Some("https://out.test/x/b?c"));
    assert_eq!(response.header("Refresh").as_deref(), Some("1; url=https://out.test/x/d"));
    assert_eq!(cookies(&response), ["a=1; Path=//b; Domain=out.test", "b=2"]);
    client.send(GET);
    peer.read_head();
    peer.send(OK.replace("\r\n\r\n", "\r\nLocation: http://other.test/\r\nSet-Cookie: c\r\n\r\n"));
    let response = client.read_response();
    assert_eq!(response.header("Location").as_deref(), Some("http://other.test/"));
    assert_eq!(cookies(&response), ["c"]);
}

#[test]
fn a_place_that_becomes_a_path_names_the_host_that_was_asked() {
    let location = Some(substitution("http://in.test/", "/"));
    let (_world, mut client, mut peer) = asked(
        ResponsePolicy { location, ..ResponsePolicy::default() },
        "GET / HTTP/1.1\r\nHost: Web.test:81\r\n\r\n",
    );
    peer.send("HTTP/1.1 302 Found\r\nLocation: http://in.test/b\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().header("Location").as_deref(), Some("http://web.test/b"));
}
