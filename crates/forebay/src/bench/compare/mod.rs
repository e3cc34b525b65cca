//! `forebay bench compare`: the cost of the way through a proxy, and its causes.
//!
//! Short rounds of both ways alternate, so that changes on the machine affect both; the doctor takes samples
//! meanwhile. Must not be in here: checks, which are in the crate `doctor`; the figures of a single round.

mod explain;
mod page;
mod ratio;
mod show;

use std::io::IsTerminal;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use ::bench::generator::{Outcome, Progress};
use ::doctor::collect::{Metrics, Scope, Watch};
use ::doctor::{Finding, Samples};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use super::args::{Load, Telling};
use super::measure::{Kind, Measured, Measurement, Round, Subject};
use super::timeline::{Reading, Timeline};
use super::{EXIT_FAILURES, report};
use crate::doctor::metrics_of;
use crate::output::{self, Format};
use ratio::Ratios;

/// The options of `forebay bench compare`.
#[derive(Args, Debug)]
#[command(mut_arg("duration", |duration| duration.default_value("2s").help("How long each round is")))]
#[command(mut_arg("requests", |requests| requests.hide(true)))]
#[expect(clippy::doc_markdown, reason = "doc comments are help texts, in which backticks would be printed")]
pub(crate) struct Compare {
    /// The way without the proxy: http://HOST/PATH or https://, with a :PORT where it is another.
    #[arg(long, value_name = "URL")]
    direct: String,
    /// The way through it.
    #[arg(long, value_name = "URL")]
    via: String,
    /// Rounds of each way.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// The proxy's process: it, its descendants and its network namespace are examined.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The proxy's metrics, of Forebay or ingress-nginx, such as http://127.0.0.1:10254/metrics; read from
    /// where the process is.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    telling: Telling,
}

/// The measurements of both ways.
struct Comparison {
    direct: MeasuredTarget,
    via: MeasuredTarget,
    ratios: Ratios,
    /// The doctor's findings and those of `explain`, the most important first.
    explanations: Vec<Finding>,
    readings: Vec<Reading>,
    samples: Samples,
}

/// The measurements of one way, over all of its rounds.
struct MeasuredTarget {
    subject: Subject,
    measured: Measured,
    /// The beginning and the end of each of its rounds, in seconds since the first round.
    windows: Vec<(f64, f64)>,
}

/// The object of `--output json`.
#[derive(Serialize)]
struct ComparisonJson<'a> {
    kind: &'static str,
    direct: &'a Measurement,
    via: &'a Measurement,
    #[serde(flatten)]
    ratios: &'a Ratios,
    explanations: &'a [Finding],
}

/// The way of a round, in the order of the counters.
#[derive(Clone, Copy)]
enum Which {
    Direct,
    Via,
}

/// Measures, compares and prints.
pub(crate) fn run(options: &Compare) -> anyhow::Result<ExitCode> {
    let comparison = compare(options)?;
    if let Some(file) = &options.telling.report {
        report::write(file, &page::page(options, &comparison))?;
    }
    match options.telling.output {
        Format::Json => output::print(serde_json::to_string_pretty(&comparison.told())? + "\n")?,
        Format::Text => output::print(show::text(options, &comparison))?,
    }
    let failed = [&comparison.direct, &comparison.via].iter().any(|way| !way.measurement().errors.is_empty());
    Ok(if failed { ExitCode::from(EXIT_FAILURES) } else { ExitCode::SUCCESS })
}

fn compare(options: &Compare) -> anyhow::Result<Comparison> {
    let subject = |url| Subject::new(Kind::Rps, url, &options.load);
    let subjects = [subject(&options.direct)?, subject(&options.via)?];
    if let Some(file) = &options.telling.report {
        report::prepare(file)?;
    }
    for address in subjects.iter().flat_map(|subject| &subject.left_out) {
        eprintln!("forebay: ignored: {address}");
    }
    let counts = [Arc::new(Progress::default()), Arc::new(Progress::default())];
    let counted = counts.clone();
    let timeline = Timeline::start(options.pid, move || {
        [&counted[0], &counted[1]].map(|progress| Kind::Rps.count(progress.read()))
    })?;
    let (tell, fetched) = mpsc::channel();
    let watch = Watch::start(scope(options, tell))?;
    // The result of fetching metrics while the first sample was taken.
    if let Ok(Err(error)) = fetched.try_recv() {
        bail!(error);
    }
    let rounds = rounds(options, &subjects, &counts, &timeline);
    let (mut samples, readings) = (watch.finish(), timeline.finish());
    let [direct, via] = rounds?;
    is_alive(options.pid)?;
    samples.requests = knows_requests(options, &via.subject)
        .then(|| via.measured.iter().map(|round| round.outcome.sent).sum());
    if shares_namespace(options.pid) {
        let rounds = direct.measured.iter().chain(&via.measured);
        samples.own_connections =
            rounds.map(|round| round.outcome.connections_opened + round.outcome.errors.connect).sum();
    }
    let pairs: Vec<_> = std::iter::zip(&direct.measured, &via.measured)
        .map(|(direct, via)| [direct.measurement.clone(), via.measurement.clone()])
        .collect();
    let [direct, via] = [MeasuredTarget::of(direct, options)?, MeasuredTarget::of(via, options)?];
    let ratios = Ratios::of(direct.measurement(), via.measurement(), &pairs);
    let explanations = explain::explain(&direct, &via, &samples, &readings);
    Ok(Comparison { direct, via, ratios, explanations, readings, samples })
}

