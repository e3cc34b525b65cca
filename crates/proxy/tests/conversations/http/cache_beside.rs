//! The cache beside what else a route may have: each does what it does without the other. And bounds of what
//! is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::template::Template;
use model::{
    Affinity, AffinityCookie, AffinityMode, Balance, CachePolicy, Cluster, ClusterId, ErrorPages, Forward,
    Mirror, MirrorCopy, Model, Pace, ResponsePolicy, Share,
};
use testkit::{Refusing, Upstream};

use super::cache::{House, get};
use super::{GET, OK, forward, route};
use crate::world::{World, cluster};

const KEPT: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 10\r\n\r\n0123456789";
const FAILED: &str = "HTTP/1.1 503 Oh\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno";

/// A route with a cache, and what a test changes.
fn house(change: impl FnOnce(&mut Model)) -> House {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        keeping(model);
        change(model);
    });
    House { world, upstream }
}

fn keeping(model: &mut Model) {
    forward(model, |forward| forward.cache = Some(Arc::new(CachePolicy::default())));
}

/// A cookie that makes clients stay is a client's own: what is kept has none, and a hit gives none.
#[test]
fn a_cookie_of_affinity_is_not_kept() {
    let house = house(|model| {
        forward(model, |forward| forward.sets_affinity_cookie = true);
        let cookie = AffinityCookie::default();
        let affinity = Affinity {
            mode: AffinityMode::Balanced,
            change_on_failure: false,
            cookie,
            header: None,
            age_max: None,
            key: None,
        };
        let balance = Balance::Cookie(Arc::new(affinity));
        let cluster = Cluster { balance, ..Cluster::clone(model.cluster(ClusterId(0))) };
        model.clusters.insert(ClusterId(0), Arc::new(cluster));
    });
    let (first, _) = house.ask(GET, KEPT);
    assert!(first.header("set-cookie").is_some(), "it went to an endpoint");
    let cookie = first.header("set-cookie").unwrap();
    let (pair, _) = cookie.split_once(';').unwrap();
    for fields in ["", &format!("Cookie: {pair}\r\n")] {
        let hit = house.hit(&get(fields));
        assert_eq!((hit.said(), hit.header("set-cookie")), ((200, "0123456789"), None));
    }
}

/// Copies are made of what an endpoint is asked, and of nothing else.
#[test]
fn a_hit_is_not_copied() {
    let copies = Upstream::new();
    let house = house(|model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[copies.address()])));
        let template = |text| Template::parse(text).unwrap();
        let copy = MirrorCopy {
            host: template("copies.test"),
            target: template("/copy"),
            adds_query: false,
            has_body: true,
        };
        forward(model, |forward: &mut Forward| {
            let mirror = Mirror { cluster: ClusterId(1), copy: Some(Arc::new(copy)), share: Share::ALL };
            forward.transfer.mirrors = Some([mirror].into());
        });
    });
    house.ask(GET, KEPT);
    let (mut copy, _) = copies.accept_request();
    // The answer to a copy is nobody's, and not kept either.
    copy.send(KEPT.replace("0123456789", "poisonous!"));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
    assert!(copies.is_left_alone());
}

/// Only what the last try brought is kept, and a try that failed costs the cache nothing.
#[test]
fn what_another_try_brings_is_kept() {
    let (refusing, upstream) = (Refusing::default(), Upstream::new());
    let endpoints = [refusing.address(), upstream.address()];
    let world = World::http(&endpoints, |model| {
        keeping(model);
        forward(model, |forward| {
            forward.retry.on.statuses = vec![503];
            forward.retry.tries = None;
        });
    });
    let house = House { world, upstream };
    for number in 0..4 {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: web.test\r\n\r\n");
        assert_eq!(house.ask(&request, KEPT).0.said(), (200, "0123456789"));
        assert_eq!(house.hit(&request).said(), (200, "0123456789"));
    }
    let upstream = Upstream::everywhere();
    let world = World::http(&[upstream.endpoint(1), upstream.endpoint(2)], |model| {
        keeping(model);
        forward(model, |forward| forward.retry.on.statuses = vec![503]);
    });
    let house = House { world, upstream };
    let mut client = house.world.http_client();
    client.send(GET);
    house.upstream.accept_request().0.send(FAILED);
    house.upstream.accept_request().0.send(KEPT);
    assert_eq!(client.read_response().said(), (200, "0123456789"));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
}

/// A page of errors is made for who asked; what the endpoint said is judged by itself.
#[test]
fn a_page_of_errors_is_not_kept_in_place_of_what_it_is_about() {
    let errors = Upstream::new();
    let house = house(|model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[errors.address()])));
        let mut pages = ErrorPages::new(vec![503]);
        pages.backends = vec![ClusterId(1)];
        route(model, |route| route.error_pages = Some(Arc::new(pages)));
    });
    let mut client = house.world.http_client();
    client.send(GET);
    house.upstream.accept_request().0.send(FAILED);
    let page = "HTTP/1.1 410 Gone\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\npage";
    errors.accept_request().0.send(page);
    assert_eq!(client.read_response().said(), (410, "page"));
    assert_eq!(house.ask(GET, KEPT).0.said(), (200, "0123456789"));
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
    assert!(errors.is_left_alone());
}

