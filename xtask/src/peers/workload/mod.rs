//! The workloads and their goals: one table for each group.
//!
//! Must not be in here: how anything is measured.

mod cache;
mod compression;
mod features;
mod files;
mod http1;
mod protocols;

use std::time::Duration;

use anyhow::Result;

use super::figures::{CARRIED_AS_MUCH, Figure, Figures, Results};
use super::measure::Bench;
use super::proxy::Peer;

/// One thing that peers are compared by.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) peers: &'static [Peer],
    /// The programs that it needs besides those of the peers.
    pub(crate) tools: &'static [&'static str],
    pub(crate) measure: fn(&Bench, Peer) -> Result<Figures>,
    pub(crate) goals: &'static [Goal],
}

/// What Forebay is to reach.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) what: &'static str,
    /// `None` where a figure is missing.
    pub(crate) met: fn(&Results) -> Option<bool>,
}

/// Workloads that are measured alike.
pub(crate) struct Group {
    /// What `--only` calls all of them.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) workloads: &'static [Workload],
    /// How often each is measured, and for how long, where the command line does not say.
    pub(crate) rounds: usize,
    pub(crate) duration: Duration,
}

/// All of them, in the order of the report.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "http1",
        title: "HTTP/1 in the clear",
        workloads: http1::WORKLOADS,
        rounds: 5,
        duration: Duration::from_secs(5),
    },
    Group {
        name: "protocols",
        title: "TLS, HTTP/2, gRPC and TCP",
        workloads: protocols::WORKLOADS,
        // All of these together take about nine minutes.
        rounds: 3,
        duration: Duration::from_secs(2),
    },
    Group {
        name: "features",
        title: "What Ingresses ask for",
        workloads: features::WORKLOADS,
        rounds: 3,
        duration: Duration::from_secs(3),
    },
    Group {
        name: "cache",
        title: "A cache",
        workloads: cache::WORKLOADS,
        rounds: 3,
        duration: Duration::from_secs(3),
    },
    Group {
        name: "compression",
        title: "Compression",
        workloads: compression::WORKLOADS,
        rounds: 3,
        duration: Duration::from_secs(5),
    },
    Group {
        name: "files",
        title: "Files",
        workloads: files::WORKLOADS,
        rounds: 3,
        duration: Duration::from_secs(3),
    },
];

/// Forebay's CPU per request over another's, where both carried the load: one that did not was never idle, batched more,
/// and looks better than it is.
fn cpu_ratio(results: &Results, other: Peer) -> Option<f64> {
    let carried_as_much = (results.ratio(Peer::Forebay, other, Figure::Rate)? - 1.0).abs() <= CARRIED_AS_MUCH;
    results.ratio(Peer::Forebay, other, Figure::Cpu).filter(|_| carried_as_much)
}

impl Group {
    /// Its workloads' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.workloads.iter().map(|workload| workload.name)
    }
}
