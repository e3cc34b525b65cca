//! The cache, as the `ConfigMap` and Ingresses ask for it, with several workers.

use testkit::manifest::service;
use testkit::{Connection, Forebay, H2Client, Setup, TlsClient, Upstream};

use crate::{GET, setup};

const KEPT: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok";
const CLIENTS: usize = 1000;

fn cached() -> Setup {
    setup().setting("forebay-cache", "true").arguments(["--cache-memory=64m"])
}

/// Each of whom has sent a request.
fn clients(forebay: &Forebay, count: usize) -> Vec<Connection> {
    let ask = |_| {
        let mut client = forebay.client();
        client.send(GET);
        client
    };
    (0..count).map(ask).collect()
}

#[test]
fn a_thousand_clients_of_all_workers_are_one_request() {
    let upstream = Upstream::new();
    let forebay = cached().endpoint(upstream.address()).arguments(["--workers=4"]).start();
    let clients = clients(&forebay, CLIENTS);
    let (mut peer, _) = upstream.accept_request();
    peer.send(KEPT);
    for mut client in clients {
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    assert!(upstream.is_left_alone());
    let count = |result: &str| forebay.metrics().sum("forebay_cache_requests_total", &[("result", result)]);
    // A request is counted once its response has been sent.
    forebay.await_that("each request to be counted", || {
        count("miss") == 1 && count("hit") + count("collapsed") == CLIENTS as u64 - 1
    });
}

#[test]
fn without_memory_nothing_is_kept() {
    let upstream = Upstream::new();
    let forebay = setup().setting("forebay-cache", "true").endpoint(upstream.address()).start();
    for _ in 0..2 {
        let mut client = forebay.client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(KEPT.replace("max-age", "Connection: close\r\nX: max-age"));
        let response = client.read_response();
        assert_eq!((response.status, response.header("cache-status")), (200, None));
    }
}

/// Headers of an auth service reach the endpoint, and make the response private to the user.
#[test]
fn each_user_has_responses_of_their_own() {
    let (upstream, auth) = (Upstream::new(), Upstream::new());
    let forebay = cached()
        .endpoint(upstream.address())
        .annotation("auth-url", "http://auth.default.svc.cluster.local/")
        .annotation("auth-response-headers", "X-User")
        .manifest("auth.yaml", service("auth", &[auth.address()]))
        .start();
    for (user, is_new) in [("ann", true), ("bob", true), ("ann", false), ("bob", false)] {
        let mut client = forebay.client();
        client.send(GET);
        let (mut service, _) = auth.accept_request();
        service.send(format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nX-User: {user}\r\nContent-Length: 0\r\n\r\n"
        ));
        if is_new {
            let (mut peer, head) = upstream.accept_request();
            assert!(head.contains(&format!("\r\nX-User: {user}\r\n")), "{head}");
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\n";
            peer.send(format!("{head}{user}"));
        }
        assert_eq!(client.read_response().said(), (200, user));
    }
    // A client that is refused gets no cached response.
    let mut client = forebay.client();
    client.send(GET);
    auth.accept_request().0.send("HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 401);
    assert!(upstream.is_left_alone());
}

/// A miss, which the endpoint answers; the client's response.
fn miss(forebay: &Forebay, upstream: &Upstream, fields: &str, answer: &str) -> testkit::Response {
    let mut client = forebay.client();
    client.send(with(fields));
    let (mut peer, _) = upstream.accept_request();
    peer.send(answer);
    client.read_response()
}

fn with(fields: &str) -> String {
    GET.replacen("\r\n\r\n", &format!("\r\n{fields}\r\n"), 1)
}

#[test]
fn a_thousand_streams_of_http_2_are_one_request() {
    let upstream = Upstream::new();
    let forebay = cached().endpoint(upstream.address()).arguments(["--workers=4"]).start();
    let clients: Vec<_> = (0..CLIENTS / 50).map(|_| H2Client::clear(forebay.address())).collect();
    let ask = |client: &H2Client| client.call("GET", "web.test", "/", &[], true);
    let mut calls: Vec<_> = clients.iter().flat_map(|client| (0..50).map(|_| ask(client))).collect();
    let (mut peer, _) = upstream.accept_request();
    peer.send(KEPT);
    for call in &mut calls {
        assert_eq!(call.read_response().said(), (200, "ok"));
    }
    assert!(upstream.is_left_alone());
}

/// Headers that a route adds for one client are added for each, and not cached.
#[test]
fn an_answer_for_one_origin_is_not_given_to_another() {
    let upstream = Upstream::new();
    let forebay = cached()
        .endpoint(upstream.address())
        .annotation("enable-cors", "true")
        .annotation("cors-allow-origin", "https://a.test, https://b.test")
        .start();
    let allowed = |response: &testkit::Response| response.header("access-control-allow-origin");
    let first = miss(&forebay, &upstream, "Origin: https://a.test\r\n", KEPT);
    assert_eq!(allowed(&first).as_deref(), Some("https://a.test"));
    for (origin, expected) in [("https://b.test", Some("https://b.test")), ("https://c.test", None)] {
        let response = forebay.client().ask(&with(&format!("Origin: {origin}\r\n")));
        assert_eq!((response.status, allowed(&response).as_deref()), (200, expected));
    }
    assert!(upstream.is_left_alone());
}

#[test]
fn a_canary_and_its_mainline_keep_responses_of_their_own() {
    const CANARY: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: next
  annotations: {nginx.ingress.kubernetes.io/canary: \"true\", nginx.ingress.kubernetes.io/canary-by-header: X-Canary}
spec:
  rules:
  - host: web.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: next, port: {number: 80}}}}]}
