//! Whether a canary is worse than its mainline by more than a bound, judged again and again.
//!
//! The question is put as a sequence of bets (an e-detector of Shin, Ramdas and Rinaldo, "E-detectors: a
//! nonparametric framework for sequential change detection", 2022). Each look at the counts multiplies a
//! stake by the likelihood of what was seen if the canary were worse, over its likelihood if the canary were
//! just at its bound; a new stake begins at each look, so that good hours do not hide a bad minute. The sum
//! of the stakes of a canary at its bound or better grows by one a look on average, so that it reaches the
//! threshold after that many looks on average at the earliest, however long and often one looks.
//!
//! The share of the mainline is not known but counted. Its upper confidence limit is taken, which errs in
//! favour of the canary; and the larger one of a long time and of the last requests, so that a fault of both
//! does not count against the canary.
//!
//! When the threshold is reached, the next requests of the mainline are waited for, for a bounded time: they
//! show whether the fault has just begun for both.
//!
//! Must not be in here: a clock, atomics.

use std::time::Duration;

use model::RolloutStop;

use super::tally::{Counts, bucket, end_of};
use crate::limits::{
    ROLLOUT_BASE_KEPT, ROLLOUT_CONFIRMING_LOOKS, ROLLOUT_CONFIRMING_REQUESTS, ROLLOUT_LOOKS_MIN,
    ROLLOUT_RECENT_MIN, ROLLOUT_RECENT_REQUESTS, ROLLOUT_SAID_KEPT, ROLLOUT_SAMPLES_MIN,
};

/// By how much of the rest a canary may be worse than its bound: one stake for each.
const WORSE: [f64; 6] = [0.01, 0.03, 0.1, 0.3, 0.6, 0.9];

/// Standard deviations between a share that was counted and its upper confidence limit: 99.5 %.
const CONFIDENCE: f64 = 2.576;

/// The share of requests that may take longer than the bound of the 99th percentile.
const SLOW: f64 = 0.01;

/// A share from which nothing is worse.
const BOUND_MAX: f64 = 0.99;

/// The judge of one canary.
#[derive(Debug, Default)]
pub(super) struct Judge {
    recent: Base,
    long: Base,
    errors: Detector,
    slow: Detector,
    /// Requests to the canary since it was judged anew.
    requests: u64,
    suspicion: Option<Suspicion>,
}

/// The verdict on a canary that is over a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The share of failed requests, lately, and the share that is allowed.
    Errors { share: f64, bound: f64 },
    /// The share of requests, lately, that took longer than the time that one in a hundred may.
    Slow { share: f64, bound: Duration },
}

/// A fault of the canary that the mainline may have too, as its next requests show.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    fault: Fault,
    looks: u32,
    requests: u64,
    bad: u64,
}

/// The mainline's figures, in which older ones count less and less.
#[derive(Clone, Debug)]
struct Base {
    requests: f64,
    errors: f64,
    times: Vec<f64>,
    timed: f64,
}

/// A sum of stakes that the canary is worse than its bound.
#[derive(Clone, Copy, Debug, Default)]
struct Detector {
    sums: [f64; WORSE.len()],
    /// Counts of late, to say how bad it is.
    seen: f64,
    bad: f64,
}

impl Judge {
    /// Forgets what was seen of the canary, since its share is another one now.
    pub(super) fn begin_step(&mut self) {
        self.errors = Detector::default();
        self.slow = Detector::default();
        self.requests = 0;
        self.suspicion = None;
    }

    /// Takes the counts since the last look. Returns the fault for which the canary has to be stopped.
    pub(super) fn look(&mut self, mainline: &Counts, canary: &Counts, stop: &RolloutStop) -> Option<Fault> {
        let recent_kept = (1.0 - 1.0 / ROLLOUT_RECENT_REQUESTS).powf(mainline.requests as f64);
        self.recent.add(mainline, recent_kept);
        self.long.add(mainline, ROLLOUT_BASE_KEPT);
        self.requests += canary.requests;
        let found = self.compare(canary, stop).filter(|_| self.requests >= u64::from(stop.requests_min));
        let Some(suspicion) = &mut self.suspicion else {
            self.suspicion = found.map(Suspicion::new);
            return None;
        };
        suspicion.look(mainline);
        if !suspicion.is_known() {
            return None;
        }
        let suspicion = *suspicion;
        self.suspicion = None;
        let fault = self.now(suspicion.fault);
        if suspicion.share() < fault.share() / 2.0 {
            return Some(fault);
        }
        (self.errors, self.slow) = (Detector::default(), Detector::default());
        None
    }

