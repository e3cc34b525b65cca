//! A cache that replicas share: an object has its home at one of them, and the others ask there.

use std::fs::write;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::manifest::service;
use testkit::{Canned, Connection, Forebay, Refusing, Response, Setup, Upstream};

use crate::commands::run;
use crate::replicas::{SECRET, introduce};
use crate::setup;

const KEPT: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok";
const TAGGED: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: news\r\nContent-Length: 2\r\n\r\nok";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nno";
const PRIVATE: &str = "HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 2\r\n\r\nok";
const OBJECTS: usize = 40;

/// Replicas on the addresses 127.0.0.1, 127.0.0.2 and so on.
struct Replicas {
    folder: TempDir,
    backend: Canned,
    /// In place of the backend.
    endpoint: Option<SocketAddr>,
    /// Further settings of the route.
    route: Box<dyn Fn(Setup) -> Setup>,
    all: Vec<Forebay>,
}

impl Replicas {
    fn new(count: usize, answer: &str) -> Self {
        let (folder, backend) = (tempfile::tempdir().unwrap(), Canned::answering(answer));
        let mut replicas =
            Self { folder, backend, endpoint: None, route: Box::new(|setup| setup), all: Vec::new() };
        for _ in 0..count {
            replicas.add(SECRET);
        }
        replicas.join();
        replicas
    }

    fn setup(&self, secret: &str) -> Setup {
        let file = self.folder.path().join(format!("secret-{}", secret.len()));
        write(&file, secret).unwrap();
        (self.route)(setup())
            .setting("forebay-cache", "true")
            .setting("forebay-cache-shared", "true")
            // Replicas have the same ports otherwise, which endpoints are told.
            .setting("use-forwarded-headers", "true")
            .endpoint(self.endpoint.unwrap_or(self.backend.address()))
            .manifest("forebay.yaml", service("forebay", &[]))
            .arguments(["--cache-memory=64m".to_owned(), format!("--replicas-secret={}", file.display())])
    }

    fn add(&mut self, secret: &str) {
        let own = format!("--replica-address={}", address(self.all.len()));
        // As from a Pod: what comes from another address is no replica's.
        let source = format!("--upstream-source-address={}", address(self.all.len()));
        let setup = self.setup(secret).arguments(["--replicas-service=default/forebay", &own, &source]);
        self.all.push(setup.start());
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let at = |(number, one): (usize, &Forebay)| (address(number), one.address().port()).into();
        self.all.iter().enumerate().map(at).collect()
    }

    /// Tells all replicas of all.
    fn join(&self) {
        for one in &self.all {
            introduce(one, &self.addresses());
        }
    }

    fn sum(&self, name: &str, result: &str) -> u64 {
        self.all.iter().map(|one| one.metrics().sum(name, &[("result", result)])).sum()
    }

    fn answered(&self) -> u64 {
        self.sum("forebay_cache_home_requests_total", "answered")
    }

    fn failed(&self) -> u64 {
        self.sum("forebay_cache_home_requests_total", "failed")
    }
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number).unwrap())
}

fn get(replica: &Forebay, object: usize) -> Response {
    let head = format!("GET /{object} HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\n");
    replica.client().ask(&format!("{head}Connection: close\r\n\r\n"))
}

/// Asks for all objects, and says how many requests the backend got.
fn ask_for_all(replica: &Forebay, backend: &Canned) -> usize {
    let before = backend.heads().len();
    for object in 0..OBJECTS {
        let response = get(replica, object);
        assert_eq!(response.said(), (200, "ok"));
        assert_eq!(response.header("forebay-replica"), None);
    }
    backend.heads().len() - before
}

