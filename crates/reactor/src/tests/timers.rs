//! Timers and their wheel. Never in here: sleeps that are longer than a fraction of a second.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::on_reactor;
use crate::limits::WHEEL_SLOTS;
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
    assert_eq!((advance(&mut wheel, 6), wheel.wait(6)), (0, Some(round - 1)));
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
