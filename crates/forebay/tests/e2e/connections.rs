//! Connections to endpoints: kept, used again, given up in time, and closed without a trace.

use std::net::{IpAddr, SocketAddr};

use testkit::{Canned, Connection, Ending, Forebay, Upstream};

use crate::{GET, OK, serving, setup};

const POST: &str = "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 4\r\n\r\nbody";

/// Has `count` requests in flight at once, each on a connection of its own, and answers them. Returns the
/// endpoint's ends.
fn burst(forebay: &Forebay, upstream: &Upstream, count: usize) -> Vec<Connection> {
    let mut clients: Vec<Connection> = (0..count).map(|_| forebay.client()).collect();
    for client in &mut clients {
        client.send(GET);
    }
    let mut peers: Vec<Connection> = (0..count).map(|_| upstream.accept_request().0).collect();
    for peer in &mut peers {
        peer.send(OK);
    }
    for client in &mut clients {
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    peers
}

fn upstream_metric(forebay: &Forebay, name: &str) -> u64 {
    forebay.metrics().sum(&format!("forebay_upstream_connections_{name}"), &[])
}

/// Asks, and has the upstream answer on a connection that it has already.
fn asked_on(peer: &mut Connection, forebay: &Forebay) {
    let mut client = forebay.client();
    client.send(GET);
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn all_requests_share_a_connection_whoever_their_client_is() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    for _ in 0..20 {
        assert_eq!(forebay.get("/").said(), (200, "hello"));
    }
    assert_eq!(upstream.connections(), 1);
    assert_eq!(upstream_metric(&forebay, "opened_total"), 1);
    assert_eq!(upstream_metric(&forebay, "reused_total"), 19);
}

#[test]
fn a_burst_opens_nothing_that_the_last_one_opened_already() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut peers = burst(&forebay, &upstream, 16);
    let mut clients: Vec<Connection> = (0..16).map(|_| forebay.client()).collect();
    for client in &mut clients {
        client.send(GET);
    }
    for peer in &mut peers {
        drop(peer.read_head());
    }
    assert!(upstream.is_left_alone());
    assert_eq!(upstream_metric(&forebay, "opened_total"), 16);
}

#[test]
fn an_idle_connection_that_its_endpoint_closed_is_not_used() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for request in [GET, POST] {
        let mut client = forebay.client();
        // The event loop comes round once, and so learns what the endpoint has done.
        assert_eq!(client.get("elsewhere.test", "/").status, 404);
        client.send(request);
        let (mut peer, _) = upstream.accept_request();
        peer.send(OK);
        assert_eq!(client.read_response().status, 200);
        drop(peer);
    }
    assert_eq!(upstream_metric(&forebay, "opened_total"), 2);
}

#[test]
fn an_endpoint_that_talks_out_of_turn_is_not_believed() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("{OK}{OK}"));
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(peer.ending(), Ending::Reset, "what follows a response belongs to no request");
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 201);
}

/// The endpoint closes just as the next request arrives: nothing can tell before it is sent.
#[test]
fn a_get_on_a_connection_that_dies_under_it_is_repeated_on_a_fresh_one() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut peer = burst(&forebay, &upstream, 1).remove(0);
    let mut client = forebay.client();
    client.send(GET);
    peer.read_head();
    drop(peer);
    let (mut fresh, head) = upstream.accept_request();
    assert!(head.starts_with("GET / "));
    fresh.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_post_on_a_connection_that_dies_under_it_is_not_repeated() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut peer = burst(&forebay, &upstream, 1).remove(0);
    let mut client = forebay.client();
    client.send(POST);
    peer.read_head();
    drop(peer);
    assert_eq!(client.read_response().status, 502);
    assert!(upstream.is_left_alone());
}

#[test]
fn an_endpoint_can_ask_to_be_left() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let upstream = Upstream::new();
        let forebay = serving(&upstream);
        let mut client = forebay.client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(answer);
        assert_eq!(client.read_response().said(), (200, "ok"));
        assert_eq!(peer.ending(), Ending::Reset, "{answer}");
        client.send(GET);
        upstream.accept_request().0.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"), "the client's connection goes on");
    }
}

/// A reset leaves no `TIME_WAIT` behind, which would hold a port for a minute.
#[test]
fn an_idle_connection_grows_old_and_is_reset() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("upstream-keepalive-timeout", "1").start();
    let mut peer = burst(&forebay, &upstream, 1).remove(0);
    assert_eq!(peer.ending(), Ending::Reset);
    forebay.await_metric("forebay_upstream_connections_idle", &[], 0);
    forebay.await_metric("forebay_upstream_ports_in_use", &[], 0);
}

#[test]
fn connections_end_after_the_requests_that_they_may_have() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("upstream-keepalive-requests", "2").start();
    let mut peer = burst(&forebay, &upstream, 1).remove(0);
    asked_on(&mut peer, &forebay);
    assert_eq!(peer.ending(), Ending::Reset);
    burst(&forebay, &upstream, 1);
}

