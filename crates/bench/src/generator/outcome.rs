//! What became of a plan.
//!
//! Must not be in here: verdicts.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::cpu::CpuTime;

/// The longest latency that is told apart from longer ones.
const LATENCY_MAX: Duration = Duration::from_hours(1);

/// What became of a plan. Every request that was sent is in exactly one of `answered`, `errors` (but for
/// [`Errors::connect`]) and `unfinished`.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests that were begun on a connection that the server took.
    pub sent: u64,
    /// Answers that were as expected.
    pub answered: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Requests that had no whole answer when patience was over.
    pub unfinished: u64,
    /// Requests of an open pace that were due and never sent, because no connection was free until the end.
    pub unsent: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Connections that the server took; with TLS, those whose handshake was made.
    pub connections_opened: u64,
    /// Those of them that resumed a TLS session; all others made a full handshake.
    pub connections_resumed: u64,
    /// Of the answers that were as expected.
    pub latency: Latency,
    /// Answers that were as expected, by the second in which they came.
    pub per_second: Vec<u64>,
    /// From the start to the last answer.
    pub duration: Duration,
    /// From the start until all was over.
    pub elapsed: Duration,
    /// What the generator's own threads used.
    pub cpu: CpuTime,
}

/// Requests that failed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// No connection; the request was not sent.
    pub connect: u64,
    /// The connection ended or was reset before the answer was whole.
    pub closed: u64,
    /// Another status than expected.
    pub status: u64,
    /// Another length of body than expected.
    pub length: u64,
    /// No HTTP, or bytes that no request asked for.
    pub malformed: u64,
}

/// Latencies, from the time at which a request was due to the last byte of its answer, to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Outcome {
    pub(super) fn new(elapsed: Duration) -> Outcome {
        Outcome {
            sent: 0,
            answered: 0,
            errors: Errors::default(),
            unfinished: 0,
            unsent: 0,
            bytes: 0,
            connections_opened: 0,
            connections_resumed: 0,
            latency: Latency::new(),
            per_second: Vec::new(),
            duration: Duration::ZERO,
            elapsed,
            cpu: CpuTime::default(),
        }
    }

    /// Answers a second that were as expected.
    pub fn rate(&self) -> f64 {
        if self.duration.is_zero() { 0.0 } else { self.answered as f64 / self.duration.as_secs_f64() }
    }

    /// Whether every request that was due was sent and answered as expected.
    pub fn is_clean(&self) -> bool {
        self.errors == Errors::default() && self.unfinished == 0 && self.unsent == 0
    }

    pub(super) fn answer(&mut self, due: Duration, now: Duration) {
        self.answered += 1;
        self.latency.record(now.saturating_sub(due));
        self.duration = now;
        let second = now.as_secs() as usize;
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += 1;
    }

    pub(super) fn merge(mut self, other: &Outcome) -> Outcome {
        self.sent += other.sent;
        self.answered += other.answered;
        self.errors = self.errors.merge(other.errors);
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.bytes += other.bytes;
        self.connections_opened += other.connections_opened;
        self.connections_resumed += other.connections_resumed;
        self.latency.0.add(&other.latency.0).expect("all histograms have the same bounds");
        self.per_second.resize(self.per_second.len().max(other.per_second.len()), 0);
        self.per_second.iter_mut().zip(&other.per_second).for_each(|(sum, count)| *sum += count);
        self.duration = self.duration.max(other.duration);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.cpu = self.cpu + other.cpu;
        self
    }
}

impl Errors {
    /// All kinds, with their names.
    pub fn by_kind(self) -> [(&'static str, u64); 5] {
        let Errors { connect, closed, status, length, malformed } = self;
        [
            ("connect", connect),
            ("closed", closed),
            ("status", status),
            ("length", length),
            ("malformed", malformed),
        ]
    }

    /// The sum of all kinds.
    pub fn total(self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    fn merge(self, other: Errors) -> Errors {
        Errors {
            connect: self.connect + other.connect,
            closed: self.closed + other.closed,
            status: self.status + other.status,
            length: self.length + other.length,
            malformed: self.malformed + other.malformed,
        }
    }
}

impl Latency {
    fn new() -> Latency {
        let longest = LATENCY_MAX.as_nanos() as u64;
        Latency(Histogram::new_with_bounds(1, longest, 3).expect("bounds that hdrhistogram takes"))
    }

    fn record(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_nanos() as u64);
    }

    /// The latency that `percent` of the answers did not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Whoever needs more than percentiles, for a plot for instance: nanoseconds.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}
