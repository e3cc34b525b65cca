//! The concurrency limit of an endpoint, found from the latency of its responses.
//!
//! Sources: the gradient of Netflix' concurrency-limits (`Gradient2Limit`) and of Envoy's adaptive
//! concurrency filter, which lower a limit by the ratio of the latency without load to the present one;
//! additive growth and slow start of TCP (RFC 5681); the estimate of TCP Vegas and of Little's law, that the
//! requests in flight times the ratio of these latencies are the requests being worked at; and BBR's
//! measurement of the latency without load (draft-cardwell-iccrg-bbr-congestion-control, `ProbeRTT`), for
//! which fewer requests are in flight for a moment. Comments say where this differs.
//!
//! Must not be in here: a clock, cells, and what happens at a limit.

use std::time::Duration;

use clock::Moment;

use crate::limits::{
    LIMIT_BASE_AGE_MAX, LIMIT_DOUBT_TIME, LIMIT_FIRST, LIMIT_LATENCY_MIN, LIMIT_MAX, LIMIT_MIN,
    LIMIT_PROBE_SAMPLES, LIMIT_PROBE_TIME_MAX, LIMIT_SAMPLES_MIN, LIMIT_WINDOW_TIME_MAX,
};

/// Tolerated latency, as a multiple of the latency without load. At the limit an endpoint has half as many
/// requests again as it works at: it never runs dry, and no request waits there for longer than half of its
/// service time.
const TOLERANCE: f64 = 1.5;
/// Latency without load, as a multiple of the other endpoints', beyond which the endpoint is slow rather than
/// the cluster.
const SLOWNESS: f64 = 3.0;
/// Share of the limit that has to be in use for the limit to grow.
const NEAR: f64 = 0.75;
/// Share of the limit up to which an endpoint counts as idle.
const LIGHT: f64 = 0.25;
/// Weight of a window in the moving average of the latency without load.
const FOLLOWING: f64 = 0.125;
/// Factor by which a limit falls at most: in one window, and in all before the effect on the latency is
/// checked.
const FALL_MAX: f64 = 0.5;
/// Share of the former latency that is left at most after such a fall, if concurrency is what makes the
/// endpoint slow.
const RELIEF: f64 = 0.8;
/// Share of the requests being worked at that may be in flight while the latency without load is measured:
/// few enough that none waits.
const PROBE: f64 = 0.75;
/// Factor by which the limit of an idle endpoint shrinks in each window.
const IDLE: f64 = 0.9;
/// Factor of growth in a window during slow start: from an idle endpoint to the first latency that is too
/// high.
const SLOW_START: f64 = 1.5;
/// Share of the requests in flight that becomes the limit where requests have timed out.
const AFTER_TIMEOUTS: f64 = 0.7;

/// Observations of an endpoint since the last update of its limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Responses whose latency was recorded.
    samples: u32,
    /// The sum of the latencies' logarithms, as the bits of floating-point numbers, which grow with the
    /// logarithm. Their mean is hardly moved by the few requests that take very long, and costs an addition.
    log_latency: u64,
    /// The sum, over these responses, of the requests in flight when each came.
    in_flight: u64,
    /// The most requests in flight.
    peak: u32,
    /// Requests that have timed out.
    timeouts: u32,
}

/// Medians over the cluster's endpoints; none where no limit is known yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peers {
    /// Latency without load, in seconds.
    pub(crate) base: Option<f64>,
    /// The most requests that may be in flight at once.
    pub(crate) limit: Option<f64>,
}

/// The adaptive limit of one endpoint.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// None until the first window with enough responses.
    known: Option<Known>,
    /// Observations since the last decision.
    window: Window,
    window_begin: Option<Moment>,
    /// When the latency without load was last measured.
    measured: Moment,
    /// The latency without load is not trusted: it was measured under load, or lower limits have not helped.
    is_doubted: bool,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    limit: f64,
    /// Latency without load, in seconds.
    base: f64,
    /// The limit before it began to fall, and the latency at that time, in seconds.
    fell_from: Option<(f64, f64)>,
    /// Slow start: the latency has not been too high since the endpoint was idle.
    is_starting: bool,
}

/// A measurement of the latency without load, under a limit that is lowered for it.
#[derive(Clone, Copy, Debug)]
struct Probe {
    limit: f64,
    begin: Moment,
    /// The requests that were in flight before have been answered.
    is_drained: bool,
}

// === impl Window ===

impl Window {
    /// Records a response's latency, and the number of requests in flight, this one included.
    pub(crate) fn note_response(&mut self, latency: Duration, in_flight: u32) {
        self.samples += 1;
        let latency = latency.max(LIMIT_LATENCY_MIN);
        self.log_latency += u64::from(latency.as_secs_f32().to_bits());
        self.in_flight += u64::from(in_flight);
    }

