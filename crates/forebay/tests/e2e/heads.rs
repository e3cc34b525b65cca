//! Heads: what an endpoint is told of a request, and a client of the response.

use testkit::manifest::config_map;
use testkit::{Canned, Forebay, H2Client, Upstream};

use crate::{GET, OK, serving, setup};

/// The lines of a head but for those that depend on the moment.
fn lines(head: &str) -> Vec<&str> {
    head.trim_end().split("\r\n").filter(|line| !line.starts_with("X-Request-ID: ")).collect()
}

/// The request as the upstream sees it, the start line included.
fn seen(forebay: &Forebay, upstream: &Upstream, request: &str) -> String {
    let mut client = forebay.client();
    client.send(request);
    let (mut peer, head) = upstream.accept_request();
    peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read_response().status, 204);
    head
}

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_request_goes_on_with_its_headers_in_their_order_and_letter_case() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let head = seen(
        &forebay,
        &upstream,
        "GET /a//b/%2e?q=%41 HTTP/1.1\r\nX-b: 2\r\nhOST: Web.Test:8080\r\nACCEPT:  */* \r\nx-A: 1\r\nX-b: 3\r\n\r\n",
    );
    let port = format!("X-Forwarded-Port: {}", forebay.address().port());
    assert_eq!(
        lines(&head),
        [
            "GET /a//b/%2e?q=%41 HTTP/1.1",
            "Host: Web.Test:8080",
            "X-Real-IP: 127.0.0.1",
            "X-Forwarded-For: 127.0.0.1",
            "X-Forwarded-Host: Web.Test:8080",
            &port,
            "X-Forwarded-Proto: http",
            "X-Forwarded-Scheme: http",
            "X-Scheme: http",
            "X-b: 2",
            "ACCEPT:  */* ",
            "x-A: 1",
            "X-b: 3",
        ]
    );
}

#[test]
fn what_concerns_one_connection_only_ends_here() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let head = seen(
        &forebay,
        &upstream,
        "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nX-Stays: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nUpgrade: h2c\r\nProxy-Connection: close\r\nProxy: http://evil\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(&lines(&head)[9..], ["X-Stays: 1"]);
}

/// A `Content-Length` that is left out while its body is sent would make the body the next request.
#[test]
fn connection_cannot_name_what_frames_a_message() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: web.test\r\nConnection: Content-Length\r\nContent-Length: 3\r\n\r\nabc",
    );
    let (mut peer, head) = upstream.accept_request();
    assert_eq!(value(&head, "Content-Length"), Some("3"));
    assert_eq!(peer.read_exactly(3), b"abc");
    peer.send("HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response().header("content-length").as_deref(), Some("2"));
}

#[test]
fn incoming_forwarding_headers_are_replaced() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let head = seen(
        &forebay,
        &upstream,
        "GET / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 6.6.6.6\r\nX-Scheme: https\r\n\r\n",
    );
    let port = forebay.address().port().to_string();
    for (name, expected) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "web.test"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Port", &port),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Scheme", "http"),
        ("X-Original-Forwarded-For", "6.6.6.6"),
        ("X-Original-Forwarded-Host", "evil"),
    ] {
        assert_eq!(value(&head, name), Some(expected), "{name}");
        assert_eq!(head.matches(&format!("\r\n{name}: ")).count(), 1, "{name}");
    }
}

#[test]
fn a_trusted_proxy_in_front_is_believed() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("use-forwarded-headers", "true")
        .setting("compute-full-forwarded-for", "true")
        .start();
    let head = seen(
        &forebay,
        &upstream,
        "GET / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: outer.test\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n\r\n",
    );
    for (name, expected) in [
        ("Host", "outer.test"),
        ("X-Real-IP", "192.0.2.7"),
        ("X-Forwarded-For", "192.0.2.7, 127.0.0.1"),
        ("X-Forwarded-Host", "outer.test"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "443"),
    ] {
        assert_eq!(value(&head, name), Some(expected), "{name}");
    }
}

