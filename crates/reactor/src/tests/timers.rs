//! Timers and their wheel. Never in here: sleeps that are longer than a fraction of a second.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::on_reactor;
use crate::limits::{WHEEL_ROUNDS, WHEEL_SLOTS};
use crate::wheel::Wheel;
use crate::{sleep, spawn};

#[test]
fn timers_end_in_their_order_and_not_too_soon() {
    on_reactor(async {
        let begin = Instant::now();
        let order = Rc::new(RefCell::new(Vec::new()));
        // So far apart that a pause between two tasks' first polls changes nothing.
        let tasks = [300, 100, 0, 200].map(|millis| {
            let order = Rc::clone(&order);
            spawn(async move {
                sleep(Duration::from_millis(millis)).await;
                assert!(begin.elapsed() >= Duration::from_millis(millis));
                order.borrow_mut().push(millis);
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), [0, 100, 200, 300]);
    });
}

#[test]
fn a_timer_that_is_dropped_keeps_nobody_waiting() {
    on_reactor(async {
        drop(sleep(Duration::from_secs(3600)));
        let begin = Instant::now();
        sleep(Duration::from_micros(1)).await;
        assert!(begin.elapsed() < Duration::from_secs(60));
    });
}

/// The number of timers that have ended up to a time.
fn advance(wheel: &mut Wheel, now: u64) -> usize {
    let mut due = Vec::new();
    wheel.advance(now, &mut due);
    due.len()
}

#[test]
fn a_wheel_turns_round_and_round() {
    let round = WHEEL_SLOTS as u64;
    let mut wheel = Wheel::new();
    assert_eq!(wheel.wait(0), None);
    let near = wheel.add(5, 0);
    let far = wheel.add(5 + 3 * round, 0);
    let gone = wheel.add(6, 0);
    for key in [near, far, gone] {
        assert!(wheel.watch(key, Waker::noop()));
    }
    wheel.cancel(gone);
    assert_eq!(wheel.wait(0), Some(5));
    assert_eq!(advance(&mut wheel, 4), 0);
    assert_eq!((advance(&mut wheel, 5), wheel.watch(near, Waker::noop())), (1, false));
    // The far one moves to the slots of its milliseconds just before its round begins, and not sooner.
    assert_eq!((advance(&mut wheel, 6), wheel.wait(6)), (0, Some(3 * round - 1 - 6)));
    // However long nobody has looked, nothing is passed over.
    assert_eq!(advance(&mut wheel, 4 + 3 * round), 0);
    assert_eq!(wheel.wait(4 + 3 * round), Some(1));
    assert_eq!(advance(&mut wheel, 5 + 3 * round), 1);
    assert!(wheel.is_empty());
    // An empty wheel has not seen the time pass.
    let late = wheel.add(100 * round + 1, 100 * round);
    assert!(wheel.watch(late, Waker::noop()));
    assert_eq!((wheel.wait(100 * round), advance(&mut wheel, 100 * round + 1)), (Some(1), 1));
    let past = wheel.add(7, 100 * round + 1);
    assert!(wheel.watch(past, Waker::noop()));
    assert_eq!(wheel.wait(100 * round + 1), Some(1), "what is past is due next");
}

#[test]
fn timers_far_ahead_and_cancelled_ones_have_nobody_look() {
    let (round, turn) = (WHEEL_SLOTS as u64, (WHEEL_SLOTS * WHEEL_ROUNDS) as u64);
    let mut wheel = Wheel::new();
    let (far, farther) = (wheel.add(10 * round, 0), wheel.add(10 * round + turn, 0));
    let cancelled: Vec<_> = (1..4 * round).map(|due| wheel.add(due, 0)).collect();
    for key in cancelled {
        wheel.cancel(key);
    }
    for key in [far, farther] {
        assert!(wheel.watch(key, Waker::noop()));
    }
    assert_eq!(wheel.wait(0), Some(10 * round - 1));
    assert_eq!((advance(&mut wheel, 10 * round - 1), wheel.wait(10 * round - 1)), (0, Some(1)));
    assert_eq!(advance(&mut wheel, 10 * round), 1);
    assert_eq!(wheel.wait(10 * round), Some(turn - 1));
    wheel.cancel(farther);
    assert_eq!((wheel.is_empty(), wheel.wait(10 * round)), (true, None));
}

#[test]
fn a_wheel_ends_timers_when_they_are_due_whenever_it_is_looked_at() {
    let random = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    };
    let mut state = 7;
    let mut now = 0;
    let mut wheel = Wheel::new();
    let mut timers = BTreeMap::new();
    for number in 0..20_000_u64 {
        let range = [3, 600, 5_000, 100_000][random(&mut state) as usize % 4];
        let due = now + 1 + random(&mut state) % range;
        let key = wheel.add(due, now);
        assert!(wheel.watch(key, Waker::noop()));
        timers.insert((due, number), key);
        if random(&mut state) % 3 == 0 {
            let at = random(&mut state) as usize % timers.len();
            let chosen = *timers.keys().nth(at).unwrap();
            wheel.cancel(timers.remove(&chosen).unwrap());
        }
        let due = timers.first_key_value().map(|((due, _), _)| *due);
        let wait = wheel.wait(now);
        assert!(wait.is_some() == due.is_some() && wait.is_none_or(|wait| now + wait <= due.unwrap()));
        // Now and then for several rounds, most often for less than one.
        let pause = [1, 40, 700, 3_000][(random(&mut state) as usize % 16).saturating_sub(12)];
        now += random(&mut state) % pause;
        let left = timers.split_off(&(now + 1, 0));
        assert_eq!(advance(&mut wheel, now), timers.len(), "at {now}");
        assert!(timers.values().all(|key| !wheel.watch(*key, Waker::noop())));
        timers = left;
    }
}
