//! Trailers of requests: they arrive, but for those by which a client could say what its head is checked for
//! (RFC 9110 section 6.5.1).

use model::HeadSettings;
use model::template::Template;
use testkit::{H2Client, H2Peer, H2Upstream, Upstream};

use super::sessions;
use crate::world::World;

const HEAD: &str =
    "POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\nConnection: x-hop\r\n\r\n";
/// All of these but the first are for the head to say, or nobody's.
const LINES: &str = "X-Sum: 1\r\nAuthorization: Basic YTpi\r\nX-Forwarded-For: 10.0.0.1\r\nX-Real-IP: 10.0.0.1\r\nX-Team: a\r\n\
    x-user-id: 7\r\nX_Team: a\r\nX_Forwarded_For: 10.0.0.1\r\nX-Hop: 1\r\nContent-Length: 3\r\nHost: x\r\nCookie: a=b\r\n";

fn rule(model: &mut model::Model) {
    // It comes to nothing, so that the header is removed.
    let of_requests = vec![("X-Team".to_owned(), Template::parse("$arg_team").unwrap())];
    model.settings.heads = Some(Box::new(HeadSettings { of_requests, ..HeadSettings::default() }));
}

/// A body that comes with its head, and one whose end comes later.
fn ways() -> [[String; 2]; 2] {
    let (begin, end) = (format!("{HEAD}4\r\nbody\r\n"), format!("0\r\n{LINES}\r\n"));
    [[format!("{begin}{end}"), String::new()], [begin, end]]
}

#[test]
fn those_of_rules_do_not_reach_an_endpoint() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], rule);
    for [begin, end] in ways() {
        let mut client = world.http_client();
        client.send(begin);
        let (mut peer, _) = upstream.accept_request();
        client.send(end);
        assert_eq!(peer.read_raw_chunks(), "4\r\nbody\r\n0\r\nX-Sum: 1\r\n\r\n");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.read_response().status, 204);
    }
}

/// Content and trailers of a request.
fn received(peer: &mut H2Peer) -> (String, Vec<(String, String)>) {
    let (content, trailers) = peer.body.read_to_end();
    (String::from_utf8(content).unwrap(), trailers.unwrap())
}

#[test]
fn those_that_came_with_the_head_reach_an_endpoint_over_http_2() {
    let upstream = H2Upstream::clear();
    let world = sessions::world_with(upstream.address(), rule);
    let wanted = vec![("x-sum".to_owned(), "1".to_owned())];
    for [begin, end] in ways() {
        let mut client = world.http_client();
        client.send(begin);
        let mut peer = upstream.accept_request();
        client.send(end);
        assert_eq!(received(&mut peer), ("body".to_owned(), wanted.clone()));
        peer.answer(200, &[], b"");
        assert_eq!(client.read_response().status, 200);
    }
    // A body of trailers alone, and a client of HTTP/2.
    let mut client = world.http_client();
    client.send(format!("{HEAD}0\r\nX-Sum: 1\r\n\r\n"));
    let mut peer = upstream.accept_request();
    assert_eq!(received(&mut peer), (String::new(), wanted.clone()));
    peer.answer(200, &[], b"");
    let h2 = H2Client::clear(world.http_address());
    let mut call = h2.call("POST", "web.test", "/a", &[], false);
    call.sender.send("body", false);
    call.sender.send_trailers(&[("x-sum", "1"), ("x-team", "a"), ("authorization", "x")]);
    let mut peer = upstream.accept_request();
    assert_eq!(received(&mut peer), ("body".to_owned(), wanted));
    peer.answer(200, &[], b"");
    assert_eq!(call.read_response().status, 200);
}
