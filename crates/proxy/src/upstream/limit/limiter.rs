//! How many requests an endpoint has at a time, found from how long its responses take.
//!
//! What it follows: the gradient of Netflix' concurrency-limits (`Gradient2Limit`) and of Envoy's adaptive concurrency filter, which lower
//! a limit by the ratio of the latency without load to the present one; additive growth and slow start, as TCP has them (RFC 5681); the
//! estimate of TCP Vegas and of Little's law, that what is in flight times the ratio of these latencies is what is being worked at; and
//! BBR's way to measure the latency without load (draft-cardwell-iccrg-bbr-congestion-control, `ProbeRTT`): there is less in flight for a
//! moment. What differs is said beside it.
//!
//! Never in here: a clock, cells, and what is done at a limit.

use std::time::Duration;

use crate::clock::Moment;
use crate::limits::{
    LIMIT_BASE_AGE_MAX, LIMIT_DOUBT_TIME, LIMIT_FIRST, LIMIT_LATENCY_MIN, LIMIT_MAX, LIMIT_MIN,
    LIMIT_PROBE_SAMPLES, LIMIT_PROBE_TIME_MAX, LIMIT_SAMPLES_MIN, LIMIT_WINDOW_TIME_MAX,
};

/// Latency, as a multiple of that without load, up to which an endpoint is not asked for too much. At the limit an endpoint has half as
/// many requests again as it works at: it never runs dry, and none waits for longer than half of what it takes.
const TOLERANCE: f64 = 1.5;
/// Latency without load, as a multiple of the other endpoints', beyond which an endpoint is slow, rather than the cluster.
const SLOWNESS: f64 = 3.0;
/// Part of the limit that has to be in use for it to grow.
const NEAR: f64 = 0.75;
/// Part of the limit up to which an endpoint is as good as idle.
const LIGHT: f64 = 0.25;
/// Part of a difference by which the latency without load follows what is seen.
const FOLLOWING: f64 = 0.125;
/// Part of its height that is left of a limit at least, at a time and before it is looked whether that helps.
const FALL_MAX: f64 = 0.5;
/// Part of the latency that is left at most after such a fall, if it is what is in flight that makes the endpoint slow.
const RELIEF: f64 = 0.8;
/// Part of what an endpoint works at that it has in flight while that latency is measured: few enough that none of them waits.
const PROBE: f64 = 0.75;
/// What is left of a limit each time that an endpoint is as good as idle.
const IDLE: f64 = 0.9;
/// Growth at a time until the endpoint has been asked for too much, since it was last idle.
const SLOW_START: f64 = 1.5;
/// Part of what was in flight that stays where requests have timed out.
const AFTER_TIMEOUTS: f64 = 0.7;

/// What was seen of an endpoint since it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Responses whose latency was noted.
    samples: u32,
    /// The sum of the latencies' logarithms: the bits of a floating-point number grow with its logarithm. The mean of them is
    /// hardly moved by the few requests that take very long, and costs an addition.
    log_latency: u64,
    /// The sum of what was in flight when these responses came.
    in_flight: u64,
    /// Most that was in flight.
    peak: u32,
    /// Requests that the endpoint has not answered in time.
    timeouts: u32,
}

/// What is known of a cluster's other endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peers {
    /// Their latency without load, in seconds.
    pub(crate) base: Option<f64>,
    /// Their limit.
    pub(crate) limit: Option<f64>,
}

/// The limit of one endpoint.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// None as long as nothing is known of the endpoint.
    known: Option<Known>,
    /// What was seen since the last decision.
    window: Window,
    window_begin: Option<Moment>,
    /// When the latency without load was last measured.
    measured: Moment,
    /// It is not trusted: it was measured under load, or what it leads to is in vain.
    is_doubted: bool,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    limit: f64,
    /// Latency without load, in seconds.
    base: f64,
    /// The limit before it began to fall, and the latency at that time.
    fell_from: Option<(f64, f64)>,
    /// It has not yet been asked for too much.
    is_starting: bool,
}

/// A measurement of the latency without load, while little is in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    limit: f64,
    begin: Moment,
    /// What was in flight before it has been answered.
    is_drained: bool,
}

