//! Active health checks by several replicas together: each endpoint is checked by one of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::{Canned, Forebay, Moody, PATIENCE, Setup};

use crate::replicas::{Replicas, address};
use crate::{GET, OK, setup};

const CHECKS: &str = "forebay_health_checks_total";
const FAILING: &str = "forebay_health_check_failing";
const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// So many replicas that check these endpoints. No check fails because the machine is busy: none has to end
/// soon.
fn replicas(count: u8, interval: &str, endpoints: &[SocketAddr]) -> Replicas {
    replicas_with(count, interval, "60s", endpoints)
}

fn replicas_with(count: u8, interval: &str, timeout: &str, endpoints: &[SocketAddr]) -> Replicas {
    Replicas::start(count, |_| {
        let setup = setup()
            .annotation("forebay.io/health-check", "http")
            .annotation("forebay.io/health-check-path", "/healthz")
            .annotation("forebay.io/health-check-interval", interval)
            .annotation("forebay.io/health-check-timeout", timeout)
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

/// For each endpoint, the checks that each replica has made since.
fn made_since(before: &[Vec<u64>], replicas: &[Forebay], endpoints: &[SocketAddr]) -> Vec<Vec<u64>> {
    let pages: Vec<_> = replicas.iter().map(Forebay::metrics).collect();
    let of = |endpoint: &SocketAddr, replica: usize| {
        pages[replica].sum(CHECKS, &[("endpoint", &endpoint.to_string())])
    };
    let since = |(at, endpoint): (usize, &SocketAddr)| {
        let before = |replica: usize| before.get(at).map_or(0, |counts| counts[replica]);
        (0..replicas.len()).map(|replica| of(endpoint, replica) - before(replica)).collect()
    };
    endpoints.iter().enumerate().map(since).collect()
}

/// For each endpoint, the replica that checks it. They are known once each endpoint has been checked three
/// times, and by one replica alone.
fn checkers(replicas: &[Forebay], endpoints: &[SocketAddr]) -> Vec<usize> {
    let mut made = Vec::new();
    replicas[0].await_that("each endpoint to have one checker", || {
        let before = made_since(&[], replicas, endpoints);
        replicas[0].await_that("three checks of each endpoint", || {
            made = made_since(&before, replicas, endpoints);
            made.iter().all(|counts| counts.iter().max() >= Some(&3))
        });
        made.iter().all(|counts| counts.iter().filter(|count| **count > 0).count() == 1)
    });
    made.iter().filter_map(|counts| counts.iter().position(|count| *count > 0)).collect()
}

/// The addresses of many endpoints, all served by one. A hash of the address, with a port that differs from
/// run to run, decides which replica checks an endpoint: with 40, each of three has some.
fn many(canned: &Canned) -> Vec<SocketAddr> {
    (0..40).map(|last| SocketAddr::from(([127, 1, 0, last], canned.address().port()))).collect()
}

/// Without sharing, three replicas would make these checks in a third of the time.
#[test]
fn each_endpoint_is_checked_by_one_of_three() {
    let (checked, heard) = mpsc::channel();
    let canned = Canned::choosing_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), move |_| {
        let _ = checked.send(());
        OK.into()
    });
    let endpoints = many(&canned);
    let replicas = self::replicas(3, "500ms", &endpoints);
    let checkers = checkers(&replicas.all, &endpoints);
    assert!((0..3).all(|replica| checkers.contains(&replica)), "{checkers:?}");
    heard.try_iter().for_each(drop);
    let begin = Instant::now();
    // Six checks of each endpoint.
    for _ in 0..6 * endpoints.len() {
        heard.recv_timeout(PATIENCE).expect("a check");
    }
    let took = begin.elapsed();
    println!("six checks of {} endpoints by three replicas took {took:?}", endpoints.len());
    assert!(took > Duration::from_secs(2), "{took:?}: more than one replica checks each endpoint");
}

#[test]
fn a_replica_that_leaves_moves_only_its_own_share() {
    let canned = Canned::choosing_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |_| OK.into());
    let endpoints = many(&canned);
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
    // So many that each of the two replicas checks some of them.
    let endpoints: Vec<_> = (0..24).map(|_| Moody::saying(ERROR)).collect();
    endpoints.iter().for_each(Moody::become_well);
    let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
    // A replica is silent when nothing has been heard of it for longer than its checks may take.
    let mut replicas = replicas_with(2, "300ms", "5s", &addresses);
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

/// Two replicas that check four endpoints, all of which are well.
struct Pair {
    endpoints: Vec<Moody>,
    addresses: Vec<SocketAddr>,
    replicas: Replicas,
    /// The replica that checks each endpoint for both.
    checkers: Vec<usize>,
}

impl Pair {
    fn start() -> Self {
        let endpoints: Vec<_> = (0..4).map(|_| Moody::saying(ERROR)).collect();
        endpoints.iter().for_each(Moody::become_well);
        let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
        let replicas = self::replicas(2, "400ms", &addresses);
        let checkers = checkers(&replicas.all, &addresses);
        Self { endpoints, addresses, replicas, checkers }
    }
}

/// The endpoint of the replica that checks it for all fails for that one alone, as if a rule of the network
/// were in the way. The other one makes a check of its own, and keeps its verdict until both agree again.
#[test]
fn a_replica_that_reaches_an_endpoint_does_not_follow_one_that_does_not() {
    let Pair { endpoints, addresses, replicas, checkers } = Pair::start();
    let (checker, other) = (&replicas.all[checkers[0]], &replicas.all[1 - checkers[0]]);
    let before = checks(other, addresses[0]);
    endpoints[0].become_ill_for(Some(address_of(checkers[0])));
    checker
        .await_that("the endpoint to fail where it is checked for all", || is_failing(checker, addresses[0]));
    // It checks beside the other one for as long as they disagree.
    other.await_that("checks of its own", || checks(other, addresses[0]) >= before + 4);
    assert!(
        is_failing(checker, addresses[0]) && !is_failing(other, addresses[0]),
        "each has its own verdict"
    );
    // Of sixteen requests each endpoint gets four, unless the replica leaves it out.
    for (replica, taken) in [(checker, 0), (other, 4)] {
        assert_eq!(share(replica, &endpoints[0], 16), taken);
    }
    endpoints[0].become_ill_for(None);
    checker.await_that("the endpoint to pass again", || !is_failing(checker, addresses[0]));
    assert_eq!(
        self::checkers(&replicas.all, &addresses),
        checkers,
        "the other one makes no checks of its own any more"
    );
    assert!(!is_failing(other, addresses[0]));
}

/// The endpoint fails for a replica that does not check it for all: its requests prompt checks of its own,
/// and the one that has the duty, which is told of the doubt, finds nothing.
#[test]
fn a_replica_that_is_cut_off_from_an_endpoint_leaves_it_out_for_itself_alone() {
    let Pair { endpoints, addresses, replicas, checkers } = Pair::start();
    let (checker, other) = (&replicas.all[checkers[0]], &replicas.all[1 - checkers[0]]);
    endpoints[0].become_ill_for(Some(address_of(1 - checkers[0])));
    let mut client = other.client();
    other.await_that("the endpoint to fail where requests fail", || {
        client.ask(GET);
        is_failing(other, addresses[0])
    });
    let of_checker = checks(checker, addresses[0]);
    let own = checks(other, addresses[0]);
    checker.await_that("checks for all", || checks(checker, addresses[0]) >= of_checker + 2);
    other.await_that("checks beside them", || checks(other, addresses[0]) >= own + 2);
    assert!(
        is_failing(other, addresses[0]) && !is_failing(checker, addresses[0]),
        "each has its own verdict"
    );
    assert_eq!(share(checker, &endpoints[0], 16), 4);
    endpoints[0].become_ill_for(None);
    other.await_that("the endpoint to pass again", || !is_failing(other, addresses[0]));
    assert_eq!(self::checkers(&replicas.all, &addresses), checkers);
}

fn address_of(replica: usize) -> IpAddr {
    address(u8::try_from(replica).expect("few replicas")).into()
}

/// How many of so many requests an endpoint gets. Its health is checked meanwhile, by a path of its own.
fn share(replica: &Forebay, endpoint: &Moody, requests: usize) -> usize {
    let (mut client, before) = (replica.client(), endpoint.ordinary());
    for _ in 0..requests {
        assert_eq!(client.ask(GET).status, 200);
    }
    endpoint.ordinary() - before
}

/// No check is due within the hour: a request that waits in vain prompts a check at its own replica, and the
/// one that has the duty follows.
#[test]
fn requests_prompt_checks_at_their_own_replica() {
    let endpoints: Vec<_> = (0..4).map(|_| Moody::hanging()).collect();
    endpoints.iter().for_each(Moody::become_well);
    let addresses: Vec<_> = endpoints.iter().map(Moody::address).collect();
    let replicas = replicas_with(2, "1h", "2s", &addresses);
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
    }
}
