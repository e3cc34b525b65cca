//! Requests whose bodies are read whole before an endpoint is asked.

use model::{Forward, RetryOn, RetryPolicy, Transfer};
use testkit::{Connection, Ending, Upstream};

use super::{GET, OK, await_fault, forward, goes_on};
use crate::world::{BRIEF, World};

const CHUNKED: &str = "PUT /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n";

/// More than goes with a head, and less than is kept in memory where there is no folder.
const LONG: usize = 300_000;

fn buffered() -> Transfer {
    Transfer { request_buffer_bytes: Some(8 << 10), ..Transfer::default() }
}

fn buffering(forward: &mut Forward) {
    forward.transfer = buffered().into();
}

fn world(upstream: &Upstream, change: impl FnOnce(&mut Forward)) -> World {
    World::http(&[upstream.address()], |model| forward(model, change))
}

/// No two places of it look alike.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn chunked(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in content.chunks(7001) {
        out.extend(format!("{:x};a=b\r\n", piece.len()).into_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
    out
}

/// The content of chunks up to the last one, which trailers follow.
fn read_chunks(peer: &mut Connection) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let len = usize::from_str_radix(&peer.read_line(), 16).unwrap();
        if len == 0 {
            return content;
        }
        content.extend(peer.read_exactly(len));
        assert_eq!(peer.read_line(), "");
    }
}

fn answers(client: &mut Connection, peer: &mut Connection) {
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn an_endpoint_is_asked_when_all_has_come() {
    let upstream = Upstream::new();
    let world = world(&upstream, buffering);
    let mut client = world.http_client();
    client.send("PUT /a HTTP/1.1\r\nHost: web.test\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n");
    assert!(client.read_head().starts_with("HTTP/1.1 100 "), "it is for us to invite the body");
    client.send("abc");
    let mut other = world.http_client();
    other.send(GET);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.starts_with("GET "), "nobody is asked for half a body: {head}");
    answers(&mut other, &mut peer);
    assert!(upstream.is_left_alone());
    client.send("def");
    let head = peer.read_head();
    assert!(head.contains("\r\nContent-Length: 6\r\n") && !head.contains("Expect"), "{head}");
    assert_eq!(peer.read_exactly(6), b"abcdef");
    answers(&mut client, &mut peer);
    goes_on(&mut client, &mut peer);
}

#[test]
fn chunks_are_sent_with_their_length() {
    let upstream = Upstream::new();
    let world = world(&upstream, buffering);
    for (len, in_pieces) in [(0, false), (5, false), (5, true), (20_000, false), (LONG, true)] {
        let (content, mut client) = (content(len), world.http_client());
        let body = chunked(&content);
        let (first, rest) = body.split_at(if in_pieces { 3 } else { body.len() });
        client.send([CHUNKED.as_bytes(), first].concat());
        let (mut sender, rest) = (client.sender(), rest.to_vec());
        let sending = std::thread::spawn(move || sender.send(rest));
        let (mut peer, head) = upstream.accept_request();
        assert!(head.contains(&format!("\r\nContent-Length: {len}\r\n")), "{head}");
        assert!(!head.contains("Transfer-Encoding"), "{head}");
        assert!(peer.read_exactly(len) == content, "the bytes differ");
        sending.join().unwrap();
        peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response().status, 204);
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(client.read_response().said(), (200, "ok"), "the client's connection is in step");
    }
}

#[test]
fn without_buffering_chunks_stay_chunks() {
    let upstream = Upstream::new();
    let world = world(&upstream, |_| ());
    let mut client = world.http_client();
    client.send([CHUNKED, "3\r\nabc\r\n"].concat());
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
    assert_eq!(peer.read_exactly(8), b"3\r\nabc\r\n");
}

