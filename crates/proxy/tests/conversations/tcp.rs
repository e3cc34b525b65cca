//! Connections: bytes, ends, PROXY headers, endpoints, ports that come and go.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use model::{Backend, Backends, ClusterId, LabelTexts, ListenAddresses, Model, Split, Transport};
use testkit::{Connection, Ending, PATIENCE, Refusing, Upstream};
use wire::proxy_protocol::{Addresses, Carrier, write_v2};

use crate::world::{BRIEF, World, await_that, cluster, stream, tcp_service};

const CONNECTIONS: &str = "forebay_stream_connections_total";
const ACTIVE: &str = "forebay_stream_connections";
const BYTES: &str = "forebay_stream_bytes_total";
const RESPONSES: &str = "forebay_stream_response_seconds_count";
const FAULTS: &str = "forebay_faults_total";

fn serving(upstream: &Upstream) -> World {
    World::tcp(&[upstream.address()], |_| ())
}

/// Gives whoever is connected in the end all the time that a test has.
fn patient(model: &mut Model) {
    model.settings.client.shutdown_timeout = PATIENCE;
}

/// Both ends of a connection through the proxy.
fn connected(world: &World, upstream: &Upstream) -> (Connection, Connection) {
    let client = world.client();
    (client, upstream.accept())
}

/// A question and its answer.
fn converse(client: &mut Connection, peer: &mut Connection) {
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
}

#[test]
fn both_sides_say_what_they_like() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    for _ in 0..3 {
        client.send(b"ping\0");
        assert_eq!(peer.read_exactly(5), b"ping\0");
        peer.send("pong, pong");
        assert_eq!(client.read_exactly(10), b"pong, pong");
    }
    world.await_metric(BYTES, &[("direction", "sent")], 30);
    let metrics = world.metrics();
    let labels = [("namespace", "default"), ("service", "echo"), ("protocol", "TCP")];
    assert_eq!((metrics.sum(CONNECTIONS, &labels), metrics.sum(ACTIVE, &labels)), (1, 1));
    assert_eq!(metrics.sum(BYTES, &[("direction", "received")]), 15);
    assert_eq!(metrics.sum(RESPONSES, &labels), 3);
    drop(client);
    assert_eq!(peer.ending(), Ending::Closed);
    drop(peer);
    world.await_quiet();
    let log = world.stop();
    assert!(
        log.starts_with("[127.0.0.1] [") && log.contains("] TCP 200 30 15 0.") && log.ends_with('\n'),
        "{log}"
    );
}

#[test]
fn an_endpoint_may_speak_first() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    peer.send("220 ready\r\n");
    assert_eq!(client.read_line(), "220 ready");
    client.send("QUIT\r\n");
    assert_eq!(peer.read_line(), "QUIT");
    assert_eq!(world.metrics().sum(RESPONSES, &[]), 0, "what nobody asked for is no answer");
}

#[test]
fn either_side_may_fall_silent_first() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    client.send("question");
    client.shutdown_write();
    assert_eq!(peer.read_to_end(), (b"question".to_vec(), Ending::Closed));
    peer.send("answer");
    peer.shutdown_write();
    assert_eq!(client.read_to_end(), (b"answer".to_vec(), Ending::Closed));

    let (mut client, mut peer) = connected(&world, &upstream);
    peer.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    client.send("last words");
    client.shutdown_write();
    assert_eq!(peer.read_to_end(), (b"last words".to_vec(), Ending::Closed));
    world.await_quiet();
}

/// Bytes that repeat after a prime number of them, so that no loss or swap of buffers goes unseen.
fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed) % 65_521 % 251) as u8).collect()
}

