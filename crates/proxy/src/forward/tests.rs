//! Requests that are forwarded to endpoints on loopback, which play a script.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::{JoinHandle, spawn};

use model::{Action, Forward, RetryOn, RetryPolicy};
use testkit::Refusing;

use super::forward;
use crate::admit::Target;
use crate::request::AfterRequest;
use crate::testing::{self, TWO, World, outcome, rest, route};

const FIRST: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
const SECOND: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
/// The endpoint closes the connection once it has the request.
const CLOSES: &str = "";

struct Endpoint {
    address: SocketAddr,
    /// The requests that it has received, once the script is over.
    requests: JoinHandle<Vec<String>>,
}

/// An endpoint that accepts a connection for each list, and sends the responses in it, each after a request.
fn endpoint(script: &[&[&'static str]]) -> Endpoint {
    let script: Vec<_> = script.iter().map(|responses| responses.to_vec()).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let play = move || {
        let mut requests = Vec::new();
        for responses in script {
            let (mut connection, _) = listener.accept().unwrap();
            for response in responses {
                let mut bytes = vec![0; 1 << 12];
                let len = connection.read(&mut bytes).unwrap();
                requests.push(String::from_utf8_lossy(&bytes[..len]).into_owned());
                connection.write_all(response.as_bytes()).unwrap();
            }
        }
        requests
    };
    Endpoint { address, requests: spawn(play) }
}

fn world(retry: RetryPolicy, endpoints: impl IntoIterator<Item = SocketAddr>) -> World {
    let forward = Forward { retry: retry.into(), ..testing::forward(TWO) };
    World::served_by(route("/", Action::Forward(forward)), endpoints.into_iter())
}

/// Forwards a request. Returns what comes of it, the text that the client is sent, and the statuses of the
/// tries.
fn ask(world: &World, lines: &str, body: &str) -> Forwarded {
    world.admitted(lines, |admitted, target| {
        let Ok(Target::Endpoints(forwarding, cluster)) = target else { panic!("the route has endpoints") };
        let mut rest = rest(world, body.as_bytes());
        let passed = world.block_on(forward(&admitted, forwarding, cluster, &mut rest));
        let next = passed.result.as_ref().ok().copied();
        let tries = admitted.report.tries.borrow();
        Forwarded {
            outcome: outcome(&passed.result),
            next,
            sent: world.sent(),
            statuses: tries.iter().map(|one| one.status).collect(),
        }
    })
}

struct Forwarded {
    outcome: String,
    next: Option<AfterRequest>,
    sent: String,
    /// Of the tries; none for a try without a response.
    statuses: Vec<Option<u16>>,
}

fn content(sent: &str) -> &str {
    sent.split_once("\r\n\r\n").map_or("", |(_, content)| content)
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let one = endpoint(&[&[FIRST, SECOND]]);
    let world = world(RetryPolicy::default(), [one.address]);
    for expected in ["first", "second"] {
        let got = ask(&world, "GET /path", "");
        assert_eq!((content(&got.sent), got.next), (expected, Some(AfterRequest::KeepAlive)));
        assert_eq!(got.statuses, [Some(200)]);
    }
    let requests = one.requests.join().unwrap();
    assert!(requests.iter().all(|request| request.starts_with("GET /path HTTP/1.1\r\n")), "{requests:?}");
}

#[test]
fn a_dead_connection_is_replaced_within_the_try() {
    let one = endpoint(&[&[FIRST, CLOSES], &[SECOND]]);
    let world = world(RetryPolicy { tries: Some(1), ..RetryPolicy::default() }, [one.address]);
    assert_eq!(content(&ask(&world, "GET /", "").sent), "first");
    let got = ask(&world, "GET /again", "");
    assert_eq!((content(&got.sent), got.statuses), ("second", vec![Some(200)]));
    let requests = one.requests.join().unwrap();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[1], requests[2], "the same request goes to the fresh connection");
}

#[test]
fn a_request_that_may_have_had_an_effect_is_not_repeated_on_a_fresh_connection() {
    let one = endpoint(&[&[FIRST, CLOSES]]);
    let world = world(RetryPolicy::default(), [one.address]);
    assert_eq!(content(&ask(&world, "GET /", "").sent), "first");
    let got = ask(&world, "POST /\nContent-Length: 4", "body");
    assert_eq!((got.outcome.as_str(), got.sent.as_str()), ("UpstreamReset", ""));
    assert_eq!(one.requests.join().unwrap().len(), 2);
}

#[test]
fn a_body_is_sent_again_with_the_next_try() {
    let one = endpoint(&[&[UNAVAILABLE], &[FIRST]]);
    let on = RetryOn { statuses: vec![503], ..RetryOn::default() };
    let world = world(RetryPolicy { on, ..RetryPolicy::default() }, [one.address]);
    let got = ask(&world, "PUT /\nTransfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n");
    assert_eq!((content(&got.sent), got.statuses), ("first", vec![Some(503), Some(200)]));
    let requests = one.requests.join().unwrap();
    assert_eq!(content(&requests[0]), "4\r\nbody\r\n0\r\n\r\n");
    assert_eq!(requests[0], requests[1]);
}

#[test]
fn the_response_of_the_last_try_is_for_the_client() {
    let one = endpoint(&[&[UNAVAILABLE], &[UNAVAILABLE]]);
    let on = RetryOn { statuses: vec![503], ..RetryOn::default() };
    let world = world(RetryPolicy { on, tries: Some(2), ..RetryPolicy::default() }, [one.address]);
    let got = ask(&world, "GET /", "");
    assert!(got.sent.starts_with("HTTP/1.1 503 "), "{}", got.sent);
    assert_eq!((got.outcome.as_str(), got.statuses), ("goes on", vec![Some(503), Some(503)]));
    assert_eq!(one.requests.join().unwrap().len(), 2);
}

#[test]
fn without_a_listening_endpoint_the_tries_run_out() {
    let refusing = [(); 2].map(|()| Refusing::default());
    let world = world(RetryPolicy::default(), refusing.each_ref().map(Refusing::address));
    let got = ask(&world, "GET /", "");
    assert_eq!((got.outcome.as_str(), got.sent.as_str()), ("ConnectRefused", ""));
    assert_eq!(got.statuses, [Some(502); 3]);
}

#[test]
fn a_response_that_is_none_fails_the_request() {
    for response in
        ["HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"]
    {
        let one = endpoint(&[&[response]]);
        let world = world(RetryPolicy::default(), [one.address]);
        let got = ask(&world, "GET /", "");
        assert_eq!((got.outcome.as_str(), got.sent.as_str()), ("UpstreamBadResponse", ""), "{response}");
    }
}

#[test]
fn a_connection_with_more_than_the_response_is_not_used_again() {
    let one = endpoint(&[&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst, and more"], &[SECOND]]);
    let world = world(RetryPolicy::default(), [one.address]);
    assert_eq!(content(&ask(&world, "GET /", "").sent), "first");
    assert_eq!(content(&ask(&world, "GET /", "").sent), "second");
}

#[test]
fn a_response_up_to_the_end_of_its_connection_ends_the_client_s_too() {
    let one = endpoint(&[&["HTTP/1.0 200 OK\r\n\r\nold"]]);
    let world = world(RetryPolicy::default(), [one.address]);
    let got = ask(&world, "GET / HTTP/1.0", "");
    assert_eq!((content(&got.sent), got.next), ("old", Some(AfterRequest::Close)));
}
