//! `cargo xtask peers`: Forebay and its peers side by side, on this machine, in one run.
//!
//! Rounds are interleaved, so that whatever else the machine does hits all alike, and medians are compared.
//! Must not be in here: how one peer is measured.

pub(crate) mod certificate;
mod contents;
mod decider;
mod feature;
mod figures;
mod measure;
mod proxy;
mod report;
mod sign_in;
mod summary;
mod tokens;
mod tools;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::machine::{self, Cpus};
use crate::measured::page::Block;
use crate::measured::{PAGE, check_names, without};
use crate::proxies::forebay_of;
use certificate::Certificates;
use figures::{Figures, Results};
use measure::Bench;
use workload::{Group, Workload, groups};

pub(crate) use feature::{Feature, HOST};
pub(crate) use proxy::{Ingress, Peer, Setup};

/// The page with the table that sums up the figures of [`PAGE`].
const SUMMARY_PAGE: &str = "docs/performance.md";

/// Options of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these workloads, or groups of workloads.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// All but these peers.
    #[arg(long, num_args = 1.., value_name = "PEER")]
    without: Vec<Peer>,
    /// How often each is measured; without it as the group has it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// How long one measurement lasts; without it as the group has it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: Option<u16>,
    /// How much is on disk for cache-restart, in gibibytes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1024))]
    disk_gib: u32,
    /// How many objects there are in cache-zipf. A slow machine cannot fill a cache for a tenth of a million
    /// in half a minute.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    zipf_objects: u32,
    /// Put the figures of what is measured, with machine and command, into docs/figures.md; others stay
    /// there.
    #[arg(long)]
    write: bool,
    /// The profile of Forebay's binary. Figures of another one than `release` say nothing.
    #[arg(long, default_value = "release", conflicts_with = "write")]
    profile: String,
}

/// Why a peer is not measured.
struct Missing {
    peer: Peer,
    /// The reason, in one line.
    why: String,
}

/// The results of a workload.
#[derive(Default)]
struct Measured {
    results: Results,
    /// Peers of others that did not do what was asked of them.
    failed: Vec<Missing>,
}

/// A workload, as often and as long as it is measured now.
struct Job {
    workload: &'static Workload,
    rounds: usize,
    duration: Duration,
}

/// Measures, prints, and fails where an answer was wrong, after all else was measured. A peer that cannot be
/// had here and a goal that is not met are printed, not errors: machines differ.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let jobs = arguments.jobs()?;
    let mut peers = arguments.peers();
    let workloads: Vec<_> = jobs.iter().map(|job| job.workload).collect();
    tools::check(&workloads)?;
    if peers.contains(&Peer::Forebay) {
        forebay_of(&arguments.profile).context("or leave it out: --without forebay")?;
    }
    let missing = leave_out_missing(&mut peers, &workloads);
    let folder = tempfile::tempdir()?;
    let mut bench = prepare(&folder, arguments)?;
    let mut failed = Vec::new();
    for job in jobs {
        bench.seconds = job.duration;
        match measure(&job, &peers, &bench) {
            Ok(measured) => {
                arguments.tell(&job, &peers, &missing, &measured)?;
                let peers = measured.failed.iter().map(|failed| failed.peer.name());
                failed.extend(peers.map(|peer| format!("{} with {peer}", job.workload.name)));
            }
            Err(error) => {
                bench.interrupt.check()?;
                eprintln!("error: {error:#}");
                failed.push(job.workload.name.clone());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("not measured: {}", failed.join(", ")) }
}

/// Leaves out the peers that some workload is to be measured on and that cannot be had here.
fn leave_out_missing(peers: &mut Vec<Peer>, workloads: &[&Workload]) -> Vec<Missing> {
    let mut missing = Vec::new();
    peers.retain(|peer| {
        let is_measured = workloads.iter().any(|workload| workload.peers.contains(peer));
        let prepare = || tools::check_peer(*peer).and_then(|()| peer.definition().prepare());
        let Some(Err(error)) = is_measured.then(prepare) else { return true };
        eprintln!("not measured: {}: {error:#}", peer.name());
        missing.push(Missing::new(*peer, &error));
        false
    });
    missing
}

fn block() -> Block {
    let groups = groups().iter().map(|group| (group.title.as_str(), group.names().collect())).collect();
    Block { command: "peers", groups }
}

fn prepare<'a>(folder: &'a TempDir, arguments: &Arguments) -> Result<Bench<'a>> {
    machine::raise_descriptor_limit();
    Ok(Bench {
        cpus: Cpus::choose()?,
        seconds: Duration::ZERO,
        zipf_objects: arguments.zipf_objects as usize,
        disk_gib: arguments.disk_gib,
        folder: folder.path(),
        profile: arguments.profile.clone(),
        certificates: Certificates::make(HOST, folder.path())?,
        interrupt: Interrupt::install()?,
    })
}

