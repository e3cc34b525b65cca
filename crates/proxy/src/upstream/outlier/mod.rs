//! Endpoints that are left out for a time because they fail, or are slow, beside the others of their cluster.
//!
//! What it follows: the outlier detection of Envoy (errors in a row, the share of errors beside the others', a time that grows with each
//! ejection, a bound on how many are left out at once) and of Finagle and linkerd2 (one request at a time finds out whether an endpoint is
//! well again). What differs: errors count only as far as others do not have them too, so that a page that fails everywhere, or a database
//! that is down, takes no endpoint away; and latency counts, in octaves, since what is usual depends on the page.
//!
//! Never in here: a clock, what a request is, and where it goes instead.

mod standing;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Moment;
use crate::limits::{
    OUTLIER_AGE_MAX, OUTLIER_ERRORS_IN_ROW_MIN, OUTLIER_REQUESTS_MIN, OUTLIER_REVIEW_INTERVAL,
    OUTLIER_SILENT_MIN, OUTLIER_SLOW_REVIEWS, PROBES_GOOD,
};
use crate::random::Random;
pub(crate) use standing::Standing;
use standing::{Judged, Latency, Window};

/// Octaves beyond the others' latency from which on an endpoint is slow: four times as long.
const SLOW_OCTAVES: f64 = 2.0;
/// Standard errors beyond the others' that are no chance. With one endpoint looked at four times a second, five are chance once in weeks.
const SIGNIFICANT: f64 = 5.0;
/// Standard deviations of single latencies beyond the usual one from which on a silence is none of the page's.
const SILENT_DEVIATIONS: f64 = 3.0;
/// Octaves by which a silence has to grow until one more request is sent.
const SILENT_OCTAVES: u32 = 3;
/// Digits of the odds against a row of errors being chance.
const ODDS_DIGITS: f64 = 9.0;
/// Share of errors below which an endpoint is left alone whatever the others do.
const ERROR_SHARE_MIN: f64 = 0.2;
/// Share of the others' errors from which on it is not the endpoint that fails.
const ALL_FAIL: f64 = 0.5;
/// What remains of the counts of requests and errors from one review to the next: half of them after about two seconds.
const FADING: f64 = 0.92;

/// What became of a request, as far as that speaks for or against its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The endpoint has answered.
    Good,
    /// It has answered that it failed; another one might too.
    Error,
    /// It could not be reached, broke off, was too late, or says that it cannot.
    Fault,
}

/// A request that has ended, or of which the response begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    /// Time since it was sent.
    pub(crate) took: Duration,
    /// Whether that time can be compared with others'.
    pub(crate) is_comparable: bool,
}

/// What is usual in a cluster.
#[derive(Debug, Default)]
pub(crate) struct Outliers {
    typical: Cell<Typical>,
    /// Longest time for which nothing is heard of an endpoint that was asked, while it is well.
    silence_max: Cell<Option<Duration>>,
}

/// Requests, and the errors among them.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: f64,
    errors: f64,
}

/// The endpoints of a cluster together.
#[derive(Clone, Copy, Debug, Default)]
struct Typical {
    requests: f64,
    errors: f64,
    /// The middle one of their latencies; none where fewer than two are known.
    latency: Option<Latency>,
}

impl Outcome {
    /// What a status says. 501 and 505 are about the request, not the endpoint.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            502..=504 => Self::Fault,
            501 | 505 => Self::Good,
            500.. => Self::Error,
            _ => Self::Good,
        }
    }
}

impl Outliers {
    /// Looks at an endpoint for which [`Standing::note`] asks for it, and at all of its cluster where that is due.
    pub(crate) fn look<'s>(
        &self,
        of: &Standing,
        seen: Seen,
        all: &(impl Iterator<Item = &'s Standing> + Clone),
        now: Moment,
        random: &Random,
    ) {
        if of.is_out() {
            self.judge_probe(of, seen, now, random);
        } else if seen.outcome != Outcome::Good && is_failing(of, all.clone()) && has_room(all.clone()) {
            of.eject(now, random);
        }
        if of.is_due(now) {
            self.review(all, now, random);
        }
    }

    /// What came of a request that was sent after the time of an ejection was over. Where the others fail too, they are no better.
    fn judge_probe(&self, of: &Standing, seen: Seen, now: Moment, random: &Random) {
        if !of.is_probe(seen.took, now) {
            return;
        }
        let is_slow = seen.is_comparable && self.is_slow(Latency::of_one(seen.took), f64::from(PROBES_GOOD));
        let Typical { requests, errors, .. } = self.typical.get();
        let is_bad = is_slow || (seen.outcome != Outcome::Good && errors <= requests * ALL_FAIL);
        of.note_probe(!is_bad, now, random);
    }

    /// Requests to the other endpoints in the last seconds, and their errors.
    fn of_others(&self, own: Judged) -> (f64, f64) {
        let typical = self.typical.get();
        let requests = (typical.requests - own.requests).max(0.0);
        (requests, (typical.errors - own.errors).clamp(0.0, requests))
    }

    /// Whether a latency, the mean of so many, is far off what is usual.
    fn is_slow(&self, latency: Latency, samples: f64) -> bool {
        let Some(usual) = self.typical.get().latency else { return false };
        let chance = SIGNIFICANT * (usual.variance / samples).sqrt();
        latency.mean - usual.mean > chance.max(SLOW_OCTAVES)
    }

