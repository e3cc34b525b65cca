//! Requests and connections of clients whose behaviour is far off the others'. The detection of these
//! clients has simulations in
//! `clients::abuse`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::overload::Mode;
use model::template::Template;
use model::{AbuseKey, AddressSet, ClusterId, Model, Replicas};
use proxy::ClientSelector;
use proxy::guard::Relief;
use testkit::frames::{FrameClient, flag, frame, head, header_block, kind};
use testkit::{Canned, Connection, H2Client};

use super::{GET, await_fault, route};
use crate::world::{World, await_that, cluster};

const CLIENTS: &str = "forebay_abuse_clients";
const ACTIONS: &str = "forebay_abuse_actions_total";

/// Addresses for documentation, as the hop in front tells them.
const ABUSER: &str = "203.0.113.9";
const GATEWAY: &str = "203.0.113.10";
const USER: &str = "192.0.2.1";

/// Connections over which a client asks at a time: one of them alone would do little once it is slowed.
const CONNECTIONS: usize = 40;

fn mode(model: &mut Model, mode: Mode) {
    model.settings.abuse.general.mode = mode;
    model.settings.client.keep_alive_requests = u64::MAX;
    route(model, |route| route.abuse.mode = mode);
}

/// A world behind a hop that says who the clients are.
fn behind_a_hop(upstream: &Canned, mode: Mode) -> World {
    World::http(&[upstream.address()], |model| {
        self::mode(model, mode);
        model.settings.forwarded.use_incoming = true;
        let gateway = format!("{GATEWAY}/32").parse().unwrap();
        model.settings.abuse.allowed = Some(Arc::new(AddressSet::new(&[gateway])));
    })
}

fn ask_as(connection: &mut Connection, client: &str, host: &str) -> testkit::Response {
    send_as(connection, client, host);
    connection.read_response()
}

fn send_as(connection: &mut Connection, client: &str, host: &str) {
    connection.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {client}\r\n\r\n"));
}

/// Two clients ask for what is not there, again and again, while another one asks for what is, until
/// something has happened.
fn misbehave_until(world: &World, is_done: impl Fn() -> bool) {
    let mut user = world.http_client();
    let mut connections: Vec<_> = (0..2 * CONNECTIONS).map(|_| world.http_client()).collect();
    while !is_done() {
        for (number, connection) in connections.iter_mut().enumerate() {
            send_as(connection, [ABUSER, GATEWAY][number % 2], "other.test");
        }
        for _ in 0..5 {
            assert_eq!(ask_as(&mut user, USER, "web.test").status, 200);
        }
        for connection in &mut connections {
            assert!(matches!(connection.read_response().status, 404 | 429));
        }
    }
}

fn refused(world: &World) -> u64 {
    world.metrics().sum(CLIENTS, &[("state", "refused")])
}

/// A fault is counted once its response has been sent.
fn await_refusals(world: &World) {
    let refusals = || world.metrics().sum("forebay_faults_total", &[("reason", "abusive_client")]);
    await_that("refusals to be counted", || refusals() > 0);
}

fn done(world: &World, action: &str, mode: &str) -> u64 {
    world.metrics().sum(ACTIONS, &[("action", action), ("mode", mode)])
}

