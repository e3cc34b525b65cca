//! Makes the plan for a URL, and the printed object from the plan's outcome.
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

/// Share of the time above which busy generator threads count as the limit.
const BUSY_SHARE_MAX: f64 = 0.95;

/// Longest wait for outstanding responses after the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The quantity to measure.
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
    /// The counter whose growth is the rate.
    pub(crate) fn count(self, so_far: SoFar) -> f64 {
        match self {
            Kind::Rps => so_far.answered as f64,
            Kind::Tps => so_far.connections_opened as f64,
            Kind::Throughput => so_far.body_bytes as f64 * 8.0 / 1e9,
        }
    }
}

/// The result of a measurement: the object of `--output json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// Requests that were sent.
    pub(crate) requests: u64,
    /// Number of errors by kind; kinds that did not occur are left out.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) duration_seconds: f64,
    /// Requests a second, TLS connections a second, or Gbit/s of bodies.
    pub(crate) rate: f64,
    /// Bytes received, heads included.
    pub(crate) bytes: u64,
    pub(crate) connections_opened: u64,
    pub(crate) latency_us: LatencyUs,
    pub(crate) phases_us: PhasesUs,
    pub(crate) generator: GeneratorUse,
}

/// Percentiles of the time from when a request was due to the end of its response, in microseconds; 0 if no
/// request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyUs {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
}

/// Medians of the phases of connections and requests, in microseconds; `None` for phases that did not occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhasesUs {
    /// Resolving the name, which was done once.
    pub(crate) dns: Option<f64>,
    /// Duration of the TCP handshake, or of all of QUIC's.
    pub(crate) connect: Option<f64>,
    /// TLS handshake, after the TCP handshake.
    pub(crate) tls: Option<f64>,
    /// From sending the request to the first byte of its response.
    pub(crate) first_byte: Option<f64>,
    /// From the first byte of the response to the last.
    pub(crate) body: Option<f64>,
}

/// Resources that the load generator used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratorUse {
    pub(crate) cpu_seconds: f64,
    /// Most memory of this process since it began.
    pub(crate) peak_rss_bytes: u64,
    /// Whether the generator was the limit, and not the server.
    pub(crate) limited: bool,
}

/// A measurement, and the outcome that it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) measurement: Measurement,
    /// The outcome, with the full distribution of latencies and the responses in each second.
    pub(crate) outcome: Outcome,
}

/// A URL and the load for it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// Addresses of the URL's host that accept no connections, each with the error.
    pub(crate) left_out: Vec<String>,
    dns: Option<Duration>,
    plan: Plan,
}

/// One of several measurements of a subject.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) duration: Duration,
    pub(crate) threads: usize,
    /// CPUs that the threads are pinned to, in turn; `None` for no pinning.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Whether progress is shown on standard error, if that is a terminal.
    pub(crate) watched: bool,
}

impl Subject {
    /// Resolves the URL's host, and reads the files that the load needs. An error is one line.
    pub(crate) fn new(kind: Kind, url: &str, load: &Load) -> anyhow::Result<Subject> {
        let target = Target::parse(url)?;
        ensure!(kind != Kind::Tps || target.is_tls, "{url} is not https://, and tps counts TLS connections");
        let connections = machine::descriptors_max().min(u64::from(load.connections));
        ensure!(
            connections == u64::from(load.connections),
            "this process may not have more than {connections} connections (ulimit -n)"
        );
        ensure!(!load.http3 || target.is_tls, "{url} is not https://, and HTTP/3 needs TLS");
        let mut addresses = target.addresses(&load.resolve)?;
        let left_out = if load.http3 { addresses.keep_one_family() } else { addresses.keep_reachable()? };
        let body = load.body.as_deref().map(read).transpose()?.unwrap_or_default();
        let default_method = if body.is_empty() { "GET" } else { "POST" };
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        let host = load.header.iter().find(|header| is_host(&header.name)).map(|header| header.value.clone());
        let headers = load.header.iter().filter(|header| !is_host(&header.name));
        let one_each = kind == Kind::Tps || load.keep_alive == Switch::Off;
        let streams = if one_each { 1 } else { load.streams.into() };
        let plan = Plan {
            targets: addresses.all,
            protocol: load.protocol(streams),
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
            // For throughput, responses in flight at the end count as far as they were received.
            patience: if is_cut_off(kind, load.requests) { Duration::ZERO } else { PATIENCE },
            ..Plan::default()
        };
        Ok(Subject { kind, url: url.to_owned(), left_out, dns: addresses.dns, plan })
    }

    /// Runs the load for a time. `progress` continues from its current values.
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
        match plan.protocol {
            Protocol::Http2 { .. } if is_malformed(&outcome) => {
                bail!("{} does not speak HTTP/2", plan.targets[0]);
            }
            Protocol::Http3 { .. } if is_malformed(&outcome) => {
                bail!("{} does not speak HTTP/3", plan.targets[0]);
            }
            _ => {}
        }
        Ok(Measured { measurement: self.measurement(&outcome, round), outcome })
    }

    /// One of the host's addresses.
    pub(crate) fn address(&self) -> SocketAddr {
        self.plan.targets[0]
    }

    /// The plan of the load.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same subject with one TLS version and cipher suite.
    pub(crate) fn with_suite(mut self, version: Version, suite: &str) -> Subject {
        if let Some(tls) = &mut self.plan.tls {
            (tls.version, tls.suite) = (version, Some(suite.to_owned()));
        }
        self
    }

    /// The measurement for an outcome, or for several that were combined.
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

    /// Number of errors by kind; unexpected statuses by their code.
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
    /// The only round of a measurement, by the arguments.
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
        // A thread that waits for a CPU would make more load with a free CPU.
        let busy = cpu_seconds + outcome.cpu.waited.as_secs_f64();
        let limited = busy > BUSY_SHARE_MAX * outcome.elapsed.as_secs_f64() * threads as f64;
        GeneratorUse { cpu_seconds, peak_rss_bytes: peak_rss_bytes(), limited }
    }
}

/// Whether all responses failed, some because they were not valid HTTP.
fn is_malformed(outcome: &Outcome) -> bool {
    outcome.answered == 0 && outcome.statuses.is_empty() && outcome.errors.malformed > 0
}

/// Whether requests in flight at the end are cut off and do not count as errors.
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

/// The error with a hint.
fn explained(error: &GeneratorError) -> anyhow::Error {
    match error.distrust() {
        Some(why) => {
            anyhow!("{error}: {why} (--insecure trusts anybody; SSL_CERT_FILE names other authorities)")
        }
        None => anyhow!("{error}"),
    }
}

/// A time in microseconds, with a resolution of nanoseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The peak memory of this process; 0 if the kernel does not report it.
fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
