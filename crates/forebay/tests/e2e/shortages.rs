//! Forebay's behaviour when it is short of file descriptors.

use std::fs::{self, DirEntry};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use testkit::{Canned, Connection, Ending, Forebay, Metrics};

use crate::{GET, setup};

/// Lets the process have so many descriptors; as many as this process may have where no number is said.
fn limit(forebay: &Forebay, current: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = current.or(maximum);
    prlimit(Some(forebay.pid()), Resource::Nofile, Rlimit { current, maximum }).expect("it is ours");
}

/// The descriptors that it has open.
fn open(forebay: &Forebay) -> impl Iterator<Item = u64> {
    folder(forebay).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// How many of them stay open: who measures opens files of the kernel for a moment.
fn kept(forebay: &Forebay) -> u64 {
    let is_kept = |path: &PathBuf| !path.starts_with("/proc") && !path.starts_with("/sys");
    folder(forebay).filter_map(|entry| fs::read_link(entry.path()).ok()).filter(is_kept).count() as u64
}

fn folder(forebay: &Forebay) -> impl Iterator<Item = DirEntry> {
    let folder = fs::read_dir(format!("/proc/{}/fd", forebay.pid().as_raw_nonzero())).expect("it runs");
    folder.flatten()
}

#[test]
fn who_finds_no_descriptor_hears_of_it_and_the_next_ones_are_served() {
    let upstream = Canned::saying("hello");
    // Whoever measures opens files, and would leave a descriptor to the next client.
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("forebay-guard", "off")
        .arguments(["--workers=1"])
        .start();
    assert_eq!(forebay.get("/").status, 200);
    // Requests that have begun are not closed to make room. They take what is free below the highest
    // descriptor.
    let highest = open(&forebay).max().unwrap_or(0);
    limit(&forebay, Some(highest + 1));
    let holes = highest + 1 - open(&forebay).count() as u64;
    let begin = |mut client: Connection| {
        let _ = client.try_send("GET / HTTP/1.1\r\n");
        client
    };
    let mut begun: Vec<_> = (0..holes + 16).map(|_| begin(forebay.client())).collect();
    let mut client = forebay.client();
    // An accepted connection replaces one that had not begun yet, or one to the admin server that had yet to
    // end.
    while client.is_quiet_for(Duration::from_millis(500)) {
        begun.push(begin(std::mem::replace(&mut client, forebay.client())));
    }
    let refused = client.read_response();
    assert_eq!((refused.status, refused.header("Connection").as_deref()), (503, Some("close")));
    assert_eq!(client.ending(), Ending::Closed);
    // An alert: internal_error (80), fatal (2).
    let mut over_tls = Connection::to(forebay.https_address());
    while over_tls.is_quiet_for(Duration::from_millis(500)) {
        begun.push(std::mem::replace(&mut over_tls, Connection::to(forebay.https_address())));
    }
    assert_eq!(over_tls.read_exactly(7), [21, 3, 3, 0, 2, 2, 80]);
    assert_eq!(over_tls.ending(), Ending::Closed);
    limit(&forebay, None);
    forebay.await_that("to serve again", || {
        let mut client = forebay.client();
        // A refused connection may be closed before its request is read, and sees an answer or none.
        client.try_send(GET).is_ok() && client.try_read_line().is_ok_and(|line| line.contains(" 200 "))
    });
    drop(begun);
    assert!(forebay.metrics().sum("forebay_guard_spare_descriptor_total", &[]) >= 2);
    let told = forebay.log().iter().filter(|line| line.contains("cannot accept connections")).count();
    assert_eq!(told, 1, "{:#?}", forebay.log());
}

#[test]
fn a_process_that_is_short_says_so_and_refuses_only_where_it_is_told_to() {
    let upstream = Canned::saying("hello");
    for mode in ["watch", "enforce"] {
        let forebay = setup()
            .endpoint(upstream.address())
            .setting("forebay-guard", mode)
            .arguments(["--workers=1"])
            .start();
        let mut client = forebay.client();
        client.send(GET);
        assert_eq!(client.read_response().status, 200);
        // There is no descriptor for another connection later on.
        let mut admin = Connection::to(forebay.admin_address());
        let mut level = || {
            let page = admin.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            Metrics::parse(page.text()).sum("forebay_guard_level", &[("of", "descriptors")])
        };
        assert_eq!(level(), 0);
        // Both connections that a request takes are there.
        let mut least = kept(&forebay);
        limit(&forebay, Some(least));
        let line = forebay.await_log("this process is short of something");
        assert!(line.contains("of=\"descriptors\""), "{line}");
        assert_eq!(line.contains("nothing is done"), mode == "watch", "{line}");
        if mode == "enforce" {
            forebay.await_that("requests to be refused", || {
                // A connection to the admin server may have ended since.
                least = least.min(kept(&forebay));
                limit(&forebay, Some(least));
                client.send(GET);
                let response = client.read_response();
                // Connections are kept for less long before requests are refused.
                if response.header("Connection").as_deref() == Some("close") {
                    client = forebay.client();
                }
                response.status == 503 && response.header("Retry-After").is_some()
            });
        } else {
            client.send(GET);
            assert_eq!(client.read_response().status, 200);
        }
        assert!(level() > 0);
    }
}
