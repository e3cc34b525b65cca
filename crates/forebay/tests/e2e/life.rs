//! From start to end: changes that take effect while requests pass, and a stop that loses none.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use testkit::manifest::{Ingress, service};
use testkit::{Canned, Ending, SetOnDrop, Upstream};

use crate::{GET, OK, serving, setup};

#[test]
fn a_request_in_flight_is_finished_and_idle_clients_are_let_go() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut idle = forebay.client();
    idle.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(idle.read_response().status, 200);
    let mut silent = forebay.client();
    let mut busy = forebay.client();
    busy.send(GET);
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi");
    busy.read_head();
    forebay.signal(Signal::TERM);
    assert_eq!(idle.ending(), Ending::Closed);
    assert_eq!(silent.ending(), Ending::Closed);
    peer.send("ne");
    assert_eq!(busy.read_exactly(4), b"fine");
    assert_eq!(busy.ending(), Ending::Closed);
    assert_eq!(forebay.wait().status.code(), Some(0));
}

#[test]
fn the_last_answer_on_a_connection_says_so() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    forebay.signal(Signal::TERM);
    forebay.await_log("stopping");
    assert!(
        std::net::TcpStream::connect(forebay.address()).is_err()
            || forebay.client().ending() == Ending::Closed
    );
    peer.send(OK);
    let response = client.read_response();
    assert_eq!((response.said(), response.header("connection").as_deref()), ((200, "ok"), Some("close")));
    assert_eq!(forebay.wait().status.code(), Some(0));
}

/// Connections that were established before the signal are served, though they were not accepted yet.
#[test]
fn clients_that_wait_to_be_accepted_are_served() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    forebay.signal(Signal::STOP);
    let mut clients: Vec<_> = (0..20).map(|_| forebay.client()).collect();
    for client in &mut clients {
        client.send(GET);
    }
    forebay.signal(Signal::TERM);
    forebay.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.read_response().said(), (200, "hello"));
    }
    assert_eq!(forebay.wait().status.code(), Some(0));
}

/// While it still accepts, connections end one after the other, each with a response.
#[test]
fn connections_part_before_the_end() {
    const CLIENTS: usize = 21;
    let upstream = Canned::saying("hello");
    let forebay =
        setup().endpoint(upstream.address()).arguments(["--shutdown-grace-period=20", "--workers=1"]).start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| forebay.client()).collect();
    let mut ask = |at: usize| {
        let response = clients[at].get("web.test", "/");
        assert_eq!(response.said(), (200, "hello"));
        response.header("connection").is_some_and(|value| value == "close")
    };
    assert!(!(0..CLIENTS).any(&mut ask));
    forebay.signal(Signal::TERM);
    let parted = std::iter::repeat_with(|| (0..CLIENTS).filter(|at| ask(*at)).collect::<Vec<_>>())
        .find(|parted| !parted.is_empty());
    let parted = parted.expect("there is no end to trying");
    assert!(parted.len() < CLIENTS, "all at once");
    assert_eq!(clients[parted[0]].ending(), Ending::Closed);
    assert_eq!(forebay.get("/").said(), (200, "hello"));
}

#[test]
fn requests_that_do_not_end_are_cut_off_in_time() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("worker-shutdown-timeout", "1s").start();
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    forebay.signal(Signal::TERM);
    assert_eq!(forebay.wait().status.code(), Some(0));
    client.read_to_end();
    peer.read_to_end();
}

#[test]
fn a_second_signal_does_not_wait() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (_peer, _) = upstream.accept_request();
    forebay.signal(Signal::TERM);
    forebay.await_log("stopping");
    forebay.signal(Signal::TERM);
    let ended = forebay.wait();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("told to stop again"), "{}", ended.stderr);
}

#[test]
fn an_interrupt_stops_it_as_well() {
    let forebay = setup().start();
    forebay.signal(Signal::INT);
    assert_eq!(forebay.wait().status.code(), Some(0));
}

/// Asks all the while that `change` goes on; no answer may be anything but one of two.
#[test]
fn a_change_takes_effect_and_costs_no_request() {
    let (old, new) = (Canned::saying("old"), Canned::saying("new"));
    let forebay = setup().endpoint(old.address()).arguments(["--workers=2"]).start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = SetOnDrop(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let response = forebay.get("/");
                    assert!(matches!(response.said(), (200, "old" | "new")), "{response:?}");
                }
            });
        }
        for round in 0..10 {
            let (upstream, text) = if round % 2 == 0 { (&new, "new") } else { (&old, "old") };
            forebay.replace("web.yaml", &ingress_to("web.test", &[upstream.address()]));
            forebay.await_that("the change", || forebay.get("/").text() == text);
        }
    });
}

fn ingress_to(host: &str, endpoints: &[std::net::SocketAddr]) -> String {
    Ingress::new("web").path(host, "Prefix", "/", "web").document() + &service("web", endpoints)
}

#[test]
fn files_may_be_edited_added_and_removed() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let answers = |host: &str| forebay.client().get(host, "/").status;
    let file = forebay.manifests().join("more.yaml");
    let more = |host| Ingress::new("more").path(host, "Prefix", "/", "web").document();
    assert_eq!(answers("more.test"), 404);
    std::fs::write(&file, more("more.test")).expect("a file");
    forebay.await_that("the file that was added", || answers("more.test") == 200);
    std::fs::write(&file, more("other.test")).expect("a file");
    forebay.await_that("the file that was edited", || answers("other.test") == 200);
    assert_eq!(answers("more.test"), 404);
    std::fs::remove_file(&file).expect("a file");
    forebay.await_that("the file that was removed", || answers("other.test") == 404);
    assert_eq!(answers("web.test"), 200, "others stand all the while");
}

#[test]
fn a_broken_file_leaves_the_last_good_one_in_force_and_is_reported_once() {
    let (old, new) = (Canned::saying("old"), Canned::saying("new"));
    let forebay = setup().endpoint(old.address()).start();
    forebay.replace("web.yaml", "kind: Ingress\nspec: [\n");
    let line = forebay.await_log("web.yaml:");
    assert!(line.contains(" ERROR ") && line.contains("web.yaml:2"), "{line}");
    assert_eq!(forebay.get("/").said(), (200, "old"));
    // Something else changes, so that all is looked at again.
    forebay.replace("more.yaml", &Ingress::new("more").path("more.test", "Prefix", "/", "web").document());
    forebay.await_that("another file", || forebay.client().get("more.test", "/").status == 200);
    assert_eq!(forebay.get("/").said(), (200, "old"));
    assert_eq!(forebay.log().iter().filter(|line| line.contains("web.yaml:")).count(), 1);
    forebay.replace("web.yaml", &ingress_to("web.test", &[new.address()]));
    forebay.await_that("the mended file", || forebay.get("/").text() == "new");
}

#[test]
fn settings_change_for_the_next_request() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").header("connection"), None);
    let settings = testkit::manifest::settings(&[("keep-alive".to_owned(), "0".to_owned())]);
    forebay.replace("settings.yaml", &settings);
    forebay.await_that("the setting", || forebay.get("/").header("connection").is_some());
    assert_eq!(client.get("web.test", "/").header("connection").as_deref(), Some("close"));
}

/// A request keeps the configuration that it began with.
#[test]
fn a_change_leaves_requests_in_flight_alone() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    forebay.replace("web.yaml", &ingress_to("other.test", &[]));
    forebay.await_that("the host to go", || !forebay.admin("/configuration").text().contains("web.test"));
    assert_eq!(forebay.get("/").status, 404);
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}
