//! When connections to an endpoint are tried that fail: one at a time, with a growing time between them, so that an endpoint that is down or
//! coming up is not met by a connect for each request.
//!
//! Never in here: a clock, sockets, and what becomes of requests meanwhile.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::Moment;
use crate::limits::{CONNECT_PACE_FIRST, CONNECT_PACE_MAX, CONNECT_PACED_AFTER};
use crate::random::Random;

/// What became of the last connects to one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Those that failed in a row, as far as they count.
    failures: Cell<u32>,
    /// When the next one may be tried.
    next: Cell<Option<Moment>>,
    /// One is being tried.
    is_probing: Cell<bool>,
}

impl Pacer {
    /// Whether connects are not tried as they come.
    #[inline]
    pub(crate) fn is_failing(&self) -> bool {
        self.failures.get() >= CONNECT_PACED_AFTER
    }

    /// Whether one may be tried now.
    pub(crate) fn may_connect(&self, now: Moment) -> bool {
        !self.is_failing() || self.next.get().is_none_or(|next| now >= next)
    }

    /// One is tried, of which the result is known after `timeout` at the latest. Until then there is no other.
    pub(crate) fn begin(&self, now: Moment, timeout: Duration) {
        if self.is_failing() {
            self.next.set(Some(now.after(timeout)));
            self.is_probing.set(true);
        }
    }

    /// One has succeeded.
    #[inline]
    pub(crate) fn note_success(&self) {
        self.failures.set(0);
    }

    /// One has failed. Those that were begun before the first failure was known say nothing new.
    pub(crate) fn note_failure(&self, now: Moment, random: &Random) {
        let is_probe = self.is_probing.take();
        if self.is_failing() && !is_probe {
            return;
        }
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        let doublings = failures.saturating_sub(CONNECT_PACED_AFTER).min(16);
        let pause = (CONNECT_PACE_FIRST * (1 << doublings)).min(CONNECT_PACE_MAX);
        // Workers that failed together do not try again together.
        self.next.set(Some(now.after(pause.mul_f64(0.75 + 0.5 * random.chance()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const TIMEOUT: Duration = Duration::from_secs(5);

    struct World {
        clock: Clock,
        random: Random,
        pacer: Pacer,
    }

    impl World {
        fn new() -> Self {
            Self { clock: Clock::new(Clock::begin()), random: Random::seeded(7), pacer: Pacer::default() }
        }

        fn fail(&self) {
            self.pacer.note_failure(self.clock.now(), &self.random);
        }

        /// Requests that want to connect come each millisecond for so long; returns how many do, each of which fails at once.
        fn connects_within(&self, time: Duration) -> usize {
            let asks = |_| {
                self.clock.advance(Duration::from_millis(1));
                let is_tried = self.pacer.may_connect(self.clock.now());
                if is_tried {
                    self.pacer.begin(self.clock.now(), TIMEOUT);
                    self.fail();
                }
                is_tried
            };
            (0..time.as_millis()).filter(|at| asks(*at)).count()
        }
    }

    #[test]
    fn the_first_failures_change_nothing() {
        let world = World::new();
        for _ in 1..CONNECT_PACED_AFTER {
            world.fail();
            assert!(!world.pacer.is_failing() && world.pacer.may_connect(world.clock.now()));
        }
        world.pacer.note_success();
        (1..CONNECT_PACED_AFTER).for_each(|_| world.fail());
        assert!(world.pacer.may_connect(world.clock.now()), "only those in a row count");
        world.fail();
        assert!(world.pacer.is_failing() && !world.pacer.may_connect(world.clock.now()));
    }

    #[test]
    fn a_storm_becomes_one_connect_a_second_and_one_that_succeeds_ends_it() {
        let world = World::new();
        let first = world.connects_within(Duration::from_secs(1));
        assert!((5..12).contains(&first), "{first}");
        world.connects_within(Duration::from_secs(10));
        let later = world.connects_within(Duration::from_secs(60));
        assert!((50..75).contains(&later), "{later}");
        world.pacer.note_success();
        assert!(world.pacer.may_connect(world.clock.now()));
    }

    #[test]
    fn there_is_one_at_a_time_and_one_that_is_never_heard_of_is_not_waited_for() {
        let world = World::new();
        (0..CONNECT_PACED_AFTER).for_each(|_| world.fail());
        world.clock.advance(CONNECT_PACE_FIRST * 2);
        assert!(world.pacer.may_connect(world.clock.now()));
        world.pacer.begin(world.clock.now(), TIMEOUT);
        world.clock.advance(TIMEOUT / 2);
        assert!(!world.pacer.may_connect(world.clock.now()));
        world.clock.advance(TIMEOUT / 2);
        assert!(world.pacer.may_connect(world.clock.now()));
    }

    #[test]
    fn what_was_begun_together_and_fails_together_counts_as_little() {
        let world = World::new();
        (0..1000).for_each(|_| world.fail());
        world.clock.advance(CONNECT_PACE_FIRST * 2);
        assert!(world.pacer.may_connect(world.clock.now()));
    }
}
