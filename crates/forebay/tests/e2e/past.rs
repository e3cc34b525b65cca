//! Asking the past: `forebay doctor --since` and `diff`, `forebay record`, `/record` and the console's time
//! line, on what a running Forebay has recorded.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use record::{Item, Record, kind};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use testkit::manifest::{Ingress, config_map, secret, service};
use testkit::{Canned, Forebay, PATIENCE, Setup};

use crate::commands::run;
use crate::{GET, OK, setup};

/// An answer after which the connection is closed.
const CLOSING: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(500);

/// The time that the doctor judges at once, in milliseconds.
const WINDOW_MS: u64 = 5000;

/// How long each phase of a night is.
const PHASE: Duration = Duration::from_secs(6);

/// The time between two requests: a misfortune at 100 connections a second leaves ports for other tests.
const PACE: Duration = Duration::from_millis(10);

const CLIENTS: u32 = 10;

/// Requests a second of a misfortune, at least. A night in which the machine was too busy for them does not
/// count, and another one follows, up to so many.
const REQUESTS_MIN: u64 = 20;
const NIGHTS: usize = 6;

/// A text that no record may contain.
const SECRET: &str = "hunter2-4f1c";

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A Forebay that records into a folder, often.
fn recording(folder: &TempDir) -> Setup {
    let interval = format!("{}ms", INTERVAL.as_millis());
    setup().setting("keep-alive-requests", "1000000").arguments([
        "--record",
        text(folder.path()),
        "--record-size",
        "16m",
        "--record-interval",
        &interval,
    ])
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_millis() as u64
}

/// Sends requests at a pace for some time. There are several clients, since a busy machine is slow to answer
/// each: a misfortune needs ten connections a second to be one.
fn load(forebay: &Forebay, time: Duration) {
    let ask = || {
        let mut client = forebay.client();
        let begun = Instant::now();
        while begun.elapsed() < time {
            assert_eq!(client.ask(GET).status, 200);
            std::thread::sleep(PACE * CLIENTS);
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(ask))));
}

/// Waits until there is a sample that is later than a moment.
fn await_sample(forebay: &Forebay, folder: &Path, after_ms: u64) {
    forebay.await_that("a later sample", || {
        let record = Record::open(folder).ok();
        record.is_some_and(|record| record.frames(after_ms..=u64::MAX).next().is_some())
    });
}

fn route(to: &str) -> String {
    Ingress::new("web").path("web.test", "Prefix", "/", to).document()
}

/// In front of an endpoint that keeps connections; the other one, which closes each, is known as well.
fn house(setup: Setup, keeping: &Canned, closing: &Canned) -> Forebay {
    let services =
        [service("keeping", &[keeping.address()]), service("closing", &[closing.address()])].join("---\n");
    setup.manifest("web.yaml", route("keeping")).manifest("services.yaml", services).start()
}

/// A quiet phase, one whose endpoint closes each connection, and another quiet one. Returns the begin and the
/// end of the one in the middle, in milliseconds since 1970.
fn night(forebay: &Forebay, folder: &Path, keeping: &Canned, closing: &Canned) -> (u64, u64) {
    let go_over = |name: &str, to: &Canned| {
        let seen = to.heads().len();
        forebay.replace("web.yaml", &route(name));
        forebay.await_that("the other endpoint", || {
            assert_eq!(forebay.client().ask(GET).status, 200);
            to.heads().len() > seen
        });
        let at_ms = now_ms();
        load(forebay, PHASE);
        at_ms
    };
    load(forebay, PHASE);
    let began = go_over("closing", closing);
    let ended = go_over("keeping", keeping);
    await_sample(forebay, folder, ended);
    // A busy machine takes few samples: those of the last window have to be of the quiet phase.
    let record = Record::open(folder).expect("a record");
    let quiet = record.frames(ended..=u64::MAX).next().expect("a sample").at;
    await_sample(forebay, folder, now_ms().max(quiet + WINDOW_MS));
    (began, ended)
}

fn judged(arguments: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(&[&["doctor", "--output", "json"], arguments].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}")))
}

fn finding<'a>(told: &'a Value, id: &str) -> &'a Value {
    let found = told["findings"].as_array().and_then(|all| all.iter().find(|found| found["id"] == id));
    found.unwrap_or_else(|| panic!("no {id}: {told:#}"))
}

fn milliseconds(found: &Value, name: &str) -> u64 {
    let moment: jiff::Timestamp = found[name].as_str().expect("a time").parse().expect("RFC 3339");
    moment.as_millisecond().try_into().expect("it is later than 1970")
}

