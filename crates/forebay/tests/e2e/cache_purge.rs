//! Purges of the cache, by the command and by hand, with several workers, in memory and on disk.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Canned, Connection, Forebay, Refusing, Response, Setup, Upstream};

use crate::commands::run;
use crate::{GET, setup};

const TAGGED: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Tag: news, Front\r\nSurrogate-Key: all\r\nVary: X-Kind\r\nContent-Length: 2\r\n\r\nok";

fn cached() -> Setup {
    setup().setting("forebay-cache", "true").arguments(["--cache-memory=64m", "--workers=2"])
}

/// Exit status, standard output and standard error of the command.
fn command(arguments: &[&str]) -> (i32, String, String) {
    run(&[&["cache", "purge"], arguments].concat())
}

fn purge(forebay: &Forebay, arguments: &[&str]) -> (i32, Value) {
    let admin = format!("--admin=http://{}", forebay.admin_address());
    let (code, stdout, stderr) = command(&[arguments, &[&admin, "--output=json"]].concat());
    assert_eq!(stderr, "", "{arguments:?}");
    (code, serde_json::from_str(&stdout).expect("JSON"))
}

/// Asks for a page. With a port of its own making: keys have it, and it is another one after each start.
fn ask(forebay: &Forebay, target: &str, kind: &str) -> Response {
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\nX-Kind: {kind}\r\n\r\n");
    forebay.client().ask(&head)
}

/// Whether a page is kept. It is afterwards.
fn is_kept(forebay: &Forebay, target: &str, kind: &str) -> bool {
    let response = ask(forebay, target, kind);
    assert_eq!(response.said(), (200, "ok"));
    for name in ["cache-tag", "surrogate-key"] {
        assert_eq!(response.header(name), None, "tags are for caches");
    }
    response.header("cache-status").expect("there is a cache").starts_with("forebay; hit")
}

#[test]
fn each_form_purges_what_it_names_and_nothing_else() {
    let canned = Canned::answering(TAGGED);
    let forebay = cached().endpoint(canned.address()).start();
    let pages = [("/a?x=1", "1"), ("/a?x=1", "2"), ("/a", "1"), ("/b/c", "1")];
    for (arguments, objects, kept) in [
        (&["--url=https://WEB.test:8443/a?x=1#there"][..], 2, [false, false, true, true]),
        (&["--url=http://web.test/a"], 1, [true, true, false, true]),
        (&["--prefix=http://web.test/a"], 3, [false, false, false, true]),
        (&["--host=web.test"], 4, [false; 4]),
        (&["--tag=FRONT"], 4, [false; 4]),
        (&["--tag=all", "--tag=other"], 4, [false; 4]),
        (&["--all"], 4, [false; 4]),
        (&["--url=http://web.test/b/c", "--url=http://web.test/a"], 2, [true, true, false, false]),
        (&["--tag=fron", "--url=http://web.test/b", "--prefix=http://web.test/c"], 0, [true; 4]),
    ] {
        for (target, kind) in &pages {
            is_kept(&forebay, target, kind);
        }
        assert!(pages.iter().all(|(target, kind)| is_kept(&forebay, target, kind)));
        let (code, purged) = purge(&forebay, arguments);
        assert_eq!(
            (code, &purged["objects"], &purged["disk"]),
            (0, &objects.into(), &false.into()),
            "{arguments:?}"
        );
        let found = pages.map(|(target, kind)| is_kept(&forebay, target, kind));
        assert_eq!(found, kept, "{arguments:?}");
    }
}

/// Each URL is purged by its own name, also where an endpoint sees one and the same.
#[test]
fn what_is_rewritten_or_shared_by_queries_is_purged_by_the_url_of_clients() {
    let canned = Canned::answering(TAGGED);
    let forebay = cached().endpoint(canned.address()).annotation("rewrite-target", "/same").start();
    assert!(!is_kept(&forebay, "/a", "1") && !is_kept(&forebay, "/b", "1"));
    purge(&forebay, &["--url=http://web.test/b"]);
    assert!(is_kept(&forebay, "/a", "1") && !is_kept(&forebay, "/b", "1"));
    let forebay = cached().setting("forebay-cache-key-query", "none").endpoint(canned.address()).start();
    assert!(!is_kept(&forebay, "/a?x=1", "1") && is_kept(&forebay, "/a?x=2", "1"));
    purge(&forebay, &["--url=http://web.test/a?x=2"]);
    assert!(!is_kept(&forebay, "/a?x=1", "1"));
}

