//! Requests that wait for a place at an endpoint, and what ends the wait.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use model::overload::{Concurrency, Mode, Overload, Priority};
use model::{AppProtocol, Cluster, ClusterId, RetryOn};
use testkit::{Connection, H2Client, H2Upstream, Refusing, Response, Upstream};

use super::{GET, OK, POST, await_fault, forward};
use crate::world::World;

const QUEUED: &str = "forebay_overload_queued";
const IN_FLIGHT: &str = "forebay_overload_in_flight";
const WAITS: &str = "forebay_overload_waits_total";
const UNAVAILABLE: (u16, &str) = (503, "503 Service Unavailable\n");

fn limited(limit: u32) -> Overload {
    let concurrency = Concurrency::Fixed(NonZeroU32::new(limit).unwrap());
    Overload {
        mode: Mode::Enforce,
        concurrency,
        queue_timeout: Duration::from_secs(60),
        ..Overload::default()
    }
}

fn world(endpoints: &[SocketAddr], overload: Overload) -> World {
    World::http(endpoints, |model| forward(model, |forward| forward.overload = Some(Arc::new(overload))))
}

/// A client that has asked.
fn asking(world: &World, request: &str) -> Connection {
    let mut client = world.http_client();
    client.send(request);
    client
}

/// Clients whose requests an endpoint has, with its ends.
fn busy(world: &World, upstream: &Upstream, count: usize) -> (Vec<Connection>, Vec<Connection>) {
    let one = |_| {
        let client = asking(world, GET);
        (client, upstream.accept_request().0)
    };
    (0..count).map(one).unzip()
}

fn await_queued(world: &World, count: u64) {
    world.await_metric(QUEUED, &[("cluster", "default-echo-7")], count);
}

fn await_wait(world: &World, result: &str, count: u64) {
    world.await_metric(WAITS, &[("result", result)], count);
}

fn is_told_to_come_again(response: &Response) -> bool {
    let field = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    field.is_some_and(|(_, value)| (1..=3).contains(&value.parse::<u32>().unwrap()))
}

#[test]
fn a_request_beyond_the_limit_waits_and_is_served_when_a_place_is_free() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], limited(2));
    let (mut clients, mut peers) = busy(&world, &upstream, 2);
    let mut third = asking(&world, POST);
    await_queued(&world, 1);
    assert!(upstream.is_left_alone());
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
    // It goes over the connection that has become free.
    assert!(peers[0].read_head().starts_with("POST"));
    assert_eq!(peers[0].read_exactly(4), b"body");
    await_queued(&world, 0);
    for (client, peer) in [(&mut third, 0), (&mut clients[1], 1)] {
        peers[peer].send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    await_wait(&world, "served", 1);
    world.await_metric(IN_FLIGHT, &[], 0);
}

#[test]
fn who_waits_is_served_in_order() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], limited(1));
    let (_first, mut peers) = busy(&world, &upstream, 1);
    let _waiting: Vec<_> = (1..=3)
        .map(|number| {
            let client = asking(&world, &GET.replace("/a", &format!("/{number}")));
            await_queued(&world, number);
            client
        })
        .collect();
    // By now the queue has not been empty for a while: the last who came is the first to be served.
    let heads: Vec<_> = (0..3)
        .map(|_| {
            peers[0].send(OK);
            peers[0].read_head().chars().nth(5).unwrap()
        })
        .collect();
    assert!(heads == ['3', '2', '1'] || heads == ['1', '2', '3'], "{heads:?}");
}

#[test]
fn who_waits_for_too_long_is_refused() {
    let upstream = Upstream::new();
    let overload = Overload { queue_timeout: Duration::from_millis(200), ..limited(1) };
    let world = world(&[upstream.address()], overload);
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    let mut late = world.http_client();
    let response = late.ask(GET);
    assert_eq!(response.said(), UNAVAILABLE);
    assert!(is_told_to_come_again(&response));
    await_fault(&world, "queue_timeout");
    await_wait(&world, "timeout", 1);
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
    late.send(GET);
    peers[0].read_head();
    peers[0].send(OK);
    assert_eq!(late.read_response().said(), (200, "ok"), "the client's connection goes on");
}

