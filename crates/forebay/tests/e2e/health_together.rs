//! Active health checks by several replicas together: each endpoint is checked by one of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::{Canned, Forebay, Moody, PATIENCE, Setup};

use crate::replicas::Replicas;
use crate::{GET, OK, setup};

const CHECKS: &str = "forebay_health_checks_total";
const FAILING: &str = "forebay_health_check_failing";
const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// So many replicas that check these endpoints.
fn replicas(count: u8, interval: &str, endpoints: &[SocketAddr]) -> Replicas {
    Replicas::start(count, |_| {
        let setup = setup()
            .annotation("forebay.io/health-check", "http")
            .annotation("forebay.io/health-check-path", "/healthz")
            .annotation("forebay.io/health-check-interval", interval)
            .annotation("forebay.io/health-check-timeout", "500ms")
            .arguments(["--workers=2"]);
        endpoints.iter().copied().fold(setup, Setup::endpoint)
    })
}

fn checks(replica: &Forebay, endpoint: SocketAddr) -> u64 {
    replica.metrics().sum(CHECKS, &[("endpoint", &endpoint.to_string())])
}

fn is_failing(replica: &Forebay, endpoint: SocketAddr) -> bool {
    replica.metrics().sum(FAILING, &[("endpoint", &endpoint.to_string())]) == 1
}

/// For each endpoint, the replica that checks it. It is known once one has made three more checks than
/// before, and the others none.
fn checkers(replicas: &[Forebay], endpoints: &[SocketAddr]) -> Vec<usize> {
    let count = || -> Vec<Vec<u64>> {
        replicas.iter().map(|one| endpoints.iter().map(|at| checks(one, *at)).collect()).collect()
    };
    let mut checkers = vec![0; endpoints.len()];
    replicas[0].await_that("each endpoint to have one checker", || {
        let before = count();
        let moved = |endpoint: usize, now: &[Vec<u64>]| -> Vec<u64> {
            (0..replicas.len()).map(|at| now[at][endpoint] - before[at][endpoint]).collect()
        };
        let mut now = count();
        let mut has_moved = |endpoint| {
            now = count();
            moved(endpoint, &now).iter().max() >= Some(&3)
        };
        for endpoint in 0..endpoints.len() {
            replicas[0].await_that("three checks", || has_moved(endpoint));
        }
        let now = count();
        (0..endpoints.len()).all(|endpoint| {
            let moved = moved(endpoint, &now);
            let active: Vec<_> = (0..moved.len()).filter(|at| moved[*at] > 0).collect();
            checkers[endpoint] = active[0];
            active.len() == 1
        })
    });
    checkers
}

/// Without sharing, three replicas would make these checks in a third of the time.
#[test]
fn each_endpoint_is_checked_by_one_of_three() {
    let (checked, heard) = mpsc::channel();
    let canned = Canned::choosing_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), move |_| {
        let _ = checked.send(());
        OK.into()
    });
    let endpoints: Vec<_> =
        (0..12).map(|last| SocketAddr::from(([127, 1, 0, last], canned.address().port()))).collect();
    let replicas = self::replicas(3, "500ms", &endpoints);
    let checkers = checkers(&replicas.all, &endpoints);
    assert!((0..3).all(|replica| checkers.contains(&replica)), "{checkers:?}");
    heard.try_iter().for_each(drop);
    let begin = Instant::now();
    // Six checks of each endpoint.
    for _ in 0..72 {
        heard.recv_timeout(PATIENCE).expect("a check");
    }
    let took = begin.elapsed();
    println!("72 checks of 12 endpoints by three replicas took {took:?}");
    assert!(took > Duration::from_secs(2), "{took:?}: more than one replica checks each endpoint");
}

