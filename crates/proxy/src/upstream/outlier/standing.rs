//! What is known of one endpoint: counts of what became of its requests since the last review, and whether it is left out.
//!
//! To note a request that went well costs some additions; everything else is done seldom.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use observe::EndpointCells;

use super::{Counts, FADING, Outcome, Seen};
use crate::clock::Moment;
use crate::limits::{
    EJECTION_FIRST, EJECTION_FORGOTTEN_AFTER, EJECTION_MAX, OUTLIER_AGE_MAX, OUTLIER_LATENCY_MIN,
    OUTLIER_SAMPLES_MIN, PROBE_TIME_MAX, PROBES_GOOD,
};
use crate::random::Random;

/// Steps of an octave in which latencies are added up.
const STEPS: f64 = 256.0;
/// Bits of a floating-point number below these steps: its upper bits grow with its logarithm.
const BITS_BELOW: u32 = 15;

/// How an endpoint stands beside the others, as one worker sees it.
#[derive(Debug)]
pub(crate) struct Standing {
    // Since the last review.
    requests: Cell<u32>,
    errors: Cell<u32>,
    samples: Cell<u32>,
    /// The sums of the latencies' logarithms and of their squares, in steps.
    steps: Cell<u64>,
    squares: Cell<u64>,
    /// When the next review is due.
    due: Cell<Option<Moment>>,
    /// Errors and faults in a row, and faults.
    in_row: Cell<u32>,
    faults_in_row: Cell<u32>,
    /// Requests that were sent since something was last heard of it, as far as their latency can be compared.
    unheard: Cell<u32>,
    /// When the first of them was.
    unheard_since: Cell<Option<Moment>>,
    is_out: Cell<bool>,
    judged: Cell<Judged>,
    cells: Arc<EndpointCells>,
}

/// What reviews and ejections have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judged {
    /// Requests of the last seconds, and errors among them.
    pub(super) requests: f64,
    pub(super) errors: f64,
    /// The last latency that was known, and when that was.
    pub(super) latency: Option<(Latency, Moment)>,
    /// When the window of latencies was begun.
    window_begin: Option<Moment>,
    /// Reviews in a row that found it slow.
    slow_reviews: u32,
    /// When the ejection is over.
    until: Option<Moment>,
    /// When the request was sent that finds out whether the endpoint is well, while it is on its way.
    probe: Option<Moment>,
    good_probes: u32,
    /// Ejections that are not forgotten yet.
    level: u32,
    returned: Option<Moment>,
}

/// A latency as a logarithm, in octaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// Latencies that were seen together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) latency: Latency,
    pub(super) samples: f64,
}

impl Latency {
    pub(super) fn of_one(latency: Duration) -> Self {
        Self { mean: steps(latency) as f64 / STEPS, variance: 0.0 }
    }

    /// The time that is so many octaves longer than the mean.
    #[expect(clippy::cast_sign_loss, reason = "a time of a millisecond or more has bits far above zero")]
    pub(super) fn beyond(self, octaves: f64) -> Duration {
        let bits = ((self.mean + octaves) * STEPS * f64::from(1_u32 << BITS_BELOW)) as u32;
        Duration::try_from_secs_f32(f32::from_bits(bits)).unwrap_or(Duration::MAX)
    }
}

/// The logarithm of a latency, in steps from an arbitrary zero on.
#[inline]
fn steps(latency: Duration) -> u64 {
    u64::from(latency.max(OUTLIER_LATENCY_MIN).as_secs_f32().to_bits() >> BITS_BELOW)
}

impl Standing {
    pub(crate) fn new(cells: Arc<EndpointCells>) -> Self {
        Self {
            requests: Cell::new(0),
            errors: Cell::new(0),
            samples: Cell::new(0),
            steps: Cell::new(0),
            squares: Cell::new(0),
            due: Cell::new(None),
            in_row: Cell::new(0),
            faults_in_row: Cell::new(0),
            unheard: Cell::new(0),
            unheard_since: Cell::new(None),
            is_out: Cell::new(false),
            judged: Cell::default(),
            cells,
        }
    }

