//! Outlier detection: endpoints that fail or are slow compared with the others of their cluster are ejected
//! for a time.
//!
//! Sources: the outlier detection of Envoy (errors in a row, the share of errors compared with the others',
//! an ejection time that grows with each ejection, a bound on the endpoints ejected at once), and of Finagle
//! and linkerd2 (one probe at a time finds out whether an endpoint is healthy again). This differs in two
//! points: errors count only as far as the other endpoints do not have them too, so that a page that fails
//! everywhere, or a database that is down, ejects no endpoint; and latency counts, as a logarithm in octaves,
//! since the usual latency depends on the page.
//!
//! Must not be in here: a clock, the request, and where it goes instead.

mod health;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::time::Duration;

use clock::{Moment, Random};
use smallvec::SmallVec;

use crate::limits::{
    OUTLIER_AGE_MAX, OUTLIER_ERRORS_IN_ROW_MIN, OUTLIER_REQUESTS_MIN, OUTLIER_REVIEW_INTERVAL,
    OUTLIER_SILENT_MIN, OUTLIER_SLOW_REVIEWS, PROBES_GOOD,
};
pub use health::HealthRecord;
use health::{Latency, Reviewed, Window};

/// Octaves above the others' latency from which on an endpoint is slow: four times as long.
const SLOW_OCTAVES: f64 = 2.0;
/// Standard errors above the others' mean from which on a difference is significant. With one endpoint
/// reviewed four times a second, five happen by chance once in weeks.
const SIGNIFICANT: f64 = 5.0;
/// Standard deviations of single latencies above the usual one from which on a silence is not a slow page.
const SILENT_DEVIATIONS: f64 = 3.0;
/// Octaves by which a silence has to grow before one more request is sent.
const SILENT_OCTAVES: u32 = 3;
/// Decimal digits of the odds against errors in a row being chance, for an ejection.
const ODDS_DIGITS: f64 = 9.0;
/// Share of errors below which an endpoint is not ejected, whatever the others' share.
const ERROR_SHARE_MIN: f64 = 0.2;
/// Share of the others' errors above which the cause is taken to be common to all endpoints.
const ALL_FAIL: f64 = 0.5;
/// Factor on the counts of requests and errors from one review to the next: half of them is left after about
/// two seconds.
const FADING: f64 = 0.92;

/// The outcome of a request, as evidence about its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint has answered.
    Good,
    /// It has answered that the request failed, which another endpoint might do too.
    Error,
    /// It could not be reached, broke off, has timed out, or has answered that it is unavailable.
    Fault,
}

/// The observation of a request that has ended, or whose response begins.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// The end of the try.
    pub outcome: Outcome,
    /// Time since it was sent.
    pub took: Duration,
    /// Whether that time is a latency that can be compared with those of other endpoints.
    pub is_comparable: bool,
}

/// The outlier detection of a cluster: the figures that its endpoints are compared with.
#[derive(Debug, Default)]
pub struct Outliers {
    typical: Cell<Typical>,
    /// The longest silence of an endpoint with requests in flight that is not suspicious; none while
    /// latencies are unknown.
    silence_max: Cell<Option<Duration>>,
    /// Endpoints of the cluster that are out of use by their health checks, and not among those that are
    /// reviewed.
    checked_out: Cell<usize>,
}

/// Requests, and the errors among them, over some time.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: f64,
    errors: f64,
}

/// The figures of all endpoints that are not ejected, as of the last review.
#[derive(Clone, Copy, Debug, Default)]
struct Typical {
    requests: f64,
    errors: f64,
    /// The median of their latencies; none where fewer than two are known.
    latency: Option<Latency>,
}

impl Outcome {
    /// The outcome that a status stands for. 501 and 505 are about the request, not the endpoint.
    pub fn of_status(status: u16) -> Self {
        match status {
            502..=504 => Self::Fault,
            501 | 505 => Self::Good,
            500.. => Self::Error,
            _ => Self::Good,
        }
    }
}

