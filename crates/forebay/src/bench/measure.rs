//! From a URL to a plan, and from the plan's outcome to the object that is told.
//!
//! Must not be in here: printing.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ::bench::generator::{
    self, Expect, GeneratorError, Latency, Outcome, Pace, Plan, Progress, Protocol, SoFar, Status,
};
use ::bench::tls::{Tls, Trust, Version};
use anyhow::{Context, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use super::args::{Load, Switch};
use super::target::Target;
use super::watch;
use crate::machine;

/// Share of the time above which generator threads that want a CPU are taken for the limit.
const BUSY_SHARE_MAX: f64 = 0.95;

/// How long answers are waited for that are not there when the time is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Requests a second.
    Rps,
    /// New TLS connections a second.
    Tps,
    /// Gbit/s of bodies received.
    Throughput,
}

impl Kind {
    /// What its rate is the growth of.
    pub(crate) fn count(self, so_far: SoFar) -> f64 {
        match self {
            Kind::Rps => so_far.answered as f64,
            Kind::Tps => so_far.connections_opened as f64,
            Kind::Throughput => so_far.body_bytes as f64 * 8.0 / 1e9,
        }
    }
}

/// What one measurement says: the object of `--output json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// Requests that were sent.
    pub(crate) requests: u64,
    /// What went wrong, by kind; kinds that did not happen are not there.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) duration_seconds: f64,
    /// Requests a second, TLS connections a second, or Gbit/s of bodies.
    pub(crate) rate: f64,
    /// Received, heads included.
    pub(crate) bytes: u64,
    pub(crate) connections_opened: u64,
    pub(crate) latency_us: LatencyUs,
    pub(crate) phases_us: PhasesUs,
    pub(crate) generator: GeneratorUse,
}

/// Percentiles of the time from when a request was due to the end of its answer, in microseconds; 0 where none was
/// answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyUs {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
}

/// Medians of what a connection and a request go through, in microseconds; `None` for what did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhasesUs {
    /// Of looking the name up, once.
    pub(crate) dns: Option<f64>,
    /// Until TCP's handshake was over.
    pub(crate) connect: Option<f64>,
    /// From then until TLS's was.
    pub(crate) tls: Option<f64>,
    /// From sending the request to the first byte of its answer.
    pub(crate) first_byte: Option<f64>,
    /// From then to the last.
    pub(crate) body: Option<f64>,
}

/// What the load generator itself used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratorUse {
    pub(crate) cpu_seconds: f64,
    /// Of this process, since it began.
    pub(crate) peak_rss_bytes: u64,
    /// Whether it, and not what it measured, was the limit.
    pub(crate) limited: bool,
}

/// A measurement, and what it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) measurement: Measurement,
    /// With the whole distribution of latencies, and the answers in each second.
    pub(crate) outcome: Outcome,
}

/// A URL and the load to put on it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// Addresses of the URL's host that take no connections, and why.
    pub(crate) left_out: Vec<String>,
    dns: Option<Duration>,
    plan: Plan,
}

/// One of possibly several measurements of a subject.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) duration: Duration,
    pub(crate) threads: usize,
    /// Where the threads run, in turn; `None` leaves that to the kernel.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Whether standard error shows how it goes, where that is a terminal.
    pub(crate) watched: bool,
}

