//! Canaries: which of two clusters serves a request, and what is told of it.

use std::net::SocketAddr;
use std::sync::Arc;

use model::{
    Affinity, AffinityCookie, AffinityMode, Backends, Balance, Canary, CanaryHeader, CanaryHeaderRule,
    CanaryRules, CanaryWeight, Cluster, ClusterId,
};
use testkit::{Response, Upstream};

use super::{GET, OK, forward};
use crate::world::{World, cluster};

/// A mainline and its canary; who is asked says which it is.
struct House {
    world: World,
    mainline: Upstream,
    canary: Upstream,
}

fn sticky() -> Balance {
    let (mode, cookie) = (AffinityMode::Persistent, AffinityCookie::default());
    Balance::Cookie(Arc::new(Affinity {
        mode,
        change_on_failure: false,
        cookie,
        header: None,
        age_max: None,
        key: None,
    }))
}

fn world(mainline: &[SocketAddr], canary: &[SocketAddr], balances: [Balance; 2], weight: u64) -> World {
    World::http(mainline, |model| {
        let [of_mainline, of_canary] = balances;
        let known = Cluster { balance: of_mainline, ..Cluster::clone(model.cluster(ClusterId(0))) };
        model.clusters.insert(ClusterId(0), Arc::new(known));
        let name = "default-new-7".to_owned();
        model
            .clusters
            .insert(ClusterId(1), Arc::new(Cluster { name, balance: of_canary, ..cluster(canary) }));
        forward(model, |forward| {
            let name = "X-Canary".to_owned();
            let rules = CanaryRules {
                header: Some(CanaryHeader { name, rule: CanaryHeaderRule::AlwaysOrNever }),
                cookie: Some("canary".to_owned()),
                weight: CanaryWeight::new(weight, 100),
            };
            forward.sets_affinity_cookie = true;
            forward.backends = Backends::Canary(Box::new(Canary {
                mainline: ClusterId(0),
                cluster: ClusterId(1),
                name: Arc::from("default-new-7"),
                rules,
                rollout: None,
            }));
        });
    })
}

impl House {
    fn new(balances: [Balance; 2], weight: u64) -> Self {
        let (mainline, canary) = (Upstream::new(), Upstream::new());
        let world = world(&[mainline.address()], &[canary.address()], balances, weight);
        Self { world, mainline, canary }
    }

    fn plain(weight: u64) -> Self {
        Self::new([Balance::RoundRobin, Balance::RoundRobin], weight)
    }

    /// Asks, and expects one of the two to be asked.
    fn ask(&self, fields: &str, of_canary: bool) -> Response {
        let mut client = self.world.http_client();
        client.send(GET.replace("\r\n\r\n", &format!("\r\n{fields}\r\n")));
        let upstream = if of_canary { &self.canary } else { &self.mainline };
        let (mut peer, _) = upstream.accept_request();
        peer.send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        let response = client.read_response();
        assert_eq!(response.said(), (200, "ok"), "{fields:?}");
        response
    }
}

fn pair(response: &Response) -> String {
    let cookie = response.header("Set-Cookie").unwrap();
    format!("Cookie: {}\r\n", cookie.split_once("; ").unwrap().0)
}

#[test]
fn header_then_cookie_then_weight() {
    for weight in [0, 100] {
        let house = House::plain(weight);
        house.ask("X-Canary: always\r\nCookie: canary=never\r\n", true);
        house.ask("X-Canary: never\r\nCookie: canary=always\r\n", false);
        house.ask("X-Canary: maybe\r\nCookie: canary=always\r\n", true);
        house.ask("Cookie: canary=never\r\n", false);
        house.ask("", weight == 100);
    }
}

#[test]
fn metrics_and_the_access_log_tell_of_the_canary() {
    let house = House::plain(0);
    house.ask("X-Canary: always\r\n", true);
    house.ask("", false);
    let requests = "nginx_ingress_controller_requests";
    house.world.await_metric(requests, &[("canary", "default-new-7")], 1);
    house.world.await_metric(requests, &[("canary", "")], 1);
    let log = house.world.stop();
    let lines: Vec<_> = log.lines().collect();
    assert!(lines[0].contains("[default-echo-7] [default-new-7] "), "{log}");
    assert!(lines[1].contains("[default-echo-7] [] "), "{log}");
}

#[test]
fn a_canary_without_endpoints_takes_nothing_and_a_mainline_without_any_is_not_stood_in_for() {
    let (upstream, balances) = (Upstream::new(), || [Balance::RoundRobin, Balance::RoundRobin]);
    let ask = GET.replace("\r\n\r\n", "\r\nX-Canary: always\r\n\r\n");
    let without_canary = world(&[upstream.address()], &[], balances(), 100);
    let mut client = without_canary.http_client();
    client.send(&ask);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    drop(client);
    assert!(without_canary.stop().contains("[default-echo-7] [] "));
    let without_mainline = world(&[], &[upstream.address()], balances(), 100);
    assert_eq!(without_mainline.http_client().ask(&ask).status, 503);
}

#[test]
fn who_has_a_cookie_of_either_stays_there() {
    let house = House::new([sticky(), sticky()], 0);
    let of_mainline = pair(&house.ask("", false));
    let of_canary = pair(&house.ask("X-Canary: always\r\n", true));
    let kept = house.ask(&format!("X-Canary: always\r\n{of_mainline}"), false);
    assert_eq!(kept.header("Set-Cookie"), None);
    let kept = house.ask(&format!("X-Canary: never\r\n{of_canary}"), true);
    assert_eq!(kept.header("Set-Cookie"), None);
    // A cookie that belongs to neither decides nothing.
    house.ask("X-Canary: always\r\nCookie: INGRESSCOOKIE=a|b\r\n", true);
}

#[test]
fn legacy_keeps_clients_of_the_mainline_only() {
    let house = House::new([sticky(), Balance::RoundRobin], 0);
    let of_mainline = pair(&house.ask("", false));
    let of_canary = house.ask("X-Canary: always\r\n", true);
    assert_eq!(of_canary.header("Set-Cookie"), None);
    house.ask(&format!("X-Canary: always\r\n{of_mainline}"), false);
}