#[test]
fn what_a_stranger_says_of_others_is_not_believed() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("use-forwarded-headers", "true")
        .setting("compute-full-forwarded-for", "true")
        .setting("proxy-real-ip-cidr", "192.0.2.0/24")
        .start();
    let head = seen(
        &forebay,
        &upstream,
        "GET / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: outer.test\r\n\
         X-Forwarded-Proto: https\r\n\r\n",
    );
    for (name, expected) in [
        ("Host", "web.test"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "web.test"),
        ("X-Forwarded-Proto", "http"),
    ] {
        assert_eq!(value(&head, name), Some(expected), "{name}");
    }
}

#[test]
fn no_forwarded_host_leads_to_another_route() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("use-forwarded-headers", "true").start();
    let request = "GET / HTTP/1.1\r\nHost: other.test\r\nX-Forwarded-Host: web.test\r\n\r\n";
    assert_eq!(forebay.client().ask(request).status, 404);
    assert!(upstream.is_left_alone());
}

#[test]
fn names_that_servers_read_differently_are_left_out() {
    let upstream = Upstream::new();
    let request =
        "GET / HTTP/1.1\r\nHost: web.test\r\nX_Real_IP: 6.6.6.6\r\nx.y: 1\r\nX_Own: 1\r\nX-Ok: 1\r\n\r\n";
    let forebay = serving(&upstream);
    assert_eq!(&lines(&seen(&forebay, &upstream, request))[9..], ["X-Ok: 1"]);
    let lenient =
        setup().endpoint(upstream.address()).setting("enable-underscores-in-headers", "true").start();
    assert_eq!(&lines(&seen(&lenient, &upstream, request))[9..], ["X_Own: 1", "X-Ok: 1"]);
}

#[test]
fn variables_have_the_values_of_headers_with_underscores_where_these_pass() {
    let upstream = Upstream::new();
    let request = "GET / HTTP/1.1\r\nHost: web.test\r\nX_C: 1\r\n\r\n";
    for (setting, expected) in
        [("enable-underscores-in-headers", "1"), ("ignore-invalid-headers", "1"), ("none", "")]
    {
        let value = if setting == "ignore-invalid-headers" { "false" } else { "true" };
        let forebay = setup()
            .endpoint(upstream.address())
            .setting(setting, value)
            .setting("proxy-set-headers", "default/set")
            .manifest("set.yaml", config_map("set", &[("X-Seen", "<$http_x_c>")]))
            .start();
        let head = seen(&forebay, &upstream, request);
        assert!(head.contains(&format!("\r\nX-Seen: <{expected}>\r\n")), "{setting}: {head}");
    }
}

#[test]
fn a_length_is_written_in_one_way_only() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (written, body) in [
        ("content-length: \t0", ""),
        ("Content-Length: 00", ""),
        ("Content-Length:2 ", "ab"),
        ("Content-Length: 002", "ab"),
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: web.test\r\n{written}\r\nX: y\r\n\r\n{body}");
        let head = seen(&forebay, &upstream, &request);
        assert!(
            head.contains(&format!("\r\nContent-Length: {}\r\nX: y\r\n", body.len())),
            "{written:?}: {head}"
        );
    }
    let head = seen(&forebay, &upstream, "POST / HTTP/1.1\r\nHost: web.test\r\ncontent-length: 0\r\n\r\n");
    assert!(head.contains("\r\ncontent-length: 0\r\n"), "a plain one stays as it is: {head}");
}

#[test]
fn a_request_keeps_its_id_or_gets_one() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let named = "GET / HTTP/1.1\r\nHost: web.test\r\nx-request-id: mine\r\n\r\n";
    let head = seen(&forebay, &upstream, named);
    assert_eq!(head.to_lowercase().matches("x-request-id: mine\r\n").count(), 1, "{head}");
    let ids = [(); 2].map(|()| value(&seen(&forebay, &upstream, GET), "X-Request-ID").map(str::to_owned));
    for id in ids.iter().flatten() {
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    }
    assert_ne!(ids[0], ids[1]);
    let without = setup().endpoint(upstream.address()).setting("generate-request-id", "false").start();
    assert_eq!(value(&seen(&without, &upstream, GET), "X-Request-ID"), None);
}