#[test]
fn a_replica_that_leaves_moves_only_its_own_share() {
    let canned = Canned::choosing_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |_| OK.into());
    let endpoints: Vec<_> =
        (0..12).map(|last| SocketAddr::from(([127, 1, 0, last], canned.address().port()))).collect();
    let mut replicas = self::replicas(3, "300ms", &endpoints);
    let before = checkers(&replicas.all, &endpoints);
    replicas.end_last();
    let after = checkers(&replicas.all, &endpoints);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    assert!(moved.clone().all(|(before, _)| *before == 2), "{before:?}, then {after:?}");
    assert_eq!(moved.count(), before.iter().filter(|checker| **checker == 2).count());
}

#[test]
fn a_verdict_of_the_checker_is_that_of_all() {
    let endpoints: Vec<_> = (0..4).map(|_| Moody::saying(ERROR)).collect();
    endpoints.iter().for_each(Moody::become_well);
    let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
    let replicas = self::replicas(2, "400ms", &addresses);
    let checkers = checkers(&replicas.all, &addresses);
    let other = &replicas.all[1 - checkers[0]];
    let before = checks(other, addresses[0]);
    // No request is sent: the other replica has it from the one that checks.
    endpoints[0].become_ill();
    other.await_that("the endpoint to fail", || is_failing(other, addresses[0]));
    let line = other.await_log("an endpoint fails its health check");
    assert!(line.contains("status 500"), "{line}");
    let made = checks(other, addresses[0]) - before;
    assert!((1..=3).contains(&made), "{made} checks of its own, to confirm");
    assert!(is_failing(&replicas.all[checkers[0]], addresses[0]));
    endpoints[0].become_well();
    other.await_that("the endpoint to pass", || !is_failing(other, addresses[0]));
}

#[test]
fn the_share_of_a_replica_that_is_silent_is_checked_by_the_other() {
    let endpoints: Vec<_> = (0..6).map(|_| Moody::saying(ERROR)).collect();
    endpoints.iter().for_each(Moody::become_well);
    let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
    let mut replicas = self::replicas(2, "300ms", &addresses);
    let checkers = checkers(&replicas.all, &addresses);
    let [Some(of_first), Some(of_second)] = [0, 1].map(|at| checkers.iter().position(|one| *one == at))
    else {
        panic!("{checkers:?}")
    };
    // It is killed, and stays in the list of replicas.
    let killed = replicas.all.remove(1);
    killed.signal(Signal::KILL);
    drop(killed);
    let left = &replicas.all[0];
    endpoints[of_second].become_ill();
    left.await_that("an endpoint of the other to fail", || is_failing(left, addresses[of_second]));
    endpoints[of_first].become_ill();
    left.await_that("an own endpoint to fail", || is_failing(left, addresses[of_first]));
    endpoints[of_second].become_well();
    left.await_that("the endpoint to pass", || !is_failing(left, addresses[of_second]));
}

/// The interval is the default: a request that waits in vain prompts a check at its own replica, and the one
/// that has the duty follows.
#[test]
fn requests_prompt_checks_at_their_own_replica() {
    let endpoints: Vec<_> = (0..4).map(|_| Moody::hanging()).collect();
    endpoints.iter().for_each(Moody::become_well);
    let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
    let replicas = self::replicas(2, "5s", &addresses);
    let [first, second] = &replicas.all[..] else { panic!("two") };
    let mut client = first.client();
    assert!((0..40).all(|_| client.ask(GET).status == 200));
    // Either the first replica has the duty for one of them, or not: with both endpoints, both happen mostly.
    for ill in [0, 1] {
        endpoints[ill].become_ill();
        let since = Instant::now();
        let mut waiting = Vec::new();
        first.await_that("the endpoint to be out of use", || {
            let mut client = first.client();
            client.send(GET);
            if client.is_quiet_for(Duration::from_millis(20)) {
                waiting.push(client);
            }
            is_failing(first, addresses[ill])
        });
        let own = since.elapsed();
        second.await_that("the other replica to follow", || is_failing(second, addresses[ill]));
        println!("out of use at its own replica after {own:?}, at the other after {:?}", since.elapsed());
        // Three times what is promised, for a machine that is busy with other tests.
        assert!(own < Duration::from_secs(3), "{own:?}");
        assert!(since.elapsed() < Duration::from_secs(6), "{:?}", since.elapsed());
    }
}