#[test]
fn a_long_body_of_known_length_arrives_whole_and_the_connections_go_on() {
    let upstream = Upstream::new();
    let world = world(&upstream, buffering);
    let (content, mut client) = (content(LONG), world.http_client());
    client.send(format!("PUT /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
    client.send(&content[..LONG - 1]);
    assert!(upstream.is_left_alone());
    client.send(&content[LONG - 1..]);
    let (mut peer, _) = upstream.accept_request();
    assert!(peer.read_exactly(LONG) == content, "the bytes differ");
    answers(&mut client, &mut peer);
    goes_on(&mut client, &mut peer);
}

#[test]
fn what_was_kept_is_sent_again() {
    let upstream = Upstream::everywhere();
    let endpoints = [upstream.endpoint(1), upstream.endpoint(2)];
    let world = World::http(&endpoints, |model| forward(model, buffering));
    let (content, mut client) = (content(LONG), world.http_client());
    client.send(format!("PUT /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
    client.send(&content);
    let (mut peer, _) = upstream.accept_request();
    peer.read_exactly(LONG / 2);
    drop(peer);
    let (mut peer, _) = upstream.accept_request();
    assert!(peer.read_exactly(LONG) == content, "the bytes differ");
    answers(&mut client, &mut peer);
}

#[test]
fn a_post_is_sent_again_by_the_rules_only() {
    for non_idempotent in [false, true] {
        let upstream = Upstream::everywhere();
        let endpoints = [upstream.endpoint(1), upstream.endpoint(2)];
        let world = World::http(&endpoints, |model| {
            forward(model, |forward| {
                buffering(forward);
                let on = RetryOn { non_idempotent, ..RetryOn::default() };
                forward.retry = RetryPolicy { on, ..RetryPolicy::default() }.into();
            });
        });
        let mut client = world.http_client();
        client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
        client.send(content(LONG));
        let (mut peer, _) = upstream.accept_request();
        peer.read_exactly(LONG);
        drop(peer);
        if non_idempotent {
            let (mut peer, _) = upstream.accept_request();
            peer.read_exactly(LONG);
            answers(&mut client, &mut peer);
        } else {
            assert_eq!(client.read_response().status, 502);
            assert!(upstream.is_left_alone());
        }
    }
}

#[test]
fn chunks_that_pass_the_bound_reach_no_endpoint() {
    let upstream = Upstream::new();
    let world = world(&upstream, |forward| {
        buffering(forward);
        forward.body_bytes_max = Some(10).into();
    });
    let mut client = world.http_client();
    client.send([CHUNKED, "5\r\nabcde\r\n5\r\nfghij\r\n0\r\n\r\n"].concat());
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nContent-Length: 10\r\n"), "the bound itself passes: {head}");
    peer.read_exactly(10);
    answers(&mut client, &mut peer);
    client.send([CHUNKED, "5\r\nabcde\r\n"].concat());
    client.send("6\r\nfghijk\r\n");
    assert_eq!(client.read_response().status, 413);
    await_fault(&world, "body_too_large");
    assert!(upstream.is_left_alone());
}

#[test]
fn a_client_that_goes_away_or_stands_still_reaches_no_endpoint() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        model.settings.client.body_timeout = BRIEF;
        forward(model, buffering);
    });
    let mut client = world.http_client();
    client.send([CHUNKED, "5\r\nab"].concat());
    assert_eq!(client.read_response().status, 408);
    await_fault(&world, "body_timeout");
    let mut client = world.http_client();
    client.send([CHUNKED, "5\r\nab"].concat());
    drop(client);
    await_fault(&world, "client_aborted");
    assert!(upstream.is_left_alone());
}

#[test]
fn what_there_is_no_room_for_is_passed_on_as_it_comes() {
    const MORE: usize = 3 << 20;
    for in_chunks in [false, true] {
        let upstream = Upstream::new();
        let world = world(&upstream, buffering);
        let (content, mut client) = (content(MORE), world.http_client());
        let body = if in_chunks { chunked(&content) } else { content.clone() };
        let head = if in_chunks {
            CHUNKED.to_owned()
        } else {
            format!("PUT /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {MORE}\r\n\r\n")
        };
        client.send(head);
        let mut sender = client.sender();
        let sending = std::thread::spawn(move || sender.send(body));
        let (mut peer, head) = upstream.accept_request();
        assert_eq!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), in_chunks, "{head}");
        let received = if in_chunks {
            let content = read_chunks(&mut peer);
            assert_eq!(peer.read_line(), "X-Sum: 1", "trailers pass");
            assert_eq!(peer.read_line(), "");
            content
        } else {
            peer.read_exactly(MORE)
        };
        assert!(received == content, "the bytes differ");
        sending.join().unwrap();
        answers(&mut client, &mut peer);
        goes_on(&mut client, &mut peer);
    }
}