impl Subject {
    /// Looks the URL's host up, and reads what the load needs; an error is one line that says what is wrong.
    pub(crate) fn new(kind: Kind, url: &str, load: &Load) -> anyhow::Result<Subject> {
        let target = Target::parse(url)?;
        ensure!(kind != Kind::Tps || target.is_tls, "{url} is not https://, and tps counts TLS connections");
        let connections = machine::descriptors_max().min(u64::from(load.connections));
        ensure!(
            connections == u64::from(load.connections),
            "this process may not have more than {connections} connections (ulimit -n)"
        );
        let mut addresses = target.addresses(&load.resolve)?;
        let left_out = addresses.keep_reachable()?;
        let body = load.body.as_deref().map(read).transpose()?.unwrap_or_default();
        let default_method = if body.is_empty() { "GET" } else { "POST" };
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        let host = load.header.iter().find(|header| is_host(&header.name)).map(|header| header.value.clone());
        let headers = load.header.iter().filter(|header| !is_host(&header.name));
        let one_each = kind == Kind::Tps || load.keep_alive == Switch::Off;
        let streams = if one_each { 1 } else { load.streams.into() };
        let plan = Plan {
            targets: addresses.all,
            protocol: if load.http2 { Protocol::Http2 { streams } } else { Protocol::Http1 },
            tls: if target.is_tls { Some(tls(&target.host, load.insecure)?) } else { None },
            host: host.unwrap_or(target.authority),
            path: target.path,
            method: load.method.as_ref().map_or(default_method, http::Method::as_str).to_owned(),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
            body,
            connections: load.connections as usize,
            requests_per_connection: one_each.then_some(1),
            pace: load.rate.map_or(Pace::Closed, |rate_per_second| Pace::Open { rate_per_second }),
            requests: load.requests,
            expect: Expect { status: Status::Fine, body_bytes: None },
            // What is on its way when the time is over counts for throughput as far as it came.
            patience: if is_cut_off(kind, load.requests) { Duration::ZERO } else { PATIENCE },
            ..Plan::default()
        };
        Ok(Subject { kind, url: url.to_owned(), left_out, dns: addresses.dns, plan })
    }

    /// Puts the load on it for a while. `progress` counts on from where it is.
    pub(crate) fn measure(&self, round: &Round, progress: &Progress) -> anyhow::Result<Measured> {
        let plan = Plan {
            duration: round.duration,
            threads: round.threads,
            cpus: round.cpus.clone(),
            ..self.plan.clone()
        };
        let outcome =
            if round.watched { watch::run(&plan, progress) } else { generator::run_watched(&plan, progress) };
        let outcome = outcome.map_err(|error| explained(&error))?;
        if outcome.connections_opened == 0 {
            match outcome.connect_failure {
                Some(error) => return Err(explained(&error)),
                None => bail!("cannot connect to {}: no answer in {:.1?}", plan.targets[0], outcome.elapsed),
            }
        }
        if matches!(plan.protocol, Protocol::Http2 { .. }) && is_malformed(&outcome) {
            bail!("{} does not speak HTTP/2", plan.targets[0]);
        }
        Ok(Measured { measurement: self.measurement(&outcome, round), outcome })
    }

    /// One of the addresses that it is at.
    pub(crate) fn address(&self) -> SocketAddr {
        self.plan.targets[0]
    }

    /// How it is loaded.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same with one suite of TLS alone.
    pub(crate) fn with_suite(mut self, version: Version, suite: &str) -> Subject {
        if let Some(tls) = &mut self.plan.tls {
            (tls.version, tls.suite) = (version, Some(suite.to_owned()));
        }
        self
    }

    /// What an outcome says, or several that were joined.
    pub(crate) fn measurement(&self, outcome: &Outcome, round: &Round) -> Measurement {
        let is_to_the_end = self.kind == Kind::Throughput || outcome.answered == 0;
        let seconds = if is_to_the_end { outcome.elapsed } else { outcome.duration }.as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let rate = match self.kind {
            Kind::Rps => per_second(outcome.answered as f64),
            Kind::Tps => per_second(outcome.connections_opened as f64),
            Kind::Throughput => per_second(outcome.body_bytes as f64 * 8.0 / 1e9),
        };
        Measurement {
            kind: self.kind,
            url: self.url.clone(),
            requests: outcome.sent,
            errors: self.errors(outcome),
            duration_seconds: seconds,
            rate,
            bytes: outcome.bytes,
            connections_opened: outcome.connections_opened,
            latency_us: LatencyUs::of(outcome),
            phases_us: PhasesUs::of(self.dns, outcome),
            generator: GeneratorUse::of(outcome, round.threads.min(self.plan.connections)),
        }
    }