impl Outliers {
    /// Evaluates an endpoint after an observation for which [`HealthRecord::note`] has returned true, and
    /// reviews all endpoints of the cluster where a review is due. It may eject endpoints and end ejections.
    pub fn evaluate<'s>(
        &self,
        of: &HealthRecord,
        observed: Observed,
        all: &(impl Iterator<Item = &'s HealthRecord> + Clone),
        now: Moment,
        random: &Random,
    ) {
        if of.is_ejected() {
            self.judge_probe(of, observed, now, random);
        } else if observed.outcome != Outcome::Good
            && is_failing(of, all.clone())
            && self.has_room(all.clone())
        {
            of.eject(now, random);
        }
        if of.is_due(now) {
            self.review(all, now, random);
        }
    }

    /// Judges a request that was sent as a probe, after the time of an ejection. An error is not held against
    /// the endpoint where the others fail too.
    fn judge_probe(&self, of: &HealthRecord, observed: Observed, now: Moment, random: &Random) {
        if !of.is_probe(observed.took, now) {
            return;
        }
        let is_slow =
            observed.is_comparable && self.is_slow(Latency::of_one(observed.took), f64::from(PROBES_GOOD));
        let Typical { requests, errors, .. } = self.typical.get();
        let is_bad = is_slow || (observed.outcome != Outcome::Good && errors <= requests * ALL_FAIL);
        of.note_probe(!is_bad, now, random);
    }

    /// Requests to the other endpoints in the last seconds, and errors among them.
    fn of_others(&self, own: Reviewed) -> (f64, f64) {
        let typical = self.typical.get();
        let requests = (typical.requests - own.requests).max(0.0);
        (requests, (typical.errors - own.errors).clamp(0.0, requests))
    }

    /// Whether a latency, the mean of so many samples, is significantly above the usual one.
    fn is_slow(&self, latency: Latency, samples: f64) -> bool {
        let Some(usual) = self.typical.get().latency else { return false };
        let chance = SIGNIFICANT * (usual.variance / samples).sqrt();
        latency.mean - usual.mean > chance.max(SLOW_OCTAVES)
    }

    /// Whether an endpoint with requests in flight has been silent for so long that new requests go to others
    /// first. It gets another request each time that the silence has become eight times as long for each
    /// request in flight, so that a single slow request keeps it from others for no longer than that.
    #[inline]
    pub fn is_silent(&self, of: &HealthRecord, now: Moment) -> bool {
        let (unanswered, silence) = of.silence(now);
        unanswered > 0
            && self.silence_max.get().is_some_and(|max| {
                let octaves = SILENT_OCTAVES * unanswered.min(20);
                silence > max && silence.as_nanos() < max.as_nanos() << octaves
            })
    }

    /// Whether an endpoint has been silent for as long with several requests in flight.
    fn is_hanging(&self, of: &HealthRecord, now: Moment) -> bool {
        let (unanswered, silence) = of.silence(now);
        unanswered >= OUTLIER_SILENT_MIN && self.silence_max.get().is_some_and(|max| silence > max)
    }

    /// Records how many endpoints of the cluster are out of use by their health checks, beside `all`.
    /// Ejections end where less than half of the endpoints would be left in use.
    pub fn note_checked_out<'s>(
        &self,
        checked_out: usize,
        all: &(impl Iterator<Item = &'s HealthRecord> + Clone),
        now: Moment,
    ) {
        self.checked_out.set(checked_out);
        let (count, mut ejected) = counts(all.clone());
        for one in all.clone().filter(|one| one.is_ejected()) {
            if 2 * (ejected + checked_out) <= count + checked_out {
                break;
            }
            one.readmit(now);
            ejected -= 1;
        }
    }

