//! Endpoints that fail: left out and taken back, tried again within a budget, connected to at a pace, given
//! a small share at first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::overload::Mode;
use model::template::Template;
use model::{
    Access, Affinity, AffinityCookie, AffinityMode, AppProtocol, Balance, Cluster, ClusterId, Endpoint,
    EndpointState, ExternalAuth, HashBy, Model, Overload, RetryConstraint,
};
use testkit::{Canned, Connection, H2Client, H2Upstream, Moody, Refusing};

use super::auth::check;
use super::{GET, POST, forward, route};
use crate::world::{World, await_that};

const EJECTED: &str = "forebay_overload_ejected";
const EJECTIONS: &str = "forebay_overload_ejections_total";
const PACED: &str = "forebay_overload_connects_paced_total";
const DENIED: &str = "forebay_overload_retries_denied_total";

const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

fn overload(model: &mut Model, change: impl FnOnce(&mut Overload)) {
    let mut overload = Overload::default();
    change(&mut overload);
    forward(model, |forward| forward.overload = Some(Arc::new(overload)));
}

fn change_cluster(model: &mut Model, change: impl FnOnce(&mut Cluster)) {
    let mut cluster = Cluster::clone(model.cluster(ClusterId(0)));
    change(&mut cluster);
    model.clusters.insert(ClusterId(0), Arc::new(cluster));
}

fn add_endpoint(world: &mut World, address: SocketAddr) {
    let new = Endpoint { address, state: EndpointState::Ready };
    world.change(|model| change_cluster(model, |cluster| cluster.endpoints.push(new)));
}

fn enforcing(model: &mut Model) {
    overload(model, |overload| overload.mode = Mode::Enforce);
}

/// Sends so many requests one after the other; returns how many were answered with a status.
fn ask(client: &mut Connection, request: &str, count: usize, status: u16) -> usize {
    (0..count).filter(|_| client.ask(request).status == status).count()
}

/// Sends requests, each on a connection of its own, until the endpoint is taken back.
fn await_return(world: &World) {
    await_that("the endpoint to be taken back", || {
        world.http_client().ask(GET);
        world.metrics().sum(EJECTED, &[]) == 0
    });
}

fn label(address: SocketAddr) -> String {
    address.to_string()
}

#[test]
fn an_endpoint_that_fails_is_left_out_until_it_answers_well() {
    let (well, moody) = ([(); 3].map(|()| Canned::saying("ok")), Moody::saying(FAILED));
    let [a, b, c] = well.each_ref().map(Canned::address);
    let world = World::http(&[a, moody.address(), b, c], enforcing);
    let mut client = world.http_client();
    // Enough good answers that a few errors are no chance.
    let failed = ask(&mut client, GET, 400, 500);
    let name = label(moody.address());
    world.await_metric(EJECTED, &[("endpoint", &name)], 1);
    assert!((5..30).contains(&failed), "{failed}");
    assert_eq!(world.metrics().sum(EJECTIONS, &[]), 1, "nobody else is");
    moody.become_well();
    await_return(&world);
    let before = moody.requests();
    assert_eq!(ask(&mut client, GET, 40, 200), 40);
    assert_eq!(moody.requests() - before, 10, "its full share");
}

#[test]
fn clients_of_http_2_have_it_left_out_too() {
    let (well, moody) = ([(); 3].map(|()| Canned::saying("ok")), Moody::saying(""));
    let [a, b, c] = well.each_ref().map(Canned::address);
    let world = World::http(&[a, b, moody.address(), c], enforcing);
    let client = H2Client::clear(world.http_address());
    for _ in 0..100 {
        let response = client.call("GET", "web.test", "/a", &[], true).read_response();
        assert_eq!(response.said(), (200, "ok"), "what broke off is tried elsewhere");
    }
    world.await_metric(EJECTED, &[("endpoint", &label(moody.address()))], 1);
    assert!(moody.requests() < 20, "{}", moody.requests());
}