#[test]
fn one_client_is_slowed_and_refused_while_others_are_served() {
    let upstream = Canned::saying("hello");
    let mut world = behind_a_hop(&upstream, Mode::Enforce);
    let mut open = world.http_client();
    assert_eq!(ask_as(&mut open, ABUSER, "web.test").status, 200);
    misbehave_until(&world, || done(&world, "refuse", "enforce") > 0);
    assert!(done(&world, "slow", "enforce") > 0, "it was slowed before");
    let seen = upstream.heads().len();
    let answer = ask_as(&mut open, ABUSER, "web.test");
    assert_eq!(answer.status, 429, "over a connection that it had");
    let seconds: u64 = answer.header("retry-after").expect("when to come again").parse().unwrap();
    assert!((1..=14).contains(&seconds), "{seconds}");
    await_refusals(&world);
    let h2 = H2Client::clear(world.http_address());
    let over_h2 =
        |client| h2.call("GET", "web.test", "/a", &[("x-forwarded-for", client)], true).read_response();
    assert_eq!((over_h2(ABUSER).status, over_h2(GATEWAY).status, over_h2(USER).status), (429, 200, 200));
    assert_eq!(upstream.heads().len(), seen + 2, "nobody works for who is refused");
    let noticed = world.observer().noticed_clients();
    assert_eq!((noticed[0].client.to_string().as_str(), noticed[0].treatment), (ABUSER, "refused"));
    assert_eq!((&noticed[0].signals[..], noticed[0].refusals), (&["errors"][..], 1));
    assert!(noticed.iter().all(|one| one.client.to_string() != GATEWAY), "who is allowed is not counted");
    world.change(|model| route(model, |route| route.abuse.mode = Mode::Off));
    assert_eq!(ask_as(&mut open, ABUSER, "web.test").status, 200, "a route that wants nothing of it");
    world.change(|model| route(model, |route| route.abuse.mode = Mode::Enforce));
    assert_eq!(ask_as(&mut open, ABUSER, "web.test").status, 429);
    assert_eq!(world.observer().release_clients(&ClientSelector::One(noticed[0].client)), 1);
    await_that("the client to be served", || ask_as(&mut open, ABUSER, "web.test").status == 200);
}

#[test]
fn where_it_is_watched_nothing_happens_to_anybody() {
    let upstream = Canned::saying("hello");
    let world = behind_a_hop(&upstream, Mode::Watch);
    misbehave_until(&world, || done(&world, "refuse", "watch") > 0);
    assert_eq!(refused(&world), 1);
    assert_eq!(ask_as(&mut world.http_client(), ABUSER, "web.test").status, 200);
    for action in ["slow", "refuse", "close"] {
        assert_eq!(done(&world, action, "enforce"), 0);
    }
    assert_eq!(world.metrics().sum("forebay_faults_total", &[("reason", "abusive_client")]), 0);
}

const MALLORY: &str = "X-Api-Key: mallory\r\n";

#[test]
fn clients_are_told_apart_by_a_key_where_they_have_one() {
    let upstream = Canned::saying("hello");
    let world = World::http(&[upstream.address()], |model| {
        mode(model, Mode::Enforce);
        let key = Some(Arc::new(AbuseKey { template: Template::parse("$http_x_api_key").unwrap(), zone: 0 }));
        model.settings.abuse.general.key.clone_from(&key);
        route(model, |route| route.abuse.key = key);
    });
    let send = |connection: &mut Connection, host: &str, key: &str| {
        connection.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n{key}\r\n"));
    };
    let mut one = world.http_client();
    let mut status = |key: &str| {
        send(&mut one, "web.test", key);
        one.read_response().status
    };
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| world.http_client()).collect();
    while done(&world, "refuse", "enforce") == 0 {
        for connection in &mut connections {
            send(connection, "other.test", MALLORY);
        }
        for key in ["X-Api-Key: alice\r\n", ""] {
            assert_eq!(status(key), 200, "all have the same address");
        }
        for connection in &mut connections {
            assert!(matches!(connection.read_response().status, 404 | 429));
        }
    }
    assert_eq!((status(MALLORY), status("X-Api-Key: alice\r\n"), status("")), (429, 200, 200));
    let many: Vec<_> = (0..10).map(|number| format!("X-Api-Key: {number}\r\n")).collect();
    let many = many.concat();
    for hidden in [&format!("X-Api-Key: alice\r\n{MALLORY}"), &format!("{MALLORY}X-Api-Key: new\r\n"), &many]
    {
        assert_eq!(status(hidden), 429, "{hidden}");
    }
    let observer = world.observer();
    await_that("the value to be told", || observer.noticed_clients()[0].value.is_some());
    let refused = &observer.noticed_clients()[0];
    assert_eq!((refused.value.as_deref(), refused.treatment), (Some("mallory"), "refused"));
    assert!(refused.client.to_string().starts_with("key:"), "{}", refused.client);
    assert!(!world.page().contains("mallory"), "metrics tell nothing of it");
    assert_eq!(observer.release_clients(&ClientSelector::WithValue("alice".to_owned())), 0);
    assert_eq!(observer.release_clients(&ClientSelector::WithValue("mallory".to_owned())), 1);
    await_that("the client to be served", || status(MALLORY) == 200);
}