    /// Whether one more endpoint may be ejected: half of them stay in use at least.
    fn has_room<'s>(&self, all: impl Iterator<Item = &'s HealthRecord>) -> bool {
        let (checked_out, (count, ejected)) = (self.checked_out.get(), counts(all));
        2 * (ejected + 1 + checked_out) <= count + checked_out
    }

    /// Compares the endpoints with each other, and ejects those that are slow or have many errors.
    fn review<'s>(
        &self,
        all: &(impl Iterator<Item = &'s HealthRecord> + Clone),
        now: Moment,
        random: &Random,
    ) {
        let mut windows = SmallVec::<[(&HealthRecord, Option<Window>); 16]>::new();
        windows
            .extend(all.clone().map(|one| (one, one.close_window(now.after(OUTLIER_REVIEW_INTERVAL), now))));
        let taking_part = || all.clone().filter(|one| !one.is_ejected()).map(HealthRecord::reviewed);
        let latency = median(taking_part().filter_map(|reviewed| reviewed.latency_at(now)));
        let requests = taking_part().map(|reviewed| reviewed.requests).sum();
        self.typical.set(Typical {
            requests,
            errors: taking_part().map(|reviewed| reviewed.errors).sum(),
            latency,
        });
        let silence_of =
            |usual: Latency| usual.beyond((SILENT_DEVIATIONS * usual.variance.sqrt()).max(SLOW_OCTAVES));
        self.silence_max.set(latency.map(silence_of));
        for (one, window) in windows {
            if one.is_ejected() {
                continue;
            }
            let is_slow = window.map(|window| self.is_slow(window.latency, window.samples));
            let is_slow = is_slow.or_else(|| self.is_hanging(one, now).then_some(true));
            let is_outlier =
                one.note_slow(is_slow) >= OUTLIER_SLOW_REVIEWS || self.has_many_errors(one.reviewed());
            if is_outlier && self.has_room(all.clone()) {
                one.eject(now, random);
            }
        }
    }

    /// Whether an endpoint's share of errors is significantly above the others', even with good answers in
    /// between.
    fn has_many_errors(&self, own: Reviewed) -> bool {
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

/// Whether an endpoint has failed so often in a row that the cause is neither chance nor common to all
/// endpoints.
fn is_failing<'s>(of: &HealthRecord, all: impl Iterator<Item = &'s HealthRecord>) -> bool {
    let (faults, in_row) = of.in_row();
    if in_row < OUTLIER_ERRORS_IN_ROW_MIN {
        return false;
    }
    let (mut present, mut past) = (Counts::default(), Counts::default());
    for other in all.filter(|other| !std::ptr::eq(*other, of) && !other.is_ejected()) {
        present.add(other.present());
        past.add(other.reviewed().counts());
    }
    // Where all endpoints have just begun to fail, older counts would hide it.
    let is_conclusive = present.requests >= f64::from(in_row);
    if is_conclusive && present.errors > present.requests * ALL_FAIL {
        return false;
    }
    past.add(present);
    let share = if is_conclusive { past.share().max(present.share()) } else { past.share() };
    let is_alone = faults >= OUTLIER_ERRORS_IN_ROW_MIN && past.errors < 1.0;
    is_alone || f64::from(in_row) * -share.log10() >= ODDS_DIGITS
}

/// The number of endpoints, and of the ejected ones among them.
fn counts<'s>(all: impl Iterator<Item = &'s HealthRecord>) -> (usize, usize) {
    all.fold((0, 0), |(count, ejected), one| (count + 1, ejected + usize::from(one.is_ejected())))
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
    }

    /// The expected share of errors after so many requests (Laplace's rule of succession).
    fn share(self) -> f64 {
        (self.errors + 1.0) / (self.requests + 2.0)
    }
}

impl Reviewed {
    fn counts(&self) -> Counts {
        Counts { requests: self.requests, errors: self.errors }
    }

    /// The last known latency, if it is recent.
    fn latency_at(&self, now: Moment) -> Option<Latency> {
        let (latency, at) = self.latency?;
        (now.since(at) <= OUTLIER_AGE_MAX).then_some(latency)
    }
}

/// The median, of an even number the lower of the two in the middle; none where there is only one.
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