/// One worker has one session with each endpoint: so connections stand for endpoints. What fails there does
/// not end the session.
#[test]
fn endpoints_that_speak_http_2_are_left_out_too() {
    const FAILING: usize = 2;
    let call = POST.replace("\r\n\r\n", "\r\nContent-Type: application/grpc\r\n\r\n");
    for (request, breaks_off) in [(GET, false), (call.as_str(), true)] {
        let upstream = H2Upstream::clear();
        let world = World::http(&[1, 2, 3, 4].map(|number| upstream.endpoint(number)), |model| {
            enforcing(model);
            forward(model, |forward| forward.retry.tries = Some(1));
            change_cluster(model, |cluster| cluster.version = AppProtocol::Http2);
        });
        let mut client = world.http_client();
        let (mut failed, mut taken) = (0, [0; 4]);
        let mut ask = |is_well: bool| {
            client.send(request);
            let mut peer = upstream.accept_request();
            taken[peer.connection] += 1;
            match (peer.connection == FAILING && !is_well, breaks_off) {
                (false, _) => peer.answer(200, &[], b"ok"),
                (true, false) => peer.answer(500, &[], b"no"),
                (true, true) => peer.reset(h2::Reason::INTERNAL_ERROR),
            }
            let response = client.read_response();
            failed += usize::from(response.status != 200);
            // How many requests it takes is a matter of time, and a connection has so many and no more.
            if response.header("connection").is_some() {
                client = world.http_client();
            }
            (failed, taken[FAILING])
        };
        assert_eq!((0..100).map(|_| ask(true).0).sum::<usize>(), 0);
        let (failed, _) = (0..400).map(|_| ask(false)).last().expect("some");
        assert!((5..30).contains(&failed), "{failed}");
        assert_eq!(world.metrics().sum(EJECTED, &[]), 1);
        // Requests that change something are not sent to find out.
        if !breaks_off {
            await_that("the endpoint to be taken back", || {
                ask(true);
                world.metrics().sum(EJECTED, &[]) == 0
            });
            let (_, before) = ask(true);
            let (_, after) = (0..40).map(|_| ask(true)).last().expect("some");
            assert_eq!(after - before, 10, "its full share");
        }
        assert_eq!(upstream.connections(), 4);
    }
}

#[test]
fn what_may_not_be_repeated_finds_nothing_out() {
    let (well, moody) = ([(); 3].map(|()| Canned::saying("ok")), Moody::saying(""));
    let [a, b, c] = well.each_ref().map(Canned::address);
    let world = World::http(&[a, b, moody.address(), c], enforcing);
    let name = label(moody.address());
    await_that("the endpoint to be ejected", || {
        world.http_client().ask(GET);
        world.metrics().sum(EJECTED, &[("endpoint", &name)]) == 1
    });
    moody.become_well();
    let before = moody.requests();
    // Longer than it is left out at first.
    let end = std::time::Instant::now() + Duration::from_millis(1500);
    while std::time::Instant::now() < end {
        assert_eq!(world.http_client().ask(POST).status, 200);
    }
    assert_eq!(moody.requests(), before);
    await_return(&world);
}

#[test]
fn while_it_is_only_watched_everything_is_counted_and_nothing_changes() {
    let (well, moody) = ([(); 3].map(|()| Canned::saying("ok")), Moody::saying(FAILED));
    let [a, b, c] = well.each_ref().map(Canned::address);
    for ejection in [true, false] {
        let world = World::http(&[a, moody.address(), b, c], |model| {
            overload(model, |overload| overload.ejection = ejection);
        });
        let mut client = world.http_client();
        assert_eq!(ask(&mut client, GET, 400, 500), 100);
        world.await_metric(EJECTIONS, &[("endpoint", &label(moody.address()))], u64::from(ejection));
    }
}

#[test]
fn of_two_endpoints_that_fail_both_are_asked() {
    let both = [Moody::saying(FAILED), Moody::saying(FAILED)];
    let world = World::http(&both.each_ref().map(Moody::address), enforcing);
    let mut client = world.http_client();
    assert_eq!(ask(&mut client, GET, 100, 500), 100);
    assert!(both.iter().all(|one| one.requests() >= 30), "{:?}", both.each_ref().map(Moody::requests));
}

#[test]
fn tries_end_with_their_budget_and_the_failed_one_is_the_answer() {
    for (mode, budget, is_bounded) in
        [(Mode::Enforce, Some(0), true), (Mode::Enforce, None, false), (Mode::Watch, Some(0), false)]
    {
        let both = [Moody::saying(""), Moody::saying("")];
        let world = World::http(&both.each_ref().map(Moody::address), |model| {
            overload(model, |overload| {
                overload.mode = mode;
                overload.ejection = false;
                overload.retry_budget = budget;
            });
            forward(model, |forward| forward.retry.tries = Some(2));
        });
        let mut client = world.http_client();
        assert_eq!(ask(&mut client, GET, 200, 502), 200, "{mode:?}");
        let sent: usize = both.iter().map(Moody::requests).sum();
        let denied = world.metrics().sum(DENIED, &[]) as usize;
        if is_bounded {
            assert_eq!(sent + denied, 400, "{mode:?}");
        } else {
            assert_eq!(sent, 400, "{mode:?}");
        }
        assert_eq!(denied > 0, budget.is_some(), "{mode:?}");
    }
}

