//! Services over HTTP.

use testkit::manifest::service;
use testkit::{Canned, Forebay, Upstream};

use super::{open, send};
use crate::setup;

fn house(endpoint: &Canned, at: &Upstream, annotations: &[(&str, &str)]) -> Forebay {
    let url = "http://authz.default.svc/check";
    let mut ingress = open("web").annotation("forebay.io/ext-authz-url", url);
    for (name, value) in annotations {
        ingress = ingress.annotation(&format!("forebay.io/ext-authz-{name}"), value);
    }
    let services = [service("svc", &[endpoint.address()]), service("authz", &[at.address()])];
    let documents = [&[ingress.document()], &services[..]].concat();
    setup().manifest("house.yaml", documents.join("---\n")).start()
}

#[test]
fn two_hundred_lets_in_with_the_headers_that_are_named() {
    let (endpoint, at) = (Canned::saying("let in"), Upstream::new());
    let forebay = house(
        &endpoint,
        &at,
        &[
            ("allowed-headers", "X-Tenant, X-Forwarded-For"),
            ("upstream-headers", "X-User, X-Group"),
            ("client-headers-on-success", "Set-Cookie"),
        ],
    );
    let fields = "Authorization: Bearer t\r\nX-Tenant: a\r\nCookie: c=1\r\nX-User: forged\r\nX-Forwarded-For: 192.0.2.1\r\n";
    let mut client = send(&forebay, "web", "/a?b", fields);
    let (mut peer, head) = at.accept_request();
    let lower = head.to_ascii_lowercase();
    assert!(head.starts_with("GET /check/a?b HTTP/1.1\r\nHost: web.test\r\n"), "{head}");
    for line in ["authorization: bearer t", "x-tenant: a", "content-length: 0", "x-forwarded-for: 127.0.0.1"]
    {
        assert!(lower.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(!lower.contains("cookie") && !lower.contains("forged") && !lower.contains("192.0.2.1"), "{head}");
    peer.send(
        "HTTP/1.1 200 OK\r\nX-User: ann\r\nX-Group: a\r\nX-Group: b\r\nX-Role: admin\r\nSet-Cookie: s=1\r\n\
         x-envoy-auth-headers-to-remove: authorization, host\r\nContent-Length: 2\r\n\r\nok",
    );
    let response = client.read_response();
    assert_eq!(response.said(), (200, "let in"));
    assert_eq!(response.header("set-cookie").as_deref(), Some("s=1"));
    assert_eq!(response.header("x-user"), None);
    let head = endpoint.heads().remove(0).to_ascii_lowercase();
    assert!(head.contains("\r\nx-user: ann\r\n") && head.contains("\r\nx-group: a, b\r\n"), "{head}");
    assert!(!head.contains("x-role") && !head.contains("authorization") && head.contains("host: web.test"));
    let mut client = send(&forebay, "web", "/again", "");
    let second = peer.read_head();
    assert!(second.starts_with("GET /check/again "), "the connection was kept: {second}");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
}

#[test]
fn any_other_status_is_the_client_s() {
    let (endpoint, at) = (Canned::saying("let in"), Upstream::new());
    let all = house(&endpoint, &at, &[]);
    let few = house(&endpoint, &at, &[("client-headers", "X-Why")]);
    let denial = "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nX-Why: a\r\nX-Secret: b\r\nContent-Type: text/x\r\n\
                  Transfer-Encoding: chunked\r\n\r\n3\r\nnot\r\n4\r\n you\r\n0\r\n\r\n";
    for (forebay, secret) in [(&all, Some("b")), (&few, None)] {
        let mut client = send(forebay, "web", "/", "");
        let (mut peer, _) = at.accept_request();
        peer.send(denial);
        let response = client.read_response();
        assert_eq!(response.said(), (401, "not you"));
        for (name, value) in [
            ("www-authenticate", Some("Bearer")),
            ("x-why", Some("a")),
            ("x-secret", secret),
            ("content-type", Some("text/x")),
        ] {
            assert_eq!(response.header(name).as_deref(), value, "{name}");
        }
    }
    for (status, expected) in [("204 Fine", 204), ("302 Found", 302), ("500 Broken", 403), ("503 Busy", 403)]
    {
        let mut client = send(&all, "web", "/", "");
        let (mut peer, _) = at.accept_request();
        peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
        assert_eq!(client.read_response().status, expected, "{status}");
    }
    assert!(endpoint.heads().is_empty());
}

#[test]
fn the_body_goes_along_where_it_is_asked_for() {
    let (endpoint, at) = (Canned::saying("let in"), Upstream::new());
    let forebay = house(&endpoint, &at, &[("body-max", "4"), ("body-partial", "true")]);
    let mut client = forebay.client();
    client.send("PUT /x HTTP/1.1\r\nHost: web.test\r\nContent-Length: 6\r\n\r\nabcdef");
    let (mut peer, head) = at.accept_request();
    assert!(head.starts_with("PUT /check/x ") && head.contains("Content-Length: 4\r\n"), "{head}");
    assert!(head.contains("x-envoy-auth-partial-body: true\r\n"), "{head}");
    assert_eq!(peer.read_exactly(4), b"abcd");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
    assert!(endpoint.heads()[0].contains("Content-Length: 6\r\n"));
}