    /// The counters of the endpoint.
    pub(crate) fn cells(&self) -> &EndpointCells {
        &self.cells
    }

    /// Notes what became of a request. Returns whether it has to be looked at ([`Outliers::look`](super::Outliers::look)).
    #[inline]
    pub(crate) fn note(&self, seen: Seen, now: Moment) -> bool {
        self.requests.set(self.requests.get() + 1);
        if seen.is_comparable {
            self.sample(seen.took);
        }
        if seen.outcome != Outcome::Good {
            self.note_error(seen.outcome);
            return true;
        }
        self.in_row.set(0);
        self.faults_in_row.set(0);
        self.is_out.get() || self.is_due(now)
    }

    /// Notes that a request is sent whose latency can be compared.
    #[inline]
    pub(crate) fn note_sent(&self, now: Moment) {
        if self.unheard.replace(self.unheard.get() + 1) == 0 {
            self.unheard_since.set(Some(now));
        }
    }

    /// Notes that something was heard of the endpoint.
    #[inline]
    pub(crate) fn note_heard(&self) {
        self.unheard.set(0);
    }

    /// Notes that nobody waits any more for the response to a request.
    pub(crate) fn note_left(&self) {
        self.unheard.set(self.unheard.get().saturating_sub(1));
    }

    /// How many requests were sent since something was last heard of the endpoint, and how long the first of them waits.
    pub(super) fn silence(&self, now: Moment) -> (u32, Duration) {
        let unheard = self.unheard.get();
        let since = self.unheard_since.get().filter(|_| unheard > 0);
        (unheard, since.map(|since| now.since(since)).unwrap_or_default())
    }

    /// Notes that a response took at least this long: nobody waits for it any more. Returns whether that has to be looked at.
    pub(crate) fn note_given_up(&self, took: Duration, now: Moment) -> bool {
        self.sample(took);
        self.is_out.get() || self.is_due(now)
    }

    #[inline]
    fn sample(&self, latency: Duration) {
        let steps = steps(latency);
        self.samples.set(self.samples.get() + 1);
        self.steps.set(self.steps.get() + steps);
        self.squares.set(self.squares.get() + steps * steps);
    }

    #[cold]
    fn note_error(&self, outcome: Outcome) {
        self.errors.set(self.errors.get() + 1);
        self.in_row.set(self.in_row.get().saturating_add(1));
        let faults = if outcome == Outcome::Fault { self.faults_in_row.get().saturating_add(1) } else { 0 };
        self.faults_in_row.set(faults);
    }

    /// Faults in a row, and faults and errors.
    pub(super) fn in_row(&self) -> (u32, u32) {
        (self.faults_in_row.get(), self.in_row.get())
    }

    /// What was seen since the last review.
    pub(super) fn present(&self) -> Counts {
        Counts { requests: f64::from(self.requests.get()), errors: f64::from(self.errors.get()) }
    }