    /// Compares the canary's requests since the last look with the mainline's figures. Returns the fault if
    /// the threshold is reached.
    fn compare(&mut self, canary: &Counts, stop: &RolloutStop) -> Option<Fault> {
        if canary.requests == 0 {
            return None;
        }
        let errors = stop.errors.and_then(|bound| {
            let bound = self.error_share() + bound.ratio();
            let is_worse = self.errors.look(canary.requests, canary.errors, bound);
            is_worse.then(|| Fault::Errors { share: self.errors.share(), bound })
        });
        let slow = stop.p99_thousandths.and_then(|factor| {
            let bound = self.p99()?.mul_f64(f64::from(factor) / 1000.0);
            let (timed, above) = canary.above(bucket(bound));
            let is_worse = self.slow.look(timed, above, SLOW);
            is_worse.then(|| Fault::Slow { share: self.slow.share(), bound })
        });
        errors.or(slow)
    }

    /// A fault with the share of this moment.
    fn now(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Errors { bound, .. } => Fault::Errors { share: self.errors.share(), bound },
            Fault::Slow { bound, .. } => Fault::Slow { share: self.slow.share(), bound },
        }
    }

    /// The share of the mainline's requests that fail, at most.
    fn error_share(&self) -> f64 {
        let recent = if self.recent.requests >= ROLLOUT_RECENT_MIN {
            self.recent.errors / self.recent.requests
        } else {
            0.0
        };
        self.long.error_limit().max(recent)
    }

    /// The mainline's 99th percentile; none where too few requests are known.
    fn p99(&self) -> Option<Duration> {
        let recent = self.recent.p99(ROLLOUT_RECENT_MIN);
        let long = self.long.p99(ROLLOUT_SAMPLES_MIN)?;
        Some(recent.map_or(long, |recent| recent.max(long)))
    }
}

impl Suspicion {
    fn new(fault: Fault) -> Self {
        Self { fault, looks: 0, requests: 0, bad: 0 }
    }

    /// Takes the mainline's requests since the last look.
    fn look(&mut self, mainline: &Counts) {
        self.looks += 1;
        let (requests, bad) = match self.fault {
            Fault::Errors { .. } => (mainline.requests, mainline.errors),
            Fault::Slow { bound, .. } => mainline.above(bucket(bound)),
        };
        self.requests += requests;
        self.bad += bad;
    }

    /// Whether enough is known of the mainline, or has been waited for.
    fn is_known(&self) -> bool {
        self.requests >= ROLLOUT_CONFIRMING_REQUESTS || self.looks >= ROLLOUT_CONFIRMING_LOOKS
    }

    /// The share of the mainline's requests with the same fault.
    fn share(&self) -> f64 {
        if self.requests > 0 { self.bad as f64 / self.requests as f64 } else { 0.0 }
    }
}

impl Fault {
    fn share(&self) -> f64 {
        let (Self::Errors { share, .. } | Self::Slow { share, .. }) = self;
        *share
    }
}

impl Default for Base {
    fn default() -> Self {
        Self { requests: 0.0, errors: 0.0, times: vec![0.0; super::tally::BUCKETS], timed: 0.0 }
    }
}

impl Base {
    /// Adds counts. Those before keep their weight while there are none, as when the canary has all
    /// requests.
    fn add(&mut self, counts: &Counts, kept: f64) {
        if counts.requests == 0 {
            return;
        }
        self.requests = self.requests * kept + counts.requests as f64;
        self.errors = self.errors * kept + counts.errors as f64;
        self.timed = 0.0;
        for (time, count) in self.times.iter_mut().zip(counts.times) {
            *time = *time * kept + count as f64;
            self.timed += *time;
        }
    }

    /// The upper confidence limit of the share of errors (Wilson's); 0 without requests.
    fn error_limit(&self) -> f64 {
        let count = self.requests;
        if count < 1.0 {
            return 0.0;
        }
        let (share, square) = ((self.errors / count).min(1.0), CONFIDENCE * CONFIDENCE);
        let spread = CONFIDENCE * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        ((share + square / (2.0 * count) + spread) / (1.0 + square / count)).min(1.0)
    }

    /// The 99th percentile; none where fewer times than these are known.
    fn p99(&self, times_min: f64) -> Option<Duration> {
        if self.timed < times_min {
            return None;
        }
        let mut above = self.timed;
        let found = self.times.iter().position(|count| {
            above -= count;
            above <= SLOW * self.timed
        });
        found.map(end_of)
    }
}

impl Detector {
    /// Takes the requests since the last look, and the bad ones among them, of which a share is allowed.
    /// Returns whether there are so many that the share is exceeded beyond doubt.
    fn look(&mut self, requests: u64, bad: u64, allowed: f64) -> bool {
        let (bad, requests) = (bad.min(requests) as f64, requests as f64);
        self.seen = self.seen * ROLLOUT_SAID_KEPT + requests;
        self.bad = self.bad * ROLLOUT_SAID_KEPT + bad;
        if allowed >= BOUND_MAX || requests == 0.0 {
            return false;
        }
        for (sum, worse) in self.sums.iter_mut().zip(WORSE) {
            let share = allowed + (1.0 - allowed) * worse;
            let gain = bad * (share / allowed).ln() + (requests - bad) * (1.0 - worse).ln();
            *sum = (1.0 + *sum) * gain.exp();
        }
        self.sums.iter().sum::<f64>() / WORSE.len() as f64 >= ROLLOUT_LOOKS_MIN
    }

