//! `cargo xtask instructions`: how many user-space instructions a request costs, counted by callgrind.
//!
//! Time cannot be a gate on a machine with neighbours; instructions can. One connection at a time carries
//! one request after the other, and the conversation goes on only when the worker sleeps. So every request
//! takes the same way through the program, with all its wake-ups.
//!
//! Must not be in here: times.

mod callgrind;
mod record;
mod scenario;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::child::{cargo, root, succeed};
use crate::measured::check_names;
use crate::proxies::forebay_of;
use callgrind::Counts;
use record::Record;
use scenario::{SCENARIOS, Scenario};

/// Options of `cargo xtask instructions`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these scenarios.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// The binary [default: one of the profile `quick`, which is built first].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Write what was counted into the record, instead of comparing with it.
    #[arg(long)]
    write: bool,
    /// Show the functions that cost most, so many of each scenario.
    #[arg(long, value_name = "N", default_value_t = 0)]
    top: usize,
    /// Leave callgrind's files in a folder for each scenario below this one, for `callgrind_annotate` and
    /// `kcachegrind`.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// The counts that a change must not exceed.
const RECORD: &str = "testing/instructions.txt";
/// Growth that is let pass: what the compiler inlines changes a little with any change.
const TOLERANCE: f64 = 0.02;
/// Functions that are named for a scenario that grew.
const CULPRITS_MAX: usize = 12;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = root();
    if cfg!(not(target_arch = "x86_64")) {
        println!("instructions are compared on x86-64 only, where {RECORD} was written");
        return Ok(());
    }
    if !testkit::needs_for("cargo xtask instructions", "valgrind") {
        return Ok(());
    }
    let scenarios = chosen(&arguments.only)?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => build(root)?,
    };
    let path = root.join(RECORD);
    let mut record = Record::read(&path)?;
    let mut has_grown = false;
    for scenario in scenarios {
        let counts = scenario::count(scenario, &binary, arguments.keep.as_deref())?;
        has_grown |= report(scenario, &counts, record.get(scenario.name), arguments);
        record.set(scenario.name, counts);
    }
    if arguments.write {
        return record.write(&path);
    }
    ensure!(!has_grown, "requests cost more instructions than {RECORD} allows");
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<&'static Scenario>> {
    check_names("scenario ", only, SCENARIOS.iter().map(|one| one.name))?;
    Ok(SCENARIOS.iter().filter(|one| only.is_empty() || only.iter().any(|name| name == one.name)).collect())
}

/// The binary of `make demo`: optimised as what ships is, but for link-time optimisation, which takes most
/// of a release build's time. No package is chosen, so that dependencies have the features that they were
/// built with.
fn build(root: &Path) -> Result<PathBuf> {
    succeed(cargo().current_dir(root).args(["build", "--quiet", "--profile", "quick", "--bin", "forebay"]))?;
    forebay_of("quick")
}

/// Prints a scenario's line; whether it costs more than it may.
fn report(scenario: &Scenario, now: &Counts, before: Option<&Counts>, arguments: &Arguments) -> bool {
    let total = now.total();
    let growth = before.map(|before| total as f64 / before.total() as f64 - 1.0);
    let has_grown = growth.is_none_or(|growth| growth > TOLERANCE);
    let verdict = match growth {
        _ if arguments.write => "",
        None => "  NOT IN THE RECORD: write it down with --write",
        Some(_) if has_grown => "  TOO MANY",
        Some(growth) if growth < -TOLERANCE => "  fewer: write it down with --write",
        Some(_) => "",
    };
    let growth = growth.map(|growth| format!("  {:+6.2} %", growth * 100.0)).unwrap_or_default();
    println!("{:24} {total:>8}{growth}{verdict}", scenario.name);
    if let Some(before) = before.filter(|_| has_grown) {
        for (function, more) in now.grown_since(before).into_iter().take(CULPRITS_MAX) {
            println!("    {more:>+8}  {function}");
        }
    }
    for (function, instructions) in now.functions().into_iter().take(arguments.top) {
        println!("    {instructions:>8}  {function}");
    }
    has_grown
}