#[test]
fn much_passes_both_ways_at_once() {
    const LEN: usize = 20_000_000;
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    let (up, down) = (content(LEN, 0), content(LEN, 7));
    let (mut client_sends, mut peer_sends) = (client.sender(), peer.sender());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client_sends.send(&up);
            client_sends.shutdown_write();
        });
        scope.spawn(|| {
            peer_sends.send(&down);
            peer_sends.shutdown_write();
        });
        scope.spawn(|| assert!(peer.read_to_end() == (up.clone(), Ending::Closed), "upwards"));
        assert!(client.read_to_end() == (down.clone(), Ending::Closed), "downwards");
    });
    world.await_quiet();
    assert_eq!(world.metrics().sum(BYTES, &[("direction", "sent")]), LEN as u64);
    assert_eq!(world.metrics().sum(BYTES, &[("direction", "received")]), LEN as u64);
}

/// Bulk and small messages in turn, over one connection.
#[test]
fn bulk_and_talk_take_turns() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    for round in 0..3 {
        let much = content(2_000_000, round);
        std::thread::scope(|scope| {
            scope.spawn(|| peer.sender().send(&much));
            assert!(client.read_exactly(much.len()) == much);
        });
        for _ in 0..20 {
            converse(&mut client, &mut peer);
        }
    }
}

#[test]
fn a_slow_reader_loses_nothing() {
    const LEN: usize = 3_000_000;
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let mut client = Connection::narrow_to(world.address());
    let peer = upstream.accept();
    let much = content(LEN, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = peer;
            peer.send(&much);
        });
        // All of it has been taken from the endpoint, which has closed, and half of it is still on its way.
        assert!(client.read_exactly(LEN / 2) == much[..LEN / 2]);
        client.shutdown_write();
        assert!(client.read_to_end() == (much[LEN / 2..].to_vec(), Ending::Closed));
    });
}

#[test]
fn a_reset_is_passed_on() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    converse(&mut client, &mut peer);
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset);
    world.await_metric(FAULTS, &[("reason", "client_aborted")], 1);

    let (mut client, mut peer) = connected(&world, &upstream);
    // A connection that is reset before it is noticed to stand has never stood.
    converse(&mut client, &mut peer);
    peer.reset();
    assert_eq!(client.ending(), Ending::Reset);
    world.await_metric(FAULTS, &[("reason", "upstream_reset")], 1);
    world.await_quiet();
}

/// An endpoint that has answered and takes no more: the answer arrives all the same.
#[test]
fn what_was_said_before_the_end_arrives() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    peer.send("too much");
    drop(peer);
    assert_eq!(client.read_to_end(), (b"too much".to_vec(), Ending::Closed));
    // The endpoint resets what it is sent from now on.
    while client.try_send([b'x'; 1000]).is_ok() {}
    world.await_quiet();
}

#[test]
fn a_connection_on_which_nothing_passes_is_closed() {
    let upstream = Upstream::new();
    let idle = |model: &mut Model| model.settings.stream.idle_timeout = BRIEF;
    let world = World::tcp(&[upstream.address()], idle);
    let (mut client, mut peer) = connected(&world, &upstream);
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    assert_eq!(client.ending(), Ending::Closed);
    peer.ending();
    world.await_quiet();
}

// === PROXY headers ===

fn accepting(model: &mut Model) {
    tcp_service(model, |service| service.accepts_proxy_header = true);
}

const LINE: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n";

#[test]
fn a_header_is_taken_off_and_believed() {
    let upstream = Upstream::new();
    let world = World::tcp(&[upstream.address()], accepting);
    let mut client = world.client();
    client.send(format!("{LINE}hello"));
    let mut one = upstream.accept();
    assert_eq!(one.read_exactly(5), b"hello");
    drop((client, one));

    let mut client = world.client();
    let mut header = Vec::new();
    let addresses = Addresses {
        source: "[2001:db8::7]:4711".parse().unwrap(),
        destination: "[2001:db8::1]:80".parse().unwrap(),
    };
    write_v2(Some(addresses), Carrier::Stream, &mut header);
    // In pieces, and the last with what follows.
    let (start, end) = header.split_at(20);
    client.send(start);
    client.send([end, b"hello"].concat());
    let mut one = upstream.accept();
    assert_eq!(one.read_exactly(5), b"hello");
    drop((client, one));
    world.await_quiet();
    let log = world.stop();
    assert!(log.contains("[192.0.2.7] [") && log.contains("[2001:db8::7] ["), "{log}");
}

