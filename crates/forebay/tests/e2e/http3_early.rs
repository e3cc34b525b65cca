//! Requests before the handshake is complete (0-RTT, RFC 8470): `forebay.io/early-data`.

use std::net::UdpSocket;

use testkit::manifest::{Ingress, config_map, service};
use testkit::{
    Canned, EarlyClient, Forebay, H3Client, QuicClient, Setup, TlsClient, UdpRelay, Upstream, h3_head,
};

use crate::failures::awaits_fault;
use crate::setup;

const CONTROL: &[u8] = &[0, 4, 0];

fn http3() -> Setup {
    setup().tls("web.test").setting("forebay-http3", "on")
}

fn early() -> Setup {
    http3().setting("forebay-early-data", "on")
}

/// A head for a host.
fn head(method: &str, host: &str) -> Vec<u8> {
    h3_head(&[
        (b":method", method.as_bytes()),
        (b":scheme", b"https"),
        (b":authority", host.as_bytes()),
        (b":path", b"/"),
    ])
}

/// A client that keeps its sessions.
fn tls(name: &str) -> TlsClient {
    TlsClient::new(name).alpn(&["h3"]).only_13()
}

/// A client with a session of an earlier connection.
fn returning(forebay: &Forebay) -> TlsClient {
    let tls = tls("web.test");
    let first = H3Client::connect(forebay.https_address(), &tls);
    // The session comes after the handshake, before the response.
    first.get("web.test", "/");
    tls
}

/// A client whose handshake does not go on before the relay lets it.
fn held(forebay: &Forebay, tls: &TlsClient) -> (UdpRelay, EarlyClient) {
    let relay = UdpRelay::new(forebay.https_address(), true);
    let client = QuicClient::connect_early(relay.address(), tls).expect("a session that allows early data");
    (relay, client)
}

#[test]
fn a_safe_request_is_served_before_the_handshake_is_complete_and_only_once() {
    let upstream = Upstream::new();
    let forebay = early().arguments(["--workers=1"]).endpoint(upstream.address()).start();
    let tls = tls("web.test");
    let first = H3Client::connect(forebay.https_address(), &tls);
    let mut call = first.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, request) = upstream.accept_request();
    assert!(!request.to_lowercase().contains("early-data"), "{request}");
    peer.send(crate::OK);
    assert_eq!(call.read_response().said(), (200, "ok"));

    let (relay, mut client) = held(&forebay, &tls);
    let _control = client.quic.send_uni(CONTROL);
    let mut stream = client.quic.send_bi(&head("GET", "web.test"), true);
    let request = peer.read_head();
    assert!(request.contains("early-data: 1\r\n") || request.contains("Early-Data: 1\r\n"), "{request}");
    // Somebody who has recorded the datagrams sends them again, from the same address and another port.
    let replaying = UdpSocket::bind((relay.address().ip(), 0)).expect("a free port");
    for datagram in relay.seen() {
        replaying.send_to(&datagram, forebay.https_address()).expect("loopback");
    }
    peer.send("HTTP/1.1 425 Too Early\r\nContent-Length: 7\r\n\r\nbe late");
    relay.release();
    assert!(client.is_accepted());
    // The status of the endpoint is passed on; a client asks again then.
    let answer = stream.read_to_end();
    assert!(contains(&answer, &TOO_EARLY) && answer.ends_with(b"be late"), "{answer:?}");
    let mut again = client.quic.send_bi(&head("GET", "web.test"), true);
    let request = peer.read_head();
    assert!(!request.to_lowercase().contains("early-data"), "{request}");
    peer.send(crate::OK);
    assert!(again.read_to_end().ends_with(b"ok"));
    // The copy was no request: the next one is that of another client.
    let others = H3Client::connect(forebay.https_address(), &TlsClient::new("web.test"));
    let mut other = others.call("GET", "web.test", "/other", &[]);
    other.finish();
    let request = peer.read_head();
    assert!(request.starts_with("GET /other "), "{request}");
    peer.send(crate::OK);
    assert_eq!(other.read_response().status, 200);
}

