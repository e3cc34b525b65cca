//! The generator against the payload server: the number of requests that one sent has to be the number that
//! the other counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use bench::generator::{
    self, Errors, Expect, GeneratorError, Outcome, Pace, Phases, Plan, Progress, Protocol, Status,
};
use bench::h2c::H2c;
use bench::payload::{Counts, Payload};
use socket2::{Domain, Socket, Type};

const LONG: Duration = Duration::from_mins(1);
const KILOBYTE: Expect = Expect { status: Status::Is(200), body_bytes: Some(1024) };

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Runs a plan on `path` against a payload server. Returns the generator's outcome and the server's counters.
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
        plan.duration = Duration::from_secs(1);
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
fn variants_take_turns() {
    let lengths = |outcome: &Outcome| (outcome.answered, outcome.body_bytes);
    for requests_per_connection in [None, Some(1), Some(2)] {
        let (outcome, _) = run("/{}", |plan| {
            plan.variants = ["0", "1k", "10k"].map(Into::into).into();
            (plan.connections, plan.requests_per_connection) = (2, requests_per_connection);
            (plan.requests, plan.duration) = (Some(30), LONG);
        });
        assert_eq!(lengths(&outcome), (30, 110 * 1024), "{requests_per_connection:?}");
    }
    let outcome = run_h2("/{}", 3, |plan| {
        plan.variants = ["0", "1k"].map(Into::into).into();
        (plan.requests, plan.duration) = (Some(30), LONG);
    });
    assert_eq!(lengths(&outcome), (30, 15 * 1024));
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
        plan.pace = Pace::Open { rate_per_second: 200.0 };
        plan.duration = Duration::from_millis(2500);
    });
    assert_eq!((outcome.errors, outcome.unfinished), (Errors::default(), 0));
    // A request that is due near the end may find no free connection if the machine is busy.
    assert_eq!((outcome.answered + outcome.unsent, counts.requests), (500, outcome.answered));
    assert!(outcome.answered > 400, "{}", outcome.unsent);
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
    // One connection can carry 20 requests per second, but 100 are due.
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
fn phases_are_told() {
    let (outcome, _) = run("/delay/20", |plan| (plan.requests, plan.duration) = (Some(3), LONG));
    let Phases { connect, tls, first_byte, body } = &outcome.phases;
    assert!(!connect.is_empty() && tls.is_empty());
    assert!(first_byte.percentile(50.0) >= Duration::from_millis(20));
    assert!(body.max() < first_byte.max(), "an answer in one piece");
    let (outcome, _) = run("/slow/2", |plan| (plan.requests, plan.duration) = (Some(1), LONG));
    assert!(outcome.phases.body.max() >= Duration::from_millis(90), "its second piece is 100 ms late");
    assert_eq!(outcome.body_bytes, 32);
}

#[test]
fn whoever_watches_sees_all_in_the_end() {
    let payload = Payload::bind(any_port(), 1).expect("a free port");
    let plan = Plan {
        requests: Some(40),
        duration: LONG,
        threads: 2,
        connections: 2,
        ..Plan::new(payload.local_addr(), "/1k")
    };
    let progress = Progress::default();
    let outcome = generator::run_watched(&plan, &progress).expect("the server listens");
    let seen = progress.read();
    assert_eq!((seen.answered, seen.failed, seen.connections_opened), (40, 0, outcome.connections_opened));
    assert_eq!(seen.body_bytes, 40 * 1024);
}

#[test]
fn connections_are_spread_over_all_targets() {
    let servers = [(); 3].map(|()| Payload::bind(any_port(), 1).expect("a free port"));
    let targets = servers.iter().map(Payload::local_addr).collect();
    let plan = Plan {
        targets,
        requests: Some(60),
        duration: LONG,
        threads: 2,
        connections: 6,
        path: "/1k".into(),
        ..Plan::default()
    };
    let outcome = generator::run(&plan).expect("they listen");
    assert_eq!(outcome.answered, 60);
    assert_eq!(servers.each_ref().map(|server| server.counts().accepted), [2; 3]);
}

#[test]
fn statuses_are_judged_and_told() {
    let fine = |plan: &mut Plan| {
        (plan.requests, plan.duration, plan.expect.status) = (Some(10), LONG, Status::Fine);
    };
    for (path, answered) in [("/status/204", 10), ("/status/304", 10), ("/status/404", 0), ("/status/503", 0)]
    {
        assert_eq!(run(path, fine).0.answered, answered, "{path}");
    }
    assert_eq!(run("/status/503", fine).0.statuses, [(503, 10)].into());
}

