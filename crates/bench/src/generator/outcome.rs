//! The outcome of a plan.
//!
//! Must not be in here: verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::GeneratorError;
use crate::cpu::CpuTime;

/// Longest latency that is recorded; longer ones count as this one.
const LATENCY_MAX: Duration = Duration::from_hours(1);

/// The outcome of a plan. Every request that was sent is in exactly one of `answered`, `errors` (except for
/// [`Errors::connect`] and [`Errors::tls`]) and `unfinished`.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests of which the sending began.
    pub sent: u64,
    /// Responses as expected.
    pub answered: u64,
    /// Failures, by kind.
    pub errors: Errors,
    /// Unexpected statuses, each with the number of its responses.
    pub statuses: BTreeMap<u16, u64>,
    /// The error of the first connection that failed; none if none failed.
    pub connect_failure: Option<Arc<GeneratorError>>,
    /// Requests without a complete response when the wait for outstanding responses ended.
    pub unfinished: u64,
    /// Requests of an open loop that were due and were never sent, since no connection was free.
    pub unsent: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Bytes of bodies received, including those of responses that were cut off.
    pub body_bytes: u64,
    /// Connections that were opened; with TLS, those whose handshake succeeded.
    pub connections_opened: u64,
    /// Connections that resumed a TLS session; the others made a full handshake.
    pub connections_resumed: u64,
    /// Latencies of the responses as expected, from the time at which the request was due.
    pub latency: Latency,
    /// Times of the phases of connections and requests.
    pub phases: Phases,
    /// Responses as expected in each second since the start.
    pub per_second: Vec<u64>,
    /// Time from the start to the last response.
    pub duration: Duration,
    /// Time from the start until all threads had ended.
    pub elapsed: Duration,
    /// CPU time of the generator's threads.
    pub cpu: CpuTime,
}

/// Requests that failed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// The connection could not be opened; the request was not sent.
    pub connect: u64,
    /// The TLS handshake failed, or HTTP/2 was not agreed on; the request was not sent.
    pub tls: u64,
    /// The connection ended or was reset before the response was complete.
    pub closed: u64,
    /// Responses with an unexpected status.
    pub status: u64,
    /// Unexpected length of the body.
    pub length: u64,
    /// Invalid HTTP, or bytes that belong to no request.
    pub malformed: u64,
}

/// The times of the phases of connections and requests.
#[derive(Clone, Debug)]
pub struct Phases {
    /// TCP handshake, or all of QUIC's: from the start of the connection.
    pub connect: Latency,
    /// TLS handshake: from the end of the TCP handshake.
    pub tls: Latency,
    /// From sending a request, on an open connection, to the first byte of its response.
    pub first_byte: Latency,
    /// From the first byte of the response to the last.
    pub body: Latency,
}

/// The times of a request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) due: Duration,
    pub(super) begun: Duration,
    pub(super) first_byte: Duration,
    pub(super) end: Duration,
}

/// The times of opening a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) connect: Duration,
    pub(super) tls: Option<Duration>,
    /// Whether its handshake resumed a session.
    pub(super) resumed: bool,
}

/// A distribution of times, with three significant digits.
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

    /// Responses as expected, per second.
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

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latency that `percent` of the answers did not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }

    /// The longest latency.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The distribution in nanoseconds, for uses beyond percentiles such as plots.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}
