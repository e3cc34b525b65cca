//! Datagrams: sessions, answers, endpoints that refuse.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use model::{Backend, Backends, ClusterId, Listener, Model, Protocol, Split, Transport};
use testkit::PATIENCE;

use crate::world::{World, cluster, stream};

const SESSIONS: &str = "forebay_stream_connections_total";
const ACTIVE: &str = "forebay_stream_connections";

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn client(world: &World) -> UdpSocket {
    let socket = socket();
    socket.connect(world.address()).unwrap();
    socket
}

fn received(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut bytes = [0; 2000];
    let (len, from) = socket.recv_from(&mut bytes).unwrap();
    (String::from_utf8(bytes[..len].to_vec()).unwrap(), from)
}

fn unlimited(model: &mut Model) {
    model.settings.stream.responses = None;
}

#[test]
fn a_session_is_over_when_it_is_answered() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], |_| ());
    let client = client(&world);
    for round in 1..=2 {
        client.send(b"question").unwrap();
        let (text, from) = received(&upstream);
        assert_eq!(text, "question");
        upstream.send_to(b"an answer", from).unwrap();
        assert_eq!(received(&client).0, "an answer");
        world.await_quiet();
        assert_eq!(world.metrics().sum(SESSIONS, &[("protocol", "UDP")]), round);
    }
    assert_eq!(world.metrics().sum("forebay_stream_response_seconds_count", &[]), 2);
    let log = world.stop();
    assert_eq!(log.matches("] UDP 200 9 8 0.").count(), 2, "{log}");
}

/// A service whose sessions end by time alone, as those of a `UDPRoute` (Gateway API), takes no notice of
/// the setting.
#[test]
fn a_session_that_counts_no_answers_goes_on() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], |model| {
        let [Listener { protocol: Protocol::Udp(stream), .. }] = &mut *model.listeners else {
            panic!("one listener, of UDP")
        };
        stream.counts_responses = false;
    });
    let client = client(&world);
    client.send(b"question").unwrap();
    let (_, from) = received(&upstream);
    for answer in ["one", "two"] {
        upstream.send_to(answer.as_bytes(), from).unwrap();
        assert_eq!(received(&client).0, answer);
    }
    client.send(b"another").unwrap();
    assert_eq!(received(&upstream), ("another".to_owned(), from));
    assert_eq!(world.metrics().sum(SESSIONS, &[("protocol", "UDP")]), 1);
}

#[test]
fn two_clients_do_not_mix() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], unlimited);
    let clients = [client(&world), client(&world)];
    clients[0].send(b"from 0").unwrap();
    let (_, to_first) = received(&upstream);
    clients[1].send(b"from 1").unwrap();
    let (_, to_second) = received(&upstream);
    assert_ne!(to_first, to_second);
    for _ in 0..3 {
        upstream.send_to(b"for 1", to_second).unwrap();
        upstream.send_to(b"for 0", to_first).unwrap();
        assert_eq!(received(&clients[0]).0, "for 0");
        assert_eq!(received(&clients[1]).0, "for 1");
        clients[0].send(b"again").unwrap();
        assert_eq!(received(&upstream), ("again".to_owned(), to_first));
    }
    assert_eq!(world.metrics().sum(ACTIVE, &[]), 2);
}

#[test]
fn an_answer_comes_from_where_the_question_went() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], |_| ());
    let client = socket();
    let destination = SocketAddr::from(([127, 0, 0, 9], world.port()));
    client.send_to(b"question", destination).unwrap();
    let (_, from) = received(&upstream);
    upstream.send_to(b"answer", from).unwrap();
    assert_eq!(received(&client), ("answer".to_owned(), destination));
}

#[test]
fn datagrams_keep_their_bounds() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], unlimited);
    let client = client(&world);
    for text in ["one", "", "three"] {
        client.send(text.as_bytes()).unwrap();
        let (seen, from) = received(&upstream);
        assert_eq!(seen, text);
        upstream.send_to(text.as_bytes(), from).unwrap();
        assert_eq!(received(&client).0, text);
    }
    let long = vec![b'x'; 60_000];
    client.send(&long).unwrap();
    let mut bytes = vec![0; 65_536];
    let (len, _) = upstream.recv_from(&mut bytes).unwrap();
    assert!(bytes[..len] == long);
}

#[test]
fn a_session_in_which_nothing_passes_is_over() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], |model| {
        unlimited(model);
        model.settings.stream.idle_timeout = Duration::from_millis(100);
    });
    client(&world).send(b"question").unwrap();
    received(&upstream);
    world.await_quiet();
}

