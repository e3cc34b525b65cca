//! Responses that are kept, and requests that go along with each other.

use std::sync::Arc;
use std::time::Duration;

use model::{CacheBypass, CacheKeyQuery, CachePolicy};
use testkit::{Connection, H2Client, Upstream};

use super::{GET, await_fault, forward};
use crate::world::World;

const KEPT: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 10\r\n\r\n0123456789";
const PRIVATE: &str =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: private\r\nContent-Length: 2\r\n\r\nme";
const REQUESTS: &str = "forebay_cache_requests_total";

pub(super) struct House {
    pub(super) world: World,
    pub(super) upstream: Upstream,
}

impl House {
    pub(super) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(super) fn with(change: impl FnOnce(&mut CachePolicy)) -> Self {
        let upstream = Upstream::new();
        let mut policy = CachePolicy::default();
        change(&mut policy);
        let world = World::http(&[upstream.address()], |model| {
            forward(model, |forward| forward.cache = Some(Arc::new(policy)));
        });
        Self { world, upstream }
    }

    /// A request that the endpoint answers; its head there.
    pub(super) fn ask(&self, request: &str, answer: &str) -> (testkit::Response, String) {
        let mut client = self.world.http_client();
        client.send(request);
        let (mut peer, head) = self.upstream.accept_request();
        peer.send(answer);
        (client.read_response(), head)
    }

    /// A request that the endpoint does not see.
    pub(super) fn hit(&self, request: &str) -> testkit::Response {
        let response = self.world.http_client().ask(request);
        assert!(self.upstream.is_left_alone(), "{request}");
        response
    }

    /// Clients whose requests wait for the first of them, which the endpoint has.
    fn waiting(&self, count: usize) -> (Vec<Connection>, Connection) {
        let mut clients = vec![self.world.http_client()];
        clients[0].send(GET);
        let (peer, _) = self.upstream.accept_request();
        for _ in 1..count {
            let mut client = self.world.http_client();
            client.send(GET);
            clients.push(client);
        }
        // They have been read once another one that came after them has been answered.
        let mut last = self.world.http_client();
        assert_eq!(
            last.ask("GET /none HTTP/1.1\r\nHost: web.test\r\nCache-Control: only-if-cached\r\n\r\n").status,
            504
        );
        (clients, peer)
    }
}

pub(super) fn get(fields: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: web.test\r\n{fields}\r\n")
}

#[test]
fn what_is_kept_is_given_again() {
    let house = House::new();
    let (response, _) = house.ask(GET, KEPT);
    assert_eq!(response.said(), (200, "0123456789"));
    assert_eq!(response.header("cache-status").unwrap(), "forebay; fwd=uri-miss; stored; ttl=60");
    let again = house.hit(GET);
    assert_eq!(again.said(), (200, "0123456789"));
    assert!(again.header("cache-status").unwrap().starts_with("forebay; hit; ttl="));
    assert!(again.header("age").is_some());
    house.world.await_metric(REQUESTS, &[("result", "hit")], 1);
    house.world.await_metric("forebay_cache_objects", &[], 1);
}

#[test]
fn a_head_a_part_and_a_condition_are_answered_from_the_whole() {
    let house = House::new();
    house.ask(GET, KEPT);
    let mut client = house.world.http_client();
    client.send("HEAD /a HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let head = client.read_response_to_head();
    assert_eq!((head.status, head.header("content-length").as_deref()), (200, Some("10")));
    let part = house.hit(&get("Range: bytes=2-4\r\n"));
    assert_eq!(part.said(), (206, "234"));
    assert_eq!(part.header("content-range").unwrap(), "bytes 2-4/10");
    let none = house.hit(&get("Range: bytes=10-\r\n"));
    assert_eq!((none.status, none.header("content-range").unwrap().as_str()), (416, "bytes */10"));
    let changed = house.hit(&get("Range: bytes=2-4\r\nIf-Range: \"b\"\r\n"));
    assert_eq!(changed.said(), (200, "0123456789"));
    let mut client = house.world.http_client();
    client.send(get("If-None-Match: \"a\"\r\n"));
    assert_eq!(client.read_response_to_head().status, 304);
    assert!(house.upstream.is_left_alone());
}

#[test]
fn http_2_is_answered_from_the_same_cache() {
    let house = House::new();
    house.ask(GET, KEPT);
    let client = H2Client::clear(house.world.http_address());
    assert_eq!(client.get("web.test", "/a").said(), (200, "0123456789"));
    assert!(house.upstream.is_left_alone());
}

#[test]
fn a_thousand_requests_are_one() {
    let house = House::new();
    let (clients, mut peer) = house.waiting(400);
    peer.send(KEPT);
    for mut client in clients {
        assert_eq!(client.read_response().said(), (200, "0123456789"));
    }
    assert!(house.upstream.is_left_alone());
    house.world.await_metric(REQUESTS, &[("result", "collapsed")], 399);
}

#[test]
fn who_waits_streams_along() {
    let house = House::new();
    let (mut clients, mut peer) = house.waiting(3);
    peer.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    );
    for client in &mut clients {
        client.read_head();
        assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    }
    // And so does who comes now.
    let mut late = house.world.http_client();
    late.send(GET);
    late.read_head();
    assert_eq!(late.read_exactly(8), b"3\r\nabc\r\n");
    clients.push(late);
    peer.send("2\r\nde\r\n0\r\n\r\n");
    for client in &mut clients {
        assert_eq!(client.read_exactly(12), b"2\r\nde\r\n0\r\n\r\n");
    }
    assert_eq!(house.hit(GET).said(), (200, "abcde"));
}

