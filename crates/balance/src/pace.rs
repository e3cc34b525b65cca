//! Backoff of connects to an endpoint: once several have failed, one is tried at a time, with growing pauses,
//! so that an endpoint that is down or starting is not met by a connect for each request.
//!
//! Must not be in here: a clock, sockets, and what happens to requests meanwhile.

use std::cell::Cell;
use std::time::Duration;

use clock::{Moment, Random};

use crate::limits::{CONNECT_PACE_FIRST, CONNECT_PACE_MAX, CONNECT_PACED_AFTER};

/// The recent connects of one worker to one endpoint.
#[derive(Debug, Default)]
pub struct Pacer {
    /// Failures in a row.
    failures: Cell<u32>,
    /// When the next connect may begin; none for at once.
    next: Cell<Option<Moment>>,
    /// A paced connect is in progress.
    is_probing: Cell<bool>,
}

impl Pacer {
    /// Whether so many connects have failed that the next ones are paced.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.failures.get() >= CONNECT_PACED_AFTER
    }

    /// Whether a connect may begin now.
    pub fn may_connect(&self, now: Moment) -> bool {
        !self.is_failing() || self.next.get().is_none_or(|next| now >= next)
    }

    /// Records that a connect begins, which ends after `timeout` at the latest. While connects are paced, no
    /// other begins until then.
    pub fn begin(&self, now: Moment, timeout: Duration) {
        if self.is_failing() {
            self.next.set(Some(now.after(timeout)));
            self.is_probing.set(true);
        }
    }

    /// Records that a connect has succeeded, which ends the pacing.
    #[inline]
    pub fn note_success(&self) {
        self.failures.set(0);
    }

    /// Records that a connect has failed. Failures of connects that had begun before the pacing do not make
    /// the pause longer.
    pub fn note_failure(&self, now: Moment, random: &Random) {
        let is_probe = self.is_probing.take();
        if self.is_failing() && !is_probe {
            return;
        }
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        let doublings = failures.saturating_sub(CONNECT_PACED_AFTER).min(16);
        let pause = (CONNECT_PACE_FIRST * (1 << doublings)).min(CONNECT_PACE_MAX);
        // Jitter: workers that failed together do not try again together.
        self.next.set(Some(now.after(pause.mul_f64(0.75 + 0.5 * random.chance()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

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

        /// Connects that are wanted each millisecond for so long, each of which fails at once. Returns how
        /// many begin.
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
    fn there_is_one_at_a_time_and_one_without_a_result_ends_with_its_timeout() {
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
    fn failures_of_connects_that_began_together_make_the_pause_no_longer() {
        let world = World::new();
        (0..1000).for_each(|_| world.fail());
        world.clock.advance(CONNECT_PACE_FIRST * 2);
        assert!(world.pacer.may_connect(world.clock.now()));
    }
}
