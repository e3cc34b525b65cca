//! The field cases that can be made to happen on one machine, in network namespaces of their own.
//!
//! Must not be in here: how a scene is measured.

mod loads;
mod quota;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use lab::inside;

use super::scene::Scene;
use super::table::Table;
use super::{Demo, Interrupt, page, programs};
use crate::bench::{self, Bench, report};
use crate::doctor::show::{brief, has_colour};
use crate::output::print;
pub(super) use loads::Loads;

const NAME_WIDTH: usize = 44;
const WITHOUT: &str =
    "cases happen in network namespaces, of which `forebay demo` and `forebay demo --case c` have no need";

/// The field cases that can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// An ingress halves the QPS: it opens a connection to the Pod for each request.
    A,
    /// The best that an ingress can do: requests, TLS connections and bytes on one CPU.
    C,
    /// Keepalive that made things worse: a cap closes what the next burst opens.
    D,
    /// Into a container: too few ports, and a CPU quota that stalls bursts.
    E,
}

pub(super) fn run(case: Case, options: &Demo) -> anyhow::Result<ExitCode> {
    if let Some(file) = &options.report {
        report::prepare(file)?;
    }
    let loads = match case {
        Case::A => loads::A,
        Case::C => return at_best(options),
        Case::D => loads::D,
        Case::E => loads::E,
    };
    if !options.inside {
        let inside = inside::make().context(WITHOUT)?;
        return inside.run(std::env::args_os().skip(1).chain(["--inside".into()]));
    }
    inside::prepare().context(WITHOUT)?;
    let interrupt = Interrupt::install()?;
    let folder = programs::folder()?;
    let scenes = play(&loads, options, folder.path(), &interrupt)?;
    let quota = match case {
        Case::E => quota::run(options.duration, folder.path(), &interrupt)?,
        _ => Vec::new(),
    };
    if let Some(file) = &options.report {
        report::write(file, &page::page(&loads, &scenes, quota))?;
        print(format!("\n{}: all of it, drawn\n", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A command line of `forebay bench`.
#[derive(Parser)]
struct BenchLine {
    #[command(flatten)]
    bench: Bench,
}

/// `forebay bench sweep`, briefly.
fn at_best(options: &Demo) -> anyhow::Result<ExitCode> {
    print(
        "Field case C: what an ingress can do at best. Forebay has one CPU; load and Pod have others, or share it.\n\n",
    )?;
    let duration = format!("{}ms", (options.duration / 4).as_millis());
    let line = ["forebay bench", "sweep", "--cpus", "1", "--duration", &duration].map(OsString::from);
    let report = options.report.iter().flat_map(|file| ["--report".into(), file.into()]);
    bench::run(BenchLine::try_parse_from(line.into_iter().chain(report))?.bench)
}

/// Plays the scenes, one after the other, and prints what each came to.
fn play(loads: &Loads, options: &Demo, folder: &Path, interrupt: &Interrupt) -> anyhow::Result<Vec<Scene>> {
    print(format!("{}\n{}\n\n", loads.story.title, loads.story.lead))?;
    let table = Table::begin(NAME_WIDTH, loads.columns)?;
    let mut scenes = Vec::new();
    for way in loads.ways {
        interrupt.check()?;
        let scene = (way.play)(way.name, loads, options.duration, folder)?;
        interrupt.check()?;
        table.row(scene.name, &(loads.cells)(&scene))?;
        scenes.push(scene);
    }
    for scene in scenes.iter().filter(|scene| !scene.findings.is_empty()) {
        let mut text = format!("\nforebay doctor says of {}:\n", scene.name);
        for finding in &scene.findings {
            brief(&mut text, finding, has_colour());
        }
        print(text)?;
    }
    print(format!("\n{}\n", loads.story.conclusion))?;
    Ok(scenes)
}