/// Runs a plan on `path` against an HTTP/2 server.
fn run_h2(path: &str, streams: usize, adjust: impl FnOnce(&mut Plan)) -> Outcome {
    let server = H2c::bind(any_port()).expect("a free port");
    let mut plan = Plan::new(server.local_addr(), path);
    plan.protocol = Protocol::Http2 { streams };
    adjust(&mut plan);
    let outcome = generator::run(&plan).expect("the server listens");
    assert_eq!(outcome.sent, outcome.answered + outcome.errors.total() + outcome.unfinished);
    outcome
}

#[test]
fn http2_carries_streams_beside_each_other() {
    for (path, body_bytes) in [("/1k", 1024), ("/1m", 1 << 20), ("/0", 0)] {
        let outcome = run_h2(path, 10, |plan| {
            (plan.connections, plan.threads, plan.requests, plan.duration) = (3, 2, Some(200), LONG);
            plan.expect.body_bytes = Some(body_bytes);
        });
        assert_eq!((outcome.answered, outcome.connections_opened), (200, 3), "{path}: {:?}", outcome.errors);
        assert_eq!(outcome.body_bytes, 200 * body_bytes);
    }
}

#[test]
fn http2_keeps_an_open_pace() {
    let outcome = run_h2("/1k", 4, |plan| {
        // There are enough connections that one is always free, however slow the machine is.
        (plan.connections, plan.pace) = (50, Pace::Open { rate_per_second: 1000.0 });
        plan.duration = Duration::from_millis(200);
    });
    assert_eq!((outcome.answered, outcome.unsent), (200, 0), "{:?}", outcome.errors);
}

#[test]
fn http2_opens_a_connection_for_each_request_where_it_is_told_to() {
    let outcome = run_h2("/1k", 1, |plan| {
        (plan.connections, plan.requests_per_connection) = (4, Some(1));
        (plan.requests, plan.duration) = (Some(100), LONG);
    });
    assert_eq!((outcome.answered, outcome.connections_opened), (100, 100), "{:?}", outcome.errors);
    assert_eq!(outcome.body_bytes, 100 * 1024);
    assert!(outcome.bytes > outcome.body_bytes);
}

#[test]
fn http2_sends_bodies_and_counts_statuses() {
    let outcome = run_h2("/missing", 2, |plan| {
        (plan.method, plan.body) = ("POST".into(), vec![b'x'; 300_000]);
        (plan.requests, plan.duration) = (Some(10), LONG);
    });
    assert_eq!(outcome.statuses, [(404, 10)].into());
}

#[test]
fn who_speaks_no_http2_answers_nothing() {
    let payload = Payload::bind(any_port(), 1).expect("a free port");
    let plan = Plan {
        requests: Some(5),
        duration: LONG,
        protocol: Protocol::Http2 { streams: 1 },
        ..Plan::new(payload.local_addr(), "/1k")
    };
    let outcome = generator::run(&plan).expect("it takes connections");
    assert_eq!((outcome.answered, outcome.errors.total()), (0, 5), "{:?}", outcome.errors);
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
        (plan.duration, plan.patience) = (Duration::from_secs(1), Duration::ZERO);
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
fn a_server_that_goes_away_is_counted_and_not_drowned() {
    let payload = Payload::bind(any_port(), 1).expect("a free port");
    let plan =
        Plan { connections: 4, duration: Duration::from_secs(3), ..Plan::new(payload.local_addr(), "/1k") };
    let progress = Progress::default();
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| generator::run_watched(&plan, &progress));
        while progress.read().answered == 0 {
            thread::yield_now();
        }
        payload.stop();
        running.join().expect("no panic").expect("it listened once")
    });
    assert!(outcome.answered > 0 && outcome.errors.connect > 0, "{:?}", outcome.errors);
    // Each connection tries again every 10 ms.
    assert!(outcome.errors.connect <= 4 * 301, "{:?}", outcome.errors);
    // The kernel may accept the first connection before the server is gone, and reset it; later ones are
    // refused.
    let failure = outcome.connect_failure.expect("there were some");
    assert!(
        matches!(*failure, GeneratorError::Unreachable { target, .. } if plan.targets == [target]),
        "{failure}"
    );
}

#[test]
fn a_closed_port_is_told_at_once() {
    // The port is nobody else's while the socket lives.
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    held.bind(&any_port().into()).expect("a free port");
    let closed = held.local_addr().ok().and_then(|address| address.as_socket()).expect("it is bound");
    let plan = Plan { duration: LONG, connections: 4, ..Plan::new(closed, "/") };
    let error = generator::run(&plan).expect_err("nothing listens");
    assert!(matches!(error, GeneratorError::Unreachable { target, .. } if target == closed), "{error}");
}
