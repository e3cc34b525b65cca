//! Upgrades of the binary in which the number of workers changes, to more and to fewer: the sockets and the
//! connections of a worker that the successor does not have, and workers that the predecessor did not have.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::{Canned, Connection, Forebay, H3Client, Setup, TlsClient, Upstream};

use crate::FOREBAY;
use crate::http3_rolling::{H3Loop, await_again, await_more};
use crate::successor::{Client, Download, end, send, successor_of};

/// Numbers of workers of processes that replace one another.
const NUMBERS: [u32; 4] = [2, 4, 1, 3];

/// A folder with the program under names of its own, one for each process. A successor is started from the
/// path of the process before: a script is put there, which adds an argument.
struct Programs {
    folder: TempDir,
    process: i32,
    number: u32,
}

impl Programs {
    fn new() -> Self {
        let programs = Self { folder: tempfile::tempdir().unwrap(), process: 0, number: 0 };
        programs.place();
        programs
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("forebay-{}", self.number))
    }

    /// Puts the program at the path of its number. No descriptor of this process is open for it at any time:
    /// the child of another test could keep that, and the program could not be started.
    fn place(&self) {
        run("cp --link \"$0\" \"$1\" 2>/dev/null || cp \"$0\" \"$1\"", &[FOREBAY.into(), self.path()]);
    }

    /// Starts the first process, which is `first` with this program.
    fn start(&mut self, setup: Setup) -> Forebay {
        let forebay = setup.start();
        self.process = forebay.pid().as_raw_nonzero().get();
        forebay
    }

    /// Has the present process replaced by one with so many workers.
    fn upgrade(&mut self, forebay: &Forebay, workers: u32) {
        let before = self.path();
        self.number += 1;
        self.place();
        let text = format!("#!/bin/sh\\nexec %s \"$@\" --workers={workers}\\n");
        let script =
            format!("printf '{text}' \"$1\" > \"$0.new\"; chmod +x \"$0.new\"; mv \"$0.new\" \"$0\"");
        run(&script, &[before, self.path()]);
        send(self.process, Signal::USR2);
        self.process = successor_of(forebay, self.process);
        forebay.await_log(&format!(" workers={workers} "));
    }
}

fn run(script: &str, paths: &[PathBuf]) {
    let status = Command::new("sh").args(["-ec", script]).args(paths).status().expect("a shell");
    assert!(status.success(), "{script}: {status}");
}

fn setup(programs: &Programs) -> Setup {
    Setup::new(programs.path())
        .tls("web.test")
        .setting("forebay-http3", "on")
        .setting("ssl-redirect", "false")
        .setting("keep-alive-requests", "1000000")
        .arguments(["--shutdown-grace-period=1".to_owned(), format!("--workers={}", NUMBERS[0])])
}

/// Packets of HTTP/3 that were handed to others.
fn packets(admin: &mut Connection, result: &str) -> u64 {
    Forebay::metrics_over(admin).sum("forebay_http3_forwarded_packets_total", &[("result", result)])
}

/// Waits until a process has ended, which may not have been waited for.
fn await_end(forebay: &Forebay, process: i32) {
    forebay.await_that("the end of the process before", || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
    });
}

#[test]
fn upgrades_to_more_and_fewer_workers_lose_no_request() {
    let (upstream, mut programs) = (Canned::saying("ok"), Programs::new());
    let forebay = programs.start(setup(&programs).endpoint(upstream.address()));
    let (http, https) = (forebay.address(), forebay.https_address());
    let connect = move || TlsClient::new("web.test").connect(https);
    let plain = [true, true, false].map(|keeps| Client::start(move || Connection::to(http), keeps));
    let over_tls = [true, false].map(|keeps| Client::start(connect, keeps));
    let over_quic = [(); 4].map(|()| H3Loop::start(move || https));
    let await_all = |forebay: &Forebay| {
        plain.iter().chain(&over_tls).for_each(|client| client.await_more(forebay));
        await_more(&over_quic, forebay);
    };
    for workers in NUMBERS.into_iter().skip(1) {
        await_all(&forebay);
        programs.upgrade(&forebay, workers);
    }
    await_all(&forebay);
    await_again(&over_quic, &forebay);
    plain.into_iter().chain(over_tls).for_each(Client::stop);
    for client in over_quic {
        client.stop();
    }
    end(forebay, programs.process);
}

/// After its handshake, no packet of a connection is handed from worker to worker.
#[test]
fn the_kernel_selects_workers_by_their_new_number() {
    let (upstream, mut programs) = (Canned::saying("ok"), Programs::new());
    let forebay = programs.start(setup(&programs).endpoint(upstream.address()));
    for workers in NUMBERS.into_iter().skip(1) {
        let before = programs.process;
        programs.upgrade(&forebay, workers);
        // Until then it may take new connections, and answer at the admin port.
        await_end(&forebay, before);
        let tls = TlsClient::new("web.test");
        let clients = [(); 8].map(|()| H3Client::connect(forebay.https_address(), &tls));
        let ask_all = |times: usize| {
            for client in clients.iter().cycle().take(times * clients.len()) {
                assert_eq!(client.get("web.test", "/").said(), (200, "ok"));
            }
        };
        ask_all(5);
        let mut admin = Connection::to(forebay.admin_address());
        let handed = packets(&mut admin, "worker");
        ask_all(10);
        assert_eq!(packets(&mut admin, "worker"), handed, "with {workers} workers");
    }
    end(forebay, programs.process);
}

/// Each process has downloads of all its workers when it is replaced, whose clients send from another port
/// then.
#[test]
fn downloads_of_workers_that_are_no_more_go_on() {
    let (upstream, mut programs) = (Upstream::new(), Programs::new());
    let setup = setup(&programs).annotation("proxy-buffering", "off").endpoint(upstream.address());
    let forebay = programs.start(setup);
    let mut downloads = Vec::new();
    for workers in NUMBERS {
        if workers != NUMBERS[0] {
            programs.upgrade(&forebay, workers);
        }
        downloads.extend((0..4).map(|_| Download::begin(&forebay, &upstream)));
    }
    Download::finish(&mut downloads);
    forebay.await_that("packets of the process before", || {
        packets(&mut Connection::to(forebay.admin_address()), "process") > 0
    });
    drop(downloads);
    end(forebay, programs.process);
}
