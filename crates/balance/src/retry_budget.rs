//! The retry budget of a cluster: retries are limited to a share of the recent requests, so that they never
//! multiply the load of endpoints that fail. Envoy and Finagle have such budgets; here each worker has its
//! own, for its share of the requests. A Service may have a bound that all workers share beside it
//! (`retry_constraint`).
//!
//! Must not be in here: a clock, and the other conditions under which a request may be tried again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use clock::Moment;

use crate::limits::{RETRIES_FREE_PER_SECOND, RETRY_BUDGET_SECONDS};
use crate::retry_constraint::SharedRetries;

const SECOND: Duration = Duration::from_secs(1);

/// Requests and retries of the last seconds.
#[derive(Debug)]
pub struct RetryBudget {
    /// In the present second.
    requests: Cell<u64>,
    /// In the present second.
    retries: Cell<u64>,
    /// End of the present second.
    end: Cell<Moment>,
    /// Requests and retries of the seconds before, the last one first.
    past: Cell<[(u64, u64); RETRY_BUDGET_SECONDS - 1]>,
    /// The bound that all workers share; none for most clusters.
    shared: RefCell<Option<Arc<SharedRetries>>>,
}

impl RetryBudget {
    /// A budget without requests and retries.
    pub fn new(now: Moment) -> Self {
        Self {
            requests: Cell::new(0),
            retries: Cell::new(0),
            end: Cell::new(now.after(SECOND)),
            past: Cell::default(),
            shared: RefCell::default(),
        }
    }

    /// Counts a request, once however often it is tried.
    #[inline]
    pub fn note_request(&self, now: Moment) {
        if now >= self.end.get() {
            self.turn(now);
        }
        self.requests.set(self.requests.get() + 1);
    }

    /// Counts a retry.
    pub fn note_retry(&self, now: Moment) {
        self.turn(now);
        self.retries.set(self.retries.get() + 1);
    }

    /// Whether one more retry is within this percentage of the requests. A few retries are always allowed, so
    /// that there are some at a low rate of requests, too.
    pub fn allows(&self, percent: u8, now: Moment) -> bool {
        self.turn(now);
        let past = self.past.get();
        let requests = self.requests.get() + past.iter().map(|(requests, _)| requests).sum::<u64>();
        let retries = self.retries.get() + past.iter().map(|(_, retries)| retries).sum::<u64>();
        let free = RETRIES_FREE_PER_SECOND * RETRY_BUDGET_SECONDS as u64;
        retries < free.max(requests * u64::from(percent) / 100)
    }

    /// Sets the bound that all workers share.
    pub fn share(&self, shared: Option<Arc<SharedRetries>>) {
        *self.shared.borrow_mut() = shared;
    }

    /// Counts a retry if the bound that all workers share allows it, and returns whether it does; none where
    /// there is no such bound.
    pub fn take_shared(&self, now: Moment) -> Option<bool> {
        self.turn(now);
        let shared = self.shared.borrow();
        shared.as_ref().map(|shared| shared.take(self.requests.get(), now))
    }

    /// Shifts the seconds, up to the present one.
    #[cold]
    fn turn(&self, now: Moment) {
        let mut past = self.past.get();
        let mut turns = 0;
        while now >= self.end.get() && turns < RETRY_BUDGET_SECONDS {
            past.rotate_right(1);
            past[0] = (self.requests.take(), self.retries.take());
            if past[0].0 > 0
                && let Some(shared) = &*self.shared.borrow()
            {
                shared.add_requests(past[0].0, self.end.get());
            }
            self.end.set(self.end.get().after(SECOND));
            turns += 1;
        }
        if now >= self.end.get() {
            self.end.set(now.after(SECOND));
        }
        self.past.set(past);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

    struct World {
        clock: Clock,
        budget: RetryBudget,
    }

    impl World {
        fn new() -> Self {
            let clock = Clock::new(Clock::begin());
            let budget = RetryBudget::new(clock.now());
            Self { clock, budget }
        }

        fn requests(&self, count: u32) {
            (0..count).for_each(|_| self.budget.note_request(self.clock.now()));
        }

        /// Retries while the budget allows it, at most so often. Returns how often.
        fn retry(&self, percent: u8, at_most: u32) -> u32 {
            let now = self.clock.now();
            (0..at_most)
                .take_while(|_| self.budget.allows(percent, now))
                .map(|_| self.budget.note_retry(now))
                .count() as u32
        }
    }

    #[test]
    fn a_share_of_the_requests_of_ten_seconds_may_be_retried() {
        let world = World::new();
        for _ in 0..5 {
            world.requests(200);
            world.clock.advance(SECOND);
        }
        assert_eq!(world.retry(20, 1000), 200);
        assert_eq!(world.retry(20, 1000), 0);
        world.clock.advance(4 * SECOND);
        assert_eq!(world.retry(20, 1000), 0, "there is one budget for all of the ten seconds");
        world.clock.advance(2 * SECOND);
        assert_eq!(world.retry(20, 1000), 0, "requests are forgotten too");
        world.clock.advance(8 * SECOND);
        assert_eq!(world.retry(20, 1000), 30, "those that are always allowed");
    }

    #[test]
    fn a_few_are_always_allowed() {
        let world = World::new();
        assert_eq!(world.retry(0, 1000), 30);
        world.clock.advance(11 * SECOND);
        assert_eq!(world.retry(20, 1000), 30);
        world.clock.advance(3600 * SECOND);
        assert_eq!(world.retry(20, 1000), 30);
    }

    /// Each request fails, and would be retried three times.
    #[test]
    fn where_all_endpoints_fail_retries_do_not_multiply() {
        let world = World::new();
        let (mut sent, mut retried) = (0, 0);
        for _ in 0..600 {
            world.requests(50);
            sent += 50;
            retried += world.retry(20, 150);
            world.clock.advance(SECOND / 10);
        }
        let share = f64::from(retried) / f64::from(sent);
        assert!((0.15..=0.21).contains(&share), "{share}");
    }
}