#[test]
fn what_is_refused_for_want_of_room_is_no_error_of_a_client() {
    let upstream = Canned::saying("hello");
    let world = behind_a_hop(&upstream, Mode::Watch);
    world.order(Relief { level: 3, ..Relief::default() });
    let mut client = world.http_client();
    await_that("requests to be refused", || ask_as(&mut client, USER, "web.test").status == 503);
    let noticed =
        || world.observer().noticed_clients().into_iter().find(|one| one.client.to_string() == ABUSER);
    await_that("the client to be noticed", || {
        assert_eq!(ask_as(&mut client, ABUSER, "web.test").status, 503);
        noticed().is_some()
    });
    let rate = |rates: &[(&str, f32)], of: &str| rates.iter().find(|(name, _)| *name == of).unwrap().1;
    let rates = noticed().unwrap().rates;
    assert!(rate(&rates, "requests") > 0.0 && rate(&rates, "errors") == 0.0, "{rates:?}");
}

#[test]
fn the_only_request_of_a_connection_is_counted_though_the_connection_stays() {
    let upstream = Canned::saying("hello");
    let world = behind_a_hop(&upstream, Mode::Watch);
    let held: Vec<_> = (0..30)
        .map(|_| {
            let mut connection = world.http_client();
            assert_eq!(ask_as(&mut connection, ABUSER, "other.test").status, 404);
            connection
        })
        .collect();
    let is_noticed = || world.observer().noticed_clients().iter().any(|one| one.client.to_string() == ABUSER);
    await_that("the client to be noticed", is_noticed);
    drop(held);
}

#[test]
fn requests_that_are_broken_off_at_once_are_counted() {
    let upstream = Canned::saying("hello");
    let world = World::http(&[upstream.address()], |model| mode(model, Mode::Watch));
    let head = head("GET", "web.test", "/a");
    let fields: Vec<_> = head.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let whole = flag::END_HEADERS | flag::END_STREAM;
    let pair = |stream: u32| {
        let cancel = frame(kind::RST_STREAM, flag::NONE, stream, &8_u32.to_be_bytes());
        [frame(kind::HEADERS, whole, stream, &header_block(&fields)), cancel].concat()
    };
    let mut client = FrameClient::begin(world.http_client());
    assert!(client.try_send_all(&(0..20).map(|number| pair(2 * number + 1)).collect::<Vec<_>>()));
    let errors = || {
        let noticed = world.observer().noticed_clients();
        noticed
            .iter()
            .flat_map(|one| &one.rates)
            .filter(|(name, _)| *name == "errors")
            .map(|(_, rate)| rate)
            .sum::<f32>()
    };
    await_that("the client to be noticed", || errors() > 0.0);
    assert!(upstream.heads().len() < 20, "they were broken off before they were looked at");
}

#[test]
fn who_opens_connections_for_nothing_is_not_let_in() {
    let upstream = Canned::saying("hello");
    let world = World::http(&[upstream.address()], |model| mode(model, Mode::Enforce));
    let abuser: IpAddr = [127, 0, 0, 2].into();
    let mut user = world.http_client();
    await_that("its connections to be closed", || {
        // In order, since a port of a connection that is closed waits for a minute.
        (0..20).for_each(|_| Connection::from_to(abuser, world.http_address()).reset());
        user.send(GET);
        assert_eq!(user.read_response().status, 200);
        done(&world, "close", "enforce") > 0
    });
    let mut refused = Connection::from_to(abuser, world.http_address());
    assert_eq!(refused.read_response().status, 429, "before it has said anything");
    await_refusals(&world);
    user.send(GET);
    assert_eq!(user.read_response().status, 200);
    assert_eq!(world.observer().release_clients(&ClientSelector::All), 1);
    await_that("the client to be let in", || {
        let mut again = Connection::from_to(abuser, world.http_address());
        again.try_send(GET).is_ok() && again.try_read_line().is_ok_and(|line| line.contains(" 200 "))
    });
}