/// `:status: 425` by the static table.
const TOO_EARLY: [u8; 2] = [0xff, 0x07];

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn what_is_not_safe_is_answered_with_425() {
    let upstream = Canned::saying("hello");
    let forebay = early().endpoint(upstream.address()).start();
    let tls = returning(&forebay);
    let (relay, mut client) = held(&forebay, &tls);
    let _control = client.quic.send_uni(CONTROL);
    let mut post = client.quic.send_bi(&head("POST", "web.test"), true);
    forebay.await_metric("forebay_faults_total", &[("reason", "too_early"), ("side", "client")], 1);
    relay.release();
    assert!(client.is_accepted());
    let answer = post.read_to_end();
    assert!(contains(&answer, &TOO_EARLY) && answer.ends_with(b"425 Too Early\n"), "{answer:?}");
    // After the handshake it is served.
    assert!(client.quic.send_bi(&head("POST", "web.test"), true).read_to_end().ends_with(b"hello"));
    assert_eq!(upstream.heads().len(), 2);
}

fn of_hosts(setup: Setup, upstream: &Canned) -> Forebay {
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc");
    let with = ingress("with").annotation("forebay.io/early-data", "on");
    let without = ingress("without").annotation("forebay.io/early-data", "off");
    let documents = [with, without].map(|ingress| ingress.document()).join("---\n");
    setup.manifest("hosts.yaml", format!("{documents}---\n{}", service("svc", &[upstream.address()]))).start()
}

#[test]
fn hosts_say_whether_they_take_early_data() {
    let upstream = Canned::saying("hello");
    let forebay = of_hosts(http3(), &upstream);
    let session = |host: &str| {
        let tls = tls(host);
        assert_eq!(H3Client::connect(forebay.https_address(), &tls).get(host, "/").said(), (200, "hello"));
        tls
    };
    assert!(QuicClient::connect_early(forebay.https_address(), &session("without.test")).is_none());
    let (relay, mut client) = held(&forebay, &session("with.test"));
    let _control = client.quic.send_uni(CONTROL);
    let mut allowed = client.quic.send_bi(&head("GET", "with.test"), true);
    // The connection is for both hosts, but the second has not allowed it.
    let mut other = client.quic.send_bi(&head("GET", "without.test"), true);
    awaits_fault(&forebay, "client", "too_early", 1);
    relay.release();
    assert!(client.is_accepted());
    assert!(allowed.read_to_end().ends_with(b"hello"));
    assert!(contains(&other.read_to_end(), &TOO_EARLY));
}

#[test]
fn nothing_is_early_unless_it_is_asked_for() {
    let upstream = Canned::saying("hello");
    let forebay = http3().endpoint(upstream.address()).start();
    let tls = returning(&forebay);
    assert!(QuicClient::connect_early(forebay.https_address(), &tls).is_none());
}

/// A client may rely on what it was promised (RFC 9114 section 7.2.4.2, RFC 9000 section 7.4.1).
#[test]
fn a_session_of_other_bounds_is_not_resumed() {
    let upstream = Canned::saying("hello");
    let bound = |streams: &str| {
        let settings = [
            ("forebay-http3", "on"),
            ("forebay-early-data", "on"),
            ("http2-max-concurrent-streams", streams),
        ];
        config_map("settings", &settings)
    };
    let forebay = early().setting("http2-max-concurrent-streams", "100").endpoint(upstream.address()).start();
    let early = |tls: &TlsClient| {
        let address = forebay.https_address();
        QuicClient::connect_early(address, tls).expect("a session that allows early data").is_accepted()
    };
    assert!(early(&returning(&forebay)));
    let tls = returning(&forebay);
    forebay.replace("settings.yaml", &bound("90"));
    forebay.await_that("the new bound at every worker", || {
        let configuration = forebay.configuration();
        let streams = &configuration["settings"]["client"]["http2_streams_max"];
        *streams == 90 && configuration["acknowledged"] == configuration["generation"]
    });
    assert!(!early(&tls));
    assert!(early(&returning(&forebay)));
}

/// RFC 8470 section 5.2: an intermediary removes neither the field nor the status.
#[test]
fn early_data_of_an_earlier_proxy_is_passed_on() {
    let upstream = Canned::answering("HTTP/1.1 425 Too Early\r\nContent-Length: 5\r\n\r\nlater");
    let forebay = setup().endpoint(upstream.address()).start();
    let response = forebay.client().ask("GET / HTTP/1.1\r\nHost: web.test\r\nEarly-Data: 1\r\n\r\n");
    assert_eq!(response.said(), (425, "later"));
    let heads = upstream.heads();
    assert!(heads[0].contains("Early-Data: 1\r\n"), "{}", heads[0]);
}