#[test]
fn each_object_is_fetched_once_for_all_replicas() {
    let replicas = Replicas::new(3, KEPT);
    let fetched: Vec<_> = replicas.all.iter().map(|one| ask_for_all(one, &replicas.backend)).collect();
    assert_eq!(fetched, [OBJECTS, 0, 0]);
    // Each has some of them at home, and asks the others for the rest.
    let kept = || -> Vec<u64> {
        replicas.all.iter().map(|one| one.metrics().sum("forebay_cache_objects", &[])).collect()
    };
    replicas.all[0]
        .await_that("each object to be kept once", || kept().iter().sum::<u64>() == OBJECTS as u64);
    let kept = kept();
    assert!(kept.iter().all(|&count| count > 0), "{kept:?}");
    assert_eq!((replicas.answered(), replicas.failed()), (2 * OBJECTS as u64, 0));
    // A request is counted once its response has been sent.
    let counts = || ["miss", "hit"].map(|result| replicas.sum("forebay_cache_requests_total", result));
    replicas.all[0]
        .await_that("each request to be counted", || counts() == [OBJECTS as u64, 2 * OBJECTS as u64]);
    // The endpoint is told what it would be told by the one that was asked, and nothing of how it came.
    for head in replicas.backend.heads() {
        assert!(!head.to_ascii_lowercase().contains("forebay"), "{head}");
        assert_eq!(head.matches("X-Forwarded-For: 127.0.0.1\r\n").count(), 1, "{head}");
        assert_eq!(head.matches("X-Request-ID: ").count(), 1, "{head}");
    }
}

#[test]
fn the_response_tells_of_both() {
    let replicas = Replicas::new(2, KEPT);
    let all: Vec<String> = (0..OBJECTS)
        .flat_map(|object| [0, 1].map(|replica| get(&replicas.all[replica], object)))
        .map(|response| response.header("cache-status").unwrap())
        .collect();
    let is_said = |said: &str| all.iter().any(|status| status == said);
    assert!(is_said("forebay; fwd=uri-miss; stored; ttl=600, forebay; fwd=uri-miss; detail=home"), "{all:?}");
    assert!(
        all.iter().any(|status| status.starts_with("forebay; hit; ttl=")
            && status.ends_with(", forebay; fwd=uri-miss; detail=home")),
        "{all:?}"
    );
}

#[test]
fn what_is_private_passes_through_the_home() {
    let replicas = Replicas::new(2, PRIVATE);
    assert_eq!(ask_for_all(&replicas.all[0], &replicas.backend), OBJECTS);
    assert!(replicas.answered() > 0);
    assert_eq!(replicas.failed(), 0);
}

#[test]
fn a_replica_that_is_killed_fails_no_request() {
    let mut replicas = Replicas::new(3, KEPT);
    ask_for_all(&replicas.all[0], &replicas.backend);
    drop(replicas.all.pop());
    // They are not told yet.
    let fetched = ask_for_all(&replicas.all[0], &replicas.backend);
    assert!((1..OBJECTS).contains(&fetched), "{fetched} of what was there is fetched again");
    assert!(replicas.failed() > 0);
    replicas.join();
    ask_for_all(&replicas.all[1], &replicas.backend);
    let failed = replicas.failed();
    for one in &replicas.all {
        assert_eq!(ask_for_all(one, &replicas.backend), 0);
    }
    assert_eq!(replicas.failed(), failed);
}

#[test]
fn a_replica_that_joins_takes_its_share() {
    let mut replicas = Replicas::new(2, KEPT);
    ask_for_all(&replicas.all[0], &replicas.backend);
    replicas.add(SECRET);
    replicas.join();
    let moved = ask_for_all(&replicas.all[2], &replicas.backend);
    assert!((1..OBJECTS).contains(&moved), "{moved}");
    replicas.all[2].await_metric("forebay_cache_objects", &[], moved as u64);
    for one in &replicas.all {
        assert_eq!(ask_for_all(one, &replicas.backend), 0);
    }
}