    /// What went wrong, by kind; statuses by their code.
    fn errors(&self, outcome: &Outcome) -> BTreeMap<String, u64> {
        let kinds = outcome.errors.by_kind().into_iter().filter(|(kind, _)| *kind != "status");
        let unfinished = if is_cut_off(self.kind, self.plan.requests) { 0 } else { outcome.unfinished };
        let late = [("timeout", unfinished), ("unsent", outcome.unsent)];
        let statuses = outcome.statuses.iter().map(|(status, count)| (format!("status_{status}"), *count));
        let named = kinds.chain(late).map(|(kind, count)| (kind.to_owned(), count));
        named.chain(statuses).filter(|(_, count)| *count > 0).collect()
    }
}

impl Round {
    /// As the arguments say.
    pub(crate) fn of(load: &Load) -> anyhow::Result<Round> {
        let threads = match load.threads {
            Some(threads) => threads.into(),
            None => machine::worker_cpus(None)?.len(),
        };
        let threads = threads.min(load.connections as usize);
        Ok(Round { duration: load.duration, threads, cpus: None, watched: true })
    }
}

impl LatencyUs {
    fn of(outcome: &Outcome) -> LatencyUs {
        if outcome.answered == 0 {
            return LatencyUs::default();
        }
        let at = |percent| micros(outcome.latency.percentile(percent));
        LatencyUs {
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: micros(outcome.latency.max()),
        }
    }
}

impl PhasesUs {
    fn of(dns: Option<Duration>, outcome: &Outcome) -> PhasesUs {
        let median = |phase: &Latency| (!phase.is_empty()).then(|| micros(phase.percentile(50.0)));
        let phases = &outcome.phases;
        PhasesUs {
            dns: dns.map(micros),
            connect: median(&phases.connect),
            tls: median(&phases.tls),
            first_byte: median(&phases.first_byte),
            body: median(&phases.body),
        }
    }
}

impl GeneratorUse {
    fn of(outcome: &Outcome, threads: usize) -> GeneratorUse {
        let cpu_seconds = outcome.cpu.total.as_secs_f64();
        // A thread that waits for a CPU would make more load, had it one.
        let busy = cpu_seconds + outcome.cpu.waited.as_secs_f64();
        let limited = busy > BUSY_SHARE_MAX * outcome.elapsed.as_secs_f64() * threads as f64;
        GeneratorUse { cpu_seconds, peak_rss_bytes: peak_rss_bytes(), limited }
    }
}

/// Whether nobody answered, and some with what is no HTTP.
fn is_malformed(outcome: &Outcome) -> bool {
    outcome.answered == 0 && outcome.statuses.is_empty() && outcome.errors.malformed > 0
}

/// Whether requests that are out when the time is over are given up, and no error.
fn is_cut_off(kind: Kind, requests: Option<u64>) -> bool {
    kind == Kind::Throughput && requests.is_none()
}

fn tls(host: &str, insecure: bool) -> anyhow::Result<Tls> {
    let trust = if insecure {
        Trust::Anybody
    } else {
        Trust::of_system().map_err(|error| anyhow!("{error} (--insecure does without)"))?
    };
    Ok(Tls { server_name: host.to_owned(), trust, ..Tls::default() })
}

/// The error, with what can be done about it.
fn explained(error: &GeneratorError) -> anyhow::Error {
    match error.distrust() {
        Some(why) => {
            anyhow!("{error}: {why} (--insecure trusts anybody; SSL_CERT_FILE names other authorities)")
        }
        None => anyhow!("{error}"),
    }
}

/// Microseconds, to a nanosecond.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The most memory that this process has had; 0 where the kernel does not tell.
fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
