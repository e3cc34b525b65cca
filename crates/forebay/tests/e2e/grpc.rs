//! gRPC: the four kinds of calls, what passes of them, and faults in gRPC's own terms.
//!
//! To the proxy a message is content like any other; what counts is that it flows at once, and how a call
//! ends.

use testkit::{Authority, Call, Forebay, H2Client, H2Peer, H2Upstream, Setup, TlsClient, TlsServer};

use crate::failures::awaits_fault;
use crate::setup;

const GRPC: (&str, &str) = ("content-type", "application/grpc");
const TE: (&str, &str) = ("te", "trailers");

/// A message with its prefix: not compressed, and so long.
fn message(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("a short text");
    [&[0][..], &len.to_be_bytes(), text.as_bytes()].concat()
}

fn setup_for(upstream: &H2Upstream) -> Setup {
    setup().endpoint(upstream.address()).annotation("backend-protocol", "GRPC")
}

fn begin(client: &H2Client) -> Call {
    client.call("POST", "web.test", "/echo.Echo/Call", &[GRPC, TE], false)
}

/// The status that a call has ended with, wherever it stands.
fn status(call: &mut Call) -> (u16, Option<String>) {
    let response = call.read_response();
    let in_trailers =
        response.trailers.iter().find(|(name, _)| name == "grpc-status").map(|(_, value)| value.clone());
    (response.status, in_trailers.or_else(|| response.header("grpc-status")))
}

/// Plays both ends of a call in which each message is answered before the next is sent.
fn converse(mut call: Call, mut peer: H2Peer) {
    assert_eq!(peer.request.method(), "POST");
    assert_eq!(peer.request.uri().path(), "/echo.Echo/Call");
    assert_eq!(peer.header("content-type").as_deref(), Some("application/grpc"));
    assert_eq!(peer.header("te").as_deref(), Some("trailers"));
    let mut answers = peer.respond(200, &[GRPC], false);
    let (head, mut received) = call.head().expect("the head does not wait for a message");
    assert_eq!(head.header("content-type").as_deref(), Some("application/grpc"));
    for text in ["one", "two", "three"] {
        call.sender.send(message(text), false);
        assert_eq!(peer.body.read_exactly(5 + text.len()), message(text));
        answers.send(message(text), false);
        assert_eq!(received.read_exactly(5 + text.len()), message(text));
    }
    call.sender.send("", true);
    assert_eq!(peer.body.read_to_end().0, b"");
    answers.send_trailers(&[("grpc-status", "0"), ("grpc-message", "fine"), ("x-own-bin", "AAE=")]);
    let (rest, trailers) = received.read_to_end();
    assert_eq!(rest, b"");
    let trailers = trailers.expect("an end");
    for (name, value) in [("grpc-status", "0"), ("grpc-message", "fine"), ("x-own-bin", "AAE=")] {
        assert!(trailers.contains(&(name.to_owned(), value.to_owned())), "{trailers:?}");
    }
}

#[test]
fn messages_flow_both_ways_as_they_come() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    for client in [
        H2Client::clear(forebay.address()),
        H2Client::tls(forebay.https_address(), &TlsClient::new("web.test")),
    ] {
        let call = begin(&client);
        converse(call, upstream.accept_request());
    }
    let certificate = Authority::new("inner").server(&["inner.test"]);
    let upstream = H2Upstream::tls(&TlsServer::new(&certificate));
    let forebay = setup().endpoint(upstream.address()).annotation("backend-protocol", "GRPCS").start();
    let client = H2Client::clear(forebay.address());
    let call = begin(&client);
    converse(call, upstream.accept_request());
}

#[test]
fn a_unary_call_is_one_message_each_way() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let mut call = begin(&client);
    call.sender.send(message("hello"), true);
    let mut peer = upstream.accept_request();
    assert_eq!(peer.body.read_to_end().0, message("hello"));
    let mut answer = peer.respond(200, &[GRPC], false);
    answer.send(message("world"), false);
    answer.send_trailers(&[("grpc-status", "0")]);
    let response = call.read_response();
    assert_eq!(response.body, message("world"));
    assert_eq!(response.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
}

#[test]
fn a_client_that_streams_is_answered_once() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let mut call = begin(&client);
    let mut peer = upstream.accept_request();
    for text in ["one", "two", "three"] {
        call.sender.send(message(text), false);
        assert_eq!(peer.body.read_exactly(5 + text.len()), message(text));
    }
    call.sender.send("", true);
    assert_eq!(peer.body.read_to_end().0, b"");
    let mut answer = peer.respond(200, &[GRPC], false);
    answer.send(message("three of them"), false);
    answer.send_trailers(&[("grpc-status", "0")]);
    assert_eq!(status(&mut call), (200, Some("0".to_owned())));
}

#[test]
fn a_server_that_streams_is_read_as_it_goes() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let mut call = begin(&client);
    call.sender.send(message("all"), true);
    let mut peer = upstream.accept_request();
    let mut answers = peer.respond(200, &[GRPC], false);
    let (_, mut received) = call.head().expect("a head");
    for text in ["one", "two", "three"] {
        answers.send(message(text), false);
        assert_eq!(received.read_exactly(5 + text.len()), message(text));
    }
    answers.send_trailers(&[("grpc-status", "5"), ("grpc-message", "no more")]);
    assert_eq!(received.read_to_end().1.expect("an end")[0], ("grpc-status".to_owned(), "5".to_owned()));
}

