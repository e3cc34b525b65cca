//! A worker whose thread panics: the process notices it at once and ends, so that it is started anew.
//!
//! Must not be in here: connections that panic, which end alone.

#![cfg(debug_assertions)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::{Forebay, Upstream};

use crate::{GET, OK, setup};

/// Connections, so many that each of two workers has some.
const CONNECTIONS: usize = 24;

/// The process ends five seconds after the fault; a machine that has not let the test go on by then says
/// nothing about the other worker.
const SOON: Duration = Duration::from_secs(3);

/// The metrics, if the process has not ended.
fn metrics(forebay: &Forebay) -> Option<String> {
    let mut text = String::new();
    let mut admin = TcpStream::connect(forebay.admin_address()).ok()?;
    admin.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    admin.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A debug build has a worker panic on SIGUSR1.
#[test]
fn a_worker_that_panics_ends_the_process_and_the_others_finish_their_requests() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .arguments(["--workers=2", "--shutdown-grace-period=600"])
        .start();
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = forebay.client();
            client.send(GET);
            client
        })
        .collect();
    let mut peers: Vec<_> = (0..CONNECTIONS).map(|_| upstream.accept_request().0).collect();
    let begun = Instant::now();
    forebay.signal(Signal::USR1);
    let line = forebay.await_log("a worker has ended by a fault");
    assert!(line.contains("worker=0"), "{line}");
    let metrics = metrics(&forebay);
    for peer in &mut peers {
        // The worker that has ended has closed its own.
        let _ = peer.try_send(OK);
    }
    let answered = clients.iter_mut().map(|client| client.read_to_end().0);
    let answered = answered.filter(|answer| answer.ends_with(b"ok")).count();
    let took = begun.elapsed();
    let ended = forebay.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("thread 'worker 0'"), "{}", ended.stderr);
    assert!(answered < CONNECTIONS, "a worker has ended");
    if took < SOON {
        assert!(answered > 0, "the other worker goes on");
        let metrics = metrics.expect("the admin server answers");
        assert!(metrics.lines().any(|line| line.starts_with("forebay_panics_total") && line.ends_with(" 1")));
    }
}