// === impl Window ===

impl Window {
    /// Notes a response, and how many requests were in flight, this one included.
    pub(crate) fn note_response(&mut self, latency: Duration, in_flight: u32) {
        self.samples += 1;
        let latency = latency.max(LIMIT_LATENCY_MIN);
        self.log_latency += u64::from(latency.as_secs_f32().to_bits());
        self.in_flight += u64::from(in_flight);
    }

    /// Notes how many requests are in flight.
    pub(crate) fn note_in_flight(&mut self, in_flight: u32) {
        self.peak = self.peak.max(in_flight);
    }

    /// Notes that the endpoint has not answered in time.
    pub(crate) fn note_timeout(&mut self) {
        self.timeouts += 1;
    }

    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.log_latency += other.log_latency;
        self.in_flight += other.in_flight;
        self.peak = self.peak.max(other.peak);
        self.timeouts += other.timeouts;
    }

    /// About the geometric mean, in seconds.
    fn latency(&self) -> f64 {
        f64::from(f32::from_bits((self.log_latency / u64::from(self.samples.max(1))) as u32))
    }

    fn is_timing_out(&self) -> bool {
        self.timeouts > self.samples / 8
    }

    fn mean_in_flight(&self) -> f64 {
        self.in_flight as f64 / f64::from(self.samples.max(1))
    }
}

// === impl Limiter ===