#[test]
fn a_status_that_would_be_tried_again_is_passed_on_once_the_budget_is_used_up() {
    let both = [Moody::saying(FAILED), Moody::saying(FAILED)];
    let world = World::http(&both.each_ref().map(Moody::address), |model| {
        overload(model, |overload| {
            overload.mode = Mode::Enforce;
            overload.retry_budget = Some(10);
        });
        forward(model, |forward| {
            forward.retry.on.statuses = vec![500];
            forward.retry.tries = Some(2);
        });
    });
    let mut client = world.http_client();
    for _ in 0..200 {
        assert_eq!(client.ask(GET).said(), (500, "no"));
    }
    let sent: usize = both.iter().map(Moody::requests).sum();
    assert_eq!(sent + world.metrics().sum(DENIED, &[]) as usize, 400);
    assert!(sent < 300, "{sent}");
}

/// Beyond the bound of the Service it makes no difference whether the endpoints have answered or broken off.
/// The bound replaces that of the route, which would allow nothing beyond 30.
#[test]
fn tries_beyond_the_bound_of_a_service_are_answered_503() {
    for (answer, status) in [(FAILED, 500), ("", 502)] {
        let both = [Moody::saying(answer), Moody::saying(answer)];
        let world = World::http(&both.each_ref().map(Moody::address), |model| {
            overload(model, |overload| {
                overload.mode = Mode::Enforce;
                overload.ejection = false;
                overload.retry_budget = Some(0);
            });
            forward(model, |forward| {
                forward.retry.on.statuses = vec![500];
                forward.retry.tries = Some(2);
            });
            let hour = Duration::from_secs(3600);
            let constraint = RetryConstraint {
                service: "default/echo".into(),
                percent: 0,
                interval: hour,
                min_retries: 40,
                min_interval: hour,
            };
            change_cluster(model, |cluster| cluster.retry_constraint = Some(Arc::new(constraint)));
        });
        let mut client = world.http_client();
        assert_eq!(ask(&mut client, GET, 40, status), 40, "the second try fails too");
        assert_eq!(ask(&mut client, GET, 20, 503), 20, "{answer:?}");
        assert_eq!(both.iter().map(Moody::requests).sum::<usize>(), 100, "{answer:?}");
        world.await_metric(DENIED, &[], 20);
        world.await_metric(super::FAULTS, &[("reason", "retry_budget")], 20);
    }
}

#[test]
fn an_endpoint_that_refuses_connections_is_not_connected_to_for_each_request() {
    let nobody = Refusing::default();
    let failures = |world: &World| world.metrics().sum("forebay_upstream_failures_total", &[]);
    let world = World::http(&[nobody.address()], |model| {
        enforcing(model);
        forward(model, |forward| forward.retry.tries = Some(1));
    });
    let mut client = world.http_client();
    let mut refused = 0;
    await_that("a request to be refused without a connect", || {
        let before = failures(&world);
        let response = client.ask(GET);
        let seconds = response.header("Retry-After").map(|seconds| seconds.parse::<u32>().unwrap());
        match response.status {
            503 => assert!(
                seconds.is_some_and(|seconds| (1..=3).contains(&seconds)) && failures(&world) == before
            ),
            status => assert_eq!((status, seconds), (502, None)),
        }
        refused += u64::from(response.status == 503);
        refused == 20
    });
    world.await_metric(PACED, &[("endpoint", &label(nobody.address()))], refused);
    world.await_metric(super::FAULTS, &[("reason", "connect_paced")], refused);
    assert!(failures(&world) >= 3);
}

#[test]
fn connects_that_would_wait_are_counted_while_that_is_only_watched() {
    let nobody = Refusing::default();
    let world = World::http(&[nobody.address()], |model| overload(model, |_| ()));
    let mut client = world.http_client();
    await_that("a connect that would have waited", || {
        assert_eq!(client.ask(GET).status, 502);
        world.metrics().sum(PACED, &[("endpoint", &label(nobody.address()))]) > 0
    });
}

#[test]
fn requests_go_to_another_endpoint_than_to_one_that_refuses() {
    let (nobody, well) = (Refusing::default(), Canned::saying("ok"));
    let world = World::http(&[nobody.address(), well.address()], |model| {
        overload(model, |overload| {
            overload.mode = Mode::Enforce;
            overload.ejection = false;
        });
    });
    let mut client = world.http_client();
    await_that("most requests to go there at once", || {
        assert_eq!(ask(&mut client, POST, 20, 200), 20);
        world.metrics().sum(PACED, &[]) >= 20
    });
}

