//! The health record of one endpoint: outcomes of its requests since the last review, and its ejection.
//!
//! To record a good request costs some additions; everything else is rare.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use clock::{Moment, Random};
use observe::EndpointCells;

use super::{Counts, FADING, Observed, Outcome};
use crate::limits::{
    EJECTION_FIRST, EJECTION_FORGOTTEN_AFTER, EJECTION_MAX, OUTLIER_AGE_MAX, OUTLIER_LATENCY_MIN,
    OUTLIER_SAMPLES_MIN, PROBE_TIME_MAX, PROBES_GOOD,
};

/// Steps of an octave, the unit in which logarithms of latencies are added up.
const STEPS: f64 = 256.0;
/// Bits of a floating-point number below these steps: its upper bits grow with its logarithm.
const BITS_BELOW: u32 = 15;

/// The health of an endpoint, as one worker observes it.
#[derive(Debug)]
pub struct HealthRecord {
    // Since the last review.
    requests: Cell<u32>,
    errors: Cell<u32>,
    samples: Cell<u32>,
    /// The sum of the latencies' logarithms, in steps.
    steps: Cell<u64>,
    /// The sum of their squares.
    squares: Cell<u64>,
    /// When the next review is due.
    due: Cell<Option<Moment>>,
    /// Errors and faults in a row.
    in_row: Cell<u32>,
    faults_in_row: Cell<u32>,
    /// Requests with a comparable latency that were sent since the endpoint's last response.
    unanswered: Cell<u32>,
    /// When the first of them was sent.
    unanswered_since: Cell<Option<Moment>>,
    is_ejected: Cell<bool>,
    reviewed: Cell<Reviewed>,
    cells: Arc<EndpointCells>,
}

/// The state that reviews and ejections keep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reviewed {
    /// Requests of the last seconds.
    pub(super) requests: f64,
    /// Errors among them.
    pub(super) errors: f64,
    /// The last known latency, and when it was found.
    pub(super) latency: Option<(Latency, Moment)>,
    /// Begin of the window of latencies.
    window_begin: Option<Moment>,
    /// Reviews in a row that found the endpoint slow.
    slow_reviews: u32,
    /// Begin of the ejection.
    began: Option<Moment>,
    /// End of the ejection, after which probes are sent.
    until: Option<Moment>,
    /// When the probe in flight was sent.
    probe: Option<Moment>,
    good_probes: u32,
    /// Recent ejections, by which the next one becomes longer.
    level: u32,
    /// End of the last ejection and its probes.
    returned: Option<Moment>,
}

/// The mean and the variance of latencies' logarithms, in octaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// The latencies of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) latency: Latency,
    pub(super) samples: f64,
}

impl Latency {
    pub(super) fn of_one(latency: Duration) -> Self {
        Self { mean: steps(latency) as f64 / STEPS, variance: 0.0 }
    }

    /// The time that is so many octaves above the mean.
    #[expect(clippy::cast_sign_loss, reason = "a time of a millisecond or more has bits far above zero")]
    pub(super) fn beyond(self, octaves: f64) -> Duration {
        let bits = ((self.mean + octaves) * STEPS * f64::from(1_u32 << BITS_BELOW)) as u32;
        Duration::try_from_secs_f32(f32::from_bits(bits)).unwrap_or(Duration::MAX)
    }
}

/// The logarithm of a latency, in steps from an arbitrary zero.
#[inline]
fn steps(latency: Duration) -> u64 {
    u64::from(latency.max(OUTLIER_LATENCY_MIN).as_secs_f32().to_bits() >> BITS_BELOW)
}

impl HealthRecord {
    /// A record without observations; `cells` are the endpoint's metrics.
    pub fn new(cells: Arc<EndpointCells>) -> Self {
        Self {
            requests: Cell::new(0),
            errors: Cell::new(0),
            samples: Cell::new(0),
            steps: Cell::new(0),
            squares: Cell::new(0),
            due: Cell::new(None),
            in_row: Cell::new(0),
            faults_in_row: Cell::new(0),
            unanswered: Cell::new(0),
            unanswered_since: Cell::new(None),
            is_ejected: Cell::new(false),
            reviewed: Cell::default(),
            cells,
        }
    }

    /// The endpoint's metrics.
    pub fn cells(&self) -> &EndpointCells {
        &self.cells
    }

