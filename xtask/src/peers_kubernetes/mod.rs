//! `cargo xtask peers-kubernetes`: Forebay in a cluster, at scale, under change and in trouble.
//!
//! No peers are measured here: the goals are absolute. Must not be in here: how anything is measured.

mod change;
mod console;
mod stage;
mod start;
mod traffic;
mod upgrade;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::Result;
use lab::inside;
use serde::Deserialize;

use crate::interrupt::Interrupt;
use crate::machine;
use crate::measured::page::Block;
use crate::measured::{self, Findings, Measured};
use crate::template;
use stage::{Kind, Stage};

const NAME: &str = "peers-kubernetes";
const TITLE: &str = "Scale, change and trouble";

/// Options of `cargo xtask peers-kubernetes`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the measurements with these names.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// How many of everything, in percent of what the goals are about.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: u32,
    /// Put the figures of what is measured, with machine and command, into docs/figures.md; others stay
    /// there.
    #[arg(long)]
    write: bool,
    /// The namespaces have been entered.
    #[arg(long, hide = true)]
    inside: bool,
}

/// One thing that is measured: an entry of `xtask/peers-kubernetes/measures.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measure {
    name: String,
    what: String,
    /// Of what there are many.
    kind: Kind,
    run: Run,
}

/// How it is measured.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Run {
    ChangeIdle,
    TrafficRollingRestart,
    TrafficKillPod,
    UpgradeByHelm,
    TrafficApiServerAway,
    StartPlain,
    ChangeBusy,
    TrafficUnderChange,
    ConsoleCost,
    StartAnnotated,
    ChangeAnnotated,
    StartRoutes,
    TrafficRouteUnderChange,
}

static MEASURES: LazyLock<Vec<Measure>> =
    LazyLock::new(|| template::data("peers-kubernetes/measures.yaml").expect("a test reads the file"));

impl Run {
    fn of(self, stage: &mut Stage) -> Result<Findings> {
        match self {
            Run::ChangeIdle => change::idle(stage),
            Run::TrafficRollingRestart => traffic::rolling_restart(stage),
            Run::TrafficKillPod => traffic::kill_pod(stage),
            Run::UpgradeByHelm => upgrade::by_helm(stage),
            Run::TrafficApiServerAway => traffic::api_server_away(stage),
            Run::StartPlain => start::plain(stage),
            Run::ChangeBusy => change::busy(stage),
            Run::TrafficUnderChange => traffic::under_change(stage),
            Run::ConsoleCost => console::cost(stage),
            Run::StartAnnotated => start::annotated(stage),
            Run::ChangeAnnotated => change::annotated(stage),
            Run::StartRoutes => start::routes(stage),
            Run::TrafficRouteUnderChange => traffic::route_under_change(stage),
        }
    }
}

impl Measured for Measure {
    fn name(&self) -> &str {
        &self.name
    }

    fn what(&self) -> &str {
        &self.what
    }
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let measures = measured::wanted(&MEASURES, &arguments.only)?;
    if !arguments.inside {
        crate::proxies::forebay_binary()?;
        ::cluster::binary()?;
        let ours: Vec<OsString> = env::args_os().skip(1).chain(["--inside".into()]).collect();
        return inside::enter(&ours);
    }
    inside::prepare()?;
    inside::cover_run()?;
    machine::raise_descriptor_limit();
    let interrupt = Interrupt::install()?;
    let mut stage: Option<Stage> = None;
    let write = arguments.write.then(block);
    measured::run(
        &measures,
        &interrupt,
        write.as_ref(),
        |measure| arguments.source(measure),
        |measure| {
            // One cluster ends before the next one begins.
            let mut fit = match stage.take().filter(|stage| stage.kind == measure.kind) {
                Some(fit) => fit,
                None => Stage::set(arguments.percent, measure.kind, &interrupt)?,
            };
            let findings = measure.run.of(&mut fit)?;
            stage = Some(fit);
            Ok(findings)
        },
    )
}

fn block() -> Block {
    Block { command: NAME, groups: vec![(TITLE, MEASURES.iter().map(Measured::name).collect())] }
}

impl Arguments {
    /// The command that measures it alone, and the machine.
    fn source(&self, measure: &Measure) -> String {
        let percent =
            if self.percent == 100 { String::new() } else { format!(" --percent {}", self.percent) };
        format!("`cargo xtask {NAME} --only {}{percent}`; {}", measure.name, machine::describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = MEASURES.iter().map(Measured::name).collect();
        assert_eq!(names.len(), MEASURES.len());
    }
}
