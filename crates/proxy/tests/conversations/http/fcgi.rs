//! Endpoints that speak `FastCGI`.

use std::net::SocketAddr;
use std::sync::Arc;

use model::template::Template;
use model::{AppProtocol, FastCgi, Forward, UpstreamHead};
use testkit::fcgi::{FcgiRequest, Record, answer, read_stdin, records};
use testkit::{Connection, Ending, Upstream};

use super::{GET, POST, await_fault, forward};
use crate::world::{BRIEF, World};

const TEXT: &str = "Content-Type: text/plain\r\n\r\nok";

/// More than goes with a head, and more than one record holds.
const LONG: usize = 300_000;

fn world_of(endpoints: &[SocketAddr], change: impl FnOnce(&mut Forward)) -> World {
    World::http(endpoints, |model| {
        let mut clusters: Vec<_> = model.clusters.iter().map(|(_, cluster)| (**cluster).clone()).collect();
        clusters[0].version = AppProtocol::FastCgi;
        model.clusters = clusters.into_iter().collect();
        forward(model, change);
    })
}

fn world(upstream: &Upstream) -> World {
    world_of(&[upstream.address()], |_| ())
}

/// The request that the application gets, by a route with these own parameters.
fn told(index: &str, own: &[(&str, &str)], request: &str) -> FcgiRequest {
    let upstream = Upstream::new();
    let own = own.iter().map(|(name, text)| ((*name).to_owned(), Template::parse(text).unwrap())).collect();
    let fast_cgi = Some(Arc::new(FastCgi::new(index.to_owned(), own)));
    let world = world_of(&[upstream.address()], |forward| {
        forward.head = Some(Box::new(UpstreamHead { fast_cgi, ..UpstreamHead::default() }));
    });
    let mut client = world.http_client();
    client.send(request);
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    peer.send(answer(TEXT));
    assert_eq!(client.read_response().said(), (200, "ok"));
    request
}

/// A client that has asked once, where the application answers with these bytes.
fn said(bytes: &[u8]) -> (Connection, Connection, World) {
    let upstream = Upstream::new();
    let world = world_of(&[upstream.address()], |forward| forward.retry.tries = Some(1));
    let mut client = world.http_client();
    client.send(GET);
    let mut peer = upstream.accept();
    FcgiRequest::read(&mut peer);
    peer.send(bytes);
    (client, peer, world)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn an_application_is_told_what_nginx_tells() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    client.send("GET /a%20b/?c=d%20e HTTP/1.1\r\nHost: Web.test:81\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n");
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    let (client_address, own) = (client.address(), world.http_address());
    for (name, value) in [
        ("QUERY_STRING", "c=d%20e"),
        ("REQUEST_METHOD", "GET"),
        ("CONTENT_TYPE", ""),
        ("CONTENT_LENGTH", ""),
        ("SCRIPT_NAME", "/a b/"),
        ("REQUEST_URI", "/a%20b/?c=d%20e"),
        ("DOCUMENT_URI", "/a b/"),
        ("DOCUMENT_ROOT", "/usr/local/nginx/html"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_SCHEME", "http"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "forebay (as nginx)"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", &client_address.port().to_string()),
        ("SERVER_PORT", &own.port().to_string()),
        ("REDIRECT_STATUS", "200"),
        ("HTTP_HOST", "Web.test:81"),
        ("HTTP_COOKIE", "a=b; c=d"),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
        ("HTTP_X_FORWARDED_PROTO", "http"),
    ] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
    assert_eq!(request.param("HTTPS"), None, "the client's connection is in clear");
    assert!(request.body.is_empty());
    peer.send(answer(TEXT));
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_client_cannot_speak_for_the_proxy() {
    let request = "GET /a HTTP/1.1\r\nHost: web.test\r\nProxy: x\r\nX-Real-IP: 192.0.2.1\r\nX_Real_IP: 192.0.2.2\r\n\
                   Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-A: 1\r\nX-a: 2\r\n\r\n";
    let told = told("", &[], request);
    assert_eq!(told.param("HTTP_PROXY"), None);
    assert_eq!(told.param("HTTP_X_HOP"), None);
    assert_eq!(told.param("HTTP_CONNECTION"), None);
    assert_eq!(told.param("HTTP_X_REAL_IP"), Some("127.0.0.1"));
    assert_eq!(told.param("HTTP_X_A"), Some("1, 2"));
}

#[test]
fn own_parameters_have_variables_and_take_the_place_of_others() {
    let own = [
        ("SCRIPT_FILENAME", "/app${fastcgi_script_name}"),
        ("SERVER_SOFTWARE", "mine"),
        ("HTTP_X_A", "mine"),
        ("EMPTY", "$http_x_b"),
    ];
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: web.test\r\nX-A: theirs\r\n\r\n");
    let in_folder = told("index.php", &own, &request("/a/../b/?c"));
    assert_eq!(in_folder.param("SCRIPT_FILENAME"), Some("/app/b/index.php"));
    assert_eq!(in_folder.param("SCRIPT_NAME"), Some("/b/index.php"));
    assert_eq!(in_folder.param("DOCUMENT_URI"), Some("/b/"));
    assert_eq!(in_folder.param("REQUEST_URI"), Some("/a/../b/?c"));
    assert_eq!(in_folder.param("SERVER_SOFTWARE"), Some("mine"));
    assert_eq!(in_folder.param("HTTP_X_A"), Some("mine"));
    assert_eq!(in_folder.param("EMPTY"), Some(""));
    let file = told("index.php", &own, &request("/b/c.php"));
    assert_eq!(file.param("SCRIPT_NAME"), Some("/b/c.php"));
    let without = told("", &[], &request("/b/"));
    assert_eq!(without.param("SCRIPT_NAME"), Some("/b/"));
}

#[test]
fn each_request_has_a_connection_of_its_own() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    for _ in 0..3 {
        client.send(GET);
        let mut peer = upstream.accept();
        FcgiRequest::read(&mut peer);
        peer.send(answer(TEXT));
        let response = client.read_response();
        assert_eq!(response.said(), (200, "ok"));
        assert_eq!(response.header("Content-Type").as_deref(), Some("text/plain"));
        peer.ending();
    }
}

