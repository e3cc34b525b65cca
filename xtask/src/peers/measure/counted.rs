//! How often a proxy calls the kernel, and how often it waits for it: counted by the kernel, for `perf stat`.
//!
//! Must not be in here: the load.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use bench::generator::Plan;

use super::{Bench, Stage};
use crate::child::{Program, START_LIMIT};
use crate::peers::figures::{Figure, Figures};

/// Each call of the kernel, and each time that a thread is left for another: with a CPU of its own it waits.
const EVENTS: [(&str, Figure); 2] =
    [("raw_syscalls:sys_enter", Figure::SystemCalls), ("context-switches", Figure::WakeUps)];

/// The link of a counter's descriptor.
const COUNTER: &str = "anon_inode:[perf_event]";

impl Bench<'_> {
    /// Makes a load and counts meanwhile.
    pub(super) fn counted(&self, stage: &Stage, plan: &Plan) -> Result<Figures> {
        let pids: Vec<_> = stage.program()?.pids()?.iter().map(ToString::to_string).collect();
        let file = self.folder.join("perf.csv");
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", &EVENTS.map(|(event, _)| event).join(","), "-p", &pids.join(",")]);
        perf.arg("-o").arg(&file);
        let perf = Program::start("perf", perf, &self.cpus.load, self.folder)?;
        let counts = || Ok(has_begun(perf.pid())?.then_some(()));
        self.interrupt.poll(START_LIMIT, counts)?.context("perf does not begin to count")?;
        let outcome = self.generate(plan)?;
        perf.interrupted(&self.interrupt)?;
        let counts = std::fs::read_to_string(&file).context("perf has counted nothing")?;
        let per_request =
            |(event, figure)| Ok((figure, count(&counts, event)? / outcome.answered.max(1) as f64));
        EVENTS.into_iter().map(per_request).collect()
    }
}

/// Whether perf has opened its counters.
fn has_begun(perf: u32) -> Result<bool> {
    let files = std::fs::read_dir(format!("/proc/{perf}/fd"))?;
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    Ok(links.filter(|link| link == Path::new(COUNTER)).count() >= EVENTS.len())
}

/// The count of an event in perf's table, whose lines are `count,unit,event,...`.
fn count(table: &str, event: &str) -> Result<f64> {
    let line = table.lines().find(|line| line.split(',').nth(2) == Some(event));
    let count = line.and_then(|line| line.split(',').next()?.parse().ok());
    count.with_context(|| format!("perf cannot count {event} here: {}", line.unwrap_or("no line")))
}
