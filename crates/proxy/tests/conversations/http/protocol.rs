//! Requirements of RFC 9110, 9112 and 9113 on an intermediary, message by message.

use model::HeadSettings;
use model::template::Template;
use testkit::{Ending, H2Client, Upstream};

use super::{GET, OK, goes_on};
use crate::world::World;

fn world(upstream: &Upstream) -> World {
    World::http(&[upstream.address()], |_| ())
}

/// The request that an endpoint receives.
fn told(request: &str) -> String {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    client.send(request);
    let (mut peer, head) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    goes_on(&mut client, &mut peer);
    head
}

#[test]
fn a_fragment_leads_round_no_rule() {
    for (target, expected) in [
        ("/a#/../admin/secret.txt", "/a"),
        ("/a?b=c#?d", "/a?b=c"),
        ("http://web.test/a#/../admin", "/a"),
        ("http://web.test#/../admin", "/"),
    ] {
        let head = told(&format!("GET {target} HTTP/1.1\r\nHost: web.test\r\n\r\n"));
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\r\n")), "{target}: {head}");
        assert!(!head.contains("admin"), "{target}: {head}");
    }
}

#[test]
fn a_query_may_stand_right_behind_the_host() {
    let head = told("GET http://web.test?a=b HTTP/1.1\r\nHost: other.test\r\n\r\n");
    assert!(head.starts_with("GET /?a=b HTTP/1.1\r\nHost: web.test\r\n"), "{head}");
}

#[test]
fn what_connection_lists_is_seen_by_nobody() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        let of_requests = vec![("X-Seen".to_owned(), Template::parse("[$http_x_hop|$http_x_end]").unwrap())];
        model.settings.heads = Some(Box::new(HeadSettings { of_requests, ..HeadSettings::default() }));
    });
    let mut client = world.http_client();
    client.send(
        "GET /a HTTP/1.1\r\nX-Hop: 1\r\nHost: web.test\r\nConnection: x-HOP, host\r\nX-End: 2\r\nx-hop: 3\r\n\r\n",
    );
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nX-Seen: [|2]\r\n") && head.contains("\r\nX-End: 2\r\n"), "{head}");
    assert!(!head.to_ascii_lowercase().contains("x-hop") && head.contains("Host: web.test"), "{head}");
    peer.send(
        "HTTP/1.1 200 OK\r\nX-Hop: 1\r\nConnection: x-hop, content-length\r\nContent-Length: 2\r\n\r\nok",
    );
    let response = client.read_response();
    assert_eq!((response.said(), response.header("X-Hop")), ((200, "ok"), None));
}

#[test]
fn a_response_that_has_no_content_has_no_length() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let h2 = H2Client::clear(world.http_address());
    let mut call = h2.call("GET", "web.test", "/a", &[], true);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(call.interim().header("content-length"), None);
    let response = call.read_response();
    assert_eq!((response.status, response.header("content-length")), (204, None));
    let mut client = world.http_client();
    client.send(GET);
    peer.read_head();
    peer.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n");
    let response = client.read_response_to_head();
    assert_eq!((response.status, response.header("Content-Length").as_deref()), (304, Some("5")));
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_malformed_first_chunk_is_a_malformed_response() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    for version in ["1.1", "1.0"] {
        let mut client = world.http_client();
        client.send(GET.replace("1.1", version));
        let (mut peer, _) = upstream.accept_request();
        peer.send(format!("{CHUNKED}zz\r\nabc\r\n"));
        assert_eq!(client.read_response().status, 502, "{version}");
    }
    let h2 = H2Client::clear(world.http_address());
    let mut call = h2.call("GET", "web.test", "/a", &[], true);
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("{CHUNKED}zz\r\nabc\r\n"));
    assert_eq!(call.read_response().status, 502);
}

#[test]
fn what_is_good_before_a_malformed_chunk_arrives() {
    let upstream = Upstream::new();
    let world = world(&upstream);
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("{CHUNKED}3\r\nabc\r\nzz\r\n"));
    assert!(client.read_head().starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(client.read_to_end(), (b"3\r\nabc\r\n".to_vec(), Ending::Closed));
    let h2 = H2Client::clear(world.http_address());
    let mut call = h2.call("GET", "web.test", "/a", &[], true);
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("{CHUNKED}3\r\nabc\r\nzz\r\n"));
    let (head, mut body) = call.head().unwrap();
    assert_eq!((head.status, body.read_exactly(3)), (200, b"abc".to_vec()));
    assert!(body.read().is_err(), "it is broken off");
}