#[test]
fn what_is_private_goes_to_each_by_itself_at_once() {
    let house = House::new();
    let (mut clients, mut peer) = house.waiting(4);
    peer.send(PRIVATE);
    // All of them ask before any is answered.
    let mut peers: Vec<_> = (1..4).map(|_| house.upstream.accept_request().0).collect();
    for peer in &mut peers {
        peer.send(PRIVATE);
    }
    for client in &mut clients {
        assert_eq!(client.read_response().said(), (200, "me"));
    }
    // The next ones do not wait for each other.
    let mut two = [house.world.http_client(), house.world.http_client()];
    for client in &mut two {
        client.send(GET);
    }
    let mut peers = [house.upstream.accept_request().0, house.upstream.accept_request().0];
    for peer in &mut peers {
        peer.send(PRIVATE);
    }
    for client in &mut two {
        assert_eq!(client.read_response().said(), (200, "me"));
    }
}

#[test]
fn another_asks_where_the_first_has_gone() {
    let house = House::new();
    let (mut clients, peer) = house.waiting(3);
    clients.remove(0).reset();
    let (mut second, _) = house.upstream.accept_request();
    drop(peer);
    assert!(house.upstream.is_left_alone(), "one asks, and not all");
    second.send(KEPT);
    for mut client in clients {
        assert_eq!(client.read_response().said(), (200, "0123456789"));
    }
}

#[test]
fn what_has_begun_is_read_to_its_end_though_its_client_has_gone() {
    let house = House::new();
    let (mut clients, mut peer) = house.waiting(2);
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nabc");
    let mut first = clients.remove(0);
    first.read_head();
    assert_eq!(first.read_exactly(3), b"abc");
    first.reset();
    clients[0].read_head();
    assert_eq!(clients[0].read_exactly(3), b"abc");
    peer.send("def");
    assert_eq!(clients[0].read_exactly(3), b"def");
    house.world.await_metric("forebay_cache_objects", &[], 1);
    assert_eq!(house.hit(GET).said(), (200, "abcdef"));
}

/// The endpoint has done nothing wrong: its connection is used again.
#[test]
fn a_client_that_leaves_costs_the_endpoint_no_connection() {
    let house = House::new();
    let (mut clients, mut peer) = house.waiting(2);
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nabc");
    let mut first = clients.remove(0);
    first.read_head();
    first.read_exactly(3);
    first.reset();
    peer.send("def");
    assert_eq!(clients[0].read_response().said(), (200, "abcdef"));
    await_fault(&house.world, "client_aborted");
    let mut next = house.world.http_client();
    next.send("GET /b HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert!(peer.read_head().starts_with("GET /b "));
}

#[test]
fn a_client_that_does_not_read_slows_nobody() {
    const LEN: usize = 6 << 20;
    let house = House::new();
    let mut slow = Connection::narrow_to(house.world.http_address());
    slow.send(GET);
    let (mut peer, _) = house.upstream.accept_request();
    let mut other = house.world.http_client();
    other.send(GET);
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {LEN}\r\n\r\n");
    let sending = std::thread::spawn(move || {
        peer.send(head);
        peer.send(vec![b'x'; LEN]);
        peer
    });
    assert_eq!(other.read_response().body.len(), LEN);
    let _peer = sending.join().unwrap();
    assert_eq!(slow.read_response().body.len(), LEN);
}

#[test]
fn what_grows_too_long_goes_to_all_who_read_it_and_is_not_kept() {
    let house = House::with(|policy| policy.object_bytes_max = 4);
    let (mut clients, mut peer) = house.waiting(3);
    peer.send(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    );
    for client in &mut clients {
        client.read_head();
        assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    }
    peer.send("3\r\ndef\r\n0\r\n\r\n");
    for client in &mut clients {
        assert_eq!(client.read_exactly(13), b"3\r\ndef\r\n0\r\n\r\n");
    }
    let (response, _) = house.ask(GET, KEPT);
    assert_eq!(response.said(), (200, "0123456789"));
    let status = response.header("cache-status").unwrap();
    assert!(!status.contains("stored"), "it says that it is too long: {status}");
}

#[test]
fn what_breaks_off_is_not_kept() {
    let house = House::new();
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut peer, _) = house.upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nabc");
    client.read_head();
    drop(peer);
    assert_eq!(client.read_to_end().0, b"abc");
    assert_eq!(house.ask(GET, KEPT).0.said(), (200, "0123456789"));
}

