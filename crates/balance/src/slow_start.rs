//! Slow start: an endpoint that has just become ready gets a tenth of its share of the requests at first, and
//! more over a ramp.
//!
//! Must not be in here: a clock, and the choice of an endpoint.

use std::time::Duration;

use clock::Moment;

/// The fraction of its share that an endpoint begins with.
const SHARE_FIRST: f64 = 0.1;

/// Whether an endpoint that has become ready at `since` takes a request that would be its own with a full
/// share, which it has after the time `ramp`. `draw` is a number from 0 to 1: a random one, or where a key
/// decides on the endpoint, [one fixed for the key](crate::draw), so that each key moves to the endpoint
/// once.
pub fn takes(since: Moment, now: Moment, ramp: Duration, draw: f64) -> bool {
    draw < share(now.since(since), ramp)
}

/// The fraction of its share that an endpoint of this age has.
fn share(age: Duration, ramp: Duration) -> f64 {
    if age >= ramp {
        return 1.0;
    }
    SHARE_FIRST + (1.0 - SHARE_FIRST) * age.as_secs_f64() / ramp.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::{Clock, Random};

    const RAMP: Duration = Duration::from_secs(10);

    #[test]
    fn the_share_grows_from_a_tenth_to_a_full_one() {
        let at = |seconds| share(Duration::from_secs(seconds), RAMP);
        assert!((at(0) - 0.1).abs() < 1e-9 && (at(5) - 0.55).abs() < 1e-9);
        assert!(at(9) < 1.0 && at(10) >= 1.0 && at(1000) >= 1.0);
        assert!(share(Duration::ZERO, Duration::ZERO) >= 1.0, "there is no ramp");
    }

    #[test]
    fn requests_are_taken_by_the_share() {
        let clock = Clock::new(Clock::begin());
        let (since, random) = (clock.now(), Random::seeded(7));
        let taken_after = |age| {
            let now = since.after(age);
            (0..10_000).filter(|_| takes(since, now, RAMP, random.chance())).count()
        };
        for (age, expected) in [(0, 1000), (5, 5500), (8, 8200), (10, 10_000)] {
            let taken = taken_after(Duration::from_secs(age));
            assert!(taken.abs_diff(expected) < 250, "after {age} s: {taken}");
        }
    }
}
