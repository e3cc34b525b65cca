//! The questions to a service, and the effects of its answers.

use deciders::proto::QueryParameter;
use deciders::proto::auth::OkHttpResponse;
use testkit::manifest::{secret, service};
use testkit::{Authority, Canned, Connection, H2Client, H2Upstream, TlsClient, TlsServer, Upstream};

use super::{GRPC, Service, allowed, answered, appended, denied, guarded, header, house, open, send};
use crate::setup;

#[test]
fn a_service_sees_the_request_and_edits_it() {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let context = guarded("web").annotation("forebay.io/ext-authz-context", "tenant=a, tier=gold");
    let forebay = house(setup(), &upstream, &service, &[context]);
    let fields =
        "X-User: forged\r\nX-Group: a\r\nCookie: secret=1\r\nX-Real-IP: 192.0.2.9\r\nX-B: 1\r\nX-B: 2\r\n";
    let mut client = send(&forebay, "web", "/a%20b?q=1&token=x", fields);
    let mut asked = service.asked();
    assert_eq!(asked.peer.header(":authority"), None);
    assert_eq!(asked.peer.header("grpc-timeout").as_deref(), Some("20000m"));
    let http = asked.http();
    assert_eq!((http.method.as_str(), http.path.as_str()), ("GET", "/a%20b?q=1&token=x"));
    assert_eq!((http.host.as_str(), http.scheme.as_str()), ("web.test", "http"));
    assert_eq!((http.protocol.as_str(), http.size, http.id.len()), ("HTTP/1.1", 0, 32));
    for (name, value) in [
        (":authority", "web.test"),
        (":path", "/a%20b?q=1&token=x"),
        ("x-user", "forged"),
        ("x-b", "1,2"),
        ("cookie", "secret=1"),
        ("x-real-ip", "127.0.0.1"),
    ] {
        assert_eq!(http.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    let attributes = &asked.attributes;
    let place = |peer: &Option<deciders::proto::auth::Peer>| {
        let address = peer.as_ref().and_then(|peer| peer.address.clone()).and_then(|it| it.socket_address);
        address.map(|address| (address.address, address.port_value)).expect("an address")
    };
    assert_eq!(place(&attributes.source).0, "127.0.0.1");
    assert_eq!(place(&attributes.destination).1, u32::from(forebay.address().port()));
    assert_eq!(attributes.context_extensions.get("tier").map(String::as_str), Some("gold"));
    assert!(attributes.request.as_ref().unwrap().time.as_ref().unwrap().seconds > 1_000_000_000);
    let pair = |key: &str, value: &str| QueryParameter { key: key.to_owned(), value: value.to_owned() };
    asked.answer(&allowed(OkHttpResponse {
        headers: vec![
            header("X-User", "ann"),
            appended("x-group", "b", Some(true)),
            header("Host", "other.test"),
            header("content-length", "7"),
            header(":path", "/other"),
        ],
        headers_to_remove: vec!["cookie".to_owned(), "host".to_owned()],
        response_headers_to_add: vec![header("X-Seen", "yes"), appended("Server", "authz", Some(false))],
        query_parameters_to_set: vec![pair("user", "ann b")],
        query_parameters_to_remove: vec!["token".to_owned()],
    }));
    let response = client.read_response();
    assert_eq!(response.said(), (200, "let in"));
    assert_eq!(response.header("x-seen").as_deref(), Some("yes"));
    let head = upstream.heads().remove(0);
    let lower = head.to_ascii_lowercase();
    assert!(head.starts_with("GET /a%20b?q=1&user=ann%20b HTTP/1.1\r\nHost: web.test\r\n"), "{head}");
    assert!(lower.contains("\r\nx-user: ann\r\n") && lower.contains("\r\nx-group: a, b\r\n"), "{head}");
    assert!(!lower.contains("forged") && !lower.contains("cookie") && !lower.contains("content-length"));
}

#[test]
fn a_denial_is_the_service_s_own_answer() {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let forebay = house(setup(), &upstream, &service, &[guarded("web")]);
    let headers = vec![
        header("Location", "https://login.test/"),
        header("Set-Cookie", "a=1"),
        header("Set-Cookie", "b=2"),
        header("Content-Length", "999"),
        header("content-type", "text/html"),
    ];
    let response = answered(&forebay, &service, "web", &denied(302, headers, "<p>sign in</p>"));
    assert_eq!(response.said(), (302, "<p>sign in</p>"));
    assert_eq!(response.header("location").as_deref(), Some("https://login.test/"));
    assert_eq!(response.header("content-type").as_deref(), Some("text/html"));
    assert_eq!(response.header("set-cookie").as_deref(), Some("a=1, b=2"));
    let plain = answered(&forebay, &service, "web", &denied(0, Vec::new(), ""));
    assert_eq!(plain.said(), (403, ""));
    assert!(upstream.heads().is_empty());
    let client = H2Client::clear(forebay.address());
    let call = &[GRPC, ("te", "trailers")];
    let mut call = client.call("POST", "web.test", "/echo.Echo/Call", call, false);
    let mut asked = service.asked();
    assert_eq!(asked.http().protocol, "HTTP/2");
    asked.answer(&denied(401, Vec::new(), "no"));
    assert_eq!(call.read_response().header("grpc-status").as_deref(), Some("16"), "UNAUTHENTICATED");
    for (result, count) in [("allowed", 0), ("denied", 3), ("error", 0)] {
        forebay.await_metric("forebay_ext_authz_requests_total", &[("result", result)], count);
    }
    let seconds = forebay.metrics().value("forebay_ext_authz_wait_seconds_total");
    assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
}

#[test]
fn a_service_has_its_share_of_the_headers() {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let few = guarded("few")
        .annotation("forebay.io/ext-authz-allowed-headers", "X-Token, X-Other")
        .annotation("forebay.io/ext-authz-upstream-headers", "X-User");
    let forebay = house(setup(), &upstream, &service, &[few]);
    let mut client =
        send(&forebay, "few", "/", "X-Token: t\r\nCookie: c\r\nX_User: forged\r\nX-User: forged\r\n");
    let mut asked = service.asked();
    let seen: Vec<_> = asked.http().headers.keys().cloned().collect();
    assert_eq!(seen, ["x-token"]);
    let headers = vec![header("X-User", "ann"), header("X-Role", "admin")];
    asked.answer(&allowed(OkHttpResponse { headers, ..OkHttpResponse::default() }));
    assert_eq!(client.read_response().status, 200);
    let mut client = send(&forebay, "few", "/", "x-user: forged\r\n");
    service.asked().allow();
    assert_eq!(client.read_response().status, 200);
    let heads: Vec<_> = upstream.heads().iter().map(|head| head.to_ascii_lowercase()).collect();
    assert!(heads[0].contains("\r\nx-user: ann\r\n") && !heads[0].contains("x-role"), "{}", heads[0]);
    assert!(heads.iter().all(|head| !head.contains("forged")), "{heads:?}");
}

/// The content of a request, which has a length or is in chunks.
fn content(peer: &mut Connection, head: &str, len: usize) -> String {
    if head.contains("Content-Length") {
        return String::from_utf8(peer.read_exactly(len)).unwrap();
    }
    // Lengths and pieces take turns.
    peer.read_raw_chunks().split("\r\n").skip(1).step_by(2).collect()
}

#[test]
fn a_body_is_shown_up_to_a_bound_and_passed_on_whole() {
    let (upstream, asked_at) = (Upstream::new(), Service::start());
    let max = |name: &str| guarded(name).annotation("forebay.io/ext-authz-body-max", "8");
    let documents = [
        max("whole").document(),
        max("partial").annotation("forebay.io/ext-authz-body-partial", "true").document(),
        max("stream").annotation("proxy-request-buffering", "off").document(),
        service("svc", &[upstream.address()]),
        service("authz", &[asked_at.0.address()]),
    ];
    let forebay = setup().manifest("house.yaml", documents.join("---\n")).start();
    for (host, framing, body, seen) in [
        ("whole", "Content-Length: 5", "hello", "hello"),
        ("whole", "Content-Length: 8", "hello yo", "hello yo"),
        ("whole", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("stream", "Content-Length: 5", "hello", "hello"),
        ("stream", "Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello"),
        ("partial", "Content-Length: 11", "hello world", "hello wo"),
        ("partial", "Transfer-Encoding: chunked", "b\r\nhello world\r\n0\r\n\r\n", "hello wo"),
    ] {
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: {host}.test\r\n{framing}\r\n\r\n{body}"));
        let mut asked = asked_at.asked();
        assert_eq!(asked.http().body, seen, "{host} {framing}");
        let partial = asked.http().headers.get("x-envoy-auth-partial-body").cloned();
        assert_eq!(partial.as_deref(), Some(if host == "partial" { "true" } else { "false" }));
        asked.allow();
        let (mut peer, head) = upstream.accept_request();
        let whole = if body.contains("world") { "hello world" } else { seen };
        assert_eq!(content(&mut peer, &head, whole.len()), whole, "{host} {framing}: {head}");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response().status, 200, "{host} {framing}");
    }
    for (framing, body) in [
        ("Content-Length: 11", "hello world"),
        ("Transfer-Encoding: chunked", "b\r\nhello world\r\n0\r\n\r\n"),
    ] {
        let response =
            forebay.client().ask(&format!("POST / HTTP/1.1\r\nHost: whole.test\r\n{framing}\r\n\r\n{body}"));
        assert_eq!(response.status, 413, "{framing}");
    }
    for (host, seen) in [("whole", "hello yo"), ("partial", "hello wo")] {
        let client = H2Client::clear(forebay.address());
        let mut call = client.call("POST", &format!("{host}.test"), "/", &[], false);
        call.sender.send("hello", false);
        call.sender.send(if host == "whole" { " yo" } else { " world" }, true);
        let mut asked = asked_at.asked();
        assert_eq!((asked.http().body.as_str(), asked.http().size), (seen, -1), "{host} over HTTP/2");
        asked.allow();
        let (mut peer, head) = upstream.accept_request();
        let whole = if host == "whole" { "hello yo" } else { "hello world" };
        assert_eq!(content(&mut peer, &head, whole.len()), whole, "{head}");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(call.read_response().status, 200);
    }
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: whole.test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert!(client.read_head().starts_with("HTTP/1.1 100 "));
    client.send(b"\xff\x00");
    let mut asked = asked_at.asked();
    assert_eq!((asked.http().body.as_str(), asked.http().raw_body.as_slice()), ("", &b"\xff\x00"[..]));
    asked.answer(&denied(403, Vec::new(), ""));
    assert_eq!(client.read_response().status, 403);
}

#[test]
fn answers_are_cached_where_they_say_so() {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let cached = guarded("web").annotation("forebay.io/ext-authz-cache-key", "$http_authorization");
    let forebay = house(setup(), &upstream, &service, &[cached]);
    let ask = |user: &str, cache_control: Option<&str>| {
        let mut client = send(&forebay, "web", "/", &format!("Authorization: {user}\r\n"));
        if let Some(cache_control) = cache_control {
            let mut message = Vec::new();
            deciders::grpc::write(&denied(418, Vec::new(), user), &mut message);
            service.asked().say(&[("cache-control", cache_control)], &message);
        }
        let response = client.read_response();
        (response.status, response.text().to_owned())
    };
    let said = |user: &str| (418, user.to_owned());
    assert_eq!(ask("ann", Some("max-age=60")), said("ann"));
    assert_eq!(ask("ann", None), said("ann"), "it is cached");
    assert_eq!(ask("bob", Some("no-store, max-age=60")), said("bob"));
    assert_eq!(ask("bob", Some("max-age=60")), said("bob"), "it was not cached");
    assert!(service.0.is_left_alone());
}

#[test]
fn checks_are_combined() {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let keys = secret("keys", "Opaque", &[("reports", "0123")]);
    let any = guarded("any").annotation("satisfy", "any").annotation("forebay.io/auth-api-keys", "keys");
    let all = guarded("all").annotation("forebay.io/auth-api-keys", "keys");
    let forebay = house(setup().manifest("keys.yaml", keys), &upstream, &service, &[any, all, open("open")]);
    let key = "X-API-Key: 0123\r\n";
    assert_eq!(send(&forebay, "any", "/", key).read_response().status, 200);
    assert_eq!(send(&forebay, "open", "/", "").read_response().status, 200);
    assert_eq!(send(&forebay, "all", "/", "").read_response().status, 401);
    assert!(service.0.is_left_alone(), "the key has decided");
    let mut client = send(&forebay, "any", "/", "");
    service.asked().allow();
    assert_eq!(client.read_response().status, 200);
    let mut client = send(&forebay, "all", "/", &format!("{key}X-Auth-Request-User: forged\r\n"));
    let mut asked = service.asked();
    let seen = &asked.http().headers;
    assert_eq!(seen.get("x-auth-request-user").map(String::as_str), Some("reports"), "as the endpoint");
    assert!(!seen.contains_key("x-api-key"));
    asked.answer(&denied(403, Vec::new(), "not you"));
    assert_eq!(client.read_response().said(), (403, "not you"));
}

#[test]
fn a_service_over_tls_is_asked_for_clients_over_tls() {
    let certificate = Authority::new("inner").server(&["authz.default.svc"]);
    let at = Service(H2Upstream::tls(&TlsServer::new(&certificate)));
    let upstream = Canned::saying("let in");
    let ingress = open("web").annotation("forebay.io/ext-authz-url", "grpcs://authz.default.svc:80");
    let forebay = house(setup(), &upstream, &at, &[ingress]);
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let mut asked = at.asked();
    assert_eq!(asked.peer.tls.as_ref().unwrap().alpn.as_deref(), Some("h2"));
    assert_eq!(asked.http().scheme, "https");
    let server_name = asked.attributes.tls_session.as_ref().map(|session| session.sni.as_str());
    assert_eq!(server_name, Some("web.test"));
    asked.allow();
    assert_eq!(client.read_response().status, 200);
}