#[test]
fn the_morning_after_the_doctor_says_what_was_at_night() {
    let (keeping, closing) = (Canned::answering(OK), Canned::answering(CLOSING));
    let nights = std::iter::repeat_with(|| {
        let folder = tempdir().expect("a folder");
        let forebay = house(recording(&folder), &keeping, &closing);
        let seen = closing.heads().len();
        let (began, ended) = night(&forebay, folder.path(), &keeping, &closing);
        let requests = (closing.heads().len() - seen) as u64;
        (requests * 1000 >= REQUESTS_MIN * (ended - began)).then_some((folder, forebay, began, ended))
    });
    let (folder, forebay, began, ended) =
        nights.take(NIGHTS).flatten().next().expect("a machine that serves 20 requests a second");
    from_the_running_process(&forebay, began, ended);
    // A process that is killed takes nothing with it.
    forebay.signal(Signal::KILL);
    forebay.wait();
    let record = text(folder.path());
    let (code, told) = judged(&["--record", record, "--all"]);
    let found = finding(&told, "upstream-reuse");
    assert_eq!((code, &found["verdict"]), (2, &"failure".into()), "{found:#}");
    let slack = longest_gap(folder.path()) + INTERVAL.as_millis() as u64;
    assert!(milliseconds(found, "began").abs_diff(began) <= slack, "began at {began}: {found:#}");
    assert!(milliseconds(found, "ended").abs_diff(ended) <= slack, "ended at {ended}: {found:#}");
    assert_eq!((&found["beganBefore"], &found["goesOn"]), (&false.into(), &false.into()));
    let remedy = found["remedy"].as_str().expect("text");
    assert!(remedy.contains("endpoints close the connections"), "{found:#}");
    let nearest = &found["changed"][0];
    assert_eq!(nearest["kind"], kind::CONFIGURATION, "what changed before: {found:#}");
    in_words(record, began);
    compared(record, began, ended);
    taken_along(record, began, ended);
}

/// The longest time between two samples, in milliseconds: a busy machine is late.
fn longest_gap(folder: &Path) -> u64 {
    let record = Record::open(folder).expect("a record");
    let times: Vec<_> = record.frames(0..=u64::MAX).map(|frame| frame.at).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("samples")
}

/// The same from the admin server, without a folder; a quiet time is one line.
fn from_the_running_process(forebay: &Forebay, began: u64, ended: u64) {
    let admin = format!("http://{}", forebay.admin_address());
    let (since, until) = (rfc3339(began - 2000), rfc3339(ended + 2000));
    let (code, told) = judged(&["--admin", &admin, "--since", &since, "--until", &until]);
    assert_eq!((code, finding(&told, "upstream-reuse")["verdict"].as_str()), (2, Some("failure")));
    let since = rfc3339(now_ms() - 3500);
    let (_, out, err) = run(&["doctor", "--admin", &admin, "--since", &since, "--lang", "en"]);
    assert!(out.contains(" sample") && !out.contains("upstream-reuse"), "it is over: {out} {err}");
    let response = forebay.admin("/record?since=x");
    assert_eq!((response.status, response.text().contains("milliseconds")), (400, true));
    let course: Value = serde_json::from_str(forebay.admin("/console/past").text()).expect("JSON");
    let requests =
        course["points"].as_array().expect("a list").iter().filter_map(|point| point["requests"].as_f64());
    assert!(requests.fold(0.0, f64::max) > 10.0, "{course:#}");
    let events = course["events"].as_array().expect("a list");
    assert!(events.iter().any(|event| event["kind"] == kind::CONFIGURATION), "{course:#}");
}

fn rfc3339(at_ms: u64) -> String {
    let at_ms = i64::try_from(at_ms).expect("a time");
    jiff::Timestamp::from_millisecond(at_ms).expect("a time").to_string()
}

fn in_words(record: &str, began: u64) {
    let (code, out, err) =
        run(&["doctor", "--record", record, "--since", &rfc3339(began - 3000), "--lang", "en"]);
    assert_eq!(code, 2, "{err}");
    let mut lines = out.lines().skip_while(|line| !line.contains(" upstream-reuse  "));
    let block: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    for part in
        ["    evidence: connections_per_second=", "    cause:    ", "    remedy:   ", "    before:   "]
    {
        assert!(block.iter().any(|line| line.starts_with(part)), "{part} is missing in\n{out}");
    }
    let (_, out, _) = run(&["doctor", "--record", record, "--lang", "zh"]);
    assert!(out.contains("    处理：    "), "{out}");
}