#[test]
fn a_call_may_have_no_message_at_all() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    for is_known_late in [true, false] {
        let mut call = begin(&client);
        let mut peer = if is_known_late {
            let peer = upstream.accept_request();
            call.sender.send("", true);
            peer
        } else {
            call.sender.send("", true);
            upstream.accept_request()
        };
        assert!(!peer.ended_with_its_head, "servers wait for a frame of content, be it empty");
        assert_eq!(peer.body.read_to_end().0, b"");
        peer.respond(200, &[GRPC], false).send_trailers(&[("grpc-status", "0")]);
        assert_eq!(status(&mut call), (200, Some("0".to_owned())));
    }
}

/// An error that comes at once is a head and nothing else ("Trailers-Only").
#[test]
fn an_endpoints_own_errors_pass() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let mut call = begin(&client);
    upstream.accept_request().answer(200, &[GRPC, ("grpc-status", "7"), ("grpc-message", "not you")], b"");
    let response = call.read_response();
    assert_eq!(response.header("grpc-status").as_deref(), Some("7"));
    assert_eq!(response.header("grpc-message").as_deref(), Some("not you"));
}

#[test]
fn a_deadline_is_passed_on_and_a_cancelled_call_cancelled() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let headers = [GRPC, TE, ("grpc-timeout", "1500m"), ("grpc-encoding", "gzip")];
    let mut call = client.call("POST", "web.test", "/echo.Echo/Call", &headers, false);
    let mut peer = upstream.accept_request();
    assert_eq!(peer.header("grpc-timeout").as_deref(), Some("1500m"));
    assert_eq!(peer.header("grpc-encoding").as_deref(), Some("gzip"));
    call.sender.reset(h2::Reason::CANCEL);
    assert_eq!(peer.await_reset().expect("the connection goes on"), h2::Reason::CANCEL);
    let mut call = begin(&client);
    let mut peer = upstream.accept_request();
    assert_eq!(peer.connection, 0, "one call's end is not another's");
    peer.answer(200, &[GRPC, ("grpc-status", "0")], b"");
    assert_eq!(status(&mut call), (200, Some("0".to_owned())));
}

/// gRPC's HTTP status mapping, for what a client is told by the proxy itself, which does not wait for the
/// request's end.
fn told(forebay: &Forebay, host: &str) -> (u16, Option<String>) {
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", host, "/echo.Echo/Call", &[GRPC, TE], false);
    let _ = call.sender.try_send(message("hello"), true);
    status(&mut call)
}

#[test]
fn faults_are_told_in_terms_of_grpc() {
    const UNIMPLEMENTED: &str = "12";
    const UNAVAILABLE: &str = "14";
    let nobody = setup().annotation("backend-protocol", "GRPC").start();
    assert_eq!(told(&nobody, "web.test"), (200, Some(UNAVAILABLE.to_owned())), "503");
    assert_eq!(told(&nobody, "unknown.test"), (200, Some(UNIMPLEMENTED.to_owned())), "404");
    awaits_fault(&nobody, "forebay", "no_endpoints", 1);
    let refusing = testkit::Refusing::default();
    let forebay = setup().endpoint(refusing.address()).annotation("backend-protocol", "GRPC").start();
    assert_eq!(told(&forebay, "web.test"), (200, Some(UNAVAILABLE.to_owned())), "502");
    let silent = H2Upstream::clear();
    let forebay = setup_for(&silent).annotation("proxy-read-timeout", "1").start();
    assert_eq!(told(&forebay, "web.test"), (200, Some(UNAVAILABLE.to_owned())), "504");
    // Whoever does not speak gRPC is told in plain HTTP.
    assert_eq!(
        H2Client::clear(nobody.address()).get("web.test", "/").said(),
        (503, "503 Service Unavailable\n")
    );
}

/// The log has the status of HTTP, as ingress-nginx's does.
#[test]
fn a_fault_is_logged_as_such() {
    let nobody = setup().annotation("backend-protocol", "GRPC").start();
    told(&nobody, "web.test");
    let line = nobody.await_access_log("/echo.Echo/Call");
    assert!(line.contains("\"POST /echo.Echo/Call HTTP/2.0\" "), "{line}");
}

#[test]
fn a_call_that_the_endpoint_breaks_off_is_broken_off() {
    let upstream = H2Upstream::clear();
    let forebay = setup_for(&upstream).start();
    let client = H2Client::clear(forebay.address());
    let mut call = begin(&client);
    let mut peer = upstream.accept_request();
    let mut answers = peer.respond(200, &[GRPC], false);
    answers.send(message("one"), false);
    let (_, mut received) = call.head().expect("a head");
    assert_eq!(received.read_exactly(8), message("one"));
    answers.reset(h2::Reason::INTERNAL_ERROR);
    assert!(received.read_to_end().1.is_err(), "no end that could be taken for one");
}