#[test]
fn a_replica_that_hangs_is_left_alone_after_a_while() {
    let replicas = Replicas::new(2, KEPT);
    replicas.all[1].signal(Signal::STOP);
    replicas.all[0].await_that("it to stand still", || {
        let threads = format!("/proc/{}/task", replicas.all[1].pid().as_raw_nonzero());
        let mut threads =
            std::fs::read_dir(threads).unwrap().map(|thread| thread.unwrap().path().join("stat"));
        threads.all(|stat| std::fs::read_to_string(stat).unwrap().contains(") T "))
    });
    let fetched = ask_for_all(&replicas.all[0], &replicas.backend);
    let failed = replicas.all[0].metrics().sum("forebay_cache_home_requests_total", &[("result", "failed")]);
    replicas.all[1].signal(Signal::CONT);
    assert_eq!((fetched, failed), (OBJECTS, 1));
}

#[test]
fn a_replica_with_another_secret_is_no_home() {
    let mut replicas = Replicas::new(1, KEPT);
    replicas.add("a secret of somebody else, which is as long as need be");
    replicas.join();
    ask_for_all(&replicas.all[0], &replicas.backend);
    assert_eq!(replicas.answered(), 0);
    assert!(replicas.failed() > 0);
    // Nothing that it was sent has been kept there: it is as anybody's request with such a header.
    assert_eq!(replicas.all[1].metrics().sum("forebay_cache_objects", &[]), 0);
}

/// A client that is no replica cannot pass for one, whatever it sends.
#[test]
fn marks_of_clients_have_no_effect() {
    let replicas = Replicas::new(1, KEPT);
    let replica = replicas.all[0].address();
    for value in ["home", "", "AAAA", &"A".repeat(4000)] {
        let mut client = Connection::to(replica);
        let marked = format!("GET /forged HTTP/1.1\r\nHost: web.test\r\nForebay-Replica: {value}\r\n\r\n");
        let response = client.ask(&marked);
        assert_eq!(response.said(), (200, "ok"));
        assert_eq!(response.header("forebay-replica"), None);
        assert_eq!(response.header("cache-status").as_deref(), Some("forebay; fwd=bypass"));
    }
    // Guards of the route apply all the same.
    let guarded = replicas.setup(SECRET).annotation("denylist-source-range", "127.0.0.0/8");
    let guarded =
        guarded.arguments(["--replicas-service=default/forebay", "--replica-address=127.0.0.9"]).start();
    let marked = "GET / HTTP/1.1\r\nHost: web.test\r\nForebay-Replica: home\r\n\r\n";
    assert_eq!(guarded.client().ask(marked).status, 403);
    assert_eq!(replicas.all[0].metrics().sum("forebay_cache_objects", &[]), 0);
}

/// A replica's message counts only from a replica's address, and only once: an eavesdropper cannot replay it.
#[test]
fn what_was_read_on_its_way_cannot_be_said_again() {
    let replicas = Replicas::new(1, KEPT);
    let one = &replicas.all[0];
    let member = address(1);
    let stranger = address(8);
    let home = Upstream::at(member.into(), 16);
    introduce(one, &[replicas.addresses()[0], home.address()]);
    // Of so many objects one has its home there, which answers nothing: the request goes on without it.
    let said = thread::scope(|scope| {
        let asked = scope.spawn(|| home.accept_request().1);
        for object in (0..OBJECTS).take_while(|_| !asked.is_finished()) {
            let mut client = one.client();
            client.send(format!("GET /{object} HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\n\r\n"));
            assert_eq!(client.read_response().said(), (200, "ok"));
        }
        asked.join().expect("it is asked")
    });
    let mark = |from: Ipv4Addr| {
        let response = Connection::from_to(from.into(), one.address()).ask(&said);
        assert_eq!(response.said(), (200, "ok"));
        response.header("forebay-replica")
    };
    assert_eq!((mark(stranger), mark(address(0))), (None, None));
    assert!((0..3).all(|_| mark(member).is_some()));
    assert_eq!(mark(member), None);
}