#[test]
fn a_body_is_sent_with_its_length() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    client.send(POST);
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    assert_eq!((request.param("CONTENT_LENGTH"), &request.body[..]), (Some("4"), &b"body"[..]));
    assert_eq!(request.param("REQUEST_METHOD"), Some("POST"));
    peer.send(answer(TEXT));
    assert_eq!(client.read_response().said(), (200, "ok"));
    // A body in chunks is read before its length is told.
    client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n");
    assert!(upstream.is_left_alone());
    client.send("2\r\ndy\r\n0\r\n\r\n");
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    assert_eq!((request.param("CONTENT_LENGTH"), &request.body[..]), (Some("4"), &b"body"[..]));
    assert_eq!(request.param("CONTENT_TYPE"), Some("a/b"));
    assert_eq!(request.param("HTTP_TRANSFER_ENCODING"), None);
    peer.send(answer(TEXT));
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_long_body_is_passed_on_as_it_comes_or_read_before() {
    for buffered in [None, Some(8 << 10)] {
        let upstream = Upstream::new();
        let world =
            world_of(&[upstream.address()], |forward| forward.transfer.request_buffer_bytes = buffered);
        let mut client = world.http_client();
        let sent = content(LONG);
        client.send(format!("PUT /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: {LONG}\r\n\r\n"));
        client.send(&sent[..50_000]);
        if buffered.is_some() {
            assert!(upstream.is_left_alone());
            client.send(&sent[50_000..]);
        }
        let mut peer = upstream.accept();
        let request = FcgiRequest::read_params(&mut peer);
        assert_eq!(request.param("CONTENT_LENGTH"), Some(LONG.to_string().as_str()));
        let mut body = read_stdin(&mut peer);
        if buffered.is_none() {
            client.send(&sent[50_000..]);
        }
        loop {
            let piece = read_stdin(&mut peer);
            if piece.is_empty() {
                break;
            }
            body.extend(piece);
        }
        assert!(body == sent);
        peer.send(answer(TEXT));
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
}

#[test]
fn the_head_says_the_status() {
    for (head, status, location) in [
        ("Status: 404 Not Found\r\nContent-Type: a/b\r\n\r\n", 404, None),
        ("Status: 503\n\n", 503, None),
        ("Location: /elsewhere\n\n", 302, Some("/elsewhere")),
        ("Status: 301 Moved\r\nLocation: http://a.test/\r\n\r\n", 301, Some("http://a.test/")),
        ("\r\n", 200, None),
    ] {
        let (mut client, _peer, _world) = said(&answer(format!("{head}text")));
        let response = client.read_response();
        assert_eq!(response.said(), (status, "text"), "{head:?}");
        assert_eq!(response.header("Location").as_deref(), location);
        assert_eq!(response.header("Status"), None);
    }
}

#[test]
fn a_response_may_come_in_any_pieces() {
    let stdout = [Record::Stdout(b"Content-Type: a/b\r\nX-A"), Record::Stderr(b"PHP message: oh\n")];
    let rest =
        [Record::Stdout(b": 1\r\n\r\nabc"), Record::Stderr(b"no\n"), Record::Stdout(b"def"), Record::End(0)];
    let all = records(&[&stdout[..], &rest].concat(), 5);
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    for step in [1, 7, 11, 64] {
        client.send(GET);
        let mut peer = upstream.accept();
        FcgiRequest::read(&mut peer);
        for piece in all.chunks(step) {
            // Forebay closes the connection when the last record has come, and does not wait for its padding.
            let _ = peer.try_send(piece);
        }
        let response = client.read_response();
        assert_eq!((response.said(), response.header("X-A").as_deref()), ((200, "abcdef"), Some("1")));
    }
}

#[test]
fn a_long_response_passes_as_it_comes() {
    let sent = content(LONG);
    let (mut client, mut peer, _world) =
        said(&records(&[Record::Stdout(b"\r\n"), Record::Stdout(&sent[..1000])], 0));
    let head = client.read_head();
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
    assert_eq!(client.read_line(), "3e8", "what has come is not kept");
    assert!(client.read_exactly(1002) == [&sent[..1000], b"\r\n"].concat());
    peer.send(records(&[Record::Stdout(&sent[1000..]), Record::End(0)], 1));
    let mut body = Vec::new();
    loop {
        let len = usize::from_str_radix(&client.read_line(), 16).unwrap();
        body.extend(client.read_exactly(len));
        client.read_line();
        if len == 0 {
            break;
        }
    }
    assert!(body == sent[1000..]);
}

#[test]
fn a_length_is_kept_to() {
    let (mut client, _peer, _world) = said(&answer("Content-Length: 3\r\n\r\nabcdef"));
    let response = client.read_response();
    assert_eq!((response.said(), response.header("Transfer-Encoding")), ((200, "abc"), None));
    client.send(GET);
    assert!(client.is_quiet(), "the rest is no other response");
    let (mut client, _peer, world) = said(&answer("Content-Length: 9\r\n\r\nabc"));
    let (text, _) = client.read_to_end();
    assert!(text.ends_with(b"\r\n\r\nabc"), "{text:?}");
    await_fault(&world, "upstream_bad_response");
}

#[test]
fn a_response_to_head_has_no_body() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    for _ in 0..2 {
        client.send("HEAD /a HTTP/1.1\r\nHost: web.test\r\n\r\n");
        let mut peer = upstream.accept();
        FcgiRequest::read(&mut peer);
        peer.send(answer("Content-Type: a/b\r\nContent-Length: 3\r\n\r\nabc"));
        let head = client.read_head();
        assert!(head.contains("\r\nContent-Length: 3\r\n"), "{head}");
    }
}

