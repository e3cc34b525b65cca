//! `cargo xtask peers`: Forebay and its peers side by side, on this machine, in one run.
//!
//! Rounds are interleaved, so that whatever else the machine does hits all alike, and medians are compared.
//! Must not be in here: how one peer is measured.

mod figures;
mod measure;
mod proxy;
mod report;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::machine::{self, Cpus};
use figures::Results;
use measure::Bench;
use workload::{WORKLOADS, Workload};

pub(crate) use proxy::{Peer, forebay_binary};

/// Where `--write` puts the figures.
const PAGE: &str = "docs/performance.md";

/// Options of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these workloads.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// All but these peers.
    #[arg(long, num_args = 1.., value_name = "PEER")]
    without: Vec<String>,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long one measurement lasts.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Put figures, machine and command into docs/performance.md.
    #[arg(long)]
    write: bool,
}

/// Measures, prints, and fails where an answer was wrong. A goal that is not met is printed, not an error: machines differ.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let workloads = arguments.workloads()?;
    let peers = arguments.peers()?;
    let folder = tempfile::tempdir()?;
    let bench = prepare(arguments, &folder, &peers)?;
    let mut page = format!("{}- {}\n", machine::describe(), arguments.command_line());
    println!("{page}");
    for workload in workloads {
        let results = measure(workload, &peers, arguments.rounds, &bench)?;
        let section = report::section(workload, &results);
        println!("{section}");
        page.push('\n');
        page.push_str(&section);
    }
    if arguments.write { report::write(Path::new(PAGE), &page) } else { Ok(()) }
}

fn prepare<'a>(arguments: &Arguments, folder: &'a TempDir, peers: &[Peer]) -> Result<Bench<'a>> {
    if peers.contains(&Peer::Forebay) {
        forebay_binary().context("or leave it out: --without forebay")?;
    }
    machine::raise_descriptor_limit();
    Ok(Bench {
        cpus: Cpus::choose()?,
        seconds: Duration::from_secs(arguments.seconds),
        folder: folder.path(),
        interrupt: Interrupt::install()?,
    })
}

fn measure(workload: &Workload, peers: &[Peer], rounds: usize, bench: &Bench) -> Result<Results> {
    let mut results = Results::default();
    for round in 1..=rounds {
        for peer in workload.peers.iter().filter(|peer| peers.contains(peer)) {
            eprintln!("{}, round {round} of {rounds}: {}", workload.name, peer.name());
            let figures = (workload.measure)(bench, *peer)
                .with_context(|| format!("{} with {}", workload.name, peer.name()))?;
            results.add(*peer, figures);
        }
    }
    Ok(results)
}

impl Arguments {
    fn workloads(&self) -> Result<Vec<&'static Workload>> {
        for name in &self.only {
            if !WORKLOADS.iter().any(|workload| workload.name == name) {
                let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
                bail!("there is no workload {name}; there are: {}", names.join(", "));
            }
        }
        let wanted =
            |workload: &&Workload| self.only.is_empty() || self.only.iter().any(|name| name == workload.name);
        Ok(WORKLOADS.iter().filter(wanted).collect())
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        for name in &self.without {
            if !Peer::ALL.iter().any(|peer| peer.name() == name) {
                bail!("there is no peer {name}; there are: {}", Peer::ALL.map(Peer::name).join(", "));
            }
        }
        Ok(Peer::ALL
            .into_iter()
            .filter(|peer| !self.without.iter().any(|name| name == peer.name()))
            .collect())
    }

    fn command_line(&self) -> String {
        let option = |name: &str, values: &[String]| match values {
            [] => String::new(),
            values => format!(" --{name} {}", values.join(" ")),
        };
        let which = option("only", &self.only) + &option("without", &self.without);
        format!("`cargo xtask peers{which} --rounds {} --seconds {}`", self.rounds, self.seconds)
    }
}