#[test]
fn the_original_uri_is_told_where_that_is_asked_for() {
    let upstream = Upstream::new();
    let forebay =
        setup().endpoint(upstream.address()).setting("proxy-add-original-uri-header", "true").start();
    let request = "GET /a?b HTTP/1.1\r\nHost: web.test\r\nX-Original-URI: /evil\r\n\r\n";
    let head = seen(&forebay, &upstream, request);
    assert_eq!(value(&head, "X-Original-URI"), Some("/a?b"));
    assert!(!head.contains("evil"));
}

#[test]
fn an_absolute_target_names_the_host_and_is_sent_as_a_path() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let head = seen(&forebay, &upstream, "GET http://web.test:81/a?b HTTP/1.1\r\nHost: other.test\r\n\r\n");
    assert_eq!(&lines(&head)[..2], ["GET /a?b HTTP/1.1", "Host: web.test:81"]);
    let head = seen(&forebay, &upstream, "OPTIONS * HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert_eq!(lines(&head)[0], "OPTIONS * HTTP/1.1");
}

#[test]
fn a_response_keeps_its_headers_but_for_those_of_the_connection() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(
        "HTTP/1.1 200 Fine By Me\r\nserver: secret/1.0\r\nx-B: 2\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let response = client.read_response();
    assert_eq!((&*response.version, response.status, &*response.reason), ("HTTP/1.1", 200, "Fine By Me"));
    assert_eq!(response.names(), ["x-B", "Date", "Set-Cookie", "Set-Cookie", "Content-Length"]);
    assert_eq!(response.header("date").as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
}

#[test]
fn a_response_without_a_date_gets_one() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    upstream.accept_request().0.send(OK);
    let date = client.read_response().header("date").expect("a date");
    assert!(date.ends_with(" GMT") && date.len() == "Thu, 01 Jan 1970 00:00:00 GMT".len(), "{date}");
}

#[test]
fn a_client_learns_what_becomes_of_its_connection() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (version, connection, told) in [
        ("1.1", "", None),
        ("1.1", "Connection: close\r\n", Some("close")),
        ("1.0", "", Some("close")),
        ("1.0", "Connection: keep-alive\r\n", Some("keep-alive")),
    ] {
        let mut client = forebay.client();
        client.send(format!("GET / HTTP/{version}\r\nHost: web.test\r\n{connection}\r\n"));
        let (mut peer, head) = upstream.accept_request();
        assert!(head.starts_with("GET / HTTP/1.1\r\n") && !head.contains("Connection"), "{head}");
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(client.read_response().header("connection").as_deref(), told, "{version} {connection}");
    }
}

#[test]
fn config_maps_set_headers_whatever_the_client_speaks_and_a_change_of_one_counts_at_once() {
    let endpoint = Canned::saying("hello");
    let maps = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: add}}\ndata: {{X-All: '{value} $request_method'}}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: team}}\ndata: {{X-Team: '{value}$'}}\n"
        )
    };
    let forebay = setup()
        .endpoint(endpoint.address())
        .setting("add-headers", "default/add")
        .setting("global-allowed-response-headers", "X-Team")
        .annotation("custom-headers", "default/team")
        .manifest("maps.yaml", maps("one"))
        .start();
    let check = |value: &str| {
        for response in [forebay.get("/"), H2Client::clear(forebay.address()).get("web.test", "/")] {
            assert_eq!(response.said(), (200, "hello"));
            assert_eq!(response.header("x-all"), Some(format!("{value} GET")));
            assert_eq!(response.header("x-team"), Some(format!("{value}$")));
        }
        let unknown = forebay.client().get("other.test", "/");
        assert_eq!((unknown.status, unknown.header("x-all")), (404, Some(format!("{value} GET"))));
        assert_eq!(unknown.header("x-team"), None);
    };
    check("one");
    forebay.replace("maps.yaml", &maps("two"));
    forebay
        .await_that("the change to count", || forebay.get("/").header("x-team").as_deref() == Some("two$"));
    check("two");
}