    /// Records the outcome of a request. Returns whether the endpoint has to be evaluated
    /// ([`Outliers::evaluate`](super::Outliers::evaluate)).
    #[inline]
    pub fn note(&self, observed: Observed, now: Moment) -> bool {
        self.requests.set(self.requests.get() + 1);
        if observed.is_comparable {
            self.sample(observed.took);
        }
        if observed.outcome != Outcome::Good {
            self.note_error(observed.outcome);
            return true;
        }
        self.in_row.set(0);
        self.faults_in_row.set(0);
        self.is_ejected.get() || self.is_due(now)
    }

    /// Records that a request with a comparable latency is sent.
    #[inline]
    pub fn note_sent(&self, now: Moment) {
        if self.unanswered.replace(self.unanswered.get() + 1) == 0 {
            self.unanswered_since.set(Some(now));
        }
    }

    /// Records a sign of life: the endpoint has begun a response.
    #[inline]
    pub fn note_heard(&self) {
        self.unanswered.set(0);
    }

    /// Records that a request in flight was abandoned.
    pub fn note_left(&self) {
        self.unanswered.set(self.unanswered.get().saturating_sub(1));
    }

    /// The number of requests sent since the endpoint's last response, and the time since the first of them.
    #[inline]
    pub(super) fn silence(&self, now: Moment) -> (u32, Duration) {
        let unanswered = self.unanswered.get();
        let since = self.unanswered_since.get().filter(|_| unanswered > 0);
        (unanswered, since.map(|since| now.since(since)).unwrap_or_default())
    }