#[test]
fn what_is_no_response_is_a_bad_gateway() {
    let end = records(&[Record::End(0)], 0);
    for (bytes, reason) in [
        (end.clone(), "upstream_bad_response"),
        (answer("No head"), "upstream_bad_response"),
        (answer("Status: 99\r\n\r\n"), "upstream_bad_response"),
        (answer("Status: 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"), "upstream_bad_response"),
        (answer("A: b\rC: d\r\n\r\n"), "upstream_bad_response"),
        (answer("Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), "upstream_bad_response"),
        (answer(format!("X-A: {}", "a".repeat(70_000))), "upstream_head_too_large"),
        (records(&[Record::End(1)], 0), "upstream_bad_response"),
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), "upstream_bad_response"),
    ] {
        let (mut client, _peer, world) = said(&bytes);
        assert_eq!(client.read_response().status, 502, "{reason}");
        await_fault(&world, reason);
    }
    let (mut client, peer, world) = said(b"\x01\x06\0\x01");
    drop(peer);
    assert_eq!(client.read_response().status, 502);
    await_fault(&world, "upstream_reset");
}

#[test]
fn what_breaks_off_is_broken_off() {
    let (mut client, peer, world) = said(&records(&[Record::Stdout(b"\r\n"), Record::Stdout(b"abc")], 0));
    client.read_head();
    assert_eq!(client.read_exactly(8), b"3\r\nabc\r\n");
    drop(peer);
    let (rest, _) = client.read_to_end();
    assert!(rest.is_empty(), "no last chunk: {rest:?}");
    await_fault(&world, "upstream_reset");
}

#[test]
fn an_application_without_room_is_no_reason_to_give_up() {
    let upstream = Upstream::everywhere();
    let world = world_of(&[upstream.endpoint(1), upstream.endpoint(2)], |_| ());
    let mut client = world.http_client();
    client.send(POST);
    let mut first = upstream.accept();
    FcgiRequest::read(&mut first);
    first.send(records(&[Record::End(2)], 0));
    let mut second = upstream.accept();
    assert_ne!(second.address(), first.address());
    assert_eq!(FcgiRequest::read(&mut second).body, b"body");
    second.send(answer(TEXT));
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_slow_application_is_waited_for_as_long_as_others() {
    let upstream = Upstream::new();
    let world = world_of(&[upstream.address()], |forward| {
        forward.timeouts.read = BRIEF;
        forward.retry.tries = Some(1);
    });
    let mut client = world.http_client();
    client.send(GET);
    let mut peer = upstream.accept();
    FcgiRequest::read(&mut peer);
    assert_eq!(client.read_response().status, 504);
    assert_eq!(peer.ending(), Ending::Reset);
    await_fault(&world, "upstream_read_timeout");
}
