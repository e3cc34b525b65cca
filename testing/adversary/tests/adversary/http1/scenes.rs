//! Tricks that need no generator.

use adversary::http1::recorder::Recorder;
use adversary::{Run, binary};
use testkit::manifest::service;
use testkit::{Canned, Upstream};

/// A length that is allowed, but that another reader might take for another number, is passed on in one form
/// or refused.
pub(super) fn lengths_are_written_anew(_: &Run) {
    let recorder = Recorder::default();
    let forebay = binary::setup().endpoint(recorder.address()).start();
    for (value, body) in
        [("\t0", ""), ("00", ""), (" \t00 \t", ""), ("+0", ""), ("005", "hello"), ("\t5\t", "hello")]
    {
        let request = format!("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length:{value}\r\n\r\n{body}");
        let status = forebay.client().ask(&request).status;
        let seen = recorder.take().seen;
        let raw: Vec<String> =
            seen.iter().map(|seen| String::from_utf8_lossy(&seen.raw).to_lowercase()).collect();
        let wanted = format!("\r\ncontent-length: {}\r\n", body.len());
        match (status, &raw[..]) {
            (400, []) => {}
            (200, [raw]) => {
                assert!(raw.contains(&wanted), "Content-Length:{value:?} is passed on as {raw:?}");
            }
            other => panic!("Content-Length:{value:?} comes to {other:?}"),
        }
    }
}

/// "The server MUST NOT send content in the response" to HEAD (RFC 9110 section 9.3.2): a client that kept
/// the connection would take it for the next answer.
pub(super) fn a_head_that_is_refused_has_no_body(_: &Run) {
    let forebay = binary::setup().start();
    for fields in [
        "Host: web.test\r\nExpect: 200-ok",
        "Host: web.test",
        "Host: other.test",
        "Host: web.test\r\nContent-Length: 99999999",
    ] {
        let mut client = forebay.client();
        let response = client.ask(&format!("HEAD / HTTP/1.1\r\n{fields}\r\n\r\n"));
        assert!(response.status >= 400, "{fields:?}: {response:?}");
        client.shutdown_write();
        let (rest, _) = client.read_to_end();
        assert_eq!(
            String::from_utf8_lossy(&rest),
            "",
            "after the {} to HEAD with {fields:?}",
            response.status
        );
    }
}

/// An upgrade other than WebSocket reaches no endpoint, so that no tunnel can result.
pub(super) fn only_websocket_is_upgraded(_: &Run) {
    let recorder = Recorder::default();
    let forebay = binary::setup().endpoint(recorder.address()).start();
    for asked in [
        "h2c",
        "h2c, websocket",
        "websocket, h2c",
        "TLS/1.0",
        "H2C",
        "HTTP/2.0",
        "irc",
        "websocket\r\nUpgrade: h2c",
    ] {
        let settings = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n";
        let request = format!("GET / HTTP/1.1\r\nHost: web.test\r\n{settings}Upgrade: {asked}\r\n\r\n");
        let status = forebay.client().ask(&request).status;
        let seen = recorder.take().seen;
        assert!(if status == 200 {
            seen.len() == 1
        } else {
            (400..500).contains(&status) && seen.is_empty()
        });
        for (name, value) in seen.iter().flat_map(|seen| &seen.request.fields) {
            let value = String::from_utf8_lossy(value).to_lowercase();
            assert!(name != "upgrade" || value == "websocket", "Upgrade: {asked} is passed on as {value:?}");
            assert_ne!(name, "http2-settings", "Upgrade: {asked} is passed on in part");
        }
    }
}