/// Requests that wait for their clients, where the limit is found.
fn auto(upstream: &Upstream) -> World {
    world(&[upstream.address()], Overload { concurrency: Concurrency::Auto, ..limited(1) })
}

#[test]
fn a_long_response_gives_its_place_back_once_it_has_begun() {
    let upstream = Upstream::new();
    let world = auto(&upstream);
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    world.await_metric(IN_FLIGHT, &[], 1);
    peers[0].send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
    world.await_metric(IN_FLIGHT, &[], 0);
    peers[0].send("ended");
    assert_eq!(clients[0].read_response().said(), (200, "begunended"));
}

#[test]
fn a_client_that_is_slow_with_its_request_holds_no_place() {
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::new();
    let world = auto(&upstream);
    let mut client = asking(&world, &POST.replace("4\r\n\r\nbody", &format!("{LENGTH}\r\n\r\n")));
    // As much as is not kept until the rest of it has come.
    client.send(vec![b'x'; LENGTH / 2]);
    let (mut peer, _) = upstream.accept_request();
    peer.read_exactly(LENGTH / 2);
    world.await_metric(IN_FLIGHT, &[], 0);
    client.send(vec![b'x'; LENGTH / 2]);
    peer.read_exactly(LENGTH / 2);
    world.await_metric(IN_FLIGHT, &[], 1);
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    world.await_metric(IN_FLIGHT, &[], 0);
}

#[test]
fn nobody_waits_without_time_for_it() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], Overload { queue_timeout: Duration::ZERO, ..limited(1) });
    let (_clients, _peers) = busy(&world, &upstream, 1);
    let response = world.http_client().ask(GET);
    assert_eq!(response.said(), UNAVAILABLE);
    assert!(is_told_to_come_again(&response));
    await_fault(&world, "concurrency_limit");
    await_wait(&world, "refused", 1);
}

#[test]
fn a_client_that_goes_away_leaves_the_queue() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], limited(1));
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    let leaving = asking(&world, GET);
    await_queued(&world, 1);
    leaving.reset();
    await_wait(&world, "client_gone", 1);
    await_queued(&world, 0);
    let client = H2Client::clear(world.http_address());
    let mut call = client.call("GET", "web.test", "/gone", &[], true);
    await_queued(&world, 1);
    call.sender.reset(h2::Reason::CANCEL);
    await_wait(&world, "client_gone", 2);
    await_queued(&world, 0);
    let mut staying = asking(&world, &GET.replace("/a", "/staying"));
    await_queued(&world, 1);
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
    assert!(peers[0].read_head().starts_with("GET /staying"));
    peers[0].send(OK);
    assert_eq!(staying.read_response().said(), (200, "ok"));
}

#[test]
fn a_client_that_goes_away_while_it_is_served_gives_its_place_back() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], limited(1));
    let (clients, peers) = busy(&world, &upstream, 1);
    let mut waiting = asking(&world, GET);
    await_queued(&world, 1);
    clients.into_iter().for_each(Connection::reset);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(waiting.read_response().said(), (200, "ok"));
    drop(peers);
}

#[test]
fn to_watch_is_to_do_nothing() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], Overload { mode: Mode::Watch, ..limited(1) });
    let (mut clients, mut peers) = busy(&world, &upstream, 3);
    world.await_metric(IN_FLIGHT, &[], 3);
    await_wait(&world, "watched", 2);
    for (client, peer) in clients.iter_mut().zip(&mut peers) {
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    assert_eq!(world.metrics().sum(QUEUED, &[]), 0);
}

