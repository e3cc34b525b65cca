//! `forebay bench sweep`: the four tables of field case C for this machine.
//!
//! By default it starts its own proxy for each number of CPUs and pins it there. A proxy that runs already is
//! not changed: then only the number of the generator's CPUs varies. Must not be in here: changing the
//! affinity of another process.

mod page;
mod show;
mod stage;

use std::process::ExitCode;
use std::time::Duration;

use ::bench::cpu::CpuTime;
use ::bench::generator::Progress;
use ::bench::tls::Version;
use anyhow::{Context, ensure};
use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use super::args::{Load, Telling};
use super::compare::tell_progress;
use super::measure::{Kind, Measurement, Round, Subject};
use super::{EXIT_FAILURES, report};
use crate::output::{self, Format};
use stage::Stage;

/// TLS version of field case C's handshakes.
const VERSION: Version = Version::V1_2;
const SUITE: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";

/// The options of `forebay bench sweep`.
#[derive(Args, Debug)]
#[command(mut_arg("duration", |duration| duration.default_value("5s").help("How long each measurement is")))]
#[command(mut_arg("connections", |connections| connections.default_value("128")))]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
#[command(mut_arg("requests", |requests| requests.hide(true)))]
#[command(mut_arg("keep_alive", |keep_alive| keep_alive.hide(true)))]
#[command(mut_arg("threads", |threads| threads.hide(true)))]
pub(crate) struct Sweep {
    /// Numbers of CPUs [default: 1, 2, 4 and so on, up to all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Vec<u16>,
    /// http:// URL at a proxy that runs already, answering with 1 KB. It is left as it is, and the
    /// generator's CPUs are swept [default: Forebay is started on so many CPUs, with a payload server behind
    /// it].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// https:// URL at it.
    #[arg(long, value_name = "URL", requires = "url")]
    tls_url: Option<String>,
    /// http:// URL at it that answers with 1 MB or more, for the throughput.
    #[arg(long, value_name = "URL", requires = "url")]
    large_url: Option<String>,
    /// Its process, whose CPU time is told.
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    telling: Telling,
}

/// The subject of one of the tables.
struct Topic {
    /// Its name in JSON.
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    kind: Kind,
    is_tls: bool,
    /// The path that is requested from the payload server.
    path: &'static str,
}

/// The tables of field case C, in its order.
const TOPICS: [Topic; 4] = [
    Topic {
        key: "http",
        title: "HTTP requests/s",
        unit: "requests/s",
        kind: Kind::Rps,
        is_tls: false,
        path: "/1k",
    },
    Topic {
        key: "https",
        title: "HTTPS requests/s",
        unit: "requests/s",
        kind: Kind::Rps,
        is_tls: true,
        path: "/1k",
    },
    Topic {
        key: "tls",
        title: "New TLS connections/s",
        unit: "connections/s",
        kind: Kind::Tps,
        is_tls: true,
        path: "/0",
    },
    Topic {
        key: "throughput",
        title: "Throughput",
        unit: "Gbit/s",
        kind: Kind::Throughput,
        is_tls: false,
        path: "/1m",
    },
];

/// A row of a table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// CPUs of the proxy or, if it runs already, of the generator.
    cpus: usize,
    /// Whether the generator and the server ran on the proxy's CPUs because there were no others; none if the
    /// proxy runs already.
    shared: Option<bool>,
    /// CPUs that the proxy's processes used; none if that is not known.
    proxy_cpus_used: Option<f64>,
    #[serde(flatten)]
    measurement: Measurement,
}

/// The tables, in the order of [`TOPICS`]; one that was not to be measured is empty.
type Tables = [Vec<Row>; 4];

/// The CPUs of all programs for one row.
struct Placement {
    /// The number of CPUs in the row.
    cpus: usize,
    proxy: Vec<usize>,
    /// The CPUs of the generator and the server.
    others: Vec<usize>,
    shared: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Sweep) -> anyhow::Result<ExitCode> {
    if let Some(file) = &options.telling.report {
        report::prepare(file)?;
    }
    let allowed = allowed()?;
    let numbers = numbers(&options.cpus, allowed.len())?;
    let tables = match options.url {
        Some(_) => sweep_generator(options, &numbers, &allowed)?,
        None => sweep_proxy(options, &numbers, &allowed)?,
    };
    tell_progress("");
    if let Some(file) = &options.telling.report {
        report::write(file, &page::page(options, &tables))?;
    }
    match options.telling.output {
        Format::Json => output::print(serde_json::to_string_pretty(&show::json(options, &tables))? + "\n")?,
        Format::Text => output::print(show::text(options, &tables))?,
    }
    let failed = tables.iter().flatten().any(|row| !row.measurement.errors.is_empty());
    Ok(if failed { ExitCode::from(EXIT_FAILURES) } else { ExitCode::SUCCESS })
}

