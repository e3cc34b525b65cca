//! What is done while the process itself is short of something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::overload::{Overload, Priority};
use proxy::guard::Relief;
use testkit::{Canned, Ending, PATIENCE};

use super::{GET, forward};
use crate::world::World;

fn with(priority: Priority, upstream: &Canned) -> World {
    World::http(&[upstream.address()], |model| {
        let overload = Overload { priority, ..Overload::default() };
        forward(model, |forward| forward.overload = Some(Arc::new(overload)));
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
        assert!(world.metrics().sum("forebay_faults_total", &[("reason", "guard_shed")]) >= 1);
        world.order(Relief { level: refused_from - 1, ..Relief::default() });
        await_status(&world, 200);
    }
}

#[test]
fn the_most_important_requests_are_served_however_short_anything_is() {
    let upstream = Canned::saying("hello");
    let world = with(Priority::Critical, &upstream);
    world.order(Relief { level: 3, shortens_keep_alive: true, ..Relief::default() });
    // That the order has come shows in a connection that is not kept.
    let mut client = world.http_client();
    client.send(GET);
    assert_eq!(client.read_response().status, 200);
    assert_eq!(client.ending(), Ending::Closed);
    await_status(&world, 200);
    assert_eq!(world.metrics().sum("forebay_faults_total", &[("reason", "guard_shed")]), 0);
}

#[test]
fn connections_that_wait_already_wait_for_less() {
    let upstream = Canned::saying("hello");
    let world = with(Priority::Normal, &upstream);
    let mut client = world.http_client();
    client.send(GET);
    assert_eq!(client.read_response().status, 200);
    let begin = Instant::now();
    world.order(Relief { level: 1, shortens_keep_alive: true, ..Relief::default() });
    assert_eq!(client.ending(), Ending::Closed);
    assert!(begin.elapsed() < Duration::from_secs(20), "the configuration says 75 s");
}
