//! Clients and upstreams of the testkit talk to each other, so that tests can rely on them.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;

use h2::Reason;
use testkit::frames::{FrameClient, Outcome, flag, kind};
use testkit::{Authority, Connection, Ending, H2Client, H2Upstream, TlsClient, TlsServer, Upstream};

/// Both ends of a TLS connection.
fn pair(client: &TlsClient, server: &TlsServer) -> (Connection, Connection) {
    let upstream = Upstream::new();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| upstream.accept_tls(server));
        (client.connect(upstream.address()), accepting.join().unwrap())
    })
}

#[test]
fn tls_carries_bytes_and_tells_how_it_ended() {
    let authority = Authority::new("authority");
    let certificate = authority.server(&["web.test"]);
    let server = TlsServer::new(&certificate).alpn(&["http/1.1"]);
    let client = TlsClient::new("web.test").alpn(&["h2", "http/1.1"]).believing(&authority);
    let (mut near, mut far) = pair(&client, &server);
    let info = near.tls_info();
    assert!(info.is_13 && !info.is_resumed && info.shows(&certificate), "{info:?}");
    assert_eq!(info.alpn.as_deref(), Some("http/1.1"));
    assert_eq!(far.tls_info().name.as_deref(), Some("web.test"));
    let body = vec![7; 3_000_000];
    let (mut from_near, mut from_far) = (near.sender(), far.sender());
    thread::scope(|scope| {
        scope.spawn(|| {
            from_near.send(&body);
            from_near.shutdown_write();
        });
        scope.spawn(|| from_far.send(&body));
        assert!(near.read_exactly(body.len()) == body);
        let (bytes, ending) = far.read_to_end();
        assert_eq!((bytes.len(), ending), (body.len(), Ending::Closed));
    });
    assert!(near.is_quiet());
    drop((far, from_far));
    assert_eq!(near.ending(), Ending::Truncated);
}

#[test]
fn sessions_are_resumed_in_either_version() {
    let certificate = Authority::new("authority").server(&["web.test"]);
    let server = TlsServer::new(&certificate);
    for client in
        [TlsClient::new("web.test").only_12().session_ids_only(), TlsClient::new("web.test").only_13()]
    {
        let resumed = [(); 2].map(|()| {
            let (mut near, mut far) = pair(&client, &server);
            // TLS 1.3 sends its tickets before the next data.
            far.send("x");
            near.read_exactly(1);
            near.tls_info().is_resumed
        });
        assert_eq!(resumed, [false, true]);
    }
    let forgetful = server.forgetful();
    let client = TlsClient::new("web.test");
    assert!((0..3).all(|_| !pair(&client, &forgetful).0.tls_info().is_resumed));
}

#[test]
fn certificates_are_asked_for_and_believed_or_not() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let certificate = authority.below("below").server(&["web.test"]);
    let server = TlsServer::asking(&certificate, &authority);
    let shown = Arc::new(authority.client("me"));
    let client = TlsClient::new("web.test").believing(&authority).certificate(&shown);
    let (near, far) = pair(&client, &server);
    assert!(far.tls_info().shows(&shown));
    assert_eq!(near.tls_info().peer_chain.len(), 2, "the authority between is sent along");

    let upstream = Upstream::new();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| upstream.try_accept_tls(&server).map(drop));
        let refused = client.believing(&other).try_connect(upstream.address()).map(drop);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(accepting.join().unwrap().is_err());
    });
}

#[test]
fn http2_goes_both_ways_in_clear_and_over_tls() {
    let certificate = Authority::new("authority").server(&["web.test"]);
    for tls in [None, Some(TlsServer::new(&certificate))] {
        let upstream = H2Upstream::with(h2::server::Builder::new(), tls.as_ref());
        let client = match tls {
            None => H2Client::clear(upstream.address()),
            Some(_) => H2Client::tls(upstream.address(), &TlsClient::new("web.test")),
        };
        let body = vec![5; 1_000_000];
        let mut call = client.call("POST", "web.test", "/a", &[("x", "1"), ("x", "2")], false);
        let mut peer = upstream.accept_request();
        assert_eq!((peer.request.method().as_str(), peer.request.uri().path()), ("POST", "/a"));
        assert_eq!(peer.header("x").as_deref(), Some("1, 2"));
        peer.interim(103, &[("link", "</b>")]);
        assert_eq!(call.interim().status, 103);
        thread::scope(|scope| {
            scope.spawn(|| {
                call.sender.send(body.clone(), false);
                call.sender.send_trailers(&[("sum", "5")]);
            });
            let (bytes, trailers) = peer.body.read_to_end();
            assert!(bytes == body && trailers.unwrap() == [("sum".to_owned(), "5".to_owned())]);
        });
        let mut sender = peer.respond(200, &[], false);
        let answering = thread::spawn(move || {
            sender.send(vec![5; 1_000_000], false);
            sender.send_trailers(&[("sum", "6")]);
        });
        let response = call.read_response();
        answering.join().unwrap();
        assert!(response.status == 200 && response.body == body);
        assert_eq!(response.trailers, [("sum".to_owned(), "6".to_owned())]);
        assert_eq!(upstream.connections(), 1);
    }
}

#[test]
fn http2_streams_break_off_and_connections_end() {
    let upstream = H2Upstream::clear();
    let mut client = H2Client::clear(upstream.address());
    let mut call = client.call("POST", "web.test", "/", &[], false);
    let mut peer = upstream.accept_request();
    call.sender.reset(Reason::CANCEL);
    assert_eq!(peer.await_reset().unwrap(), Reason::CANCEL);
    let mut call = client.call("GET", "web.test", "/", &[], true);
    upstream.accept_request().reset(Reason::REFUSED_STREAM);
    assert_eq!(call.try_read_response().unwrap_err().reason(), Some(Reason::REFUSED_STREAM));
    drop((call, peer));
    upstream.leave();
    client.ending().unwrap();
}

#[test]
fn frames_by_hand_are_understood_and_answers_read() {
    let upstream = H2Upstream::clear();
    let mut client = FrameClient::begin(Connection::to(upstream.address()));
    client.get(1, "web.test", "/");
    upstream.accept_request().answer(503, &[], b"");
    assert_eq!(client.outcome(1), Outcome::Status(503));
    client.get(3, "web.test", "/");
    upstream.accept_request().reset(Reason::CANCEL);
    assert_eq!(client.outcome(3), Outcome::Reset(8));
    client.send(kind::PING, flag::NONE, 0, &[1; 8]);
    client
        .await_frame(|frame| frame.kind == kind::PING && frame.flags == flag::ACK && frame.payload == [1; 8]);
    client.send(kind::DATA, flag::NONE, 0, b"x");
    assert_eq!(client.outcome(5), Outcome::GoAway(1));
    assert_eq!(client.ending(), Some(1));
}