#[test]
fn what_was_asked_for_before_a_purge_is_not_kept_after_it() {
    let upstream = Upstream::new();
    let forebay = cached().endpoint(upstream.address()).start();
    let answer = |text: &str| TAGGED.replace("\r\n\r\nok", &format!("\r\nConnection: close\r\n\r\n{text}"));
    for form in ["--url=http://web.test/", "--tag=news"] {
        let (mut before, mut after) = (forebay.client(), forebay.client());
        before.send(GET);
        let (mut slow, _) = upstream.accept_request();
        purge(&forebay, &[form]);
        after.send(GET);
        // It does not go along with the one that is on its way.
        let (mut quick, _) = upstream.accept_request();
        quick.send(answer("b2"));
        assert_eq!(after.read_response().said(), (200, "b2"));
        slow.send(answer("a1"));
        assert_eq!(before.read_response().said(), (200, "a1"));
        assert_eq!(forebay.client().ask(GET).said(), (200, "b2"));
        assert!(upstream.is_left_alone());
        // The same while the body comes.
        purge(&forebay, &[form]);
        before = forebay.client();
        before.send(GET);
        let (mut slow, _) = upstream.accept_request();
        slow.send(answer("a"));
        before.read_head();
        assert_eq!(before.read_exactly(1), b"a");
        purge(&forebay, &[form]);
        slow.send("1");
        assert_eq!(before.read_exactly(1), b"1");
        after = forebay.client();
        after.send(GET);
        upstream.accept_request().0.send(answer("b2"));
        assert_eq!(after.read_response().said(), (200, "b2"));
        purge(&forebay, &["--all"]);
    }
}

fn with_disk(folder: &Path, canned: &Canned) -> Forebay {
    let folder = format!("--cache-folder={}", folder.display());
    let setup = cached().setting("use-forwarded-headers", "true").endpoint(canned.address());
    setup.arguments([folder.as_str(), "--cache-disk=16m"]).start()
}

fn end(forebay: Forebay) {
    forebay.signal(Signal::TERM);
    assert!(forebay.wait().status.success());
}

#[test]
fn what_was_purged_does_not_come_back_from_the_disk() {
    let (folder, canned) = (tempfile::tempdir().expect("a folder"), Canned::answering(TAGGED));
    let forebay = with_disk(folder.path(), &canned);
    let pages = ["/a", "/b/c", "/d"];
    assert!(pages.iter().all(|target| !is_kept(&forebay, target, "1")));
    let (code, purged) = purge(&forebay, &["--prefix=http://web.test/b"]);
    assert_eq!((code, &purged["objects"], &purged["disk"]), (0, &1.into(), &true.into()));
    end(forebay);
    let forebay = with_disk(folder.path(), &canned);
    // Objects that are only on disk are purged too.
    purge(&forebay, &["--url=http://web.test/d"]);
    end(forebay);
    let forebay = with_disk(folder.path(), &canned);
    forebay.await_that("the index to be read back", || is_kept(&forebay, "/a", "1"));
    assert!(!is_kept(&forebay, "/b/c", "1") && !is_kept(&forebay, "/d", "1"));
    purge(&forebay, &["--tag=news"]);
    end(forebay);
    let forebay = with_disk(folder.path(), &canned);
    assert!(pages.iter().all(|target| !is_kept(&forebay, target, "1")));
}