#[test]
fn an_endpoint_that_has_enough_is_passed_by() {
    let (one, other) = (Upstream::new(), Upstream::new());
    let world = world(&[one.address(), other.address()], limited(1));
    let mut first = asking(&world, GET);
    // Their order is chance.
    world.await_metric("forebay_upstream_requests_total", &[], 1);
    let busy_one =
        world.metrics().sum("forebay_upstream_requests_total", &[("endpoint", &one.address().to_string())]);
    let (busy, free) = if busy_one == 1 { (&one, &other) } else { (&other, &one) };
    let (mut peer, _) = busy.accept_request();
    let (mut free_peer, mut client) = {
        let client = asking(&world, GET);
        (free.accept_request().0, client)
    };
    for _ in 0..3 {
        free_peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        client.send(GET);
        free_peer.read_head();
    }
    peer.send(OK);
    assert_eq!(first.read_response().said(), (200, "ok"));
    assert_eq!(world.metrics().sum(WAITS, &[]), 0);
}

#[test]
fn another_try_waits_for_a_place_too() {
    let (nobody, upstream) = (Refusing::default(), Upstream::new());
    let world = World::http(&[nobody.address(), upstream.address()], |model| {
        forward(model, |forward| {
            forward.overload = Some(Arc::new(limited(1)));
            forward.retry.on = RetryOn::default();
        });
    });
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    let mut waiting = asking(&world, GET);
    await_queued(&world, 1);
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
    peers[0].read_head();
    peers[0].send(OK);
    assert_eq!(waiting.read_response().said(), (200, "ok"));
}

#[test]
fn events_and_tunnels_hold_no_place_once_they_have_begun() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.overload = Some(Arc::new(limited(1))));
        model.settings.client.upgrade_protocols = vec!["websocket".to_owned()];
    });
    let mut events = asking(&world, GET);
    let (mut source, _) = upstream.accept_request();
    let begin = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\n\n\r\n";
    source.send(begin);
    assert_eq!(events.read_response_to_head().status, 200);
    let upgrade = GET.replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut tunnel = asking(&world, &upgrade);
    let (mut end, _) = upstream.accept_request();
    end.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(tunnel.read_head().starts_with("HTTP/1.1 101"));
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    tunnel.send("ping");
    assert_eq!(end.read_exactly(4), b"ping");
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
    assert_eq!(world.metrics().sum(WAITS, &[]), 0);
}

#[test]
fn a_response_that_ends_holds_its_place_until_then() {
    let upstream = Upstream::new();
    let world = world(&[upstream.address()], limited(1));
    let mut first = asking(&world, GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
    assert_eq!(first.read_response_to_head().status, 200);
    let mut second = asking(&world, GET);
    await_queued(&world, 1);
    peer.send("k");
    peer.read_head();
    peer.send(OK);
    assert_eq!(second.read_response().said(), (200, "ok"));
}

#[test]
fn what_holds_for_a_route_holds_for_the_endpoints_of_the_next_configuration() {
    let upstream = Upstream::everywhere();
    let mut world = world(&[upstream.endpoint(1)], limited(1));
    let (mut clients, mut peers) = busy(&world, &upstream, 1);
    let mut waiting = asking(&world, GET);
    await_queued(&world, 1);
    // An endpoint is added: the one who waits is served there.
    let both = [upstream.endpoint(1), upstream.endpoint(2)];
    world.change(|model| {
        model.clusters.insert(ClusterId(0), Arc::new(crate::world::cluster(&both)));
    });
    // The new cluster is made ready by a request.
    let mut next = asking(&world, GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    peer.read_head();
    peer.send(OK);
    assert_eq!((waiting.read_response().status, next.read_response().status), (200, 200));
    peers[0].send(OK);
    assert_eq!(clients[0].read_response().said(), (200, "ok"));
}

#[test]
fn endpoints_that_speak_http_2_have_limits_too() {
    let upstream = H2Upstream::clear();
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.overload = Some(Arc::new(limited(1))));
        let cluster = Cluster { version: AppProtocol::Http2, ..Cluster::clone(model.cluster(ClusterId(0))) };
        model.clusters.insert(ClusterId(0), Arc::new(cluster));
    });
    let mut first = asking(&world, GET);
    let mut peer = upstream.accept_request();
    let mut second = asking(&world, GET);
    await_queued(&world, 1);
    assert!(upstream.is_left_alone());
    peer.answer(200, &[], b"ok");
    assert_eq!(first.read_response().status, 200);
    upstream.accept_request().answer(200, &[], b"ok");
    assert_eq!(second.read_response().status, 200);
}