/// A client that has not asked for another protocol is not given one, nor is the endpoint.
pub(super) fn a_switch_that_was_not_asked_for(_: &Run) {
    let websocket = "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let plain = "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n";
    for (request, answer) in [
        (plain, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
        (plain, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        (plain, "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        (websocket, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        (
            websocket,
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
        ),
    ] {
        let endpoint = Canned::answering(answer);
        let forebay = binary::setup().endpoint(endpoint.address()).start();
        let mut client = forebay.client();
        client.send(request);
        let head = client.read_head();
        assert!(head.starts_with("HTTP/1.1 502 "), "{answer:?} to {request:?} is passed on: {head:?}");
    }
}

/// A client's forwarded host selects no route of another host, and does not reach the endpoint, unless the
/// peer is trusted.
pub(super) fn a_strangers_forwarded_host_is_not_believed(_: &Run) {
    let (web, other) = (Canned::saying("web"), Canned::saying("other"));
    let ingress = testkit::manifest::Ingress::new("other").path("other.test", "Prefix", "/", "other");
    for trusted in ["127.0.0.0/8", "192.0.2.0/24"] {
        let forebay = binary::setup()
            .endpoint(web.address())
            .setting("use-forwarded-headers", "true")
            .setting("proxy-real-ip-cidr", trusted)
            .manifest("other.yaml", ingress.document() + &service("other", &[other.address()]))
            .start();
        let request = "GET / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Host: other.test\r\nX-Forwarded-For: 192.0.2.7\r\n\
                       X-Forwarded-Proto: https\r\n\r\n";
        let response = forebay.client().ask(request);
        assert_eq!(response.said(), (200, "web"), "with peers of {trusted} trusted");
        if trusted != "127.0.0.0/8" {
            let head = web.heads().last().cloned().unwrap_or_default().to_lowercase();
            // The claimed values may be passed on as such.
            let head: String = head.lines().filter(|line| !line.starts_with("x-original-")).collect();
            for lie in ["other.test", "192.0.2.7", "https"] {
                assert!(!head.contains(lie), "an untrusted peer's {lie} is passed on: {head:?}");
            }
        }
    }
}

/// A target that a rule does not see does not reach an endpoint.
pub(super) fn a_fragment_leads_round_no_rule(_: &Run) {
    let recorder = Recorder::default();
    let forebay = binary::setup().endpoint(recorder.address()).start();
    for target in [
        "/x#/../admin",
        "/x?a#/../admin",
        "http://web.test/x#/../admin",
        "http://web.test#/admin",
        "/#?/admin",
        "#/admin",
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: web.test\r\n\r\n");
        let status = forebay.client().ask(&request).status;
        for seen in recorder.take().seen {
            let raw = String::from_utf8_lossy(&seen.raw).into_owned();
            assert!(!raw.contains("admin") && !raw.contains('#'), "{target} arrives as {raw:?}");
        }
        assert!(matches!(status, 200 | 400), "{target} comes to {status}");
    }
}

/// Trailers do not change the client's identity.
pub(super) fn trailers_say_nothing_of_their_client(_: &Run) {
    let names = [
        "Authorization",
        "Cookie",
        "X-Forwarded-For",
        "X-Forwarded-User",
        "x-real-ip",
        "X_Real_IP",
        "X-Original-URI",
        "X-Auth-Request-User",
        "ssl-client-verify",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "X-Tenant",
        "X-Hop",
    ];
    let lines: String = names.iter().flat_map(|name| [name, ": evil\r\n"]).collect();
    let upstream = Upstream::new();
    let forebay = binary::setup()
        .endpoint(upstream.address())
        .annotation("configuration-snippet", "proxy_set_header X-Tenant \"\";")
        .annotation("proxy-request-buffering", "off")
        .setting("allow-snippet-annotations", "true")
        .setting("annotations-risk-level", "Critical")
        .start();
    let head = "POST / HTTP/1.1\r\nHost: web.test\r\nConnection: x-hop\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let end = format!("0\r\nX-Sum: 1\r\n{lines}\r\n");
    for comes_later in [false, true] {
        let mut client = forebay.client();
        client.send(if comes_later { head.to_owned() } else { format!("{head}{end}") });
        let (mut peer, _) = upstream.accept_request();
        if comes_later {
            client.send(&end);
        }
        assert_eq!(peer.read_raw_chunks(), "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
    }
}

/// A name in `Connection` takes a header from everybody or from nobody, and never what frames or routes the
/// request.
pub(super) fn what_connection_lists_is_seen_by_nobody(_: &Run) {
    let recorder = Recorder::default();
    let forebay = binary::setup()
        .endpoint(recorder.address())
        .annotation("upstream-vhost", "of-$http_x_tenant.test")
        .start();
    for listed in
        ["x-tenant", "X-TENANT, close", "host, x-tenant,content-length", "te,\tX-Tenant\t,transfer-encoding"]
    {
        let request = format!(
            "POST / HTTP/1.1\r\nX-Tenant: evil\r\nHost: web.test\r\nConnection: {listed}\r\nContent-Length: 2\r\n\r\nhi"
        );
        assert_eq!(forebay.client().ask(&request).status, 200, "{listed}");
        let record = recorder.take();
        assert!(record.malformed.is_empty() && record.seen.len() == 1, "{listed}: {record:?}");
        let raw = String::from_utf8_lossy(&record.seen[0].raw).to_lowercase();
        assert!(!raw.contains("evil") && raw.contains("\r\nhost: of-.test\r\n"), "{listed}: {raw:?}");
        assert!(raw.ends_with("hi"), "{listed}: {raw:?}");
    }
}