    /// Records the number of requests in flight.
    pub(crate) fn note_in_flight(&mut self, in_flight: u32) {
        self.peak = self.peak.max(in_flight);
    }

    /// Records a request that the endpoint has not answered in time.
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

    /// The approximate geometric mean, in seconds.
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
    /// No limit yet.
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

    /// The most requests in flight; none while the limit is unknown, and nothing is limited.
    #[expect(clippy::cast_sign_loss, reason = "a limit is at least 1")]
    pub(crate) fn limit(&self) -> Option<u32> {
        let Known { limit, .. } = self.known?;
        Some(self.probe.map_or(limit, |probe| probe.limit.min(limit)) as u32)
    }

    /// The limit and the latency without load in seconds, for the medians over the cluster.
    pub(crate) fn known(&self) -> Option<(f64, f64)> {
        self.known.map(|known| (known.limit, known.base))
    }

    /// Adds the observations since the last call, and decides once there are enough. Called about once a
    /// tick. `is_enforced` says whether requests keep to the limit; only then the latency without load can be
    /// measured.
    pub(crate) fn update(&mut self, seen: Window, peers: Peers, is_enforced: bool, now: Moment) {
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
                // The first responses are those of requests that were sent before the limit was lowered.
                probe.is_drained = f64::from(seen.peak) <= probe.limit;
                return self.forget_window(now);
            }
        }
        let samples_min = if self.probe.is_some() { LIMIT_PROBE_SAMPLES } else { LIMIT_SAMPLES_MIN };
        if self.window.samples + self.window.timeouts < samples_min {
            // Responses at such a low rate say nothing, neither now nor added to later ones.
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

    /// Sets the first limit of an endpoint, from what it has had in flight. Envoy and Netflix begin with a
    /// fixed limit; here no request waits before there is a reason.
    fn begin(&mut self, window: &Window) {
        if window.samples > 0 {
            let limit = f64::from(window.peak).max(LIMIT_FIRST);
            let base = window.latency();
            self.known = Some(Known { limit, base, fell_from: None, is_starting: true });
        }
    }

    fn decide(&mut self, mut known: Known, window: &Window, peers: Peers, is_enforced: bool, now: Moment) {
        // An endpoint that is slow compared with the others is held to their latency; where all are slow, so
        // is the median.
        let allowed = peers.base.map_or(known.base, |of_peers| known.base.min(of_peers * SLOWNESS));
        let is_slow = allowed < known.base;
        let (peak, latency) = (f64::from(window.peak), window.latency());
        let is_light = peak <= (known.limit * LIGHT).max(LIMIT_MIN);
        // Of a limit of 1.4, one request can be in flight.
        let is_near = peak >= known.limit.floor() * NEAR;
        let is_late = latency > TOLERANCE * allowed || window.is_timing_out();
        if window.samples > 0 && (is_light || latency < known.base || !is_near && !is_late) {
            known.base += (latency - known.base) * FOLLOWING;
        }
        if is_light {
            (self.measured, self.is_doubted) = (now, false);
            (known.fell_from, known.is_starting) = (None, true);
            known.limit = if is_near && !is_late {
                known.grown()
            } else {
                (known.limit * IDLE).max(LIMIT_FIRST).min(known.limit)
            };
        } else if is_late {
            let (from, before) = *known.fell_from.get_or_insert((known.limit, latency));
            known.is_starting = false;
            if known.limit <= (from * FALL_MAX).max(LIMIT_MIN) {
                // Where lower concurrency makes nothing quicker, concurrency is not what makes requests slow.
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

    /// Whether the latency without load has to be measured again. It is due when a multiple of the interval
    /// passes on the common clock, so that all workers measure at about the same time without communication:
    /// lower concurrency of one alone would leave the endpoint busy.
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
    /// The limit after a step of growth: slow start, or additive growth.
    fn grown(&self) -> f64 {
        let grown =
            if self.is_starting { self.limit * SLOW_START } else { self.limit + self.limit.sqrt() / 2.0 };
        grown.min(LIMIT_MAX)
    }
}

/// The number of requests in flight at which the latency is tolerated, by Little's law.
///
/// It starts from the number that was in flight, not from the limit, so that it is also right where the limit
/// is not enforced.
fn target(known: &Known, window: &Window, allowed: f64) -> f64 {
    let in_flight = if window.samples > 0 { window.mean_in_flight() } else { f64::from(window.peak) };
    let share = if window.is_timing_out() { AFTER_TIMEOUTS } else { TOLERANCE * allowed / window.latency() };
    (in_flight * share).min(known.limit)
}