/// Whoever is mistaken about who lives where: who is asked by a replica asks no other one.
#[test]
fn replicas_that_disagree_make_no_circle() {
    let replicas = Replicas::new(2, KEPT);
    let first = replicas.addresses()[0];
    // The second one takes the first for two others.
    let mistaken = [first, SocketAddr::from((address(6), first.port()))];
    introduce(&replicas.all[1], &mistaken);
    assert_eq!(ask_for_all(&replicas.all[0], &replicas.backend), OBJECTS);
    assert!(replicas.answered() > 0);
    let by_second = replicas.all[1].metrics().sum("forebay_cache_home_requests_total", &[]);
    assert_eq!((by_second, replicas.failed()), (0, 0));
    ask_for_all(&replicas.all[1], &replicas.backend);
    assert_eq!(replicas.failed(), 0);
}

#[test]
fn a_home_whose_endpoint_fails_is_asked_again() {
    let refusing = Refusing::default();
    let mut replicas = Replicas::new(0, KEPT);
    replicas.endpoint = Some(refusing.address());
    replicas.add(SECRET);
    replicas.add(SECRET);
    replicas.join();
    for object in 0..OBJECTS {
        let response = get(&replicas.all[0], object);
        assert_eq!((response.status, response.header("forebay-replica")), (502, None));
    }
    // One that is left alone is asked once in a while only.
    assert!(replicas.failed() >= 5, "{}", replicas.failed());
    assert_eq!(replicas.answered(), 0);
}

/// The home's response is processed as an endpoint's.
#[test]
fn error_pages_take_the_place_of_what_the_home_gives() {
    let mut replicas = Replicas::new(0, MISSING);
    let errors = Canned::saying("page");
    let address = errors.address();
    replicas.route = Box::new(move |setup| {
        setup
            .annotation("custom-http-errors", "404")
            .annotation("default-backend", "errors")
            .manifest("errors.yaml", service("errors", &[address]))
    });
    replicas.add(SECRET);
    replicas.add(SECRET);
    replicas.join();
    for object in (0..OBJECTS).chain(0..OBJECTS) {
        assert_eq!(get(&replicas.all[0], object).said(), (200, "page"));
    }
    let head = errors.heads().pop().expect("it was asked");
    assert!(head.contains("X-Code: 404"), "{head}");
}

// === What is to be forgotten ===

fn purge(replica: &Forebay, what: &str) -> (i32, Value) {
    let admin = format!("--admin=http://{}", replica.admin_address());
    let (code, stdout, stderr) = run(&["cache", "purge", what, &admin, "--output=json"]);
    assert_eq!(stderr, "", "{what}");
    (code, serde_json::from_str(&stdout).expect("JSON"))
}

#[test]
fn a_purge_reaches_all_replicas() {
    let replicas = Replicas::new(3, TAGGED);
    for (what, fetched) in [
        ("--prefix=http://web.test/", OBJECTS),
        ("--tag=news", OBJECTS),
        ("--host=web.test", OBJECTS),
        ("--all", OBJECTS),
        ("--url=http://web.test/7", 1),
        ("--url=http://web.test/x", 0),
    ] {
        ask_for_all(&replicas.all[0], &replicas.backend);
        assert_eq!(ask_for_all(&replicas.all[1], &replicas.backend), 0);
        let (code, purged) = purge(&replicas.all[2], what);
        assert_eq!((code, &purged["replicas"], &purged["replicasUnreached"]), (0, &2.into(), &json!([])));
        assert_eq!(ask_for_all(&replicas.all[1], &replicas.backend), fetched, "{what}");
    }
    assert_eq!(replicas.failed(), 0);
}

