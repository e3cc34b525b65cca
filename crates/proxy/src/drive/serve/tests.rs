//! Requests from their head to the end of their answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use super::serve;
use crate::request::AfterRequest;
use crate::testing::{EMPTY, TWO, World, rest, route_to};

/// Serves a request. Returns what the client is sent, and what becomes of its connection.
fn served(world: &World, lines: &str, body: &str) -> (String, AfterRequest) {
    world.start(lines, |start, parsed| {
        let mut rest = rest(world, body.as_bytes());
        let next = world.block_on(serve(&world.worker, start, parsed, &mut rest));
        (world.sent(), next)
    })
}

#[test]
fn an_endpoint_s_response_is_the_client_s() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let world = World::served_by(route_to(TWO), [listener.local_addr().unwrap()].into_iter());
    let endpoint = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 1 << 12];
        let len = connection.read(&mut bytes).unwrap();
        connection.write_all(b"HTTP/1.1 201 Created\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok").unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    });
    let (sent, next) = served(&world, "PUT /path?query\nContent-Length: 4", "body");
    assert!(sent.starts_with("HTTP/1.1 201 Created\r\n") && sent.contains("X-Own: 1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nok"), "{sent}");
    assert_eq!(next, AfterRequest::KeepAlive);
    let request = endpoint.join().unwrap();
    assert!(request.starts_with("PUT /path?query HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\nbody"), "{request}");
}

#[test]
fn what_goes_to_no_endpoint_has_an_answer_and_keeps_the_connection() {
    let world = World::of(route_to(EMPTY));
    for (lines, status) in
        [("GET /", "503"), ("GET /healthz\nHost: other.test", "200"), ("GET /\nHost: other.test", "404")]
    {
        let (sent, next) = served(&world, lines, "");
        assert!(sent.starts_with(&format!("HTTP/1.1 {status} ")), "{lines}: {sent}");
        assert_eq!(next, AfterRequest::KeepAlive, "{lines}");
    }
}

#[test]
fn a_target_that_is_no_path_ends_the_connection() {
    let (sent, next) = served(&World::of(route_to(EMPTY)), "GET /../secret", "");
    assert!(sent.starts_with("HTTP/1.1 400 ") && sent.contains("Connection: close\r\n"), "{sent}");
    assert_eq!(next, AfterRequest::Linger);
}

#[test]
fn a_body_that_nobody_reads_ends_the_connection() {
    let (sent, next) = served(&World::of(route_to(EMPTY)), "POST /\nContent-Length: 1000000", "begin");
    assert!(sent.starts_with("HTTP/1.1 503 ") && sent.contains("Connection: close\r\n"), "{sent}");
    assert_eq!(next, AfterRequest::Linger);
}