    /// Whether nothing was heard of an endpoint for so long since it was asked that others are asked first. It is asked again each time that
    /// the silence has become eight times as long, once for each request: so a single one that takes long keeps an endpoint from others for
    /// no longer than that.
    #[inline]
    pub(crate) fn is_silent(&self, of: &Standing, now: Moment) -> bool {
        let (unheard, silence) = of.silence(now);
        unheard > 0
            && self.silence_max.get().is_some_and(|max| {
                let octaves = SILENT_OCTAVES * unheard.min(20);
                silence > max && silence.as_nanos() < max.as_nanos() << octaves
            })
    }

    /// Whether nothing was heard of an endpoint for as long though it was asked several times.
    fn is_hanging(&self, of: &Standing, now: Moment) -> bool {
        let (unheard, silence) = of.silence(now);
        unheard >= OUTLIER_SILENT_MIN && self.silence_max.get().is_some_and(|max| silence > max)
    }

    /// Compares the endpoints with each other.
    fn review<'s>(&self, all: &(impl Iterator<Item = &'s Standing> + Clone), now: Moment, random: &Random) {
        let mut windows = SmallVec::<[(&Standing, Option<Window>); 16]>::new();
        windows
            .extend(all.clone().map(|one| (one, one.close_window(now.after(OUTLIER_REVIEW_INTERVAL), now))));
        let taking_part = || all.clone().filter(|one| !one.is_out()).map(Standing::judged);
        let latency = median(taking_part().filter_map(|judged| judged.latency_at(now)));
        let requests = taking_part().map(|judged| judged.requests).sum();
        self.typical.set(Typical {
            requests,
            errors: taking_part().map(|judged| judged.errors).sum(),
            latency,
        });
        let silence_of =
            |usual: Latency| usual.beyond((SILENT_DEVIATIONS * usual.variance.sqrt()).max(SLOW_OCTAVES));
        self.silence_max.set(latency.map(silence_of));
        for (one, window) in windows {
            if one.is_out() {
                continue;
            }
            let is_slow = window.map(|window| self.is_slow(window.latency, window.samples));
            let is_slow = is_slow.or_else(|| self.is_hanging(one, now).then_some(true));
            let is_out_of_line =
                one.note_slow(is_slow) >= OUTLIER_SLOW_REVIEWS || self.has_many_errors(one.judged());
            if is_out_of_line && has_room(all.clone()) {
                one.eject(now, random);
            }
        }
    }

    /// Whether an endpoint has far more errors than the others, be there good answers between them.
    fn has_many_errors(&self, own: Judged) -> bool {
        let (requests, errors) = self.of_others(own);
        if own.requests < OUTLIER_REQUESTS_MIN || requests < OUTLIER_REQUESTS_MIN {
            return false;
        }
        let usual = (errors + 1.0) / (requests + 2.0);
        let share = own.errors / own.requests;
        let chance = SIGNIFICANT * (usual * (1.0 - usual) / own.requests).sqrt();
        share >= ERROR_SHARE_MIN && share >= 2.0 * usual && share - usual > chance
    }
}

/// Whether an endpoint has failed so often in a row that it is neither chance nor everybody's failure.
fn is_failing<'s>(of: &Standing, all: impl Iterator<Item = &'s Standing>) -> bool {
    let (faults, in_row) = of.in_row();
    if in_row < OUTLIER_ERRORS_IN_ROW_MIN {
        return false;
    }
    let (mut present, mut past) = (Counts::default(), Counts::default());
    for other in all.filter(|other| !std::ptr::eq(*other, of) && !other.is_out()) {
        present.add(other.present());
        past.add(other.judged().counts());
    }
    // Where everybody has just begun to fail, what was before hides it.
    let is_telling = present.requests >= f64::from(in_row);
    if is_telling && present.errors > present.requests * ALL_FAIL {
        return false;
    }
    past.add(present);
    let share = if is_telling { past.share().max(present.share()) } else { past.share() };
    let is_alone = faults >= OUTLIER_ERRORS_IN_ROW_MIN && past.errors < 1.0;
    is_alone || f64::from(in_row) * -share.log10() >= ODDS_DIGITS
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
    }

    /// The share of errors to be reckoned with, after so many requests.
    fn share(self) -> f64 {
        (self.errors + 1.0) / (self.requests + 2.0)
    }
}

impl Judged {
    fn counts(&self) -> Counts {
        Counts { requests: self.requests, errors: self.errors }
    }

    /// The latency, where it is not too old.
    fn latency_at(&self, now: Moment) -> Option<Latency> {
        let (latency, at) = self.latency?;
        (now.since(at) <= OUTLIER_AGE_MAX).then_some(latency)
    }
}

/// Whether one more endpoint may be left out: half of them stay.
fn has_room<'s>(all: impl Iterator<Item = &'s Standing>) -> bool {
    let (count, out) = all.fold((0, 0), |(count, out), one| (count + 1, out + usize::from(one.is_out())));
    2 * (out + 1) <= count
}

/// The middle one, and the lower one of two in the middle; none where there is only one.
fn median(latencies: impl Iterator<Item = Latency>) -> Option<Latency> {
    let (mut means, mut variances) = (SmallVec::<[f64; 16]>::new(), SmallVec::<[f64; 16]>::new());
    for latency in latencies {
        means.push(latency.mean);
        variances.push(latency.variance);
    }
    if means.len() < 2 {
        return None;
    }
    let middle = (means.len() - 1) / 2;
    let mean = *means.select_nth_unstable_by(middle, f64::total_cmp).1;
    Some(Latency { mean, variance: *variances.select_nth_unstable_by(middle, f64::total_cmp).1 })
}
