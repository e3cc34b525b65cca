//! The generator against the payload server: what one says it sent is what the other counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use bench::generator::{self, Errors, Expect, GeneratorError, Outcome, Pace, Plan};
use bench::payload::{Counts, Payload};

const LONG: Duration = Duration::from_mins(1);
const KILOBYTE: Expect = Expect { status: 200, body_bytes: Some(1024) };

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Carries out the plan on `path` against a payload server; what both saw.
fn run(path: &str, adjust: impl FnOnce(&mut Plan)) -> (Outcome, Counts) {
    let payload = Payload::bind(any_port(), 1).expect("a free port");
    let mut plan = Plan::new(payload.local_addr(), path);
    adjust(&mut plan);
    let outcome = generator::run(&plan).expect("the server listens");
    assert_eq!(outcome.sent, outcome.answered + outcome.errors.total() + outcome.unfinished);
    assert_eq!(outcome.per_second.iter().sum::<u64>(), outcome.answered);
    (outcome, payload.counts())
}

#[test]
fn a_closed_loop_counts_what_the_server_counts() {
    let (outcome, counts) = run("/1k", |plan| {
        (plan.connections, plan.threads, plan.expect) = (8, 2, KILOBYTE);
        plan.duration = Duration::from_millis(200);
    });
    assert!(outcome.is_clean(), "{:?}", outcome.errors);
    assert!(outcome.answered > 8);
    assert_eq!((outcome.sent, outcome.connections_opened), (counts.requests, counts.accepted));
    assert_eq!(counts.accepted, 8);
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    let (outcome, counts) = run("/10k", |plan| {
        (plan.connections, plan.threads) = (3, 2);
        (plan.requests, plan.duration) = (Some(1001), LONG);
    });
    assert_eq!((outcome.answered, counts.requests), (1001, 1001));
    assert!(outcome.bytes > 1001 * 10 * 1024);
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    let (outcome, counts) = run("/1k", |plan| {
        (plan.connections, plan.expect) = (10, KILOBYTE);
        plan.requests_per_connection = Some(1);
        (plan.requests, plan.duration) = (Some(500), LONG);
    });
    assert!(outcome.is_clean(), "{:?}", outcome.errors);
    assert_eq!((outcome.connections_opened, counts.accepted, counts.requests), (500, 500, 500));
    assert_eq!(counts.open, 0, "the server has closed them all");
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may() {
    let (outcome, counts) = run("/0", |plan| {
        plan.requests_per_connection = Some(7);
        (plan.requests, plan.duration) = (Some(70), LONG);
    });
    assert_eq!((outcome.answered, counts.accepted), (70, 10));
}

#[test]
fn an_open_loop_sends_all_that_is_due() {
    let (outcome, counts) = run("/1k", |plan| {
        (plan.connections, plan.threads, plan.expect) = (16, 2, KILOBYTE);
        plan.pace = Pace::Open { rate_per_second: 2000.0 };
        plan.duration = Duration::from_millis(250);
    });
    assert!(outcome.is_clean(), "{:?}", outcome.errors);
    assert_eq!((outcome.answered, counts.requests), (500, 500));
}

#[test]
fn a_burst_uses_every_connection_once() {
    let (outcome, counts) = run("/0", |plan| {
        plan.connections = 50;
        plan.pace = Pace::Bursts { every: Duration::from_millis(5) };
        (plan.requests, plan.duration) = (Some(200), LONG);
    });
    assert_eq!((outcome.answered, counts.requests, counts.accepted), (200, 200, 50));
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    // One connection can carry 20 requests a second, and 100 are due.
    let (outcome, _) = run("/delay/50", |plan| {
        plan.pace = Pace::Open { rate_per_second: 100.0 };
        plan.duration = Duration::from_millis(300);
    });
    assert!(outcome.latency.percentile(1.0) >= Duration::from_millis(50));
    assert!(outcome.latency.max() >= Duration::from_millis(200), "{:?}", outcome.latency.max());
    assert!(outcome.unsent > 0);
    assert_eq!(outcome.sent + outcome.unsent, 30);
}

#[test]
fn an_answer_that_was_not_expected_is_an_error() {
    let ten = |plan: &mut Plan| (plan.requests, plan.duration) = (Some(10), LONG);
    let (outcome, _) = run("/status/503", ten);
    assert_eq!(outcome.errors, Errors { status: 10, ..Errors::default() });
    let (outcome, _) = run("/10k", |plan| {
        ten(plan);
        plan.expect = KILOBYTE;
    });
    assert_eq!((outcome.answered, outcome.errors), (0, Errors { length: 10, ..Errors::default() }));
}

#[test]
fn every_framing_is_checked() {
    for path in ["/chunked/64", "/1k"] {
        let (outcome, _) = run(path, |plan| {
            (plan.requests, plan.duration, plan.expect) = (Some(10), LONG, KILOBYTE);
        });
        assert_eq!(outcome.answered, 10, "{path}: {:?}", outcome.errors);
    }
    let (outcome, _) = run("/1k", |plan| {
        (plan.requests, plan.duration, plan.method) = (Some(10), LONG, "HEAD".into());
        plan.expect.body_bytes = Some(0);
    });
    assert_eq!(outcome.answered, 10);
}

#[test]
fn a_large_request_is_sent_whole() {
    let (outcome, counts) = run("/0", |plan| {
        plan.method = "POST".into();
        plan.body = vec![b'x'; 8 << 20];
        (plan.requests, plan.duration) = (Some(3), LONG);
    });
    assert_eq!((outcome.answered, counts.requests), (3, 3));
}

#[test]
fn what_has_no_answer_when_patience_ends_is_unfinished() {
    let (outcome, _) = run("/delay/60000", |plan| {
        plan.connections = 4;
        (plan.duration, plan.patience) = (Duration::from_millis(50), Duration::ZERO);
    });
    assert_eq!((outcome.answered, outcome.unfinished), (0, 4));
}

/// The outcome of three requests to a server that answers each connection with `bytes` and closes it.
fn against(bytes: &'static [u8]) -> Outcome {
    let listener = TcpListener::bind(any_port()).expect("a free port");
    let plan =
        Plan { requests: Some(3), duration: LONG, ..Plan::new(listener.local_addr().expect("bound"), "/") };
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(bytes);
        }
    });
    generator::run(&plan).expect("the server listens")
}

#[test]
fn an_answer_that_is_cut_off_is_an_error() {
    assert_eq!(against(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").errors.closed, 3);
    assert_eq!(against(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nover").errors.malformed, 3);
    assert_eq!(against(b"").errors.closed, 3);
    assert_eq!(against(b"HTTP/1.0 200 OK\r\n\r\nto the end").answered, 3);
}

#[test]
fn a_closed_port_is_told_at_once() {
    let closed =
        TcpListener::bind(any_port()).and_then(|listener| listener.local_addr()).expect("a free port");
    let plan = Plan { duration: LONG, connections: 4, ..Plan::new(closed, "/") };
    let error = generator::run(&plan).expect_err("nothing listens");
    assert!(matches!(error, GeneratorError::Unreachable { target, .. } if target == closed), "{error}");
}