fn compared(record: &str, began: u64, ended: u64) {
    let quiet = format!("{}..{}", rfc3339(began - 5000), rfc3339(began - 1500));
    let bad = format!("{}..{}", rfc3339(began), rfc3339(ended));
    let (code, out, err) =
        run(&["doctor", "diff", record, "--a", &quiet, "--b", &bad, "--figures", "500", "--output", "json"]);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
    assert_eq!(code, 2, "{told:#}");
    let check =
        told["checks"].as_array().and_then(|all| all.iter().find(|one| one["id"] == "upstream-reuse"));
    let check = check.unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(
        (&check["a"]["worst"], check["b"]["worst"]["verdict"].as_str()),
        (&Value::Null, Some("failure"))
    );
    let names: Vec<_> =
        told["figures"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.iter().any(|name| name.contains("forebay_upstream_connections_opened_total")), "{names:?}");
    let (code, _, err) = run(&["doctor", "diff", record, "--a", &quiet, "--b", &quiet]);
    assert!(code == 2 && err.contains("have to differ"), "{err}");
    let (code, out, _) = run(&["doctor", "diff", record, "--a", &bad, "--b", &quiet, "--lang", "en"]);
    assert!(code < 2 && out.contains("A: failure, "), "what is over is no failure: {out}");
}

/// A part of the record as one file, which is judged elsewhere.
fn taken_along(record: &str, began: u64, ended: u64) {
    let elsewhere = tempdir().expect("a folder");
    let file = elsewhere.path().join("night.record");
    let (since, until) = (rfc3339(began - 2000), rfc3339(ended + 2000));
    let export = [
        "record",
        "export",
        "--record",
        record,
        "--since",
        &since,
        "--until",
        &until,
        "--output",
        text(&file),
    ];
    let (code, out, err) = run(&export);
    assert!(code == 0 && out.contains("judge it with: forebay doctor --record"), "{out} {err}");
    let (code, told) = judged(&["--record", text(&file)]);
    assert_eq!((code, finding(&told, "upstream-reuse")["verdict"].as_str()), (2, Some("failure")));
    let (first, last) = Record::open(&file).expect("a record").span().expect("samples");
    assert!(first >= began - 2000 && last <= ended + 2000);
    let nothing = ["record", "export", "--record", record, "--until", "2001-01-01", "--output", text(&file)];
    let (code, _, err) = run(&nothing);
    assert!(code == 2 && err.contains("nothing is recorded of that time"), "{err}");
}

#[test]
fn what_is_taken_along_holds_no_secret() {
    let folder = tempdir().expect("a folder");
    let upstream = Canned::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: session={SECRET}\r\nX-Token: {SECRET}\r\n\r\nok"
    ));
    let snippet = format!("proxy_set_header Authorization \"Bearer {SECRET}\";");
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users")
        .annotation("configuration-snippet", &snippet)
        .annotation("limit-rps", SECRET)
        .annotation("auth-url", &format!("http://user:{SECRET}@127.0.0.1:1/?token={SECRET}"));
    let open = Ingress::new("open").path("open.test", "Prefix", "/", "web");
    let forebay = recording(&folder)
        .setting("forebay-unknown-key", SECRET)
        .setting("add-headers", &format!("default/{SECRET}"))
        .manifest(
            "web.yaml",
            [ingress.document(), open.document(), service("web", &[upstream.address()])].join("---\n"),
        )
        .manifest("users.yaml", secret("users", "Opaque", &[("auth", &format!("a:{{PLAIN}}{SECRET}\n"))]))
        .manifest("more.yaml", config_map("more", &[("password", SECRET)]))
        .start();
    let mut client = forebay.client();
    for host in ["web.test", "open.test", "other.test"] {
        client.ask(&format!(
            "GET /{SECRET}?token={SECRET} HTTP/1.1\r\nHost: {host}\r\nCookie: a={SECRET}\r\nAuthorization: Basic {SECRET}\r\n\r\n"
        ));
    }
    let events = || Record::open(folder.path()).expect("a record").events(0..=u64::MAX).len();
    forebay.await_that("the start and the first configuration", || events() >= 2);
    let changed = ingress.annotation("custom-headers", SECRET).annotation("whitelist-source-range", SECRET);
    let late =
        Ingress::new("late").path("late.test", "Prefix", "/", "web").annotation("proxy-body-size", SECRET);
    forebay.replace(
        "web.yaml",
        &[changed.document(), open.document(), late.document(), service("web", &[upstream.address()])]
            .join("---\n"),
    );
    forebay.replace("users.yaml", &secret("users", "Opaque", &[("auth", &format!("b:{{PLAIN}}{SECRET}\n"))]));
    forebay.await_log(SECRET);
    forebay.await_that("samples and the changes", || {
        let record = Record::open(folder.path()).expect("a record");
        record.frames(0..=u64::MAX).count() > 3 && events() >= 3
    });
    let file = folder.path().join("ticket");
    let admin = format!("http://{}", forebay.admin_address());
    let (code, _, err) = run(&["record", "export", "--admin", &admin, "--output", text(&file)]);
    assert_eq!(code, 0, "{err}");
    let record = Record::open(&file).expect("a record");
    let (mut frames, mut events) = (0, 0);
    for item in record.items(0..=u64::MAX) {
        let (what, told) = match &item {
            Item::Frame(frame) => {
                frames += 1;
                (format!("a sample at {}", frame.at), format!("{} {:?}", frame.origin, frame.files))
            }
            Item::Event(event) => {
                events += 1;
                (format!("{event:?}"), format!("{} {} {}", event.kind, event.object, event.text))
            }
        };
        if let Some(at) = told.find(SECRET) {
            let around = &told[told.floor_char_boundary(at.saturating_sub(200))..at];
            panic!("a secret in {what}, after {around}");
        }
    }
    assert!(frames > 2 && events > 1, "{frames} samples, {events} events");
}

