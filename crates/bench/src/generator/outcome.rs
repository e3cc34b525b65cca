//! What became of a plan.
//!
//! Must not be in here: verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::GeneratorError;
use crate::cpu::CpuTime;

/// The longest latency that is told apart from longer ones.
const LATENCY_MAX: Duration = Duration::from_hours(1);

/// What became of a plan. Every request that was sent is in exactly one of `answered`, `errors` (but for
/// [`Errors::connect`] and [`Errors::tls`]) and `unfinished`.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests that were begun on a connection that the server took.
    pub sent: u64,
    /// Answers that were as expected.
    pub answered: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Statuses that were not expected, and how often each came.
    pub statuses: BTreeMap<u16, u64>,
    /// Why the first of the connections that failed did.
    pub connect_failure: Option<Arc<GeneratorError>>,
    /// Requests that had no whole answer when patience was over.
    pub unfinished: u64,
    /// Requests of an open pace that were due and never sent, because no connection was free until the end.
    pub unsent: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Those of bodies, of answers that were cut off too.
    pub body_bytes: u64,
    /// Connections that the server took; with TLS, those whose handshake was made.
    pub connections_opened: u64,
    /// Those of them that resumed a TLS session; all others made a full handshake.
    pub connections_resumed: u64,
    /// Of the answers that were as expected.
    pub latency: Latency,
    /// Where the time went.
    pub phases: Phases,
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
    /// No handshake of TLS, or HTTP/2 not agreed in it; the request was not sent.
    pub tls: u64,
    /// The connection ended or was reset before the answer was whole.
    pub closed: u64,
    /// Another status than expected.
    pub status: u64,
    /// Another length of body than expected.
    pub length: u64,
    /// No HTTP, or bytes that no request asked for.
    pub malformed: u64,
}

/// What connections and requests go through.
#[derive(Clone, Debug)]
pub struct Phases {
    /// From the start of a connection to the end of TCP's handshake.
    pub connect: Latency,
    /// From there to the end of TLS's.
    pub tls: Latency,
    /// From sending a request, on a connection that is there, to the first byte of its answer.
    pub first_byte: Latency,
    /// From there to the last.
    pub body: Latency,
}

/// When what happened to a request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) due: Duration,
    pub(super) begun: Duration,
    pub(super) first_byte: Duration,
    pub(super) end: Duration,
}

/// How long a connection took to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) connect: Duration,
    pub(super) tls: Option<Duration>,
    /// Its handshake resumed a session.
    pub(super) resumed: bool,
}

/// Times of one kind, such as those from when a request was due to the last byte of its answer, to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Outcome {
    pub(super) fn new(elapsed: Duration) -> Outcome {
        Outcome {
            sent: 0,
            answered: 0,
            errors: Errors::default(),
            statuses: BTreeMap::new(),
            connect_failure: None,
            unfinished: 0,
            unsent: 0,
            bytes: 0,
            body_bytes: 0,
            connections_opened: 0,
            connections_resumed: 0,
            latency: Latency::new(),
            phases: Phases::new(),
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

    pub(super) fn answer(&mut self, times: Times) {
        self.answered += 1;
        self.latency.record(times.end.saturating_sub(times.due));
        self.phases.first_byte.record(times.first_byte.saturating_sub(times.begun));
        self.phases.body.record(times.end.saturating_sub(times.first_byte));
        self.duration = times.end;
        let second = times.end.as_secs() as usize;
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += 1;
    }

    pub(super) fn open(&mut self, opened: Opened) {
        self.connections_opened += 1;
        self.connections_resumed += u64::from(opened.resumed);
        self.phases.connect.record(opened.connect);
        if let Some(tls) = opened.tls {
            self.phases.tls.record(tls);
        }
    }

    pub(super) fn merge(mut self, other: &Outcome) -> Outcome {
        self.sent += other.sent;
        self.answered += other.answered;
        self.errors = self.errors.merge(other.errors);
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        self.connect_failure = self.connect_failure.or_else(|| other.connect_failure.clone());
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        self.connections_opened += other.connections_opened;
        self.connections_resumed += other.connections_resumed;
        self.latency.add(&other.latency);
        self.phases.add(&other.phases);
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
    pub fn by_kind(self) -> [(&'static str, u64); 6] {
        let Errors { connect, tls, closed, status, length, malformed } = self;
        [
            ("connect", connect),
            ("tls", tls),
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
            tls: self.tls + other.tls,
            closed: self.closed + other.closed,
            status: self.status + other.status,
            length: self.length + other.length,
            malformed: self.malformed + other.malformed,
        }
    }
}

impl Phases {
    fn new() -> Phases {
        Phases {
            connect: Latency::new(),
            tls: Latency::new(),
            first_byte: Latency::new(),
            body: Latency::new(),
        }
    }

    fn add(&mut self, other: &Phases) {
        self.connect.add(&other.connect);
        self.tls.add(&other.tls);
        self.first_byte.add(&other.first_byte);
        self.body.add(&other.body);
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

    fn add(&mut self, other: &Latency) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
