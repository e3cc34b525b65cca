//! `forebay bench`: puts load on a URL and reports the result.
//!
//! Must not be in here: the load generator, which is in the crate `bench`.

pub(crate) mod args;
mod compare;
pub(crate) mod format;
pub(crate) mod measure;
pub(crate) mod metrics;
pub(crate) mod report;
mod show;
mod sweep;
mod target;
mod timeline;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ::bench::generator::Progress;
use args::Single;
use clap::{Args, Subcommand};
use measure::{Kind, Measured, Round, Subject};
use timeline::{Reading, Timeline};

use crate::output::{self, Format};

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Requests a second.
    Rps(Single),
    /// New TLS connections a second: each makes a full handshake, carries one request and is closed.
    Tps(Single),
    /// Gbit/s of response bodies.
    Throughput(Single),
    /// Measure what a proxy costs, and why: alternates short rounds of both ways, and examines the machine
    /// meanwhile.
    Compare(Box<compare::Compare>),
    /// Field case C's four tables for this machine: requests/s over HTTP and over HTTPS, TLS connections/s
    /// and Gbit/s, by the number of CPUs.
    Sweep(Box<sweep::Sweep>),
}

/// Exit status if some requests failed.
const EXIT_FAILURES: u8 = 1;

pub(crate) fn run(options: Bench) -> anyhow::Result<ExitCode> {
    match options.what {
        What::Rps(single) => once(Kind::Rps, &single),
        What::Tps(single) => once(Kind::Tps, &single),
        What::Throughput(single) => once(Kind::Throughput, &single),
        What::Compare(options) => compare::run(&options),
        What::Sweep(options) => sweep::run(&options),
    }
}

fn once(kind: Kind, single: &Single) -> anyhow::Result<ExitCode> {
    let subject = Subject::new(kind, &single.url, &single.load)?;
    for address in &subject.left_out {
        eprintln!("forebay: ignored: {address}");
    }
    let round = Round::of(&single.load)?;
    let (measured, readings) = measure(&subject, &round, single.telling.report.as_deref())?;
    if let Some(file) = &single.telling.report {
        report::write(file, &report::of_one(&subject, &measured, &readings))?;
    }
    match single.telling.output {
        Format::Json => output::print(serde_json::to_string_pretty(&measured.measurement)? + "\n")?,
        Format::Text => output::print(show::text(&subject, &measured, round.threads))?,
    }
    let failed = !measured.measurement.errors.is_empty();
    Ok(if failed { ExitCode::from(EXIT_FAILURES) } else { ExitCode::SUCCESS })
}

/// Measures. If a report is to be written, the machine is observed meanwhile.
fn measure(
    subject: &Subject,
    round: &Round,
    report: Option<&Path>,
) -> anyhow::Result<(Measured, Vec<Reading>)> {
    let progress = Arc::new(Progress::default());
    let Some(file) = report else { return Ok((subject.measure(round, &progress)?, Vec::new())) };
    report::prepare(file)?;
    let (counted, kind) = (Arc::clone(&progress), subject.kind);
    let timeline = Timeline::start(None, move || [kind.count(counted.read()), 0.0])?;
    let measured = subject.measure(round, &progress);
    let readings = timeline.finish();
    Ok((measured?, readings))
}
