//! Copies of requests.

use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{
    Backend, BackendFilters, Backends, ClusterId, Forward, HeaderChanges, Mirror, MirrorCopy, PathChange,
    RequestFilter, RequestFilters, Share, Split, UrlRewrite,
};
use testkit::{Canned, Connection, Refusing, Upstream};

use super::{GET, OK, POST, forward, route};
use crate::world::{World, await_that, cluster};

const DROPPED: &str = "forebay_mirrors_dropped_total";

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

fn copy() -> MirrorCopy {
    MirrorCopy { host: template("copies.test"), target: template("/copy"), adds_query: true, has_body: true }
}

struct House {
    world: World,
    upstream: Upstream,
    copies: Upstream,
}

impl House {
    fn new(copy: MirrorCopy, change: impl FnOnce(&mut Forward)) -> Self {
        let (upstream, copies) = (Upstream::new(), Upstream::new());
        let world = World::http(&[upstream.address()], |model| {
            model.clusters.insert(ClusterId(1), Arc::new(cluster(&[copies.address()])));
            forward(model, |forward| {
                let mirror = Mirror { cluster: ClusterId(1), copy: Some(Arc::new(copy)), share: Share::ALL };
                forward.transfer.mirrors = Some([mirror].into());
                change(forward);
            });
        });
        Self { world, upstream, copies }
    }

    /// A request, which is answered though its copy is not.
    fn ask(&self, request: &str) -> (Connection, Connection, String) {
        let mut client = self.world.http_client();
        client.send(request);
        let (mut peer, _) = self.upstream.accept_request();
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        let (copy, head) = self.copies.accept_request();
        (client, copy, head)
    }
}

#[test]
fn a_copy_has_the_method_the_headers_and_the_body() {
    let house = House::new(copy(), |_| ());
    let (_, mut copy, head) = house.ask(
        "POST /a?b=c HTTP/1.1\r\nHost: web.test:81\r\nCookie: d\r\nX-Forwarded-For: 192.0.2.1\r\n\
         Content-Length: 4\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\nbody",
    );
    assert!(head.starts_with("POST /copy?b=c HTTP/1.1\r\nHost: copies.test\r\n"), "{head}");
    for field in ["Cookie: d", "X-Forwarded-For: 192.0.2.1", "Content-Length: 4"] {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{field}: {head}");
    }
    assert!(!head.contains("X-Hop") && !head.contains("X-Real-IP"), "{head}");
    assert_eq!(copy.read_exactly(4), b"body");
    // Its connection takes another one.
    copy.send("HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nno\n");
    let mut client = house.world.http_client();
    client.send(GET);
    assert!(copy.read_head().starts_with("GET /copy HTTP/1.1\r\n"));
}

#[test]
fn a_long_body_in_chunks_is_copied_with_its_length() {
    let house = House::new(copy(), |_| ());
    let body = "x".repeat(100_000);
    let request = format!(
        "POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let (_, mut copy, head) = house.ask(&request);
    assert!(head.contains("\r\nContent-Length: 100000\r\n") && !head.contains("Transfer-Encoding"), "{head}");
    assert!(copy.read_exactly(100_000) == body.as_bytes());
}

#[test]
fn variables_are_evaluated_and_then_there_is_no_other_query() {
    let target = template("/of/$http_x?$args");
    let house = House::new(MirrorCopy { target, adds_query: false, ..copy() }, |_| ());
    let (_, _, head) = house.ask("GET /a?b HTTP/1.1\r\nHost: web.test\r\nX: a b\r\n\r\n");
    assert!(head.starts_with("GET /of/a%20b?b HTTP/1.1\r\n"), "{head}");
}

#[test]
fn a_copy_may_be_without_the_body() {
    let house = House::new(MirrorCopy { has_body: false, ..copy() }, |_| ());
    let (_, mut copy, head) = house.ask(POST);
    assert!(head.starts_with("POST /copy ") && !head.contains("Content-Length"), "{head}");
    copy.send(OK);
    let mut client = house.world.http_client();
    client.send(GET);
    assert!(copy.read_head().starts_with("GET /copy "), "nothing followed the first copy");
}

#[test]
fn nothing_of_a_copy_shows() {
    let (upstream, refusing) = (Upstream::new(), Refusing::default());
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[refusing.address()])));
        forward(model, |forward| {
            let mirror = Mirror { cluster: ClusterId(1), copy: Some(Arc::new(copy())), share: Share::ALL };
            forward.transfer.mirrors = Some([mirror].into());
        });
    });
    let mut client = world.http_client();
    client.send(POST);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(world.metrics().sum(DROPPED, &[]), 0);
    assert!(world.stop().contains("\" 200 "));
}

