//! Replicas of HTTP/3 that do not have the same view of each other, as in an upgrade: one stops while others
//! start, and machines are slow. No connection may be reset that a replica still serves.

use std::net::SocketAddr;
use std::time::Instant;

use rustix::process::Signal;
use testkit::{Canned, Forebay, UdpBalancer, Upstream};

use crate::http3_moves::{Replicas, address, connect, download, forwarded};
use crate::replicas::{SECRET, introduce_with};

const RESETS: &str = "forebay_http3_stateless_resets_total";
const READY: &str = "/readyz";

fn resets(forebay: &Forebay) -> u64 {
    forebay.metrics().sum(RESETS, &[])
}

/// The addresses of replicas in manifests.
fn named(one: &Forebay, numbers: &[usize]) -> Vec<SocketAddr> {
    numbers.iter().map(|number| (address(*number), one.address().port()).into()).collect()
}

/// A download of a replica that stops goes on through one that has started since. `know` tells the new one of
/// the others.
fn finishes_through_a_newcomer(know: impl Fn(&Forebay)) {
    let upstream = Upstream::new();
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    let mut newcomer = None;
    download(&upstream, &client, |number| {
        if number == 10 {
            let first = &replicas.all[0];
            first.signal(Signal::TERM);
            // From then on it follows no changes.
            first.await_that("the first one to stop", || first.admin(READY).status != 200);
            let new = replicas.setup(2, SECRET, replicas.at(0).port()).endpoint(upstream.address()).start();
            know(&new);
            balancer.move_to(replicas.at(2));
            newcomer = Some(new);
        }
    });
    let newcomer = newcomer.expect("there were as many pieces");
    assert!(forwarded(&newcomer, "replica") > 0, "its packets came to the new one");
    assert_eq!(resets(&newcomer), 0);
    let mut all = replicas.all;
    assert_eq!(resets(&all[1]), 0);
    assert_eq!(all.remove(0).wait().status.code(), Some(0));
}

/// The cluster lists a Pod as serving for a moment after it has been told to stop.
#[test]
fn a_replica_that_stops_takes_packets_of_one_that_has_started_since() {
    finishes_through_a_newcomer(|new| {
        introduce_with(new, &named(new, &[0, 1, 2]), &[]);
        introduce_with(new, &named(new, &[1, 2]), &[]);
    });
}

#[test]
fn a_replica_that_starts_knows_those_that_have_stopped_serving() {
    finishes_through_a_newcomer(|new| introduce_with(new, &named(new, &[1, 2]), &named(new, &[0])));
}

/// A Pod that stops, on a machine that gives it no CPU for a while.
#[test]
fn a_replica_that_stands_still_keeps_its_connections() {
    let upstream = Canned::saying("hello");
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    let [first, second] = &replicas.all[..] else { panic!("two") };
    introduce_with(second, &named(second, &[1]), &named(second, &[0]));
    balancer.move_to(replicas.at(1));
    first.signal(Signal::STOP);
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    let begun = Instant::now();
    first.await_that("seconds to be over", || begun.elapsed().as_secs() >= 8);
    first.signal(Signal::CONT);
    assert_eq!(call.read_response().said(), (200, "hello"));
    assert!(forwarded(second, "replica") > 0);
    assert_eq!(resets(second), 0);
}

/// A packet with a GOAWAY is lost, and so are some of those that repeat it.
#[test]
fn a_connection_ends_once_its_client_knows() {
    let upstream = Canned::saying("hello");
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let mut client = connect(balancer.address());
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    balancer.lose(6);
    replicas.all[0].signal(Signal::TERM);
    let ending = client.ending();
    assert!(ending.contains("H3_NO_ERROR"), "{ending}");
    let mut all = replicas.all;
    assert_eq!(all.remove(0).wait().status.code(), Some(0));
}