#[test]
fn a_client_has_so_many_connections_and_its_oldest_idle_one_goes_first() {
    let upstream = testkit::Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        model.settings.client.bounds.connections_per_client = 2.try_into().ok();
    });
    let other: IpAddr = [127, 0, 0, 3].into();
    let mut peer = None;
    let mut serve = |client: &mut Connection| {
        client.send(GET);
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.read_head();
        peer.send(super::OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    };
    let (mut first, mut second) = (world.http_client(), world.http_client());
    serve(&mut first);
    serve(&mut second);
    let mut third = world.http_client();
    serve(&mut third);
    assert_eq!(first.ending(), testkit::Ending::Closed, "it has been idle for longest");
    let mut h2 = H2Client::clear(world.http_address());
    assert_eq!(second.ending(), testkit::Ending::Closed);
    serve(&mut Connection::from_to(other, world.http_address()));
    // Nothing came of it for longer than of the third.
    serve(&mut third);
    let mut fourth = world.http_client();
    assert!(h2.ending().is_ok(), "HTTP/2 is no different");
    for busy in [&mut third, &mut fourth] {
        busy.send(GET);
    }
    let mut peers: Vec<_> = vec![peer.take().unwrap(), upstream.accept()];
    for peer in &mut peers {
        peer.read_head();
    }
    let mut fifth = world.http_client();
    assert_eq!(fifth.read_response().status, 429, "both are busy");
    await_fault(&world, "client_connections");
    for peer in &mut peers {
        peer.send(super::OK);
    }
    assert_eq!((third.read_response().status, fourth.read_response().status), (200, 200));
}

#[test]
fn other_replicas_have_no_bound_of_clients() {
    let upstream = Canned::saying("hello");
    let replica: IpAddr = [127, 0, 0, 2].into();
    let world = World::http(&[upstream.address()], |model| {
        let mut others = cluster(&[SocketAddr::new(replica, 80)]);
        others.name = "ingress-forebay-80".to_owned();
        model.clusters.insert(ClusterId(1), Arc::new(others));
        model.settings.replicas =
            Some(Replicas { cluster: ClusterId(1), own: [127, 0, 0, 9].into(), unready: Vec::new() });
        model.settings.client.bounds.connections_per_client = 1.try_into().ok();
    });
    let ask = |client: &mut Connection| {
        client.send("GET /a HTTP/1.1\r\nHost: web.test\r\n");
        client.send("\r\n");
        client.read_response().status
    };
    let mut connections: Vec<_> =
        (0..5).map(|_| Connection::from_to(replica, world.http_address())).collect();
    assert!(connections.iter_mut().all(|connection| ask(connection) == 200));
    assert!(connections.iter_mut().all(|connection| ask(connection) == 200), "none of them was closed");
}

#[test]
fn there_are_so_many_connections_in_all() {
    let upstream = Canned::saying("hello");
    let mut world = World::http(&[upstream.address()], |model| {
        model.settings.client.bounds.connections = 2.try_into().ok();
    });
    let mut clients: Vec<_> = (0..2).map(|_| world.http_client()).collect();
    for client in &mut clients {
        client.send(GET);
        assert_eq!(client.read_response().status, 200);
    }
    let mut third = world.http_client();
    third.send(GET);
    assert_eq!(third.read_response().status, 200);
    assert_eq!(clients[0].ending(), testkit::Ending::Closed);
    world.change(|model| model.settings.client.bounds.connections = None);
    let mut fourth = world.http_client();
    fourth.send(GET);
    assert_eq!(fourth.read_response().status, 200);
    for client in [&mut clients[1], &mut third] {
        client.send(GET);
        assert_eq!(client.read_response().status, 200, "there is room for all again");
    }
}