#[test]
fn another_process_is_recorded_until_it_ends() {
    let folder = tempdir().expect("a folder");
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().expect("it is everywhere");
    let pid = sleeper.id().to_string();
    let record = text(folder.path());
    let (code, out, err) = std::thread::scope(|scope| {
        let command = ["record", "watch", "--pid", &pid, "--output", record, "--interval", "500ms"];
        let watch = scope.spawn(move || run(&[&command[..], &["--for", "10m"]].concat()));
        let end = Instant::now() + PATIENCE;
        let frames = || Record::open(folder.path()).map_or(0, |record| record.count());
        while frames() < 3 && !watch.is_finished() && Instant::now() < end {
            std::thread::sleep(PACE);
        }
        sleeper.kill().expect("it is our child");
        // A process that nobody has waited for is still there.
        sleeper.wait().expect("it is our child");
        watch.join().expect("no panic")
    });
    assert!(code == 0 && out.contains("judge it with: forebay doctor --record"), "{out} {err}");
    let recorded = Record::open(folder.path()).expect("a record");
    let frames: Vec<_> = recorded.frames(0..=u64::MAX).collect();
    assert!(frames.len() >= 3, "{}", frames.len());
    assert!(frames.iter().skip(1).all(|frame| frame.files.contains_key("forebay/ticks.json")));
    let kinds: Vec<_> = recorded.events(0..=u64::MAX).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [kind::START, kind::STOP]);
    let (_, told) = judged(&["--record", record]);
    assert_eq!(told["samples"].as_u64(), Some(frames.len() as u64), "{told:#}");
}

#[test]
fn what_cannot_be_asked_is_one_line() {
    let folder = tempdir().expect("a folder");
    let junk = folder.path().join("junk");
    std::fs::write(&junk, "no record").expect("a file");
    let away = testkit::Port::tcp();
    let admin = format!("http://{}", away.address());
    for (arguments, complaint) in [
        (&["doctor", "--record", text(&junk)][..], "cannot read the record: "),
        (&["doctor", "--record", "/nowhere"], "/nowhere: No such file"),
        (&["doctor", "--record", text(folder.path())], "there is no record in this folder"),
        (&["doctor", "--since", "soon"], "a time is 02:50"),
        (&["doctor", "--since", "-1h", "--until", "-2h"], "--until is not later than --since"),
        (&["doctor", "--since", "-1h", "--pid", "1"], "are not for --root, --pid"),
        (&["doctor", "--since", "-1h", "--admin", &admin], "without --record"),
        (&["doctor", "diff", text(&junk), "--a", "now", "--b", "..now"], "now is no range"),
        (
            &["record", "watch", "--pid", "4194305", "--output", text(&folder.path().join("x"))],
            "there is no process 4194305",
        ),
        (
            &["record", "watch", "--pid", "1", "--output", text(&junk), "--interval", "1ms"],
            "a time of 500ms or more",
        ),
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!((code, err.lines().count()), (2, 1), "{arguments:?}: {err}");
        assert!(err.contains(complaint), "{arguments:?}: {err}");
    }
}