#[test]
fn an_endpoint_that_is_new_has_a_small_share_at_first() {
    for (mode, slow_start, expected) in [
        (Mode::Enforce, Duration::from_secs(3600), 1..60),
        (Mode::Enforce, Duration::ZERO, 100..101),
        (Mode::Watch, Duration::from_secs(3600), 100..101),
    ] {
        let (old, new) = (Canned::saying("ok"), Moody::saying(""));
        new.become_well();
        let mut world = World::http(&[old.address()], |model| {
            overload(model, |overload| {
                overload.mode = mode;
                overload.slow_start = slow_start;
            });
        });
        let mut client = world.http_client();
        assert_eq!(ask(&mut client, GET, 1, 200), 1);
        add_endpoint(&mut world, new.address());
        assert_eq!(ask(&mut client, GET, 200, 200), 200);
        assert!(expected.contains(&new.requests()), "{mode:?}: {}", new.requests());
    }
}

/// A value moves once, when its turn has come; those of other endpoints stay where they are.
#[test]
fn an_endpoint_that_is_new_takes_the_values_of_a_hash_one_by_one() {
    let (old, new) = (Canned::saying("old"), Canned::saying("new"));
    let mut world = World::http(&[old.address()], |model| {
        overload(model, |overload| {
            overload.mode = Mode::Enforce;
            overload.slow_start = Duration::from_secs(3600);
        });
        let by_key = HashBy { key: Template::parse("$http_x_key").unwrap(), subset: None };
        change_cluster(model, |cluster| cluster.balance = Balance::Hash(Arc::new(by_key)));
    });
    let mut client = world.http_client();
    assert_eq!(ask(&mut client, GET, 1, 200), 1);
    add_endpoint(&mut world, new.address());
    let mut asked = |value: usize| {
        let head = format!("GET / HTTP/1.1\r\nHost: web.test\r\nX-Key: {value}\r\n\r\n");
        client.ask(&head).text().to_owned()
    };
    let first: Vec<_> = (0..300).map(&mut asked).collect();
    let of_new = first.iter().filter(|body| *body == "new").count();
    assert!((1..60).contains(&of_new), "a tenth of its share at first: {of_new}");
    let again: Vec<_> = (0..300).map(&mut asked).collect();
    let moved = first.iter().zip(&again).filter(|(one, other)| one != other).count();
    assert!(moved <= 1, "a value stays where it is: {moved}");
}

#[test]
fn an_endpoint_that_is_new_gets_few_clients_without_a_cookie() {
    let (old, new) = (Canned::saying("old"), Moody::saying(""));
    new.become_well();
    let mut world = World::http(&[old.address()], |model| {
        overload(model, |overload| {
            overload.mode = Mode::Enforce;
            overload.slow_start = Duration::from_secs(3600);
        });
        let cookie = AffinityCookie::default();
        let affinity = Affinity {
            mode: AffinityMode::Balanced,
            change_on_failure: false,
            cookie,
            header: None,
            age_max: None,
            key: None,
        };
        change_cluster(model, |cluster| cluster.balance = Balance::Cookie(Arc::new(affinity)));
    });
    let mut client = world.http_client();
    assert_eq!(ask(&mut client, GET, 1, 200), 1);
    add_endpoint(&mut world, new.address());
    assert_eq!(ask(&mut client, GET, 200, 200), 200);
    assert!((1..60).contains(&new.requests()), "{}", new.requests());
}

#[test]
fn endpoints_that_are_all_new_share_evenly() {
    let (first, second) = (Moody::saying(""), Moody::saying(""));
    [&first, &second].into_iter().for_each(Moody::become_well);
    let world = World::http(&[first.address(), second.address()], |model| {
        overload(model, |overload| {
            overload.mode = Mode::Enforce;
            overload.slow_start = Duration::from_secs(3600);
        });
    });
    assert_eq!(ask(&mut world.http_client(), GET, 100, 200), 100);
    assert_eq!((first.requests(), second.requests()), (50, 50));
}

#[test]
fn an_auth_service_is_not_asked_at_an_endpoint_that_is_left_out() {
    let (well, moody) = ([(); 3].map(|()| Canned::saying("ok")), Moody::saying(FAILED));
    let [a, b, c] = well.each_ref().map(Canned::address);
    let mut world = World::http(&[a, moody.address(), b, c], enforcing);
    ask(&mut world.http_client(), GET, 400, 500);
    world.await_metric(EJECTED, &[("endpoint", &label(moody.address()))], 1);
    world.change(|model| {
        let external = Some(ExternalAuth { cluster: ClusterId(0), check: Arc::new(check()) });
        route(model, |route| route.access = Some(Box::new(Access { external, ..Access::default() })));
    });
    let before = moody.requests();
    // A request that changes something is not used as a probe.
    assert_eq!(ask(&mut world.http_client(), POST, 40, 200), 40);
    assert_eq!(moody.requests(), before);
}
