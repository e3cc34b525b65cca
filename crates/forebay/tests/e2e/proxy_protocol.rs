//! PROXY headers at the front of client connections, on both HTTP ports.

use testkit::{Connection, Forebay, TlsClient, Upstream};

use crate::{GET, OK, setup};

const V1: &[u8] = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// 203.0.113.9 port 80, to 10.0.0.1 port 443, over TCP.
fn v2() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([203, 0, 113, 9, 10, 0, 0, 1, 0, 80, 1, 187]);
    header
}

fn start(upstream: &Upstream, trusted: &str) -> Forebay {
    setup()
        .endpoint(upstream.address())
        .setting("use-proxy-protocol", "true")
        .setting("proxy-real-ip-cidr", trusted)
        .setting("proxy-protocol-header-timeout", "1s")
        .start()
}

/// The address that the endpoint is told.
fn told(client: &mut Connection, upstream: &Upstream) -> String {
    client.send(GET);
    let (mut peer, head) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    let line = head.lines().find_map(|line| line.strip_prefix("X-Real-IP: "));
    line.expect("everybody is told who the client is").to_owned()
}

#[test]
fn a_load_balancer_says_who_the_client_is() {
    for (header, address) in [(V1, "203.0.113.7"), (&v2(), "203.0.113.9"), (LOCAL, "127.0.0.1")] {
        let upstream = Upstream::new();
        let forebay = start(&upstream, "127.0.0.0/8");
        let mut client = forebay.client();
        // In two pieces, as it may come.
        client.send(&header[..9]);
        client.send(&header[9..]);
        assert_eq!(told(&mut client, &upstream), address);
        forebay.await_access_log(&format!("{address} - -"));
    }
}

/// Connections to port 443 of the load balancer came over TLS, though it has ended that.
#[test]
fn the_port_at_the_load_balancer_is_the_clients() {
    for (header, lines) in [
        (
            V1,
            [
                "X-Forwarded-Port: 443",
                "X-Forwarded-Proto: https",
                "X-Forwarded-Scheme: https",
                "X-Scheme: https",
            ],
        ),
        (
            b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 8000\r\n",
            [
                "X-Forwarded-Port: 8000",
                "X-Forwarded-Proto: http",
                "X-Forwarded-Scheme: http",
                "X-Scheme: http",
            ],
        ),
    ] {
        let upstream = Upstream::new();
        let forebay = start(&upstream, "127.0.0.0/8");
        let mut client = forebay.client();
        client.send(header);
        client.send(GET);
        let (mut peer, head) = upstream.accept_request();
        peer.send(OK);
        assert_eq!(client.read_response().status, 200);
        for line in lines {
            assert!(head.lines().any(|told| told == line), "{line}: {head}");
        }
    }
}

#[test]
fn it_comes_before_tls() {
    let upstream = Upstream::new();
    let forebay = start(&upstream, "127.0.0.0/8");
    let mut raw = Connection::to(forebay.https_address());
    raw.send(V1);
    let mut client = TlsClient::new("web.test").upgrade(raw).expect("a handshake");
    assert_eq!(told(&mut client, &upstream), "203.0.113.7");
}

#[test]
fn a_stranger_is_not_believed() {
    let upstream = Upstream::new();
    let forebay = start(&upstream, "10.0.0.0/8");
    let mut client = forebay.client();
    client.send(V1);
    assert_eq!(told(&mut client, &upstream), "127.0.0.1");
}

#[test]
fn whoever_sends_none_is_turned_away() {
    let upstream = Upstream::new();
    let forebay = start(&upstream, "127.0.0.0/8");
    let mut client = forebay.client();
    client.send(GET);
    client.ending();
    forebay.await_metric("forebay_faults_total", &[("reason", "bad_proxy_header")], 1);
    let mut silent = forebay.client();
    silent.ending();
    forebay.await_metric("forebay_faults_total", &[("reason", "proxy_header_timeout")], 1);
    assert!(upstream.is_left_alone());
}