#[test]
fn an_endpoint_that_refuses_is_passed_over() {
    // A socket that has another peer gets none of these datagrams, and its port is nobody else's.
    let (upstream, gone) = (socket(), socket());
    gone.connect(upstream.local_addr().unwrap()).unwrap();
    let world = World::udp(&[&upstream, &gone].map(|socket| socket.local_addr().unwrap()), unlimited);
    // Both have their turn, so that one of two clients is given the one that is gone.
    let clients = [client(&world), client(&world)];
    for client in &clients {
        client.send(b"question").unwrap();
    }
    let (_, from) = received(&upstream);
    world.await_metric("forebay_faults_total", &[("reason", "connect_refused")], 1);
    world.await_metric(ACTIVE, &[], 1);
    for client in &clients {
        client.send(b"again").unwrap();
    }
    let mut seen = [received(&upstream), received(&upstream)].map(|(text, from)| (text, from.port()));
    seen.sort();
    assert!(seen.iter().all(|(text, _)| text == "again"), "{seen:?}");
    assert!(seen[0].1 != seen[1].1 && seen.iter().any(|(_, port)| *port == from.port()), "{seen:?}");
}

#[test]
fn without_endpoints_datagrams_are_lost() {
    let world = World::udp(&[], |_| ());
    client(&world).send(b"question").unwrap();
    world.await_metric("forebay_faults_total", &[("reason", "no_endpoints")], 1);
    assert_eq!(world.metrics().sum(SESSIONS, &[]), 0);
}

#[test]
fn a_port_comes_and_goes_and_sessions_stay() {
    let upstream = socket();
    let mut world = World::udp(&[upstream.local_addr().unwrap()], unlimited);
    let port = world.port();
    let known = client(&world);
    known.send(b"one").unwrap();
    let (_, from) = received(&upstream);
    let stranger = client(&world);
    world.change(|model| model.listeners.clear());
    stranger.send(b"stranger").unwrap();
    known.send(b"two").unwrap();
    assert_eq!(received(&upstream), ("two".to_owned(), from));
    upstream.send_to(b"answer", from).unwrap();
    assert_eq!(received(&known).0, "answer");

    world.change(|model| model.listeners.push(stream(port, Transport::Udp)));
    stranger.send(b"stranger again").unwrap();
    assert_eq!(received(&upstream).0, "stranger again");
}

#[test]
fn a_session_that_is_answered_may_finish_when_it_stops() {
    let upstream = socket();
    let world = World::udp(&[upstream.local_addr().unwrap()], |model| {
        model.settings.client.shutdown_timeout = PATIENCE;
    });
    let client = client(&world);
    client.send(b"question").unwrap();
    let (_, from) = received(&upstream);
    world.tell_to_stop();
    upstream.send_to(b"answer", from).unwrap();
    assert_eq!(received(&client).0, "answer");
    let begin = std::time::Instant::now();
    world.stop();
    assert!(begin.elapsed() < PATIENCE);
}

#[test]
fn sessions_are_shared_by_weights_and_what_is_invalid_takes_its_own() {
    let (first, second) = (socket(), socket());
    let mut world = World::udp(&[first.local_addr().unwrap()], |model| {
        let other = cluster(&[second.local_addr().unwrap()]);
        model.clusters.insert(ClusterId(1), std::sync::Arc::new(other));
        shared(model, vec![Backend::new(ClusterId(0), 0), Backend::new(ClusterId(1), 2)]);
    });
    for _ in 0..5 {
        client(&world).send(b"question").unwrap();
        assert_eq!(received(&second).0, "question");
    }
    world.change(|model| shared(model, vec![Backend::invalid(1)]));
    client(&world).send(b"question").unwrap();
    world.await_metric("forebay_faults_total", &[("reason", "backend_invalid")], 1);
}

fn shared(model: &mut Model, backends: Vec<Backend>) {
    let Protocol::Udp(stream) = &mut model.listeners[0].protocol else { panic!("not UDP") };
    stream.backends = Backends::Split(Split::new(backends).unwrap());
}

#[test]
fn a_listener_with_an_address_of_its_own_has_what_comes_there() {
    let (everywhere, there) = (socket(), socket());
    let mut world = World::udp(&[everywhere.local_addr().unwrap()], |model| {
        let other = cluster(&[there.local_addr().unwrap()]);
        model.clusters.insert(ClusterId(1), std::sync::Arc::new(other));
    });
    let (own, port) = (std::net::Ipv4Addr::new(127, 0, 0, 78), world.port());
    world.change(|model| {
        let mut listener = stream(port, Transport::Udp);
        listener.address = Some(own.into());
        let Protocol::Udp(stream) = &mut listener.protocol else { panic!("not UDP") };
        stream.backends = Backends::One(ClusterId(1));
        model.listeners.push(listener);
    });
    client(&world).send(b"to all").unwrap();
    assert_eq!(received(&everywhere).0, "to all");
    let socket = socket();
    socket.connect((own, port)).unwrap();
    socket.send(b"to one").unwrap();
    let (text, from) = received(&there);
    assert_eq!(text, "to one");
    there.send_to(b"answer", from).unwrap();
    assert_eq!(received(&socket).0, "answer");
}