#[test]
fn what_is_stale_is_validated_and_counts_again() {
    let house = House::new();
    let stale = KEPT.replace("max-age=60", "max-age=0");
    house.ask(GET, &stale);
    let asked = get("If-None-Match: \"theirs\"\r\nRange: bytes=0-1\r\n");
    let answer = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n";
    let (response, head) = house.ask(&asked, answer);
    assert!(
        head.contains("\r\nIf-None-Match: \"a\"\r\n") && !head.contains("theirs") && !head.contains("Range"),
        "{head}"
    );
    assert_eq!(response.said(), (206, "01"));
    assert!(response.header("cache-status").unwrap().contains("fwd=stale; fwd-status=304"));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
}

#[test]
fn what_is_stale_is_given_while_another_is_fetched() {
    let house = House::with(|policy| policy.stale_while_revalidate = Duration::from_secs(60));
    house.ask(GET, &KEPT.replace("max-age=60", "max-age=0"));
    let mut client = house.world.http_client();
    assert_eq!(client.ask(GET).said(), (200, "0123456789"));
    let (mut peer, head) = house.upstream.accept_request();
    assert!(head.contains("\r\nIf-None-Match: \"a\"\r\n"), "{head}");
    // Nobody waits, and nobody else asks.
    assert_eq!(client.ask(GET).said(), (200, "0123456789"));
    assert!(house.upstream.is_left_alone());
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nnew");
    crate::world::await_that("the new one", || client.ask(GET).said() == (200, "new"));
}