#[test]
fn connections_are_not_kept_where_none_may_be() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("upstream-keepalive-connections", "0").start();
    for mut peer in burst(&forebay, &upstream, 2) {
        assert_eq!(peer.ending(), Ending::Reset);
    }
    assert_eq!(upstream_metric(&forebay, "evicted_total"), 0, "to keep none was asked for");
    forebay.client().send(GET);
    let (_, head) = upstream.accept_request();
    assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
}

#[test]
fn a_cap_that_is_too_small_is_regretted() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("upstream-keepalive-connections", "1").start();
    let peers = burst(&forebay, &upstream, 3);
    forebay.await_metric("forebay_upstream_connections_evicted_total", &[], 2);
    assert_eq!(upstream_metric(&forebay, "regretted_total"), 0);
    drop(peers);
    burst(&forebay, &upstream, 3);
    forebay.await_metric("forebay_upstream_connections_regretted_total", &[], 2);
}

/// ingress-nginx's `connection-proxy-header`: what is announced must be done.
#[test]
fn a_connection_that_was_announced_to_close_is_not_used_again() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).annotation("connection-proxy-header", "close").start();
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(peer.ending(), Ending::Reset);
}

#[test]
fn a_worker_without_an_idle_connection_takes_another_workers() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).arguments(["--workers=2"]).start();
    for count in 1..=40 {
        assert_eq!(forebay.get("/").said(), (200, "hello"));
        forebay.await_metric("forebay_upstream_connections_idle", &[], 1);
        assert_eq!(upstream.heads().len(), count);
    }
    assert_eq!(upstream.connections(), 1);
    assert!(upstream_metric(&forebay, "stolen_total") >= 1);
}

#[test]
fn source_addresses_are_used_in_turn_and_their_ports_are_counted() {
    let upstream = Upstream::new();
    let addresses = ["--upstream-source-address=127.0.0.2", "--upstream-source-address=127.0.0.3"];
    let forebay = setup().endpoint(upstream.address()).arguments(addresses).start();
    let peers = burst(&forebay, &upstream, 4);
    for source in ["127.0.0.2", "127.0.0.3"] {
        let address: IpAddr = source.parse().expect("an address");
        assert_eq!(peers.iter().filter(|peer| peer.peer_address().ip() == address).count(), 2, "{source}");
        let in_use = forebay.metrics().sum("forebay_upstream_ports_in_use", &[("source", source)]);
        assert_eq!(in_use, 2, "{source}");
    }
}

#[test]
fn a_client_connection_ends_after_the_requests_that_it_may_have() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive-requests", "2").start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").header("connection"), None);
    assert_eq!(client.get("web.test", "/").header("connection").as_deref(), Some("close"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn an_idle_client_connection_is_closed_in_order() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive", "1").start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn without_keep_alive_every_client_connection_is_closed() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive", "0").start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").header("connection").as_deref(), Some("close"));
    assert_eq!(client.ending(), Ending::Closed);
    assert_eq!(forebay.get("/").status, 200);
    assert_eq!(upstream.connections(), 1, "the endpoint's connection is another matter");
}

/// The cost of an idle client: no buffer, only a task and a socket. The figure is that of an optimised build;
/// futures of an unoptimised one are larger, which the margin allows for.
#[test]
fn a_thousand_idle_clients_need_little_memory() {
    const KIB_EACH_MAX: u64 = if cfg!(debug_assertions) { 12 } else { 4 };
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let idle = |count: usize| -> Vec<Connection> {
        let connect = |_| {
            let mut client = forebay.client();
            assert_eq!(client.get("web.test", "/").status, 200);
            client
        };
        (0..count).map(connect).collect()
    };
    // Tables and pools that every process has are filled first.
    let _first = idle(100);
    let before = forebay.resident_kib();
    let _clients = idle(1000);
    let each = forebay.resident_kib().saturating_sub(before) / 1000;
    assert!(each <= KIB_EACH_MAX, "{each} KiB each");
}

/// So that addresses of tests do not look like mistakes.
#[test]
fn clients_are_told_apart_by_their_addresses() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = Connection::from_to(IpAddr::from([127, 0, 0, 7]), forebay.address());
    assert_eq!(client.get("web.test", "/").status, 200);
    assert!(upstream.heads()[0].contains("\r\nX-Real-IP: 127.0.0.7\r\n"));
    let on_ipv6: SocketAddr = ([0, 0, 0, 0, 0, 0, 0, 1], forebay.address().port()).into();
    if let Ok(stream) = std::net::TcpStream::connect(on_ipv6) {
        drop(stream);
        assert_eq!(Connection::to(on_ipv6).get("web.test", "/").status, 200);
        assert!(upstream.heads()[1].contains("\r\nX-Real-IP: ::1\r\n"));
    }
}