/// An error where one of our own programs fails. A peer of others that does has no figures in this workload.
fn measure(job: &Job, peers: &[Peer], bench: &Bench) -> Result<Measured> {
    let Job { workload, rounds, .. } = job;
    let mut measured = Measured::default();
    for round in 1..=*rounds {
        for peer in workload.peers.iter().filter(|peer| peers.contains(peer)) {
            if measured.failed.iter().any(|failed| failed.peer == *peer) {
                continue;
            }
            eprintln!("{}, round {round} of {rounds}: {}", workload.name, peer.name());
            let figures = bench
                .measure(&workload.measure, *peer)
                .with_context(|| format!("{} with {}", workload.name, peer.name()));
            measured.add(bench, *peer, figures)?;
        }
    }
    Ok(measured)
}

impl Measured {
    fn add(&mut self, bench: &Bench, peer: Peer, figures: Result<Figures>) -> Result<()> {
        match figures {
            Ok(figures) => self.results.add(peer, figures),
            Err(error) if peer.is_ours() => return Err(error),
            Err(error) => {
                bench.interrupt.check()?;
                eprintln!("error: {error:#}");
                self.results.remove(peer);
                self.failed.push(Missing::new(peer, &error));
            }
        }
        Ok(())
    }
}

impl Missing {
    fn new(peer: Peer, error: &anyhow::Error) -> Missing {
        let why = format!("{error:#}");
        Missing { peer, why: why.lines().next().unwrap_or_default().trim_end_matches(':').to_owned() }
    }
}

/// The peers that should be measured and are not, with the reasons.
fn not_measured(workload: &Workload, missing: &[&Missing]) -> String {
    let missing = missing.iter().map(|missing| format!("{} ({})", missing.peer.name(), missing.why));
    let is_cache = workload.peers.contains(&Peer::Varnish);
    let never = is_cache.then(|| "Traffic Server (Debian's unstable suite has no package of it)".to_owned());
    let all: Vec<_> = missing.chain(never).collect();
    if all.is_empty() { String::new() } else { format!("not measured: {}", all.join(", ")) }
}

impl Arguments {
    fn jobs(&self) -> Result<Vec<Job>> {
        let names = groups().iter().flat_map(|group| [group.name.as_str()].into_iter().chain(group.names()));
        check_names("workload ", &self.only, names)?;
        let is_wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|wanted| wanted == name);
        let jobs = groups().iter().flat_map(|group| {
            let workloads = group.workloads.iter();
            let wanted =
                workloads.filter(move |workload| is_wanted(&group.name) || is_wanted(&workload.name));
            wanted.map(move |workload| self.job(group, workload))
        });
        Ok(jobs.collect())
    }

    fn job(&self, group: &Group, workload: &'static Workload) -> Job {
        Job {
            workload,
            rounds: self.rounds.map_or(group.rounds, usize::from),
            duration: self
                .seconds
                .map_or_else(|| group.duration(), |seconds| Duration::from_secs(seconds.into())),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        Peer::value_variants().iter().copied().filter(|peer| !self.without.contains(peer)).collect()
    }

    /// Prints what came of a workload, and puts it into the page where that is wished.
    fn tell(&self, job: &Job, peers: &[Peer], missing: &[Missing], measured: &Measured) -> Result<()> {
        let Measured { results, failed } = measured;
        let missing = missing.iter().chain(failed);
        let missing: Vec<_> = missing.filter(|one| job.workload.peers.contains(&one.peer)).collect();
        let unmeasured: Vec<_> = missing.iter().map(|one| one.peer).collect();
        let source = self.source(job, peers, &missing);
        let section = report::section(job.workload, results, &unmeasured, &source);
        println!("{section}");
        if self.write {
            block().write(Path::new(PAGE), &job.workload.name, &section)?;
            summary::write(Path::new(PAGE), Path::new(SUMMARY_PAGE), &block())?;
        }
        Ok(())
    }

    /// The options of a workload that has a size of its own.
    fn size_of(&self, workload: &str) -> String {
        match workload {
            "cache-zipf" => format!(" --zipf-objects {}", self.zipf_objects),
            "cache-restart" => format!(" --disk-gib {}", self.disk_gib),
            _ => String::new(),
        }
    }

    /// Where the figures of a workload come from: the command that measures it alone, and the machine. And of
    /// whom there are none.
    fn source(&self, job: &Job, peers: &[Peer], missing: &[&Missing]) -> String {
        let without = without(self.without.iter().map(|peer| peer.name()));
        let Job { workload, rounds, duration } = job;
        let parts = [
            format!(
                "`cargo xtask peers --only {}{without} --rounds {rounds} --seconds {}{}`",
                workload.name,
                duration.as_secs(),
                self.size_of(&workload.name)
            ),
            machine::describe(),
            tools::versions(workload, peers),
            not_measured(workload, missing),
        ];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn workload(name: &str) -> &'static Workload {
        workload::all().find(|workload| workload.name == name).expect("it is in the table")
    }

    #[test]
    fn a_peer_that_cannot_be_had_is_named_with_its_reason() {
        let error = anyhow!("a loader\nis missing").context("pip ended with exit status: 1");
        let missing = Missing::new(Peer::Envoy, &error);
        let text = not_measured(workload("keepalive-64"), &[&missing]);
        assert_eq!(text, "not measured: envoy (pip ended with exit status: 1: a loader)");
        assert_eq!(not_measured(workload("keepalive-64"), &[]), "");
    }
}