#[test]
fn with_a_folder_bodies_of_any_length_are_kept() {
    const MORE: usize = 3 << 20;
    let (upstream, folder) = (Upstream::everywhere(), tempfile::tempdir().unwrap());
    let endpoints = [upstream.endpoint(1), upstream.endpoint(2)];
    let opened = std::fs::File::open(folder.path()).unwrap().into();
    let world = World::http_with_folder(Some(opened), &endpoints, |model| forward(model, buffering));
    let (content, mut client) = (content(MORE), world.http_client());
    client.send(CHUNKED);
    client.send(chunked(&content));
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains(&format!("\r\nContent-Length: {MORE}\r\n")), "{head}");
    peer.read_exactly(1000);
    drop(peer);
    let (mut peer, _) = upstream.accept_request();
    assert!(peer.read_exactly(MORE) == content, "the bytes differ");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "its file has no name");
    answers(&mut client, &mut peer);
}

#[test]
fn grpc_is_never_held_back() {
    let upstream = Upstream::new();
    let world = world(&upstream, buffering);
    let mut client = world.http_client();
    let grpc = CHUNKED.replace("Host:", "Content-Type: application/grpc+proto\r\nHost:");
    client.send([&grpc, "3\r\nabc\r\n"].concat());
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(8), b"3\r\nabc\r\n");
}

#[test]
fn an_answer_before_the_end_of_the_body_leaves_no_connection_behind() {
    // More than the sockets take that nobody reads from.
    const LONGER: usize = 24 << 20;
    let upstream = Upstream::new();
    let world = world(&upstream, |forward| forward.transfer.request_buffer_bytes = Some(LONGER as u64));
    let mut client = world.http_client();
    client.send(format!("PUT /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONGER}\r\n\r\n"));
    client.send(content(LONGER));
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    client.send(GET);
    let (mut next, _) = upstream.accept_request();
    answers(&mut client, &mut next);
    drop(peer);
}

#[test]
fn an_endpoint_of_http_1_0_gets_a_length_and_one_request() {
    let upstream = Upstream::new();
    let world = world(&upstream, |forward| forward.transfer.uses_http_1_0 = true);
    let mut client = world.http_client();
    client.send([CHUNKED, "3\r\nabc\r\n0\r\n\r\n"].concat());
    let (mut peer, head) = upstream.accept_request();
    assert!(head.starts_with("PUT /a HTTP/1.0\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Length: 3\r\n") && !head.contains("Connection"), "{head}");
    assert_eq!(peer.read_exactly(3), b"abc");
    peer.send("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert!(matches!(peer.ending(), Ending::Reset | Ending::Closed));
    client.send(GET);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.starts_with("GET /a HTTP/1.0\r\n"), "{head}");
    peer.send("HTTP/1.0 200 OK\r\n\r\nok");
    drop(peer);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn an_endpoint_of_http_1_0_gets_no_body_that_there_is_no_room_for() {
    let upstream = Upstream::new();
    let world = world(&upstream, |forward| forward.transfer.uses_http_1_0 = true);
    let mut client = world.http_client();
    client.send(CHUNKED);
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || sender.try_send(chunked(&content(3 << 20))));
    assert_eq!(client.read_response().status, 500);
    await_fault(&world, "body_unheld");
    assert!(upstream.is_left_alone());
    let _ = sending.join();
}
