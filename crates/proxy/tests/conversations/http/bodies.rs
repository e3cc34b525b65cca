//! Bodies: lengths, chunks, ends of connections, both ways.

use testkit::{Connection, Ending, Upstream};

use super::{GET, OK, goes_on};
use crate::world::World;

/// More than is copied.
const LARGE: usize = 1 << 20;

/// Both ends of a request that has reached the endpoint.
fn asked(request: &str) -> (World, Connection, Connection) {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let mut client = world.http_client();
    client.send(request);
    let (peer, _) = upstream.accept_request();
    (world, client, peer)
}

#[test]
fn a_large_body_of_known_length_arrives_whole_and_the_connections_go_on() {
    let (_world, mut client, mut peer) = asked(GET);
    let body: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let (mut sender, sent) = (peer.sender(), body.clone());
    let sending = std::thread::spawn(move || {
        sender.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
        sender.send(sent);
    });
    client.read_head();
    assert!(client.read_exactly(LARGE) == body, "the bytes differ");
    sending.join().unwrap();
    goes_on(&mut client, &mut peer);
}

#[test]
fn chunks_pass_as_they_come_with_their_trailers() {
    let (_world, mut client, mut peer) = asked(GET);
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n");
    assert!(client.read_head().contains("\r\nTransfer-Encoding: chunked\r\n"));
    assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    peer.send("2\r\nde\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(client.read_exactly(22), b"2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n");
    goes_on(&mut client, &mut peer);
}

#[test]
fn a_client_of_http_1_0_gets_chunks_taken_apart() {
    let (_world, mut client, mut peer) = asked("GET /a HTTP/1.0\r\nHost: web.test\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert!(!client.read_head().contains("Transfer-Encoding"));
    assert_eq!(client.read_to_end(), (b"abcde".to_vec(), Ending::Closed));
}

#[test]
fn a_body_up_to_the_end_of_the_connection_goes_in_chunks() {
    let (_world, mut client, mut peer) = asked(GET);
    peer.send("HTTP/1.1 200 OK\r\n\r\nabc");
    drop(peer);
    let response = client.read_response();
    assert_eq!((response.said(), response.header("Connection")), ((200, "abc"), None));
}

#[test]
fn a_body_that_is_cut_off_is_not_taken_for_whole() {
    for head in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
        let (world, mut client, mut peer) = asked(GET);
        peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nabc"));
        client.read_head();
        drop(peer);
        client.read_to_end();
        super::await_fault(&world, "upstream_reset");
        assert!(world.stop().contains("\" 200 "), "its status is the one that was sent");
    }
}

#[test]
fn a_body_is_sent_up_while_the_answer_comes_down() {
    let head = format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LARGE}\r\n\r\nfirst");
    let (_world, mut client, mut peer) = asked(&head);
    assert_eq!(peer.read_exactly(5), b"first");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
    client.read_head();
    assert_eq!(client.read_exactly(7), b"2\r\nhi\r\n");
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || sender.send(vec![b'x'; LARGE - 5]));
    assert!(peer.read_exactly(LARGE - 5).iter().all(|&byte| byte == b'x'));
    sending.join().unwrap();
    peer.send("0\r\n\r\n");
    assert_eq!(client.read_exactly(5), b"0\r\n\r\n");
    // An answer that came before its request says nothing of the next one.
    assert_eq!(peer.ending(), Ending::Reset);
}

#[test]
fn a_refusal_before_the_body_has_come_closes_the_connection() {
    let (_world, mut client, mut peer) =
        asked("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 400000\r\n\r\nfirst");
    peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    let response = client.read_response();
    assert_eq!((response.status, response.header("Connection").as_deref()), (413, Some("close")));
    client.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    drop(peer);
}

#[test]
fn more_than_was_announced_is_no_beginning_of_a_next_response() {
    let (_world, mut client, mut peer) = asked(GET);
    peer.send([OK, "HTTP/1.1 200 OK\r\n"].concat());
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(peer.ending(), Ending::Reset);
}