#[test]
fn a_body_that_is_not_kept_is_not_copied() {
    const LONG: usize = 3 << 20;
    let house = House::new(copy(), |_| ());
    let mut client = house.world.http_client();
    client.send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || sender.send(vec![b'x'; LONG]));
    let (mut peer, _) = house.upstream.accept_request();
    peer.read_exactly(LONG);
    sending.join().unwrap();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    house.world.await_metric(DROPPED, &[], 1);
    assert!(house.copies.is_left_alone());
}

#[test]
fn copies_that_nobody_answers_are_bounded() {
    let house = House::new(copy(), |forward| forward.timeouts.read = Duration::from_secs(60));
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut peer, _) = house.upstream.accept_request();
    peer.send(OK);
    client.read_response();
    let mut asked = 1;
    while house.world.metrics().sum(DROPPED, &[]) == 0 {
        client.send(GET);
        peer.read_head();
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        asked += 1;
        assert!(asked <= 33, "copies are not bounded");
    }
    assert_eq!(asked, 33, "as many as a cluster gets that has not answered yet");
}

#[test]
fn a_copy_of_what_the_endpoint_gets_has_its_path_host_and_headers() {
    let (upstream, copies) = (Upstream::new(), Upstream::new());
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[copies.address()])));
        forward(model, |forward| {
            let mirror = Mirror { cluster: ClusterId(1), copy: None, share: Share::ALL };
            forward.transfer.mirrors = Some([mirror].into());
        });
        route(model, |route| {
            let path = PathChange::Prefix { from: "/a".to_owned(), to: "/b".to_owned() };
            let rewrite = UrlRewrite { host: model::HeadText::new("other.test").ok(), path: Some(path) };
            let pair = |name: &str| vec![(name.to_owned(), "ours".to_owned())];
            let changes = HeaderChanges::new(pair("x-set"), pair("x-add"), Vec::new()).unwrap();
            let filters =
                vec![RequestFilter::UrlRewrite(Arc::new(rewrite)), RequestFilter::Headers(Arc::new(changes))];
            route.request_filters = RequestFilters::new(filters).unwrap();
        });
    });
    let mut client = world.http_client();
    client.send("POST /a/c?d HTTP/1.1\r\nHost: web.test\r\nX-Add: theirs\r\nContent-Length: 4\r\n\r\nbody");
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    let (mut copy, head) = copies.accept_request();
    assert!(head.starts_with("POST /b/c?d HTTP/1.1\r\nHost: other.test\r\n"), "{head}");
    assert!(head.contains("\r\nx-set: ours\r\n"), "{head}");
    let (theirs, ours) = (head.find("X-Add: theirs").unwrap(), head.find("x-add: ours").unwrap());
    assert!(theirs < ours, "{head}");
    assert_eq!(copy.read_exactly(4), b"body");
}

#[test]
fn several_mirrors_get_the_shares_that_are_theirs() {
    let upstream = Canned::saying("ok");
    let copies = [(); 4].map(|()| Canned::saying("copy"));
    let shares = [Share::ALL, Share::new(0, 100), Share::new(1, 4), Share::new(50, 100)];
    let world = World::http(&[upstream.address()], |model| {
        let mirrors = (1..).zip(&copies).zip(shares).map(|((id, copy), share)| {
            model.clusters.insert(ClusterId(id), Arc::new(cluster(&[copy.address()])));
            Mirror { cluster: ClusterId(id), copy: None, share }
        });
        let mirrors = mirrors.collect();
        forward(model, |forward| forward.transfer.mirrors = Some(mirrors));
    });
    let mut client = world.http_client();
    for _ in 0..400 {
        assert_eq!(client.ask(GET).said(), (200, "ok"));
    }
    let counted = || copies.each_ref().map(|copy| copy.heads().len());
    await_that("the last copy", || counted()[0] == 400);
    assert_eq!(world.metrics().sum(DROPPED, &[]), 0);
    let [_, none, quarter, half] = counted();
    // Six standard deviations.
    assert!(none == 0 && (48..=152).contains(&quarter) && (140..=260).contains(&half), "{quarter} {half}");
}

#[test]
fn a_backend_may_have_mirrors_of_its_own() {
    let (upstream, copies) = (Upstream::new(), Upstream::new());
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[copies.address()])));
        let mirror = Mirror { cluster: ClusterId(1), copy: None, share: Share::ALL };
        let filters = BackendFilters { mirrors: [mirror].into(), ..BackendFilters::default() };
        let backend = Backend { filters: Some(Arc::new(filters)), ..Backend::new(ClusterId(0), 1) };
        forward(model, |forward| forward.backends = Backends::Split(Split::new(vec![backend]).unwrap()));
    });
    let mut client = world.http_client();
    client.send(POST);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    let (mut copy, head) = copies.accept_request();
    assert!(head.starts_with("POST /a HTTP/1.1\r\nHost: web.test\r\n"), "{head}");
    assert_eq!(copy.read_exactly(4), b"body");
}