#[test]
fn what_is_kept_and_what_was_done_can_be_seen() {
    let (folder, canned) = (tempfile::tempdir().expect("a folder"), Canned::answering(TAGGED));
    let forebay = with_disk(folder.path(), &canned);
    assert!(!is_kept(&forebay, "/a", "1") && is_kept(&forebay, "/a", "1") && !is_kept(&forebay, "/b", "1"));
    let admin = format!("--admin=http://{}", forebay.admin_address());
    let json = || -> Value {
        let (code, stdout, stderr) = run(&["cache", "status", &admin, "--output=json"]);
        assert_eq!((code, &*stderr), (0, ""));
        serde_json::from_str(&stdout).expect("JSON")
    };
    forebay.await_that("both to be written", || json()["disk"]["writes"] == 2);
    let status = json();
    assert_eq!((&status["memory"]["objects"], &status["disk"]["objects"]), (&2.into(), &2.into()));
    // A sixteenth is for compressed forms.
    assert_eq!(status["memory"]["limitBytes"], 60 << 20);
    assert_eq!((&status["disk"]["limitBytes"], &status["disk"]["full"]), (&(16 << 20).into(), &false.into()));
    assert!(status["memory"]["bytes"].as_u64() > Some(300) && status["disk"]["bytes"].as_u64() > Some(300));
    let row = &status["ingresses"][0];
    assert_eq!((&row["ingress"], &row["hit"], &row["miss"]), (&"web".into(), &1.into(), &2.into()));
    let (code, stdout, _) = run(&["cache", "status", &admin]);
    assert!(code == 0 && stdout.contains("/web") && stdout.contains("33.3 %"), "{stdout}");
    for (name, figure) in [("objects", 2), ("writes_total", 2), ("full", 0), ("limit_bytes", 16 << 20)] {
        let line = format!("\nforebay_cache_disk_{name} {figure}\n");
        assert!(forebay.admin("/metrics").text().contains(&line), "{line}");
    }
    let head = "GET /cache/status HTTP/1.1\r\nHost: stranger.test\r\nConnection: close\r\n\r\n";
    assert_eq!(Connection::to(forebay.admin_address()).ask(head).status, 421);
}

#[test]
fn what_cannot_be_done_is_told() {
    let canned = Canned::answering(TAGGED);
    let forebay = cached().endpoint(canned.address()).start();
    let (code, purged) = purge(&forebay, &["--host=shop.tset", "--url=http://web.test/"]);
    assert_eq!((code, &purged["hostsWithoutCache"]), (1, &serde_json::json!(["shop.tset"])));
    let admin = format!("--admin=http://{}", forebay.admin_address());
    let (code, stdout, _) = command(&["--host=shop.tset", &admin]);
    assert!(code == 1 && stdout.contains("no route of shop.tset has a cache"), "{stdout}");
    let refusing = Refusing::default();
    let nobody = format!("--admin=http://{}", refusing.address());
    for (arguments, said) in [
        (&["--url=/a", &admin][..], "no URL"),
        (&["--url=ftp://web.test/", &admin], "http://"),
        (&["--host=web.test/a", &admin], "no host"),
        (&["--tag=a b", &admin], "no tag"),
        (&["--all", "--tag=a", &admin], "--all"),
        (&[&admin], "required"),
        (&["--all", "--admin=web"], "--admin web"),
        (&["--all", &nobody], "cannot ask"),
    ] {
        let (code, stdout, stderr) = command(arguments);
        assert_eq!((code, &*stdout), (2, ""), "{arguments:?}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
    for (request, status) in [
        ("GET /cache/purge?all=true", 405),
        ("PURGE /cache/purge?all=true", 405),
        ("POST /cache/purge", 400),
        ("POST /cache/purge?url=nonsense", 400),
        ("POST /cache/purge?all=true HTTP/1.1\r\nOrigin: http://evil.test", 403),
        ("PUT /explain?url=http://web.test/", 405),
        ("POST /cache/purge?all=true", 200),
    ] {
        let (line, more) = request.split_once(" HTTP/1.1").unwrap_or((request, ""));
        let head =
            format!("{line} HTTP/1.1{more}\r\nHost: admin\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let response = Connection::to(forebay.admin_address()).ask(&head);
        assert_eq!(response.status, status, "{request}: {}", response.text());
    }
}

#[test]
fn without_a_cache_there_is_nothing_to_purge() {
    let forebay = setup().start();
    let admin = format!("--admin=http://{}", forebay.admin_address());
    for arguments in [&["cache", "purge", "--all", &admin][..], &["cache", "status", &admin]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, &*stdout), (2, ""));
        assert!(stderr.contains("--cache-memory"), "{stderr}");
    }
    assert!(!forebay.admin("/metrics").text().contains("\nforebay_cache_disk_bytes "), "there is no disk");
}
