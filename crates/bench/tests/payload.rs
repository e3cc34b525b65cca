//! The payload server, tested with raw bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bench::payload::{Payload, RESOURCES};

fn payload() -> Payload {
    Payload::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port")
}

/// Sends `bytes`, and returns everything up to the end of the connection.
fn exchange(payload: &Payload, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(payload.local_addr()).expect("it listens");
    stream.write_all(bytes).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it closes");
    answer
}

fn get(payload: &Payload, target: &str) -> String {
    exchange(payload, format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

#[test]
fn static_bodies_have_their_sizes() {
    let payload = payload();
    for (target, size) in [("/0", 0), ("/", 1024), ("/1kb", 1024), ("/10k", 10_240), ("/1m", 1_048_576)] {
        let answer = get(&payload, target);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{target}");
        assert!(answer.contains(&format!("Content-Length: {size}\r\n")), "{target}");
        assert_eq!(body(&answer).len(), size, "{target}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let answer = exchange(
        &payload(),
        b"GET /status/201 HTTP/1.1\r\n\r\nGET /delay/20 HTTP/1.1\r\n\r\nPOST /0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
          3\r\nabc\r\n0\r\n\r\nGET /status/404 HTTP/1.1\r\nConnection: close\r\n\r\n",
    );
    let statuses: Vec<_> = answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["201", "200", "200", "404"]);
    assert!(answer.contains("delayed by 20 ms"));
}

#[test]
fn head_gets_no_body() {
    let answer = exchange(&payload(), b"HEAD /1m HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("Content-Length: 1048576\r\n") && answer.ends_with("\r\n\r\n"));
}

#[test]
fn http_1_0_closes_unless_it_is_asked_not_to() {
    let payload = payload();
    assert!(exchange(&payload, b"GET /0 HTTP/1.0\r\n\r\n").contains("Connection: close\r\n"));
    let kept = exchange(
        &payload,
        b"GET /0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /chunked/2 HTTP/1.0\r\n\r\n",
    );
    assert!(kept.contains("Connection: keep-alive\r\n"));
    assert!(kept.ends_with("\r\n\r\n0123456789abcde\n0123456789abcde\n"), "{kept}");
}

#[test]
fn echo_tells_the_request() {
    let answer = exchange(
        &payload(),
        b"PUT /echo?q=1 HTTP/1.1\r\nhost: x\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    );
    let seen: serde_json::Value = serde_json::from_str(body(&answer)).expect("JSON");
    assert_eq!(seen["method"], "PUT");
    assert_eq!(seen["target"], "/echo?q=1");
    assert_eq!(seen["version"], "HTTP/1.1");
    assert_eq!(seen["headers"][1], serde_json::json!(["X-A", "1"]));
    assert_eq!(seen["headers"][2], serde_json::json!(["x-a", "2"]));
    assert_eq!((&seen["body_bytes"], &seen["body"]), (&5.into(), &"hello".into()));
    assert!(seen["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
}

#[test]
fn chunks_are_chunks() {
    let answer = get(&payload(), "/chunked/2");
    assert!(answer.contains("Transfer-Encoding: chunked\r\n"));
    assert_eq!(body(&answer), "10\r\n0123456789abcde\n\r\n10\r\n0123456789abcde\n\r\n0\r\n\r\n");
}

#[test]
fn a_slow_body_comes_whole_and_a_delay_holds_up_nobody_else() {
    let payload = payload();
    let mut delayed = TcpStream::connect(payload.local_addr()).expect("it listens");
    delayed.write_all(b"GET /delay/60000 HTTP/1.1\r\n\r\n").expect("it reads");
    let start = Instant::now();
    assert_eq!(body(&get(&payload, "/slow/2")).len(), 32);
    assert!((Duration::from_millis(200)..Duration::from_secs(30)).contains(&start.elapsed()));
}

#[test]
fn a_client_that_expects_100_gets_it_first() {
    let payload = payload();
    let mut stream = TcpStream::connect(payload.local_addr()).expect("it listens");
    let head = b"POST /0 HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    stream.write_all(head).expect("it reads");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    stream.write_all(b"hi").expect("it reads");
    let mut answer = String::new();
    reader.read_to_string(&mut answer).expect("it closes");
    assert!(answer.starts_with("\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn what_is_no_request_is_refused() {
    let payload = payload();
    for bytes in
        [&b"\0\r\n\r\n"[..], b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"]
    {
        assert!(exchange(&payload, bytes).starts_with("HTTP/1.1 400 "));
    }
}

#[test]
fn counts_are_told() {
    let payload = payload();
    get(&payload, "/0");
    let counts: serde_json::Value = serde_json::from_str(body(&get(&payload, "/count"))).expect("JSON");
    assert_eq!((&counts["requests"], &counts["accepted"]), (&2.into(), &2.into()));
    assert_eq!((payload.counts().requests, payload.counts().accepted), (2, 2));
}

#[test]
fn every_listed_resource_is_there() {
    let payload = payload();
    for (target, _) in RESOURCES {
        let target = target.replace("CODE", "200").replace("MS", "1").replace('N', "2");
        assert!(get(&payload, &target).starts_with("HTTP/1.1 200 "), "{target}");
    }
}