/// A way with its rounds.
struct Rounds {
    subject: Subject,
    measured: Vec<Measured>,
    /// Beginning and end of each round.
    windows: Vec<(f64, f64)>,
}

/// Runs the rounds. The first way of a pair alternates too, since the second is affected by leftovers of the
/// first, such as `TIME_WAIT`s.
fn rounds(
    options: &Compare,
    subjects: &[Subject; 2],
    counts: &[Arc<Progress>; 2],
    timeline: &Timeline,
) -> anyhow::Result<[Rounds; 2]> {
    let round = Round { watched: false, ..Round::of(&options.load)? };
    let mut ways =
        subjects.clone().map(|subject| Rounds { subject, measured: Vec::new(), windows: Vec::new() });
    for number in 0..options.rounds {
        tell_progress(&format!("round {} of {}", number + 1, options.rounds));
        let order = if number % 2 == 0 { [Which::Direct, Which::Via] } else { [Which::Via, Which::Direct] };
        for which in order {
            is_alive(options.pid)?;
            let Rounds { subject, measured, windows } = &mut ways[which as usize];
            let begin = timeline.now();
            measured.push(subject.measure(&round, &counts[which as usize])?);
            windows.push((begin, timeline.now()));
        }
    }
    tell_progress("");
    Ok(ways)
}

/// Prints a line that the next one replaces; nothing if standard error is not a terminal.
pub(super) fn tell_progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}

/// The doctor's subject. Each fetch of metrics reports its result to `tell`.
fn scope(options: &Compare, tell: Sender<Result<(), String>>) -> Scope {
    let metrics = options.metrics.clone().map(|url| -> Metrics {
        let mut fetch = metrics_of(url);
        Box::new(move || {
            let page = fetch();
            // The receiver is gone once the rounds have begun.
            let _ = tell.send(page.as_ref().map(drop).map_err(String::clone));
            page
        })
    });
    Scope { pid: options.pid, metrics, ..Scope::default() }
}

/// An error if the examined process has ended; fine without a process.
fn is_alive(pid: Option<u32>) -> anyhow::Result<()> {
    let Some(pid) = pid else { return Ok(()) };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = stat.as_deref().unwrap_or_default().rsplit(") ").next().and_then(|rest| rest.chars().next());
    if matches!(state, None | Some('Z' | 'X')) {
        bail!("process {pid} is not there, or has ended");
    }
    Ok(())
}

/// Whether the examined process served all requests of the rounds, so that their number can be used in
/// checks.
fn knows_requests(options: &Compare, via: &Subject) -> bool {
    options.pid.is_some() || options.metrics.is_some() || is_local(via.address())
}

/// Whether an address is in this network namespace: only then can a socket be bound to it.
fn is_local(address: SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

/// Whether a process is in this process's network namespace, so that the generator's connections are counted
/// there too.
fn shares_namespace(pid: Option<u32>) -> bool {
    let namespace = |process: String| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    pid.is_none_or(|pid| namespace(pid.to_string()) == namespace("self".into()))
}

impl MeasuredTarget {
    fn of(rounds: Rounds, options: &Compare) -> anyhow::Result<MeasuredTarget> {
        let Rounds { subject, measured, windows } = rounds;
        let outcomes = measured.into_iter().map(|round| round.outcome);
        let outcome = outcomes.reduce(|all, next: Outcome| all.then(&next)).context("there are no rounds")?;
        let measurement = subject.measurement(&outcome, &Round::of(&options.load)?);
        if outcome.answered == 0 {
            let kinds = measurement.errors.iter().map(|(kind, count)| format!("{kind} {count}"));
            let kinds: Vec<_> = kinds.collect();
            bail!("{}: none of {} requests succeeded: {}", measurement.url, outcome.sent, kinds.join(", "));
        }
        Ok(MeasuredTarget { subject, measured: Measured { measurement, outcome }, windows })
    }

    fn measurement(&self) -> &Measurement {
        &self.measured.measurement
    }
}

impl Comparison {
    fn told(&self) -> ComparisonJson<'_> {
        ComparisonJson {
            kind: "compare",
            direct: self.direct.measurement(),
            via: self.via.measurement(),
            ratios: &self.ratios,
            explanations: &self.explanations,
        }
    }
}

#[cfg(test)]
mod fixture {
    //! Made-up measurements for tests.

    use std::collections::BTreeMap;

    use crate::bench::measure::{GeneratorUse, Kind, LatencyUs, Measurement, PhasesUs};

    /// A measurement with this rate, median latency and time to connect.
    pub(super) fn measurement(rate: f64, p50: f64, connect: Option<f64>) -> Measurement {
        Measurement {
            kind: Kind::Rps,
            url: "http://x.test/".into(),
            requests: 1,
            errors: BTreeMap::new(),
            duration_seconds: 1.0,
            rate,
            bytes: 0,
            connections_opened: 1,
            latency_us: LatencyUs { p50, ..LatencyUs::default() },
            phases_us: PhasesUs { connect, ..PhasesUs::default() },
            generator: GeneratorUse { cpu_seconds: 0.5, peak_rss_bytes: 0, limited: false },
        }
    }
}
