//! `forebay abuse`, against a Forebay with two workers. What becomes of clients is in the conversations of `proxy`.

use serde_json::Value;
use testkit::{Canned, Connection, Forebay};

use crate::commands::run;
use crate::setup;

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

#[test]
fn what_names_nobody_is_refused() {
    let forebay = setup().start();
    for arguments in [&["release"][..], &["release", "shop.test"], &["release", "192.0.2.7", "--all"]] {
        assert_eq!(command(&forebay, arguments).0, 2, "{arguments:?}");
    }
    assert_eq!(forebay.admin("/abuse/release?all=true").status, 405, "a GET changes nothing");
    assert_eq!(forebay.admin("/abuse").status, 200);
}