/// The home is queried by the endpoint's URL, which may differ from the client's.
#[test]
fn what_is_rewritten_is_purged_at_its_home_by_the_url_of_clients() {
    let mut replicas = Replicas::new(0, TAGGED);
    replicas.route = Box::new(|setup| setup.annotation("rewrite-target", "/same"));
    replicas.add(SECRET);
    replicas.add(SECRET);
    replicas.join();
    assert_eq!(ask_for_all(&replicas.all[0], &replicas.backend), OBJECTS);
    for object in 0..OBJECTS {
        purge(&replicas.all[0], &format!("--url=http://web.test/{object}"));
        let before = replicas.backend.heads().len();
        assert_eq!(get(&replicas.all[0], object).said(), (200, "ok"));
        assert_eq!(replicas.backend.heads().len(), before + 1, "{object}");
    }
    assert_eq!(ask_for_all(&replicas.all[1], &replicas.backend), 0);
}

#[test]
fn a_change_reaches_all_replicas_before_it_is_answered() {
    let replicas = Replicas::new(3, KEPT);
    ask_for_all(&replicas.all[0], &replicas.backend);
    for (number, method) in ["POST", "PUT", "DELETE"].into_iter().enumerate() {
        let before = replicas.backend.heads().len();
        for object in 0..OBJECTS {
            let changer = &replicas.all[(number + object) % 3];
            let head = format!("{method} /{object} HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\n");
            let response = changer.client().ask(&format!("{head}Content-Length: 0\r\n\r\n"));
            assert_eq!(response.said(), (200, "ok"));
            assert_eq!(get(&replicas.all[(number + object + 1) % 3], object).said(), (200, "ok"));
        }
        assert_eq!(replicas.backend.heads().len() - before, 2 * OBJECTS, "{method}");
    }
    assert_eq!(replicas.sum("forebay_cache_replica_invalidations_total", "told"), 3 * 2 * OBJECTS as u64);
    assert_eq!(replicas.sum("forebay_cache_replica_invalidations_total", "unreached"), 0);
}

#[test]
fn who_is_not_reached_is_told_of_and_counted() {
    let mut replicas = Replicas::new(3, KEPT);
    drop(replicas.all.pop());
    let (code, purged) = purge(&replicas.all[0], "--all");
    let unreached = json!([address(2).to_string()]);
    assert_eq!((code, &purged["replicas"], &purged["replicasUnreached"]), (1, &1.into(), &unreached));
    let post = "POST /1 HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(replicas.all[0].client().ask(post).said(), (200, "ok"));
    let count = |result| replicas.sum("forebay_cache_replica_invalidations_total", result);
    assert_eq!((count("told"), count("unreached")), (1, 1));
}

/// An order without the secret purges nothing.
#[test]
fn orders_of_others_have_no_effect() {
    let mut replicas = Replicas::new(1, KEPT);
    replicas.add("a secret of somebody else, which is as long as need be");
    introduce(&replicas.all[1], &replicas.addresses());
    ask_for_all(&replicas.all[0], &replicas.backend);
    let (code, purged) = purge(&replicas.all[1], "--all");
    assert_eq!((code, &purged["replicas"]), (1, &0.into()));
    let post = "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\nForebay-Replica: AgAA\r\n\r\n";
    assert_eq!(replicas.all[0].client().ask(post).header("forebay-replica"), None);
    assert_eq!(ask_for_all(&replicas.all[0], &replicas.backend), 0);
}

#[test]
fn without_a_secret_each_has_its_own() {
    let replicas = Replicas::new(0, KEPT);
    let forebay = setup()
        .setting("forebay-cache", "true")
        .setting("forebay-cache-shared", "true")
        .endpoint(replicas.backend.address())
        .arguments(["--cache-memory=64m", "--replicas-service=default/web"])
        .start();
    forebay.await_log("key forebay-cache-shared: there is nobody to share a cache with");
    assert_eq!(ask_for_all(&forebay, &replicas.backend), OBJECTS);
    assert_eq!(ask_for_all(&forebay, &replicas.backend), 0);
}
