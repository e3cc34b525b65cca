//! `forebay abuse`, against a Forebay with two workers. What becomes of clients is in the conversations of
//! `proxy`.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use testkit::{Canned, Connection, Ending, Forebay, TlsClient, Upstream};

use crate::commands::run;
use crate::{GET, OK, setup};

const ABUSER: &str = "203.0.113.9";

/// Connections over which the client asks at a time: one of them alone would do little once it is slowed.
const CONNECTIONS: usize = 40;

fn command(forebay: &Forebay, arguments: &[&str]) -> (i32, String, String) {
    let admin = format!("--admin=http://{}", forebay.admin_address());
    run(&[&["abuse"], arguments, &[&admin]].concat())
}

fn list(forebay: &Forebay) -> Value {
    let (code, stdout, stderr) = command(forebay, &["list", "--output=json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    serde_json::from_str(&stdout).expect("JSON")
}

fn ask_as(connection: &mut Connection, client: &str, host: &str) {
    connection.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {client}\r\n\r\n"));
}

#[test]
fn who_is_refused_is_listed_and_released() {
    let upstream = Canned::saying("hello");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("forebay-abuse", "enforce")
        .setting("use-forwarded-headers", "true")
        .setting("keep-alive-requests", "1000000")
        .arguments(["--workers=2"])
        .start();
    assert_eq!(list(&forebay)["clients"], serde_json::json!([]), "nobody has been noticed");
    let (code, stdout, _) = command(&forebay, &["release", ABUSER]);
    assert_eq!((code, stdout.as_str()), (1, "nothing was held against anybody\n"));
    let mut user = forebay.client();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| forebay.client()).collect();
    let mut serves_user = || {
        ask_as(&mut user, "192.0.2.1", "web.test");
        assert_eq!(user.read_response().said(), (200, "hello"));
    };
    let is_refused = || {
        let metrics = forebay.metrics();
        metrics.sum("forebay_abuse_actions_total", &[("action", "refuse"), ("mode", "enforce")]) > 0
    };
    while !is_refused() {
        for connection in &mut connections {
            ask_as(connection, ABUSER, "other.test");
        }
        (0..5).for_each(|_| serves_user());
        for connection in &mut connections {
            connection.read_response();
        }
    }
    let told = list(&forebay);
    assert_eq!((&told["refused"], &told["slowed"]), (&1.into(), &0.into()), "{told}");
    let client = &told["clients"][0];
    assert_eq!((&client["client"], &client["standing"]), (&ABUSER.into(), &"refused".into()));
    assert_eq!((&client["reasons"], &client["refusals"]), (&serde_json::json!(["errors"]), &1.into()));
    let (_, text, _) = command(&forebay, &["list"]);
    let line = text.lines().find(|line| line.starts_with(ABUSER)).expect("a line for the client");
    assert!(line.contains("refused") && line.ends_with("errors"), "{text}");
    ask_as(&mut connections[0], ABUSER, "web.test");
    assert_eq!(connections[0].read_response().status, 429);
    serves_user();
    let (code, stdout, _) = command(&forebay, &["release", ABUSER]);
    assert_eq!((code, stdout.as_str()), (0, "released 1 client\n"));
    forebay.await_that("the client to be served", || {
        ask_as(&mut connections[0], ABUSER, "web.test");
        connections[0].read_response().status == 200
    });
    let (code, stdout, _) = command(&forebay, &["release", "--all", "--output=json"]);
    assert_eq!((code, stdout.trim()), (1, "{\n  \"released\": 0\n}"));
}

/// An alert: `internal_error` (80), fatal (2).
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

fn closed(forebay: &Forebay) -> u64 {
    forebay.metrics().sum("forebay_abuse_actions_total", &[("action", "close"), ("mode", "enforce")])
}

#[test]
fn who_shakes_hands_for_nothing_is_not_let_in_over_tls() {
    let upstream = Canned::saying("hello");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("forebay-abuse", "enforce")
        .arguments(["--workers=1"])
        .start();
    let (abuser, tls): (IpAddr, _) = ([127, 0, 0, 2].into(), TlsClient::new("web.test"));
    let connect = || Connection::from_to(abuser, forebay.https_address());
    forebay.await_that("its connections to be closed", || {
        (0..15).for_each(|_| drop(tls.upgrade(connect())));
        assert_eq!(forebay.get("/").status, 200);
        closed(&forebay) > 0
    });
    assert_eq!(connect().read_exactly(7), ALERT, "before a handshake");
    assert_eq!(forebay.tls_client(&tls).get("web.test", "/").status, 200);
    let told = list(&forebay);
    assert_eq!(told["clients"][0]["client"], "127.0.0.2", "{told}");
    assert_eq!(told["clients"][0]["reasons"], serde_json::json!(["unused-handshakes"]));
    assert_eq!(command(&forebay, &["release", "127.0.0.2"]).0, 0);
    forebay.await_that("the client to be let in", || {
        tls.upgrade(connect()).is_ok_and(|mut client| client.get("web.test", "/").status == 200)
    });
}

fn behind_a_load_balancer(upstream: SocketAddr, settings: &[(&str, &str)]) -> Forebay {
    let setup = setup()
        .endpoint(upstream)
        .setting("use-proxy-protocol", "true")
        .setting("proxy-real-ip-cidr", "127.0.0.0/8")
        .arguments(["--workers=1"]);
    settings.iter().fold(setup, |setup, (key, value)| setup.setting(key, value)).start()
}

/// A connection over which a load balancer speaks for a client.
fn named(address: SocketAddr, client: &str) -> Connection {
    let mut connection = Connection::to(address);
    connection.send(format!("PROXY TCP4 {client} 10.0.0.1 4711 80\r\n"));
    connection
}

#[test]
fn behind_a_load_balancer_it_is_the_client_that_is_not_let_in() {
    let upstream = Canned::saying("hello");
    let forebay = behind_a_load_balancer(upstream.address(), &[("forebay-abuse", "enforce")]);
    let ask_as = |client: &str| named(forebay.address(), client).get("web.test", "/").status;
    forebay.await_that("its connections to be closed", || {
        for _ in 0..15 {
            drop(named(forebay.address(), ABUSER));
            // The load balancer looks whether the port is open, and says nothing.
            drop(forebay.client());
        }
        assert_eq!(ask_as("192.0.2.1"), 200);
        closed(&forebay) > 0
    });
    assert_eq!(ask_as("192.0.2.1"), 200);
    let mut refused = named(forebay.address(), ABUSER);
    assert_eq!(refused.read_response().status, 429, "before it has said anything");
    assert_eq!(named(forebay.https_address(), ABUSER).read_exactly(7), ALERT);
    let told = list(&forebay);
    let clients: Vec<_> = told["clients"].as_array().unwrap().iter().map(|one| &one["client"]).collect();
    assert_eq!(clients[0], ABUSER);
    assert!(!clients.contains(&&"127.0.0.1".into()), "nothing is held against the load balancer: {told}");
}

#[test]
fn the_bounds_on_connections_hold_behind_a_load_balancer_and_are_told_once() {
    let upstream = Upstream::new();
    let settings = [("forebay-connections-per-client", "2"), ("forebay-connections", "5")];
    let forebay = behind_a_load_balancer(upstream.address(), &settings);
    let begin = |client: &str| {
        let mut connection = named(forebay.address(), client);
        connection.send(GET);
        let peer = upstream.accept_request();
        (connection, peer)
    };
    let busy = [begin(ABUSER), begin(ABUSER)];
    for _ in 0..2 {
        assert_eq!(named(forebay.address(), ABUSER).read_response().status, 429);
        assert_eq!(named(forebay.https_address(), ABUSER).read_exactly(7), ALERT);
    }
    let line = forebay.await_log("a client has as many connections as it may");
    assert!(line.contains(ABUSER) && line.contains("refused=true"), "{line}");
    let _others = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(begin);
    for _ in 0..2 {
        assert_eq!(forebay.client().read_response().status, 503, "all are busy");
    }
    let line = forebay.await_log("and all are busy: new ones are refused");
    assert!(line.contains("by=\"forebay-connections\"") && line.contains("max_of_worker=5"), "{line}");
    let [(mut first, (mut peer, _)), _second] = busy;
    peer.send(OK);
    assert_eq!(first.read_response().status, 200);
    let mut next = named(forebay.address(), "192.0.2.9");
    next.send(GET);
    peer.read_head();
    peer.send(OK);
    assert_eq!(next.read_response().status, 200);
    assert_eq!(first.ending(), Ending::Closed, "an idle one has made room");
    forebay.await_log("those that wait for a request are closed");
    for told in ["a client has as many", "and all are busy", "those that wait for a request"] {
        let lines = forebay.log();
        assert_eq!(lines.iter().filter(|line| line.contains(told)).count(), 1, "{lines:#?}");
    }
}

#[test]
fn what_names_nobody_is_refused() {
    let forebay = setup().start();
    for arguments in [
        &["release"][..],
        &["release", "shop.test"],
        &["release", "192.0.2.7", "--all"],
        &["release", "--key="],
    ] {
        assert_eq!(command(&forebay, arguments).0, 2, "{arguments:?}");
    }
    assert_eq!(forebay.admin("/abuse/release?all=true").status, 405, "a GET changes nothing");
    assert_eq!(forebay.admin("/abuse").status, 200);
}