---
";
    let (upstream, next) = (Upstream::new(), Upstream::new());
    let forebay = cached()
        .endpoint(upstream.address())
        .manifest("next.yaml", CANARY.to_owned() + &service("next", &[next.address()]))
        .start();
    let always = "X-Canary: always\r\n";
    miss(&forebay, &next, always, &KEPT.replace("ok", "no"));
    miss(&forebay, &upstream, "", KEPT);
    assert_eq!(forebay.client().ask(&with(always)).said(), (200, "no"));
    assert_eq!(forebay.client().ask(GET).said(), (200, "ok"));
    // Cached responses are served without an endpoint.
    forebay.set_endpoints(&[]);
    assert_eq!(forebay.client().ask(GET).said(), (200, "ok"));
    assert!(upstream.is_left_alone() && next.is_left_alone());
}

/// The cache has the endpoint's response; headers that Forebay adds are made for each client.
#[test]
fn what_is_added_for_clients_is_added_to_hits_too() {
    let upstream = Upstream::new();
    let forebay = cached()
        .endpoint(upstream.address())
        .setting("use-forwarded-headers", "true")
        .setting("force-ssl-redirect", "false")
        .setting("ssl-redirect", "false")
        .setting("allow-snippet-annotations", "true")
        .setting("annotations-risk-level", "Critical")
        .setting("custom-http-errors", "503")
        .annotation("enable-cors", "true")
        .annotation(
            "configuration-snippet",
            "more_set_headers \"X-Added: $request_method\"; add_header X-More $remote_addr;",
        )
        .start();
    let request = |method: &str| {
        format!(
            "{method} / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n\r\n"
        )
    };
    for count in 0..3 {
        let mut client = forebay.client();
        client.send(request("GET"));
        if count == 0 {
            upstream.accept_request().0.send(KEPT);
        }
        let response = client.read_response();
        assert_eq!(response.said(), (200, "ok"));
        for (name, value) in
            [("x-added", "GET"), ("x-more", "127.0.0.1"), ("access-control-allow-origin", "*")]
        {
            let found = response.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            assert_eq!(
                found.map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
                [value],
                "{name}, answer {count}"
            );
        }
    }
    let mut client = forebay.client();
    client.send(request("HEAD"));
    assert_eq!(client.read_response_to_head().header("x-added").as_deref(), Some("HEAD"));
    assert!(upstream.is_left_alone());
}

#[test]
fn clients_over_tls_are_told_to_stay_by_hits_too() {
    let upstream = Upstream::new();
    let forebay = cached().endpoint(upstream.address()).start();
    for is_hit in [false, true] {
        let mut client = forebay.tls_client(&TlsClient::new("web.test"));
        client.send(GET);
        if !is_hit {
            upstream.accept_request().0.send(KEPT);
        }
        let response = client.read_response();
        assert_eq!(response.said(), (200, "ok"));
        assert_eq!(
            response.header("strict-transport-security").as_deref(),
            Some("max-age=31536000; includeSubDomains")
        );
    }
    // In the clear it is another page: the endpoint is told the scheme.
    let mut client = forebay.client();
    client.send(GET);
    upstream.accept_request().0.send(KEPT);
    assert_eq!(client.read_response().header("strict-transport-security"), None);
}