/// Measures with a proxy of our own on each number of CPUs.
fn sweep_proxy(options: &Sweep, numbers: &[usize], allowed: &[usize]) -> anyhow::Result<Tables> {
    let mut tables = Tables::default();
    let mut stage = Stage::new()?;
    let load = Load { insecure: true, ..options.load.clone() };
    for number in numbers {
        let placement = Placement::of(*number, allowed);
        let addresses = stage.start(&placement.proxy, &placement.others)?;
        for (topic, table) in TOPICS.iter().zip(&mut tables) {
            tell_progress(&format!("{number} CPUs: {}", topic.title));
            let (scheme, port) =
                if topic.is_tls { ("https", addresses.https) } else { ("http", addresses.http) };
            let subject =
                Subject::new(topic.kind, &format!("{scheme}://127.0.0.1:{port}{}", topic.path), &load)?;
            let subject = if topic.is_tls { subject.with_suite(VERSION, SUITE) } else { subject };
            table.push(measure(&subject, &load, &placement, Some(addresses.pid))?);
        }
        stage.stop();
    }
    Ok(tables)
}

/// Measures a proxy that runs already, with each number of CPUs for the generator.
fn sweep_generator(options: &Sweep, numbers: &[usize], allowed: &[usize]) -> anyhow::Result<Tables> {
    let urls = [&options.url, &options.tls_url, &options.tls_url, &options.large_url];
    let mut tables = Tables::default();
    for number in numbers {
        let placement = Placement {
            cpus: *number,
            proxy: Vec::new(),
            others: allowed[..*number].to_vec(),
            shared: false,
        };
        for ((topic, url), table) in TOPICS.iter().zip(urls).zip(&mut tables) {
            let Some(url) = url else { continue };
            tell_progress(&format!("{number} CPUs: {}", topic.title));
            let subject = Subject::new(topic.kind, url, &options.load)?;
            let row = measure(&subject, &options.load, &placement, options.pid)?;
            table.push(Row { shared: None, ..row });
        }
    }
    Ok(tables)
}

fn measure(subject: &Subject, load: &Load, placement: &Placement, pid: Option<u32>) -> anyhow::Result<Row> {
    let threads = placement.others.len().min(load.connections as usize);
    let round = Round { threads, cpus: Some(placement.others.clone()), watched: false, ..Round::of(load)? };
    let before = pid.map(cpu_time).transpose()?;
    let measured = subject.measure(&round, &Progress::default())?;
    let used = pid.map(cpu_time).transpose()?.zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(Row {
        cpus: placement.cpus,
        shared: Some(placement.shared),
        proxy_cpus_used: used
            .map(|used| used.as_secs_f64() / measured.outcome.elapsed.as_secs_f64().max(1e-9)),
        measurement: measured.measurement,
    })
}

/// The CPU time of a process and its children: nginx has a master and workers.
fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let used = |pid| CpuTime::of_process(pid).map(|time| time.total);
    let own = used(pid).with_context(|| format!("process {pid} is not there, or has ended"))?;
    let children: Duration = children(pid).into_iter().filter_map(|child| used(child).ok()).sum();
    Ok(own + children)
}

fn children(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |child: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        // The name in parentheses may contain any character (proc_pid_stat(5)).
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    pids.filter(|child| parent(*child) == Some(pid)).collect()
}

/// The CPUs that this process may use.
fn allowed() -> anyhow::Result<Vec<usize>> {
    let mask = sched_getaffinity(None).context("cannot read the affinity mask")?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect())
}

/// The numbers of CPUs to measure: the requested ones, or the powers of two and the number of all CPUs.
fn numbers(asked: &[u16], allowed: usize) -> anyhow::Result<Vec<usize>> {
    if let Some(most) = asked.iter().max() {
        ensure!(usize::from(*most) <= allowed, "--cpus {most}: this process may use {allowed}");
        return Ok(asked.iter().map(|number| usize::from(*number)).collect());
    }
    let mut numbers: Vec<usize> = std::iter::successors(Some(1), |number| Some(number * 2))
        .take_while(|number| *number < allowed)
        .collect();
    numbers.push(allowed);
    Ok(numbers)
}

impl Placement {
    /// The proxy on the first CPUs; the others on the rest, or on the same CPUs if there are no others.
    fn of(number: usize, allowed: &[usize]) -> Placement {
        let (proxy, rest) = allowed.split_at(number);
        let shared = rest.is_empty();
        let others = if shared { proxy } else { rest };
        Placement { cpus: number, proxy: proxy.to_vec(), others: others.to_vec(), shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_doubled_up_to_all() {
        assert_eq!(numbers(&[], 1).unwrap(), [1]);
        assert_eq!(numbers(&[], 6).unwrap(), [1, 2, 4, 6]);
        assert_eq!(numbers(&[], 8).unwrap(), [1, 2, 4, 8]);
        assert_eq!(numbers(&[3, 1], 4).unwrap(), [3, 1]);
        assert!(numbers(&[5], 4).is_err());
    }

    #[test]
    fn the_proxy_has_cpus_of_its_own_as_long_as_there_are_others() {
        let placement = Placement::of(1, &[2, 3, 5]);
        assert_eq!((placement.proxy, placement.others, placement.shared), (vec![2], vec![3, 5], false));
        let placement = Placement::of(2, &[0, 1]);
        assert_eq!((placement.proxy, placement.others, placement.shared), (vec![0, 1], vec![0, 1], true));
    }
}