#[test]
fn a_header_of_somebody_else_is_taken_off_only() {
    let upstream = Upstream::new();
    let world = World::tcp(&[upstream.address()], |model| {
        accepting(model);
        model.settings.forwarded.trusted = vec!["10.0.0.0/8".parse().unwrap()];
    });
    let mut client = world.client();
    client.send(format!("{LINE}hello"));
    let mut peer = upstream.accept();
    assert_eq!(peer.read_exactly(5), b"hello");
    drop((client, peer));
    world.await_quiet();
    let log = world.stop();
    assert!(log.starts_with("[127.0.0.1] ["), "{log}");
}

#[test]
fn a_connection_without_its_header_is_closed() {
    let upstream = Upstream::new();
    let world = World::tcp(&[upstream.address()], accepting);
    let mut client = world.client();
    client.send("PING\r\n");
    client.read_to_end();
    world.await_metric(FAULTS, &[("reason", "bad_proxy_header")], 1);
    assert!(upstream.is_left_alone());
    world.await_quiet();
    assert!(world.stop().contains("] TCP 400 0 0 "));
}

#[test]
fn an_endpoint_is_told_who_the_client_is() {
    let upstream = Upstream::new();
    let sending = |model: &mut Model| tcp_service(model, |service| service.sends_proxy_header = true);
    let mut world = World::tcp(&[upstream.address()], sending);
    let (mut client, mut peer) = connected(&world, &upstream);
    let (from, port) = (client.address().port(), world.port());
    assert_eq!(peer.read_line(), format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {port}"));
    client.send("hello");
    assert_eq!(peer.read_exactly(5), b"hello");
    world.await_metric(BYTES, &[("direction", "received")], 5);

    world.change(accepting);
    let mut client = world.client();
    client.send(LINE);
    let mut peer = upstream.accept();
    assert_eq!(peer.read_line(), format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 {port}"));
}

// === endpoints ===

#[test]
fn endpoints_take_turns_and_one_that_refuses_is_passed_over() {
    let (upstreams, refusing) = (Upstream::everywhere(), Refusing::default());
    let endpoints = [upstreams.endpoint(1), refusing.address(), upstreams.endpoint(2)];
    let world = World::tcp(&endpoints, |_| ());
    let connections: Vec<_> = (0..6).map(|_| connected(&world, &upstreams)).collect();
    let asked = |endpoint| connections.iter().filter(|(_, peer)| peer.address() == endpoint).count();
    assert_eq!((asked(endpoints[0]), asked(endpoints[2])), (3, 3));
    assert_eq!(world.metrics().sum(FAULTS, &[("side", "upstream")]), 0, "nobody was let down");
}

#[test]
fn where_nobody_is_there_the_client_is_let_go() {
    let refusing = Refusing::default();
    let mut world = World::tcp(&[refusing.address()], |_| ());
    world.client().read_to_end();
    world.await_metric(FAULTS, &[("reason", "connect_refused")], 1);
    world.change(|model| model.clusters = [cluster(&[])].into_iter().collect());
    world.client().read_to_end();
    world.await_metric(FAULTS, &[("reason", "no_endpoints")], 1);
    world.await_quiet();
    let log = world.stop();
    assert_eq!(log.matches("] TCP 502 0 0 ").count(), 2, "{log}");
}

#[test]
fn another_endpoint_is_tried_only_where_that_is_wished_for() {
    let (upstream, refusing) = (Upstream::new(), Refusing::default());
    let world = World::tcp(&[refusing.address(), upstream.address()], |model| {
        model.settings.stream.next_upstream = false;
    });
    let mut clients = [world.client(), world.client()];
    let _peer = upstream.accept();
    await_that("one to be let go", || clients.iter().any(|client| !client.is_quiet()));
    let at = usize::from(clients[0].is_quiet());
    clients[at].read_to_end();
    assert!(clients[1 - at].is_quiet());
}

// === ports ===

#[test]
fn a_port_comes_and_goes_and_connections_stay() {
    let upstream = Upstream::new();
    let mut world = serving(&upstream);
    let address = world.address();
    let (mut client, mut peer) = connected(&world, &upstream);
    world.change(|model| model.listeners.clear());
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
    converse(&mut client, &mut peer);

    world.change(|model| model.listeners.push(stream(address.port(), Transport::Tcp)));
    let (mut second, mut second_peer) = connected(&world, &upstream);
    second.send("x");
    assert_eq!(second_peer.read_exactly(1), b"x");
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping", "the first one is still there");
}

#[test]
fn a_port_goes_over_to_another_service() {
    let (old, new) = (Upstream::new(), Upstream::new());
    let mut world = serving(&old);
    let (mut client, mut peer) = connected(&world, &old);
    world.change(|model| {
        model.clusters = [cluster(&[new.address()])].into_iter().collect();
        tcp_service(model, |service| {
            let texts = LabelTexts { service: "other".to_owned(), ..service.labels.texts() };
            service.labels = texts.into();
        });
    });
    let (mut second, mut second_peer) = connected(&world, &new);
    second.send("x");
    assert_eq!(second_peer.read_exactly(1), b"x");
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    world.await_metric(ACTIVE, &[("service", "other")], 1);
    world.await_metric(ACTIVE, &[("service", "echo")], 1);
}

#[test]
fn a_port_that_somebody_has_is_listened_at_once_it_is_free() {
    const FAILURES: &str = "forebay_stream_listen_failures_total";
    let upstream = Upstream::new();
    let taken = Upstream::at("0.0.0.0".parse().unwrap(), 1);
    let port = taken.address().port();
    let world = World::tcp(&[upstream.address()], |model| {
        model.listeners.push(stream(port, Transport::Tcp));
    });
    let label = port.to_string();
    assert_ne!(world.metrics().sum(FAILURES, &[("port", &label)]), 0);
    let (mut client, mut peer) = connected(&world, &upstream);
    client.send("x");
    assert_eq!(peer.read_exactly(1), b"x", "the other port is not affected");
    drop(taken);
    let mut late = None;
    await_that("the port to be listened at", || {
        // A socket that connects often enough gets the very port that it connects to as its own, and is
        // then connected to itself.
        let connected = std::net::TcpStream::connect(("127.0.0.1", port)).ok();
        late = connected.filter(|it| it.local_addr().unwrap() != it.peer_addr().unwrap());
        late.is_some()
    });
    let _peer = upstream.accept();
}

#[test]
fn who_is_connected_when_it_stops_may_finish() {
    let upstream = Upstream::new();
    let world = World::tcp(&[upstream.address()], patient);
    let (mut client, mut peer) = connected(&world, &upstream);
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    // Whoever asks whether the port is closed is not to be waited for.
    drop(upstream);
    world.tell_to_stop();
    await_that("the port to be closed", || std::net::TcpStream::connect(world.address()).is_err());
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
    drop((client, peer));
    world.stop();
}

#[test]
fn who_does_not_finish_is_cut_off() {
    let upstream = Upstream::new();
    let world = serving(&upstream);
    let (mut client, mut peer) = connected(&world, &upstream);
    world.stop();
    client.read_to_end();
    peer.read_to_end();
}

// === response times ===

#[test]
fn slow_answers_are_counted_apart() {
    let ratio = |world: &World| {
        let page = world.page();
        let line =
            page.lines().find(|line| line.starts_with("forebay_stream_response_over_threshold_ratio{"));
        line.unwrap().rsplit_once(' ').unwrap().1.to_owned()
    };
    let upstream = Upstream::new();
    let mut world = World::tcp(&[upstream.address()], |model| {
        model.settings.stream.response_threshold = Duration::from_secs(3600);
    });
    let connect_and_converse = |world: &World| {
        let (mut client, mut peer) = connected(world, &upstream);
        converse(&mut client, &mut peer);
        drop((client, peer));
        world.await_quiet();
    };
    connect_and_converse(&world);
    assert_eq!(ratio(&world), "0");
    world.change(|model| model.settings.stream.response_threshold = Duration::ZERO);
    connect_and_converse(&world);
    assert_eq!(ratio(&world), "0.5");
}

#[test]
fn the_line_of_a_connection_has_the_format_that_is_configured() {
    let upstream = Upstream::new();
    let world = World::tcp(&[upstream.address()], |model| {
        let format = "$proxy_upstream_name $upstream_addr $server_port $bytes_received $upstream_bytes_sent";
        model.settings.stream.log_format = model::log::StreamFormat::parse(format).unwrap();
    });
    let mut client = world.client();
    client.send("ping");
    let mut peer = upstream.accept();
    assert_eq!(peer.read_exactly(4), b"ping");
    drop((client, peer));
    world.await_quiet();
    let expected = format!("tcp-default-echo-7 {} {} 4 4\n", upstream.address(), world.port());
    assert_eq!(world.stop(), expected);
}

#[test]
fn a_port_is_listened_at_on_the_addresses_that_are_named_and_they_may_change() {
    let upstream = Upstream::new();
    let addresses = |last: u8| ListenAddresses {
        v4: vec![Ipv4Addr::new(127, 0, 0, last)],
        without_v6: true,
        ..ListenAddresses::default()
    };
    let mut world = World::tcp(&[upstream.address()], |model| model.settings.listen = addresses(2));
    let port = world.port();
    let at = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
    let passes = |address| {
        let mut client = Connection::to(address);
        client.send("ping");
        let mut peer = upstream.accept();
        assert_eq!(peer.read_exactly(4), b"ping");
    };
    passes(at(2));
    assert!(TcpStream::connect(at(1)).is_err());
    world.change(|model| model.settings.listen = addresses(3));
    passes(at(3));
    assert!(TcpStream::connect(at(2)).is_err());
    world.change(|model| model.settings.listen = ListenAddresses::default());
    passes(at(2));
}

#[test]
fn connections_are_shared_by_weights_and_what_is_invalid_closes_its_own() {
    let (first, second) = (Upstream::new(), Upstream::new());
    let mut world = World::tcp(&[first.address()], |model| {
        model.clusters.insert(ClusterId(1), std::sync::Arc::new(cluster(&[second.address()])));
        let backends = [(0, 0), (1, 2)].map(|(id, weight)| Backend::new(ClusterId(id), weight));
        let split = Split::new(backends.to_vec()).unwrap();
        tcp_service(model, |stream| stream.backends = Backends::Split(split));
    });
    for _ in 0..5 {
        let mut client = world.client();
        converse(&mut client, &mut second.accept());
    }
    assert!(first.is_left_alone());
    world.change(|model| {
        let split = Split::new(vec![Backend::invalid(1)]).unwrap();
        tcp_service(model, |stream| stream.backends = Backends::Split(split));
    });
    let mut client = world.client();
    assert!(client.try_read_exactly(1).is_err());
    world.await_metric(FAULTS, &[("reason", "backend_invalid")], 1);
}

#[test]
fn a_listener_with_an_address_of_its_own_has_what_comes_there() {
    let (everywhere, there) = (Upstream::new(), Upstream::new());
    let own = Ipv4Addr::new(127, 0, 0, 77);
    let mut world = World::tcp(&[everywhere.address()], |model| {
        model.clusters.insert(ClusterId(1), std::sync::Arc::new(cluster(&[there.address()])));
    });
    let port = world.port();
    let at_own = move |model: &mut Model| {
        let mut listener = stream(port, Transport::Tcp);
        listener.address = Some(own.into());
        let model::Protocol::Tcp(stream) = &mut listener.protocol else { panic!("not TCP") };
        stream.backends = Backends::One(ClusterId(1));
        model.listeners.push(listener);
    };
    world.change(at_own);
    converse(&mut world.client(), &mut everywhere.accept());
    converse(&mut Connection::to(SocketAddr::from((own, port))), &mut there.accept());
    world.change(|model| drop(model.listeners.pop()));
    converse(&mut Connection::to(SocketAddr::from((own, port))), &mut everywhere.accept());
}