    /// Records the latency of an abandoned request, which is longer than `took`. Returns whether the endpoint
    /// has to be evaluated.
    pub fn note_given_up(&self, took: Duration, now: Moment) -> bool {
        self.sample(took);
        self.is_ejected.get() || self.is_due(now)
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

    /// Faults in a row, and faults or errors in a row.
    pub(super) fn in_row(&self) -> (u32, u32) {
        (self.faults_in_row.get(), self.in_row.get())
    }

    /// Requests and errors since the last review.
    pub(super) fn present(&self) -> Counts {
        Counts { requests: f64::from(self.requests.get()), errors: f64::from(self.errors.get()) }
    }

    pub(super) fn reviewed(&self) -> Reviewed {
        self.reviewed.get()
    }

    #[inline]
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.due.get().is_none_or(|due| now >= due)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Reviewed) -> T) -> T {
        let mut reviewed = self.reviewed.get();
        let changed = change(&mut reviewed);
        self.reviewed.set(reviewed);
        changed
    }

    /// Ends the counts since the last review; `due` is the time of the next one. Latencies are added up over
    /// several reviews until there are enough of them, and returned then; they are dropped where that takes
    /// too long.
    pub(super) fn close_window(&self, due: Moment, now: Moment) -> Option<Window> {
        self.due.set(Some(due));
        let samples = self.samples.get();
        let is_enough = samples >= OUTLIER_SAMPLES_MIN;
        self.change(|reviewed| {
            reviewed.requests = reviewed.requests * FADING + f64::from(self.requests.take());
            reviewed.errors = reviewed.errors * FADING + f64::from(self.errors.take());
            let begin = *reviewed.window_begin.get_or_insert(now);
            if !is_enough && now.since(begin) < OUTLIER_AGE_MAX {
                return None;
            }
            reviewed.window_begin = Some(now);
            self.samples.set(0);
            let (steps, squares) = (self.steps.take() as f64, self.squares.take() as f64);
            if !is_enough {
                return None;
            }
            let count = f64::from(samples);
            let mean = steps / count / STEPS;
            let variance = (squares / count / (STEPS * STEPS) - mean * mean).max(0.0);
            let latency = Latency { mean, variance };
            reviewed.latency = Some((latency, now));
            Some(Window { latency, samples: count })
        })
    }

    /// Records whether a review found the endpoint slow; none where that is unknown. Returns the number of
    /// reviews in a row that have.
    pub(super) fn note_slow(&self, is_slow: Option<bool>) -> u32 {
        self.change(|reviewed| {
            match is_slow {
                Some(true) => reviewed.slow_reviews += 1,
                Some(false) => reviewed.slow_reviews = 0,
                None => {}
            }
            reviewed.slow_reviews
        })
    }

    /// Whether the endpoint is ejected.
    #[inline]
    pub fn is_ejected(&self) -> bool {
        self.is_ejected.get()
    }

    /// Ejects the endpoint, for longer than the last time unless that is long ago.
    pub(super) fn eject(&self, now: Moment, random: &Random) {
        self.is_ejected.set(true);
        self.cells.ejected.inc();
        self.cells.ejections.inc();
        self.change(|reviewed| {
            let good = reviewed.returned.map_or(Duration::ZERO, |returned| now.since(returned));
            let forgotten = good.as_secs() / EJECTION_FORGOTTEN_AFTER.as_secs();
            reviewed.level = reviewed.level.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
            reviewed.begin_ejection(now, random);
        });
    }

    /// Time after which requests will have waited for a response for so long, without any sign of life; none
    /// where no request waits.
    pub fn is_silent_in(&self, time: Duration, now: Moment) -> Option<Duration> {
        let (unanswered, silence) = self.silence(now);
        (unanswered > 0).then(|| time.saturating_sub(silence))
    }

    /// Ends the time of an ejection that began before `since`: health checks have passed since then, so that
    /// probes begin at once.
    pub fn note_checks_passed(&self, since: Moment, now: Moment) {
        self.change(|reviewed| {
            if reviewed.began.is_some_and(|began| began < since)
                && reviewed.until.is_some_and(|end| end > now)
            {
                reviewed.until = Some(now);
            }
        });
    }

    /// Whether a probe is due: a request that finds out whether the endpoint is healthy again. One is in
    /// flight at a time, once the time of the ejection is over.
    pub fn is_probe_due(&self, now: Moment) -> bool {
        let Reviewed { until, probe, .. } = self.reviewed.get();
        let is_over = until.is_some_and(|until| now >= until);
        is_over && probe.is_none_or(|sent| now.since(sent) >= PROBE_TIME_MAX)
    }

    /// Records that a probe is sent.
    pub fn begin_probe(&self, now: Moment) {
        self.change(|reviewed| reviewed.probe = Some(now));
    }

    /// Whether a request that took so long was sent after the time of the ejection.
    pub(super) fn is_probe(&self, took: Duration, now: Moment) -> bool {
        self.reviewed.get().until.is_some_and(|until| now >= until && now.since(until) >= took)
    }

    /// Records the outcome of a probe. Several good ones end the ejection, a bad one makes it longer.
    pub(super) fn note_probe(&self, is_good: bool, now: Moment, random: &Random) {
        let is_healthy = self.change(|reviewed| {
            reviewed.probe = None;
            if !is_good {
                reviewed.begin_ejection(now, random);
                return false;
            }
            reviewed.good_probes += 1;
            reviewed.good_probes >= PROBES_GOOD
        });
        if is_healthy {
            self.readmit(now);
        }
    }

    pub(super) fn readmit(&self, now: Moment) {
        self.is_ejected.set(false);
        self.cells.ejected.dec();
        for cell in [&self.requests, &self.errors, &self.samples, &self.in_row, &self.faults_in_row] {
            cell.set(0);
        }
        self.steps.set(0);
        self.squares.set(0);
        // Observations from before the ejection say nothing about the endpoint now.
        self.change(|reviewed| {
            *reviewed = Reviewed { level: reviewed.level, returned: Some(now), ..Reviewed::default() }
        });
    }
}

impl Reviewed {
    fn begin_ejection(&mut self, now: Moment, random: &Random) {
        let time = (EJECTION_FIRST * (1 << self.level.min(16))).min(EJECTION_MAX);
        self.began = Some(now);
        // Jitter: workers that ejected the endpoint together do not probe it together.
        self.until = Some(now.after(time.mul_f64(0.9 + 0.2 * random.chance())));
        self.level = (self.level + 1).min(EJECTION_LEVELS);
        self.probe = None;
        self.good_probes = 0;
        self.slow_reviews = 0;
    }
}

/// Recent ejections from which on the time of an ejection does not grow any more.
const EJECTION_LEVELS: u32 = 3;

impl Drop for HealthRecord {
    /// An endpoint that is removed does not count as ejected.
    fn drop(&mut self) {
        if self.is_ejected.get() {
            self.cells.ejected.dec();
        }
    }
}