    fn share(&self) -> f64 {
        if self.seen > 0.0 { self.bad / self.seen } else { 0.0 }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| 100.0 * share;
        match self {
            Self::Errors { share, bound } => {
                write!(f, "{:.1} % of its requests fail, {:.1} % may", percent(*share), percent(*bound))
            }
            Self::Slow { share, bound } => {
                let bound = bound.as_secs_f64() * 1000.0;
                write!(f, "{:.1} % of its requests take longer than {bound:.1} ms, 1 % may", percent(*share))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::Random;
    use model::RolloutShare;

    use super::*;

    const STOP: RolloutStop = RolloutStop {
        errors: Some(RolloutShare::of_ten_thousand(100)),
        p99_thousandths: Some(1500),
        requests_min: 20,
    };

    /// Counts of requests that fail by chance, and take this many milliseconds.
    fn counts(requests: u64, error_share: f64, millis: f64, random: &Random) -> Counts {
        let mut counts = Counts { requests, ..Counts::default() };
        for _ in 0..requests {
            counts.errors += u64::from(random.chance() < error_share);
            // The tail of response times is long.
            let time = Duration::from_secs_f64(millis / 1000.0 * (1.0 - random.chance()).ln().abs());
            counts.times[bucket(time)] += 1;
        }
        counts
    }

    /// The look at which a canary is stopped; 100 requests to the mainline and some to the canary in each.
    fn stopped_at(
        looks: u64,
        canary: u64,
        of_mainline: impl Fn(u64) -> (f64, f64),
        of_canary: impl Fn(u64) -> (f64, f64),
        seed: u64,
    ) -> Option<(u64, Fault)> {
        let (mut judge, random) = (Judge::default(), Random::seeded(seed));
        (0..looks).find_map(|look| {
            let (share, millis) = of_mainline(look);
            let mainline = counts(100, share, millis, &random);
            let (share, millis) = of_canary(look);
            let canary = counts(canary, share, millis, &random);
            judge.look(&mainline, &canary, &STOP).map(|fault| (look, fault))
        })
    }

    #[test]
    fn a_canary_like_its_mainline_is_not_stopped() {
        for seed in 1..=20 {
            for share in [0.0, 0.02, 0.3] {
                let same = |_| (share, 10.0);
                assert_eq!(stopped_at(3000, 7, same, same, seed), None, "{share} {seed}");
            }
        }
    }

    #[test]
    fn one_that_fails_is_stopped_at_once_even_after_good_hours() {
        for begin in [0, 3000] {
            let of_canary = |look| if look < begin { (0.0, 10.0) } else { (1.0, 10.0) };
            let (look, fault) = stopped_at(begin + 100, 5, |_| (0.001, 10.0), of_canary, 7).unwrap();
            // Twenty requests are the minimum: four looks at the begin, and fewer later.
            assert!(look - begin <= 5, "{look}");
            assert!(matches!(fault, Fault::Errors { share, .. } if share > 0.0), "{fault}");
        }
    }

    #[test]
    fn one_that_fails_a_little_more_is_stopped_too() {
        let (look, _) = stopped_at(3000, 10, |_| (0.001, 10.0), |_| (0.06, 10.0), 3).unwrap();
        assert!(look < 300, "{look}");
        let (look, fault) = stopped_at(3000, 10, |_| (0.0, 10.0), |_| (0.0, 30.0), 3).unwrap();
        assert!(look < 100 && matches!(fault, Fault::Slow { .. }), "{look} {fault}");
        assert_eq!(stopped_at(3000, 10, |_| (0.0, 10.0), |_| (0.0, 11.0), 3), None);
    }

    #[test]
    fn a_fault_of_both_does_not_count_against_the_canary() {
        for seed in 1..=20 {
            let both = |look| if look < 500 { (0.0, 10.0) } else { (0.8, 40.0) };
            for canary in [7, 100] {
                assert_eq!(stopped_at(1000, canary, both, both, seed), None, "{seed}");
            }
        }
    }

    #[test]
    fn without_a_mainline_the_last_known_figures_count() {
        let (mut judge, random) = (Judge::default(), Random::seeded(1));
        for _ in 0..100 {
            judge.look(&counts(100, 0.1, 10.0, &random), &Counts::default(), &STOP);
        }
        judge.begin_step();
        let alone = |judge: &mut Judge, share| {
            (0..100).find_map(|_| judge.look(&Counts::default(), &counts(10, share, 10.0, &random), &STOP))
        };
        assert_eq!(alone(&mut judge, 0.1), None);
        assert!(alone(&mut judge, 0.5).is_some());
    }

    #[test]
    fn few_requests_are_no_evidence() {
        let (mut judge, random) = (Judge::default(), Random::seeded(1));
        let mainline = counts(1000, 0.0, 10.0, &random);
        let mut look = || judge.look(&mainline, &counts(1, 1.0, 10.0, &random), &STOP);
        for _ in 0..20 {
            assert_eq!(look(), None);
        }
        assert!(look().is_some(), "the mainline's next requests are well");
    }
}