/// A hit is paced as well, and a slow client does not slow the filling.
#[test]
fn a_hit_is_sent_no_faster_than_its_pace() {
    let pace = Some(Pace { bytes_per_second: 16 << 10, after_bytes: 4 << 10 });
    let policy = ResponsePolicy { pace, read_ahead_bytes: 64 << 10, ..ResponsePolicy::default() };
    let house = house(|model| forward(model, |forward| forward.transfer.response = Some(Box::new(policy))));
    let body = "x".repeat(36 << 10);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for is_hit in [false, true] {
        let begin = Instant::now();
        let response = if is_hit { house.hit(GET) } else { house.ask(GET, &answer).0 };
        assert_eq!(response.said(), (200, &*body));
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(850), "{took:?}, hit: {is_hit}");
    }
}

/// A body that is read whole before an endpoint is asked changes what is kept as any other.
#[test]
fn a_change_with_a_body_that_is_read_whole_makes_what_is_kept_invalid() {
    let house =
        house(|model| forward(model, |forward| forward.transfer.request_buffer_bytes = Some(8 << 10)));
    house.ask(GET, KEPT);
    let post =
        "POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    assert_eq!(house.ask(post, OK).0.status, 200);
    assert_eq!(house.ask(GET, KEPT).0.status, 200);
    house.hit(GET);
}

/// A response that comes after a change, and was asked for before it, is of the time before the change.
#[test]
fn what_was_asked_for_before_a_change_is_not_kept() {
    let house = House::new();
    let post = "POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n";
    let (old, new) = (KEPT.replace("0123456789", "old old ol"), KEPT.replace("0123456789", "new new ne"));
    let (done, failed) = ("HTTP/1.1 204 Done\r\n\r\n", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    for (is_begun, said) in [(false, done), (true, done), (false, failed), (true, failed)] {
        let mut before = house.world.http_client();
        before.send(GET);
        let (mut slow, _) = house.upstream.accept_request();
        let (head, body) = old.split_at(old.len() - 10);
        if is_begun {
            slow.send(head);
            before.read_head();
        }
        house.ask(post, said);
        let mut after = house.world.http_client();
        if said == done {
            // It does not go along with the one that is on its way.
            after.send(GET);
            house.upstream.accept_request().0.send(&new);
            assert_eq!(after.read_response().said(), (200, "new new ne"));
        }
        if is_begun {
            slow.send(body);
            assert_eq!(before.read_exactly(10), b"old old ol");
        } else {
            slow.send(&old);
            assert_eq!(before.read_response().said(), (200, "old old ol"));
        }
        // Once the slow one has been answered, what it brought would be there.
        let expected = if said == done { "new new ne" } else { "old old ol" };
        assert_eq!(house.hit(GET).said(), (200, expected), "{is_begun} {said}");
        drop(slow);
        house.ask(post, done);
    }
}

/// Of one page there is a bounded number of variants: the oldest goes.
#[test]
fn variants_have_a_bound() {
    let house = House::new();
    let answer = KEPT.replace("ETag: \"a\"", "Vary: X-Kind");
    let request = |kind: usize| get(&format!("X-Kind: {kind}\r\n"));
    for kind in 0..40 {
        house.ask(&request(kind), &answer.replace("0123456789", &format!("{kind:010}")));
    }
    for kind in 8..40 {
        assert_eq!(house.hit(&request(kind)).said(), (200, &*format!("{kind:010}")));
    }
    assert_eq!(house.ask(&request(0), &answer).0.said(), (200, "0123456789"));
    house.world.await_metric("forebay_cache_objects", &[], 1);
}

/// A head as long as may be is kept and given again; a longer one is no response at all, and one with too
/// many tags is not kept.
#[test]
fn heads_have_a_bound() {
    let house = house(|model| forward(model, |forward| forward.transfer.response_head_bytes_max = 64 << 10));
    let with = |field: &str| KEPT.replace("ETag: \"a\"", field);
    let long = format!("X-Long: {}", "x".repeat(60_000));
    house.ask(GET, &with(&long));
    let hit = house.hit(GET);
    assert_eq!((hit.said(), hit.header("x-long").unwrap().len()), ((200, "0123456789"), 60_000));
    let at = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let many = (0..900).map(|number| format!("X-{number}: {number}\r\n")).collect::<Vec<_>>().concat();
    let (response, _) = house.ask(&at("/many"), &with(many.trim_end()));
    assert!([200, 502].contains(&response.status));
    let tags = (0..4_000).map(|number| format!("tag-{number},")).collect::<Vec<_>>().concat();
    let tags = format!("Cache-Tag: {tags}");
    for _ in 0..2 {
        let (response, _) = house.ask(&at("/tags"), &with(&tags));
        assert!(response.header("cache-status").unwrap().contains("detail=labels"));
    }
    let (response, _) = house.ask(&at("/longer"), &with(&long.repeat(2)));
    assert_eq!(response.status, 502);
    let (response, _) = house.ask(&at("/longer"), KEPT);
    assert_eq!(response.status, 200, "what failed was not kept");
}
