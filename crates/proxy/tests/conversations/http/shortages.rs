//! Requests while the process itself is short of something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::overload::{Mode, Priority};
use model::{Action, PathMatch, Route};
use proxy::explain::{Asked, Explanation, Outcome, Stage, Verdict, explain};
use proxy::guard::Relief;
use testkit::{Canned, Ending, PATIENCE};

use super::{GET, forward, web};
use crate::world::{World, await_that};

fn with(priority: Priority, upstream: &Canned) -> World {
    World::http(&[upstream.address()], |model| {
        forward(model, |forward| forward.priority = priority);
    })
}

/// Asks until the status is this one: an order takes a turn of the loop.
fn await_status(world: &World, status: u16) -> Option<String> {
    let begin = Instant::now();
    loop {
        let mut client = world.http_client();
        client.send(GET);
        let response = client.read_response();
        if response.status == status {
            return response.header("Retry-After");
        }
        assert!(begin.elapsed() < PATIENCE, "{} and not {status}", response.status);
    }
}

#[test]
fn requests_are_refused_by_priority_and_told_when_to_come_again() {
    let upstream = Canned::saying("hello");
    for (priority, refused_from) in [(Priority::Sheddable, 2), (Priority::Normal, 3)] {
        let world = with(priority, &upstream);
        world.order(Relief { level: refused_from, ..Relief::default() });
        let seconds = await_status(&world, 503).expect("when to come again").parse::<u32>().unwrap();
        assert!((1..=3).contains(&seconds), "{seconds}");
        // A fault is counted once its response has been sent.
        await_that("the refusal to be counted", || {
            world.metrics().sum("forebay_faults_total", &[("reason", "guard_shed")]) >= 1
        });
        world.order(Relief { level: refused_from - 1, ..Relief::default() });
        await_status(&world, 200);
    }
}

const SHED: &str = "forebay_guard_shed_total";

/// A path for each priority.
fn with_all(upstream: &Canned, mode: Mode) -> World {
    World::http(&[upstream.address()], |model| {
        model.settings.guard = mode;
        web(model, |host| {
            for (path, priority) in PRIORITIES {
                let mut route = Route::clone(&host.routes[0]);
                route.path = PathMatch::exact(path).unwrap();
                if let Action::Forward(forward) = &mut route.action {
                    forward.priority = priority;
                }
                host.routes.push(Arc::new(route));
            }
        });
    })
}

const PRIORITIES: [(&str, Priority); 3] =
    [("/critical", Priority::Critical), ("/normal", Priority::Normal), ("/sheddable", Priority::Sheddable)];

#[test]
fn who_matters_least_goes_first_and_each_refusal_is_counted_by_priority() {
    let upstream = Canned::saying("hello");
    let world = with_all(&upstream, Mode::Enforce);
    let statuses = || PRIORITIES.map(|(path, _)| world.http_client().get("web.test", path).status);
    for (level, expected) in [(1, [200; 3]), (2, [200, 200, 503]), (3, [200, 503, 503])] {
        world.order(Relief { level, ..Relief::default() });
        await_that("the level to be in force", || statuses() == expected);
    }
    let counted = |priority| world.metrics().sum(SHED, &[("priority", priority), ("mode", "enforce")]);
    let (normal, sheddable) = (counted("normal"), counted("sheddable"));
    assert!(normal >= 1 && sheddable > normal, "{normal} and {sheddable}");
    // A fault is counted once its response has been sent.
    world.await_metric("forebay_faults_total", &[("reason", "guard_shed")], normal + sheddable);
    assert_eq!(counted("critical"), 0);
}

#[test]
fn what_would_be_refused_is_counted_where_it_is_only_watched() {
    let upstream = Canned::saying("hello");
    let world = with_all(&upstream, Mode::Watch);
    world.order(Relief { level: 3, ..Relief::default() }.watched());
    let counted = |mode| world.metrics().sum(SHED, &[("mode", mode)]);
    await_that("it to be counted", || {
        assert_eq!(world.http_client().get("web.test", "/sheddable").status, 200);
        counted("watch") > 0
    });
    assert_eq!(counted("enforce"), 0);
    let outcome = explained(&world, "/normal");
    assert!(matches!(outcome.outcome, Outcome::Forwarded(_)));
    assert_eq!(
        guard_step(&outcome),
        (
            Verdict::Passes,
            "normal: refused while Forebay is short of something at level 3, if that were not only watched; the level is 3 now".to_owned()
        )
    );
}

fn explained(world: &World, path: &str) -> Explanation {
    let observer = world.observer();
    let (snapshot, relief) = (observer.snapshot(), observer.relief());
    let head = format!("GET {path} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let listener = snapshot.listeners()[0].id;
    let client = [127, 0, 0, 1].into();
    let asked = Asked {
        listener,
        port: 80,
        client,
        server_name: None,
        head: head.as_bytes(),
        body: b"",
        relief,
        rollouts: None,
    };
    explain(&snapshot, &asked).unwrap()
}

fn guard_step(told: &Explanation) -> (Verdict, String) {
    let step = told.steps.iter().find(|step| step.stage == Stage::Guard).expect("a step");
    (step.verdict, step.text.clone())
}

#[test]
fn an_explanation_says_who_is_refused_at_present() {
    let upstream = Canned::saying("hello");
    let world = with_all(&upstream, Mode::Enforce);
    assert!(
        explained(&world, "/normal").steps.iter().all(|step| step.stage != Stage::Guard),
        "it is as usual"
    );
    let calm = explained(&world, "/sheddable");
    assert!(matches!(calm.outcome, Outcome::Forwarded(_)));
    assert_eq!(
        guard_step(&calm),
        (
            Verdict::Passes,
            "sheddable: refused while Forebay is short of something at level 2 or above".to_owned()
        )
    );
    world.order(Relief { level: 2, ..Relief::default() });
    let told = explained(&world, "/sheddable");
    assert!(matches!(&told.outcome, Outcome::Answered(answer) if answer.status == 503));
    let (verdict, text) = guard_step(&told);
    assert!(
        verdict == Verdict::Answers && text.starts_with("503: ") && text.ends_with("the level is 2 now"),
        "{text}"
    );
    let critical = explained(&world, "/critical");
    assert!(matches!(critical.outcome, Outcome::Forwarded(_)) && guard_step(&critical).0 == Verdict::Passes);
}

#[test]
fn the_most_important_requests_are_served_however_short_anything_is() {
    let upstream = Canned::saying("hello");
    let world = with(Priority::Critical, &upstream);
    world.order(Relief { level: 3, shortens_keep_alive: true, ..Relief::default() });
    // A connection that is not kept shows that the order has come.
    let mut client = world.http_client();
    client.send(GET);
    assert_eq!(client.read_response().status, 200);
    assert_eq!(client.ending(), Ending::Closed);
    await_status(&world, 200);
    assert_eq!(world.metrics().sum("forebay_faults_total", &[("reason", "guard_shed")]), 0);
}

#[test]
fn connections_that_wait_already_wait_for_less_and_so_do_new_ones() {
    let upstream = Canned::saying("hello");
    let world = with(Priority::Normal, &upstream);
    let mut client = world.http_client();
    client.send(GET);
    assert_eq!(client.read_response().status, 200);
    let begin = Instant::now();
    world.order(Relief { level: 1, shortens_keep_alive: true, ..Relief::default() });
    assert_eq!(client.ending(), Ending::Closed);
    assert_eq!(world.http_client().ending(), Ending::Closed, "nothing was said on it");
    assert!(
        begin.elapsed() < Duration::from_secs(50),
        "the configuration says 75 s, and 60 s for the first request"
    );
}
