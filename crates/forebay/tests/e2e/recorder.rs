//! The flight recorder: what is left of a process that was killed, and what a record never holds.

use std::ops::RangeInclusive;
use std::path::Path;

use record::{Event, Frame, Record, kind};
use rustix::process::Signal;
use testkit::manifest::{Ingress, secret, service};
use testkit::{Canned, Forebay, Setup};

use crate::{GET, setup};

const ALL: RangeInclusive<u64> = 0..=u64::MAX;

fn recording(folder: &Path) -> Setup {
    let folder = format!("--record={}", folder.display());
    setup().arguments([folder.as_str(), "--record-interval=500ms", "--record-size=4m"])
}

/// Waits for so many frames.
fn await_frames(forebay: &Forebay, folder: &Path, frames: u64) {
    forebay.await_that("frames", || Record::open(folder).is_ok_and(|record| record.count() >= frames));
}

fn events(folder: &Path, of: &str) -> Vec<Event> {
    let events = Record::open(folder).expect("a record").events(ALL);
    events.into_iter().filter(|event| event.kind == of).collect()
}

fn requests(frame: &Frame) -> Option<u64> {
    let page = frame.files.get("forebay/metrics")?.as_ref().ok()?;
    let line = page.lines().find_map(|line| line.strip_prefix("forebay_record_requests{class=\"2xx\"} "))?;
    line.parse().ok()
}

#[test]
fn what_was_recorded_is_there_after_a_kill() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let forebay = recording(folder.path()).endpoint(upstream.address()).start();
    let mut client = forebay.client();
    for _ in 0..7 {
        assert_eq!(client.ask(GET).status, 200);
    }
    let last = |record: &Record| record.frames(ALL).last().and_then(|frame| requests(&frame));
    forebay.await_that("a frame with the requests, and the configuration", || {
        let is_told = !events(folder.path(), kind::CONFIGURATION).is_empty();
        is_told && Record::open(folder.path()).is_ok_and(|record| last(&record) == Some(7))
    });
    forebay.signal(Signal::KILL);
    forebay.wait();
    let record = Record::open(folder.path()).expect("a record");
    assert_eq!((last(&record), record.damage()), (Some(7), &[][..]));
    let frames: Vec<_> = record.frames(ALL).collect();
    for path in ["proc/net/snmp", "proc/stat", "forebay/sockets.json", "forebay/metrics"] {
        assert!(frames.iter().all(|frame| frame.files.get(path).is_some_and(Result::is_ok)), "{path}");
    }
    let started = events(folder.path(), kind::START);
    assert!(started.len() == 1 && started[0].text.contains("started as process"), "{started:?}");
    let configured = events(folder.path(), kind::CONFIGURATION);
    assert!(configured[0].text.starts_with("the first one: 1 hosts"), "{configured:?}");
}

#[test]
fn the_next_process_tells_whether_the_last_one_was_killed() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let start = || recording(folder.path()).endpoint(upstream.address()).start();
    let ends = [Signal::KILL, Signal::TERM, Signal::TERM];
    let mut told = Vec::new();
    for signal in ends {
        let forebay = start();
        let before = Record::open(folder.path()).expect("a record").count();
        await_frames(&forebay, folder.path(), before + 1);
        forebay.signal(signal);
        forebay.wait();
        told.push(events(folder.path(), kind::KILLED).len());
    }
    assert_eq!(told, [0, 1, 1], "only the first one was killed");
    let stopped = events(folder.path(), kind::STOP);
    let last: Vec<_> =
        stopped.iter().map(|event| event.text.as_str()).filter(|one| *one == "told to stop").collect();
    assert_eq!(last.len(), 2, "{stopped:?}");
}

#[test]
fn changes_are_told_by_object() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let forebay = recording(folder.path()).endpoint(upstream.address()).start();
    let other = Ingress::new("shop")
        .path("shop.test", "Prefix", "/", "web")
        .annotation("nginx.ingress.kubernetes.io/proxy-read-timeout", "not-a-number");
    forebay.replace("shop.yaml", &other.document());
    let has = |object: &str, text: &str| {
        let events = events(folder.path(), kind::CONFIGURATION);
        events.iter().any(|event| event.object.contains(object) && event.text.contains(text))
    };
    // Events are written one after the other.
    forebay.await_that("the events of the change", || {
        has("host shop.test", "added") && has("shop", "has a problem")
    });
    let text = format!("{:?}", events(folder.path(), kind::CONFIGURATION));
    assert!(!text.contains("not-a-number"), "values stay out: {text}");
}

#[test]
fn nothing_that_is_secret_is_recorded() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let ingress = Ingress::new("inner")
        .path("inner.test", "Prefix", "/inner", "svc")
        .annotation("forebay.io/auth-api-keys", "keys")
        .annotation("nginx.ingress.kubernetes.io/custom-headers", "default/SECRET-IN-ANNOTATION");
    let forebay = recording(folder.path())
        .setting("error-log-level", "SECRET-IN-CONFIGMAP")
        .manifest(
            "inner.yaml",
            format!("{}---\n{}", ingress.document(), service("svc", &[upstream.address()])),
        )
        .manifest("keys.yaml", secret("keys", "Opaque", &[("reports", "SECRET-IN-SECRET-0123456789")]))
        .start();
    let request = "GET /inner/SECRET-IN-PATH?q=SECRET-IN-QUERY HTTP/1.1\r\nHost: inner.test\r\nCookie: a=SECRET-IN-COOKIE\r\nAuthorization: Bearer SECRET-IN-HEADER\r\nX-API-Key: SECRET-IN-KEY\r\n\r\n";
    forebay.client().ask(request);
    let before = Record::open(folder.path()).expect("a record").count();
    await_frames(&forebay, folder.path(), before + 2);
    let record = Record::open(folder.path()).expect("a record");
    let mut texts = 0;
    for frame in record.frames(ALL) {
        for (path, content) in &frame.files {
            let is_clean = !path.contains("SECRET") && !format!("{content:?}").contains("SECRET");
            assert!(is_clean, "{path}: {content:?}");
            texts += 1;
        }
    }
    let told = record.events(ALL);
    assert!(texts > 100 && !told.is_empty() && !format!("{told:?}").contains("SECRET"), "{told:?}");
}

#[test]
fn a_folder_that_takes_no_files_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = std::process::Command::new(crate::FOREBAY)
        .args(["serve", "--http-port=0", "--https-port=0", "--healthz-port=0", "--manifests"])
        .arg(folder.path())
        .arg(format!("--record={}", file.display()))
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains(&format!("--record {}", file.display())), "{error}");
}
