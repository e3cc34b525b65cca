//! Active health checks: when an endpoint is checked next, when it is left out and used again, and when too
//! many endpoints fail for that.
//!
//! Sources: `rise`, `fall` and the shorter interval while a change is in doubt (`fastinter`) are those of
//! `HAProxy`; the panic threshold is Envoy's, with its default of half of the endpoints.
//!
//! Must not be in here: a clock, sockets, and what a check sends.

use std::time::Duration;

use clock::Random;
use model::HealthCheck;

use crate::limits::{CHECK_DOUBT_MIN, CHECK_DOUBT_SHARE, CHECK_JITTER};

/// The recent checks of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckTally {
    is_out: bool,
    /// Evidence in a row against the present state.
    against: u32,
}

/// The result of a check, and why it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The check has passed.
    pub is_passed: bool,
    /// Why it was made.
    pub cause: Cause,
}

/// Why a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The time for it has come.
    Due,
    /// A failed or silent request has prompted the check: if it fails, the request counts as a failed check
    /// of its own.
    Prompted,
    /// Another replica, which has checked the endpoint, reports another state: if this check agrees with it,
    /// no further one is needed.
    Reported,
}

impl CheckTally {
    /// The tally of an endpoint in this state.
    pub fn new(is_out: bool) -> Self {
        Self { is_out, against: 0 }
    }

    /// Whether recent checks contradict the present state.
    pub fn is_in_doubt(&self) -> bool {
        self.against > 0
    }

    /// Whether the endpoint is out of use by its checks.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// Records a check. Returns whether the state has changed.
    pub fn note(&mut self, checked: Checked, check: &HealthCheck) -> bool {
        if checked.is_passed != self.is_out {
            self.against = 0;
            return false;
        }
        let needed = if checked.is_passed { check.rise } else { check.fall };
        let evidence = match checked.cause {
            Cause::Reported => needed,
            Cause::Prompted if !checked.is_passed => 2,
            Cause::Prompted | Cause::Due => 1,
        };
        self.against = self.against.saturating_add(evidence);
        let has_changed = self.against >= needed;
        if has_changed {
            *self = Self::new(!self.is_out);
        }
        has_changed
    }

    /// Time until the next check: the interval, or a part of it while the last checks contradict the state.
    /// The jitter keeps the checks of many endpoints, and of several replicas, apart.
    pub fn next_after(&self, check: &HealthCheck, random: &Random) -> Duration {
        let in_doubt = (check.interval / CHECK_DOUBT_SHARE).max(CHECK_DOUBT_MIN).min(check.interval);
        let time = if self.is_in_doubt() { in_doubt } else { check.interval };
        time.mul_f64(1.0 - CHECK_JITTER + 2.0 * CHECK_JITTER * random.chance())
    }
}

/// Whether so many of a cluster's endpoints are out of use that all of them are used all the same: less than
/// half would be left.
pub fn is_panic(out: usize, count: usize) -> bool {
    2 * out > count
}

#[cfg(test)]
mod tests {
    use model::HealthProbe;

    use super::*;

    fn check(rise: u32, fall: u32) -> HealthCheck {
        HealthCheck {
            probe: HealthProbe::Connect,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            rise,
            fall,
            always: false,
        }
    }

    fn checked(is_passed: bool) -> Checked {
        Checked { is_passed, cause: Cause::Due }
    }

    #[test]
    fn an_endpoint_changes_its_state_after_so_many_checks_in_a_row() {
        let check = check(2, 3);
        let mut tally = CheckTally::default();
        let mut note = |outcomes: &str| -> Vec<bool> {
            outcomes.chars().map(|one| tally.note(checked(one == '+'), &check)).collect()
        };
        assert_eq!(note("--+--"), [false; 5], "a passed check in between starts anew");
        assert_eq!(note("-"), [true]);
        assert_eq!(note("-+-+"), [false; 4]);
        assert_eq!(note("+"), [true]);
        assert!(!tally.is_out());
    }

    #[test]
    fn a_request_that_failed_counts_if_the_check_fails_too() {
        let prompted = |is_passed| Checked { is_passed, cause: Cause::Prompted };
        let mut tally = CheckTally::default();
        assert!(!tally.note(prompted(true), &check(2, 2)) && tally.note(prompted(false), &check(2, 2)));
        let mut tally = CheckTally::default();
        assert!(!tally.note(prompted(false), &check(2, 3)) && tally.note(checked(false), &check(2, 3)));
        // Passed checks count one by one.
        assert!(!tally.note(prompted(true), &check(2, 3)) && tally.note(prompted(true), &check(2, 3)));
    }

    #[test]
    fn a_check_that_agrees_with_another_replica_decides() {
        let reported = |is_passed| Checked { is_passed, cause: Cause::Reported };
        let mut tally = CheckTally::default();
        assert!(!tally.note(reported(true), &check(3, 5)), "it contradicts the other replica");
        assert!(tally.note(reported(false), &check(3, 5)) && tally.is_out());
        assert!(tally.note(reported(true), &check(3, 5)) && !tally.is_out());
    }

    #[test]
    fn checks_are_spread_and_come_sooner_in_doubt() {
        let (random, check) = (Random::seeded(1), check(2, 2));
        let mut tally = CheckTally::default();
        let times: Vec<_> = (0..1000).map(|_| tally.next_after(&check, &random)).collect();
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*least >= Duration::from_millis(4500) && *most <= Duration::from_millis(5500));
        assert!(*most > *least + Duration::from_millis(900), "{least:?} {most:?}");
        tally.note(checked(false), &check);
        assert!(tally.next_after(&check, &random) <= Duration::from_millis(1100));
        let short = HealthCheck { interval: Duration::from_millis(50), ..check };
        assert!(tally.next_after(&short, &random) <= Duration::from_millis(55));
    }

    #[test]
    fn half_of_the_endpoints_stay_in_use() {
        let panics = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (2, 4), (3, 4)];
        let panics = panics.map(|(out, count)| is_panic(out, count));
        assert_eq!(panics, [false, false, true, false, true, false, true, false, true]);
    }
}