    pub(super) fn judged(&self) -> Judged {
        self.judged.get()
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.due.get().is_none_or(|due| now >= due)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Judged) -> T) -> T {
        let mut judged = self.judged.get();
        let changed = change(&mut judged);
        self.judged.set(judged);
        changed
    }

    // Reviews.

    /// Ends what was seen since the last review. Latencies are added up further until there are enough of them, unless that takes too long;
    /// returns them once they are. `due` is when the next review is.
    pub(super) fn close_window(&self, due: Moment, now: Moment) -> Option<Window> {
        self.due.set(Some(due));
        let samples = self.samples.get();
        let is_enough = samples >= OUTLIER_SAMPLES_MIN;
        self.change(|judged| {
            judged.requests = judged.requests * FADING + f64::from(self.requests.take());
            judged.errors = judged.errors * FADING + f64::from(self.errors.take());
            let begin = *judged.window_begin.get_or_insert(now);
            if !is_enough && now.since(begin) < OUTLIER_AGE_MAX {
                return None;
            }
            judged.window_begin = Some(now);
            self.samples.set(0);
            let (steps, squares) = (self.steps.take() as f64, self.squares.take() as f64);
            if !is_enough {
                return None;
            }
            let count = f64::from(samples);
            let mean = steps / count / STEPS;
            let variance = (squares / count / (STEPS * STEPS) - mean * mean).max(0.0);
            let latency = Latency { mean, variance };
            judged.latency = Some((latency, now));
            Some(Window { latency, samples: count })
        })
    }

    /// Notes whether a review found it slow; none where that is not known. Returns how many have in a row.
    pub(super) fn note_slow(&self, is_slow: Option<bool>) -> u32 {
        self.change(|judged| {
            match is_slow {
                Some(true) => judged.slow_reviews += 1,
                Some(false) => judged.slow_reviews = 0,
                None => {}
            }
            judged.slow_reviews
        })
    }

    // Ejections.

    /// Whether it is left out.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.get()
    }

    /// Leaves it out, for longer than the last time unless that is long past.
    pub(super) fn eject(&self, now: Moment, random: &Random) {
        self.is_out.set(true);
        self.cells.ejected.inc();
        self.cells.ejections.inc();
        self.change(|judged| {
            let good = judged.returned.map_or(Duration::ZERO, |returned| now.since(returned));
            let forgotten = good.as_secs() / EJECTION_FORGOTTEN_AFTER.as_secs();
            judged.level = judged.level.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
            judged.begin_ejection(now, random);
        });
    }

    /// Whether a request may be sent that finds out whether the endpoint is well: one at a time, once the ejection is over.
    pub(crate) fn is_probe_due(&self, now: Moment) -> bool {
        let Judged { until, probe, .. } = self.judged.get();
        let is_over = until.is_some_and(|until| now >= until);
        is_over && probe.is_none_or(|sent| now.since(sent) >= PROBE_TIME_MAX)
    }

    /// Such a request is sent.
    pub(crate) fn begin_probe(&self, now: Moment) {
        self.change(|judged| judged.probe = Some(now));
    }

    /// Whether a request that took so long was sent after the ejection was over.
    pub(super) fn is_probe(&self, took: Duration, now: Moment) -> bool {
        self.judged.get().until.is_some_and(|until| now >= until && now.since(until) >= took)
    }

    /// Notes what came of such a request. Some good ones return the endpoint, a bad one leaves it out for longer.
    pub(super) fn note_probe(&self, is_good: bool, now: Moment, random: &Random) {
        let is_well = self.change(|judged| {
            judged.probe = None;
            if !is_good {
                judged.begin_ejection(now, random);
                return false;
            }
            judged.good_probes += 1;
            judged.good_probes >= PROBES_GOOD
        });
        if is_well {
            self.take_back(now);
        }
    }

    fn take_back(&self, now: Moment) {
        self.is_out.set(false);
        self.cells.ejected.dec();
        for cell in [&self.requests, &self.errors, &self.samples, &self.in_row, &self.faults_in_row] {
            cell.set(0);
        }
        self.steps.set(0);
        self.squares.set(0);
        // What it was before it was well says nothing.
        self.change(|judged| {
            *judged = Judged { level: judged.level, returned: Some(now), ..Judged::default() }
        });
    }
}

impl Judged {
    fn begin_ejection(&mut self, now: Moment, random: &Random) {
        let time = (EJECTION_FIRST * (1 << self.level.min(16))).min(EJECTION_MAX);
        // Workers that left it out together do not try it again together.
        self.until = Some(now.after(time.mul_f64(0.9 + 0.2 * random.chance())));
        self.level = (self.level + 1).min(EJECTION_LEVELS);
        self.probe = None;
        self.good_probes = 0;
        self.slow_reviews = 0;
    }
}

/// Ejections after which the time does not grow any more.
const EJECTION_LEVELS: u32 = 3;

impl Drop for Standing {
    /// An endpoint that goes is no longer left out.
    fn drop(&mut self) {
        if self.is_out.get() {
            self.cells.ejected.dec();
        }
    }
}
