//! `cargo xtask waf`: the regression tests of the OWASP core rules, played to the firewall.
//!
//! No socket is opened: each test's request is written as its own runner (go-ftw) would write it, and given
//! to a transaction. Must not be in here: rules and tests, which are those of a Go module that `testing/waf`
//! pins.

mod backend;
mod check;
mod message;
mod ordinary;
mod record;
mod rules;
mod suite;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::child::{output, root};
use suite::Test;
use trial::Failure;

/// The Go module that has the rules and the tests.
const MODULE: &str = "github.com/corazawaf/coraza-coreruleset/v4";

/// Options of `cargo xtask waf`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs only the tests of this rule, such as 942100, or this test, such as 942100-3.
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// The folder of the rules, instead of the pinned module's.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// The folder of the tests, instead of the pinned module's.
    #[arg(long, value_name = "DIR")]
    tests: Option<PathBuf>,
    /// Writes each exchange with the rules that matched into this file, for testing/waf/oracle.py.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Adds this number of ordinary requests to that file.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    ordinary: u64,
}

/// A test that cannot pass, in `testing/waf/exceptions.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    test: String,
    reason: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let module = match (&arguments.rules, &arguments.tests) {
        (Some(_), Some(_)) => PathBuf::new(),
        _ => module()?,
    };
    let rules = rules::compile(&arguments.rules.clone().unwrap_or_else(|| module.join("rules")))?;
    let mut tests = suite::load(&arguments.tests.clone().unwrap_or_else(|| module.join("tests")))?;
    if let Some(only) = &arguments.only {
        tests.retain(|test| test.is(only));
    }
    ensure!(!tests.is_empty(), "there is no such test");
    if let Some(file) = &arguments.record {
        record::write(file, &tests, arguments.ordinary, &rules)?;
    }
    let exceptions = exceptions()?;
    let failures = play(&tests, &rules);
    let mut unexpected = 0;
    for failure in failures.values().filter(|failure| !exceptions.contains_key(&failure.test)) {
        println!("{failure}\n");
        unexpected += 1;
    }
    let mended =
        tests.iter().filter(|test| exceptions.contains_key(&test.id) && !failures.contains_key(&test.id));
    let mended: Vec<_> = mended.map(|test| test.id.as_str()).collect();
    for test in &mended {
        println!("{test} passes, so that it must not stand in testing/waf/exceptions.yaml\n");
    }
    println!(
        "{} passed, {unexpected} failed, {} excepted",
        tests.len() - failures.len(),
        failures.len() - unexpected
    );
    Ok(if unexpected == 0 && mended.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The folder of the Go module, fetched if it is not in Go's cache.
fn module() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Module {
        #[serde(rename = "Dir")]
        folder: PathBuf,
    }
    let mut command = Command::new("go");
    command.current_dir(root().join("testing/waf")).args(["mod", "download", "-json", MODULE]);
    let module: Module = serde_json::from_str(&output(&mut command)?)?;
    Ok(module.folder)
}

/// The list of tests that cannot pass, by test.
fn exceptions() -> Result<BTreeMap<String, String>> {
    let path = root().join("testing/waf/exceptions.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let list: Vec<Exception> = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    for exception in &list {
        ensure!(exception.reason.ends_with('.'), "{}: the reason is no sentence", exception.test);
    }
    Ok(list.into_iter().map(|exception| (exception.test, exception.reason)).collect())
}

/// Plays all tests; those that fail, by test.
fn play(tests: &[Test], rules: &Arc<::waf::Rules>) -> BTreeMap<String, Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = tests.len().div_ceil(threads);
    thread::scope(|scope| {
        let players: Vec<_> = tests
            .chunks(share)
            .map(|tests| {
                scope.spawn(move || -> Vec<Failure> {
                    tests.iter().filter_map(|test| trial::play(test, rules).err()).collect()
                })
            })
            .collect();
        let failures = players.into_iter().flat_map(|player| player.join().expect("a player does not panic"));
        failures.map(|failure| (failure.test.clone(), failure)).collect()
    })
}