#[test]
fn what_is_stale_is_given_where_the_endpoint_fails() {
    let house = House::with(|policy| policy.stale_if_error = Duration::from_secs(60));
    house.ask(GET, &KEPT.replace("max-age=60", "max-age=0"));
    let (response, _) = house.ask(GET, "HTTP/1.1 503 Oh\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(response.said(), (200, "0123456789"));
    assert!(response.header("cache-status").unwrap().contains("fwd-status=503"));
    let house = House::new();
    house.ask(GET, &KEPT.replace("max-age=60", "max-age=0"));
    assert_eq!(house.ask(GET, "HTTP/1.1 503 Oh\r\nContent-Length: 0\r\n\r\n").0.status, 503);
}

/// An endpoint is needed by who has to be asked, and by nobody else.
#[test]
fn what_is_kept_needs_no_endpoint() {
    let mut house = House::new();
    let at = |path: &str, method: &str| format!("{method} {path} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    house.ask(&at("/fresh", "GET"), KEPT);
    house.ask(&at("/spare", "GET"), &KEPT.replace("max-age=60", "max-age=0, stale-if-error=60"));
    house.ask(&at("/stale", "GET"), &KEPT.replace("max-age=60", "max-age=0, must-revalidate"));
    house.world.change(|model| {
        let mut clusters: Vec<_> = model.clusters.iter().map(|(_, cluster)| (**cluster).clone()).collect();
        clusters[0].endpoints.clear();
        model.clusters = clusters.into_iter().collect();
    });
    for path in ["/fresh", "/spare"] {
        assert_eq!(house.hit(&at(path, "GET")).said(), (200, "0123456789"), "{path}");
        assert_eq!(house.hit(&at(path, "HEAD")).status, 200, "{path}");
    }
    for (path, method) in [("/stale", "GET"), ("/none", "GET"), ("/fresh", "DELETE")] {
        assert_eq!(house.hit(&at(path, method)).status, 503, "{path}");
    }
    assert_eq!(house.hit(&at("/fresh", "GET")).status, 200, "nothing was changed");
}

#[test]
fn a_change_makes_what_is_kept_invalid() {
    let house = House::new();
    house.ask(GET, KEPT);
    let post = "POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(house.ask(post, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n").0.status, 500);
    house.hit(GET);
    house.ask(post, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(house.ask(GET, KEPT).0.status, 200);
}

#[test]
fn a_change_of_the_configuration_loses_nothing() {
    let mut house = House::new();
    house.ask(GET, KEPT);
    house.world.change(|model| forward(model, |forward| forward.timeouts.read = Duration::from_secs(7)));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
}

/// A header that an endpoint may look at without naming it in `Vary` leads to another response, or to one
/// that is not kept.
#[test]
fn no_request_gets_what_another_was_told() {
    for fields in [
        "X-Original-URL: /b\r\n",
        "X-Rewrite-URL: /b\r\n",
        "X-HTTP-Method-Override: POST\r\n",
        "X-Forwarded-Host: evil.test\r\n",
        "X-Forwarded-Prefix: /evil\r\n",
        "X-Host: evil.test\r\n",
        "Forwarded: host=evil.test\r\n",
        "X-Forwarded-Server: evil.test\r\n",
        "X-Script-Name: /evil\r\n",
        "X-Forwarded-Protocol: https\r\n",
        "X-Original-Path: /b\r\n",
        "X-Sendfile-Type: X-Accel-Redirect\r\n",
        "X-Requested-With: XMLHttpRequest\r\n",
        "Content-Length: 1\r\n",
    ] {
        let house = House::new();
        let body = if fields.starts_with("Content-Length") { "x" } else { "" };
        let poison = KEPT.replace("0123456789", "poisonous!");
        house.ask(&format!("{}{body}", get(fields)), &poison);
        assert_eq!(house.ask(GET, KEPT).0.said(), (200, "0123456789"), "{fields}");
    }
}

/// As over HTTP/1: what comes by HTTP/2 is a request of the same kind.
#[test]
fn over_http_2_no_request_gets_what_another_was_told() {
    for (name, value) in [
        ("x-original-url", "/b"),
        ("x-rewrite-url", "/b"),
        ("x-http-method-override", "POST"),
        ("x-forwarded-host", "evil.test"),
        ("x-forwarded-prefix", "/evil"),
        ("x-host", "evil.test"),
        ("forwarded", "host=evil.test"),
        ("x-script-name", "/evil"),
    ] {
        let house = House::new();
        let client = H2Client::clear(house.world.http_address());
        for (fields, content) in [(&[(name, value)][..], "poisonous!"), (&[], "0123456789")] {
            let mut call = client.call("GET", "web.test", "/a", fields, true);
            let (mut peer, _) = house.upstream.accept_request();
            peer.send(KEPT.replace("0123456789", content));
            assert_eq!(call.read_response().said(), (200, content), "{name}");
        }
        assert_eq!(house.hit(GET).said(), (200, "0123456789"), "{name}");
    }
}

/// Response splitting: what an endpoint sends after a response is no response to anybody.
#[test]
fn what_follows_a_response_is_nobodys() {
    let house = House::new();
    let evil = KEPT.replace("0123456789", "poisonous!");
    house.ask(GET, &format!("{KEPT}{evil}"));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
    let other = "GET /b HTTP/1.1\r\nHost: web.test\r\n\r\n";
    assert_eq!(house.ask(other, KEPT).0.said(), (200, "0123456789"));
}

#[test]
fn names_of_all_bytes_and_of_great_length_are_kept_apart() {
    let house = House::new();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let long = "x".repeat(8000);
    let escaped = (1..=255_u8).filter(|byte| !b"/.\\".contains(byte)).map(|byte| format!("/%{byte:02x}"));
    let paths: Vec<_> =
        escaped.chain([format!("/{long}"), format!("/{long}y"), format!("/?{long}")]).collect();
    let answer = |number: usize| KEPT.replace("0123456789", &format!("{number:010}"));
    for (number, path) in paths.iter().enumerate() {
        assert_eq!(house.ask(&get(path), &answer(number)).0.status, 200, "{path}");
    }
    for (number, path) in paths.iter().enumerate() {
        assert_eq!(house.hit(&get(path)).said(), (200, &*format!("{number:010}")), "{path}");
    }
}

#[test]
fn what_looks_alike_is_not_the_same() {
    for (one, other) in [
        ("GET /a%2Fb HTTP/1.1\r\nHost: web.test\r\n\r\n", "GET /a/b HTTP/1.1\r\nHost: web.test\r\n\r\n"),
        (
            "GET /?a=1&a=2 HTTP/1.1\r\nHost: web.test\r\n\r\n",
            "GET /?a=2&a=1 HTTP/1.1\r\nHost: web.test\r\n\r\n",
        ),
        ("GET /? HTTP/1.1\r\nHost: web.test\r\n\r\n", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"),
        ("GET /%61 HTTP/1.1\r\nHost: web.test\r\n\r\n", "GET /a HTTP/1.1\r\nHost: web.test\r\n\r\n"),
        ("GET / HTTP/1.1\r\nHost: web.test:81\r\n\r\n", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"),
    ] {
        let house = House::new();
        house.ask(one, KEPT);
        assert_eq!(house.ask(other, &KEPT.replace("0123456789", "9876543210")).0.said(), (200, "9876543210"));
    }
}

/// Cache deception: a page of somebody's own under a name that looks public.
#[test]
fn what_is_somebodys_own_is_not_kept() {
    let with_cookie = get("Cookie: session=1\r\n");
    let with_password = get("Authorization: Basic YTpi\r\n");
    let guessed =
        "HTTP/1.1 200 OK\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 2\r\n\r\nme";
    let bare = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nme";
    for (request, answer) in [
        (GET, PRIVATE),
        (GET, "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nme"),
        (GET, "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nme"),
        (&with_cookie, guessed),
        (&with_cookie, bare),
        (&with_password, KEPT),
    ] {
        let house = House::with(|policy| policy.default_ttl = Some(Duration::from_secs(60)));
        house.ask(request, answer);
        assert_eq!(house.ask(GET, KEPT).0.said(), (200, "0123456789"), "{request}{answer}");
    }
}

#[test]
fn cookies_and_headers_that_the_route_names_pass() {
    let bypass = CacheBypass { cookies: vec!["user".to_owned()], headers: vec!["X-Preview".to_owned()] };
    let house = House::with(|policy| policy.bypass = bypass);
    house.ask(GET, KEPT);
    for fields in ["Cookie: user=1\r\n", "X-Preview: 1\r\n"] {
        let (response, _) = house.ask(&get(fields), PRIVATE);
        assert_eq!(response.said(), (200, "me"));
        assert_eq!(response.header("cache-status").unwrap(), "forebay; fwd=bypass");
    }
    assert_eq!(house.hit(&get("Cookie: other=1\r\n")).status, 200);
}

#[test]
fn of_the_query_counts_what_the_route_says() {
    let house = House::with(|policy| policy.query = CacheKeyQuery::Named(vec!["page".to_owned()]));
    let request = |query: &str| format!("GET /a?{query} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    house.ask(&request("page=1&utm=x"), KEPT);
    assert_eq!(house.hit(&request("utm=y&page=1")).status, 200);
    house.ask(&request("page=2"), KEPT);
    // An escape means what it stands for.
    house.ask(&request("%70age=1"), KEPT);
    assert_eq!(house.hit(&request("x&%70age=1")).status, 200);
}

#[test]
fn each_language_is_kept() {
    let house = House::new();
    let answer = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: 2\r\n\r\n{body}"
        )
    };
    for language in ["de", "en"] {
        let (response, _) = house.ask(&get(&format!("Accept-Language: {language}\r\n")), &answer(language));
        assert_eq!(response.text(), language);
    }
    for language in ["de", "en"] {
        assert_eq!(house.hit(&get(&format!("Accept-Language: {language}\r\n"))).text(), language);
    }
}

#[test]
fn several_parts_of_what_is_kept_are_one_response() {
    let house = House::new();
    house.ask(GET, KEPT);
    let parts = house.hit(&get("Range: bytes=0-1,7-8\r\n"));
    let kind = parts.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let expected = format!(
        "\r\n--{boundary}\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--{boundary}\r\nContent-Range: bytes 7-8/10\r\n\r\n78\r\n--{boundary}--\r\n"
    );
    assert_eq!((parts.status, parts.header("content-range")), (206, None));
    assert_eq!(parts.said(), (206, expected.as_str()));
    assert_eq!(parts.header("content-length").unwrap(), expected.len().to_string());
}

#[test]
fn a_refresh_is_repeated_where_an_idle_connection_was_dead() {
    let house = House::with(|policy| policy.stale_while_revalidate = Duration::from_secs(60));
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut peer, _) = house.upstream.accept_request();
    peer.send(KEPT.replace("max-age=60", "max-age=0"));
    assert_eq!(client.read_response().said(), (200, "0123456789"));
    assert_eq!(client.ask(GET).said(), (200, "0123456789"));
    peer.read_head();
    drop(peer);
    let (mut peer, _) = house.upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nnew");
    crate::world::await_that("the new one", || client.ask(GET).said() == (200, "new"));
}