/// A world whose peers on this machine are believed.
fn believing(endpoints: &[SocketAddr], overload: Overload, priority: Priority) -> World {
    World::http(endpoints, |model| {
        let forwarded = &mut model.settings.forwarded;
        forwarded.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        forwarded.real_ip = true;
        forwarded.priority_header = Some("X-Priority".into());
        forward(model, |forward| {
            (forward.overload, forward.priority) = (Some(Arc::new(overload)), priority);
        });
    })
}

fn with(field: &str) -> String {
    GET.replace("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"))
}

#[test]
fn who_matters_most_is_served_first_as_the_route_or_a_hop_says() {
    let upstream = Upstream::new();
    let world = believing(&[upstream.address()], limited(1), Priority::Sheddable);
    let (_clients, mut peers) = busy(&world, &upstream, 1);
    let mut waiting = Vec::new();
    for (number, field) in
        ["X-Priority: nonsense", "X-Priority: Normal", "X-Priority: critical"].iter().enumerate()
    {
        waiting.push(asking(&world, &with(field)));
        await_queued(&world, number as u64 + 1);
    }
    for expected in ["critical", "Normal", "nonsense"] {
        peers[0].send(OK);
        assert!(peers[0].read_head().contains(&format!("X-Priority: {expected}\r\n")), "{expected}");
    }
    peers[0].send(OK);
    assert!(waiting.iter_mut().all(|client| client.read_response().status == 200));
    for priority in ["critical", "normal", "sheddable"] {
        world.await_metric(WAITS, &[("result", "served"), ("priority", priority)], 1);
    }
}

#[test]
fn a_client_that_nobody_believes_is_as_important_as_its_route() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        model.settings.forwarded.trusted = vec!["192.0.2.0/24".parse().unwrap()];
        model.settings.forwarded.priority_header = Some("X-Priority".into());
        let overload = Overload { queue_timeout: Duration::ZERO, ..limited(1) };
        forward(model, |forward| forward.overload = Some(Arc::new(overload)));
    });
    let (_clients, _peers) = busy(&world, &upstream, 1);
    assert_eq!(world.http_client().ask(&with("X-Priority: critical")).status, 503);
    world.await_metric(WAITS, &[("result", "refused"), ("priority", "normal")], 1);
}

#[test]
fn who_asks_for_far_more_than_others_is_told_that_it_is_its_own_excess() {
    let upstream = Upstream::new();
    let world = believing(
        &[upstream.address()],
        Overload { queue_timeout: Duration::ZERO, ..limited(1) },
        Priority::Normal,
    );
    let (_clients, _peers) = busy(&world, &upstream, 1);
    let (mut one, mut other) = (world.http_client(), world.http_client());
    let (greedy, modest) = (with("X-Forwarded-For: 192.0.2.1"), with("X-Forwarded-For: 192.0.2.2"));
    assert_eq!(one.ask(&greedy).status, 503, "it has asked once");
    let refused = (0..2000).map(|_| one.ask(&greedy)).find(|response| response.status != 503);
    let refused = refused.expect("so many are an excess");
    assert_eq!(refused.said(), (429, "429 Too Many Requests\n"));
    assert!(is_told_to_come_again(&refused));
    assert_eq!(other.ask(&modest).said(), UNAVAILABLE);
    await_fault(&world, "client_excess");
}
