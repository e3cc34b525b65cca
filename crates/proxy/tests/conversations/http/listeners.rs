//! Listeners that come and go with the configuration.

use std::net::{SocketAddr, TcpListener, TcpStream};

use testkit::{Connection, Ending, H2Client, Port, Upstream};

use super::{GET, OK, goes_on};
use crate::world::{World, await_that, host, http};

const OTHER: &str = "GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n";
const FAILURES: &str = "forebay_stream_listen_failures_total";

/// Adds a listener with a host of its own.
fn add(world: &mut World, port: &Port) {
    world.change(|model| model.listeners.push(http(port.number(), host("other.test"))));
}

/// Removes it again.
fn remove(world: &mut World) {
    world.change(|model| drop(model.listeners.pop()));
}

/// Asks for something that one endpoint serves.
fn served(client: &mut Connection, upstream: &Upstream, request: &str) {
    client.send(request);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_listener_serves_its_own_hosts_and_no_others() {
    let (upstream, port) = (Upstream::new(), Port::tcp());
    let mut world = World::http(&[upstream.address()], |_| ());
    add(&mut world, &port);
    let (mut first, mut second) = (world.http_client(), Connection::to(port.address()));
    served(&mut first, &upstream, GET);
    served(&mut second, &upstream, OTHER);
    assert_eq!(first.ask(OTHER).status, 404);
    assert_eq!(second.ask(GET).status, 404);
    served(&mut second, &upstream, OTHER);
}

#[test]
fn a_listener_that_goes_answers_what_it_has_taken_and_closes() {
    let (upstream, port) = (Upstream::new(), Port::tcp());
    let mut world = World::http(&[upstream.address()], |_| ());
    add(&mut world, &port);
    let (mut idle, mut busy) = (Connection::to(port.address()), Connection::to(port.address()));
    served(&mut idle, &upstream, OTHER);
    busy.send(OTHER);
    let (mut peer, _) = upstream.accept_request();
    remove(&mut world);
    assert!(TcpStream::connect(port.address()).is_err(), "nobody listens any more");

    peer.send(OK);
    let response = busy.read_response();
    assert_eq!((response.said(), response.header("Connection").as_deref()), ((200, "ok"), Some("close")));
    assert_eq!(busy.ending(), Ending::Closed);
    let response = idle.ask(OTHER);
    assert_eq!((response.status, response.header("Connection").as_deref()), (404, Some("close")));
    assert_eq!(idle.ending(), Ending::Closed);

    let address = port.address();
    drop(port);
    await_that("the port to be free", || TcpListener::bind(address).is_ok());
    goes_on(&mut world.http_client(), &mut peer);
}

#[test]
fn http2_at_a_listener_that_goes_ends_after_the_next_request() {
    let (upstream, port) = (Upstream::new(), Port::tcp());
    let mut world = World::http(&[upstream.address()], |_| ());
    add(&mut world, &port);
    let mut client = H2Client::clear(port.address());
    assert_eq!(client.get("unknown.test", "/a").status, 404);
    remove(&mut world);
    assert_eq!(client.get("other.test", "/a").status, 404);
    client.ending().expect("it is told in order");
}

#[test]
fn a_listener_whose_port_somebody_has_listens_once_it_is_free() {
    let (upstream, port) = (Upstream::new(), Port::tcp());
    let mut world = World::http(&[upstream.address()], |_| ());
    add(&mut world, &port);
    served(&mut Connection::to(port.address()), &upstream, OTHER);
    let labels = [("protocol", "HTTP"), ("port", &*port.number().to_string())];
    assert!(!world.page().contains("protocol=\"HTTP\""), "only what fails is told of");
    remove(&mut world);
    let (address, number) = (port.address(), port.number());
    drop(port);
    let mut taken = None;
    await_that("the port to be free", || {
        taken = TcpListener::bind(("0.0.0.0", number)).ok();
        taken.is_some()
    });

    world.change(|model| model.listeners.push(http(number, host("other.test"))));
    assert_ne!(world.metrics().sum(FAILURES, &labels), 0);
    served(&mut world.http_client(), &upstream, GET);
    drop(taken);
    await_listened(address);
    served(&mut Connection::to(address), &upstream, OTHER);
}

fn await_listened(address: SocketAddr) {
    let mut late = None;
    await_that("the port to be listened at", || {
        // A client that tries often enough is once given the very port that it tries as its own: it is
        // connected to itself.
        let connected = TcpStream::connect(address).ok();
        late = connected.filter(|it| it.local_addr().unwrap() != it.peer_addr().unwrap());
        late.is_some()
    });
}

#[test]
fn a_port_that_somebody_has_keeps_nobody_from_starting_but_the_proxys_own() {
    let upstream = Upstream::new();
    let taken = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], taken.local_addr().unwrap().port()));
    let also = http(address.port(), host("other.test"));
    let world = World::http(&[upstream.address()], |model| model.listeners.push(also));
    served(&mut world.http_client(), &upstream, GET);
    let labels = [("protocol", "HTTP"), ("port", &*address.port().to_string())];
    await_that("the failure to be told", || world.metrics().sum(FAILURES, &labels) != 0);
    drop(taken);
    await_listened(address);
    served(&mut Connection::to(address), &upstream, OTHER);
}

#[test]
fn a_listener_that_is_there_again_takes_its_connections_back() {
    let (upstream, port) = (Upstream::new(), Port::tcp());
    let mut world = World::http(&[upstream.address()], |_| ());
    add(&mut world, &port);
    let mut client = Connection::to(port.address());
    served(&mut client, &upstream, OTHER);
    remove(&mut world);
    world.change(|model| model.listeners.push(http(port.number(), host("web.test"))));
    assert_eq!(client.ask(OTHER).status, 404);
    served(&mut client, &upstream, GET);
}