impl Limiter {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            known: None,
            window: Window::default(),
            window_begin: None,
            measured: now,
            is_doubted: true,
            probe: None,
        }
    }

    /// Most requests at a time; none while nothing is known of the endpoint, which has no limit then.
    #[expect(clippy::cast_sign_loss, reason = "a limit is at least 1")]
    pub(crate) fn limit(&self) -> Option<u32> {
        let Known { limit, .. } = self.known?;
        Some(self.probe.map_or(limit, |probe| probe.limit.min(limit)) as u32)
    }

    /// The limit and the latency without load, for the comparison with others.
    pub(crate) fn known(&self) -> Option<(f64, f64)> {
        self.known.map(|known| (known.limit, known.base))
    }

    /// Looks at what was seen since the last time, and decides once it is enough. Called about once a tick; `is_enforced` says whether
    /// the limit is kept, without which nothing can be measured by it.
    pub(crate) fn look(&mut self, seen: Window, peers: Peers, is_enforced: bool, now: Moment) {
        let begin = *self.window_begin.get_or_insert(now);
        self.window.add(seen);
        if self.known.is_none()
            && let Peers { base: Some(base), limit: Some(limit) } = peers
        {
            self.known = Some(Known { limit, base, fell_from: None, is_starting: true });
        }
        if let Some(probe) = &mut self.probe {
            if now.since(probe.begin) >= LIMIT_PROBE_TIME_MAX {
                self.end_probe(now);
            } else if !probe.is_drained {
                // What is answered at first was in flight before there was less.
                probe.is_drained = f64::from(seen.peak) <= probe.limit;
                return self.forget_window(now);
            }
        }
        let samples_min = if self.probe.is_some() { LIMIT_PROBE_SAMPLES } else { LIMIT_SAMPLES_MIN };
        if self.window.samples + self.window.timeouts < samples_min {
            // So few responses say nothing, neither now nor together with later ones.
            if now.since(begin) >= LIMIT_WINDOW_TIME_MAX {
                self.forget_window(now);
            }
            return;
        }
        let window = self.window;
        self.forget_window(now);
        match (self.known, self.probe) {
            (None, _) => self.begin(&window),
            (Some(known), Some(_)) => self.measure(known, &window, now),
            (Some(known), None) => self.decide(known, &window, peers, is_enforced, now),
        }
    }

    fn forget_window(&mut self, now: Moment) {
        self.window = Window::default();
        self.window_begin = Some(now);
    }

    /// The first that is known of an endpoint. Envoy and Netflix begin with a fixed limit; here nobody waits before there is a reason.
    fn begin(&mut self, window: &Window) {
        if window.samples > 0 {
            let limit = f64::from(window.peak).max(LIMIT_FIRST);
            let base = window.latency();
            self.known = Some(Known { limit, base, fell_from: None, is_starting: true });
        }
    }

    fn decide(&mut self, mut known: Known, window: &Window, peers: Peers, is_enforced: bool, now: Moment) {
        // An endpoint that is slow beside the others is held to their latency; where all are slow, their latency says so.
        let allowed = peers.base.map_or(known.base, |of_peers| known.base.min(of_peers * SLOWNESS));
        let is_slow = allowed < known.base;
        let (peak, latency) = (f64::from(window.peak), window.latency());
        let is_light = peak <= (known.limit * LIGHT).max(LIMIT_MIN);
        let is_near = peak >= known.limit * NEAR;
        let is_late = latency > TOLERANCE * allowed || window.is_timing_out();
        if window.samples > 0 && (is_light || latency < known.base || !is_near && !is_late) {
            known.base += (latency - known.base) * FOLLOWING;
        }
        if is_light {
            (self.measured, self.is_doubted) = (now, false);
            (known.fell_from, known.is_starting) = (None, true);
            known.limit = (known.limit * IDLE).max(LIMIT_FIRST).min(known.limit);
        } else if is_late {
            let (from, before) = *known.fell_from.get_or_insert((known.limit, latency));
            known.is_starting = false;
            if known.limit <= (from * FALL_MAX).max(LIMIT_MIN) {
                // Where less in flight makes nothing quicker, it is not the number of requests that makes them slow.
                self.is_doubted |= latency > before * RELIEF && !is_slow;
                known.fell_from = Some((known.limit, latency));
            }
            if !self.is_doubted {
                known.limit = target(&known, window, allowed).max(known.limit * FALL_MAX).max(LIMIT_MIN);
            }
        } else {
            known.fell_from = None;
            if is_near {
                known.limit = known.grown();
            }
        }
        self.known = Some(known);
        if is_enforced && (is_near || is_late) && self.is_probe_due(now) {
            self.begin_probe(&known, window, now);
        }
    }

    /// Whether the latency without load has to be measured anew. Workers do so at the same time, as far as they can without a word to each
    /// other: less in flight from one of them alone would leave the endpoint as busy as before.
    fn is_probe_due(&self, now: Moment) -> bool {
        let interval = if self.is_doubted { LIMIT_DOUBT_TIME } else { LIMIT_BASE_AGE_MAX };
        let turn = |at: Moment| at.since_begin().as_nanos() / interval.as_nanos();
        turn(now) != turn(self.measured)
    }

    fn begin_probe(&mut self, known: &Known, window: &Window, now: Moment) {
        let at_work = window.mean_in_flight() * (known.base / window.latency()).min(1.0);
        let limit = (at_work * PROBE).clamp(LIMIT_MIN, known.limit.max(LIMIT_MIN));
        self.probe = Some(Probe { limit, begin: now, is_drained: false });
    }

    fn measure(&mut self, mut known: Known, window: &Window, now: Moment) {
        if window.samples > 0 {
            known.base = window.latency();
            known.fell_from = None;
            self.known = Some(known);
        }
        self.end_probe(now);
    }

    fn end_probe(&mut self, now: Moment) {
        self.probe = None;
        (self.measured, self.is_doubted) = (now, false);
    }
}

impl Known {
    fn grown(&self) -> f64 {
        let grown =
            if self.is_starting { self.limit * SLOW_START } else { self.limit + self.limit.sqrt() / 2.0 };
        grown.min(LIMIT_MAX)
    }
}

/// What may be in flight for the latency to be tolerated, by Little's law.
///
/// It is made of what was in flight, not of the limit: so it is right as well where the limit is only watched, and exceeded.
fn target(known: &Known, window: &Window, allowed: f64) -> f64 {
    let in_flight = if window.samples > 0 { window.mean_in_flight() } else { f64::from(window.peak) };
    let share = if window.is_timing_out() { AFTER_TIMEOUTS } else { TOLERANCE * allowed / window.latency() };
    (in_flight * share).min(known.limit)
}
