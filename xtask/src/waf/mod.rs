//! `cargo xtask waf`: the regression tests of the OWASP core rules, played to the firewall.
//!
//! No socket is opened: each test's request is written as its own runner (go-ftw) would write it, and given
//! to a transaction. Must not be in here: rules and tests, which are those of a Go module that `testing/waf`
//! pins.

mod backend;
mod beside;
mod check;
mod hostile;
mod many;
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

/// The level of paranoia of the tests, as `testing/waf/setup.conf` has it.
const LEVEL: u8 = 4;

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
    /// Measures a thousand Ingresses behind the rules instead, in memory, start and change.
    #[arg(long, conflicts_with_all = ["only", "record"])]
    many: bool,
    /// The binary of this profile of Cargo is measured or compared; it must have been built.
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// Writes each exchange with the rules that matched into this file, for testing/waf/oracle.py.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Adds this number of ordinary requests to that file.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    ordinary: u64,
    /// Sends the requests to Debian's nginx with its package libnginx-mod-http-modsecurity and to the binary,
    /// both with the rules of its package modsecurity-crs, and compares whether they are refused.
    #[arg(long, conflicts_with_all = ["rules", "record"])]
    beside_nginx: bool,
    /// The level of paranoia; without it 4, as the tests want it, and 1 beside nginx.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=4))]
    level: Option<u8>,
    /// Plays requests that are meant to cost much as well, at paranoia levels 1 and 2.
    #[arg(long)]
    hostile: bool,
}

/// A test that is known to differ, in a file of `testing/waf`.
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
    let folder = arguments.rules.clone().unwrap_or_else(|| module.join("rules"));
    if arguments.many {
        return many::measure(&arguments.profile, &folder);
    }
    if arguments.hostile {
        hostile::play(&folder)?;
    }
    let mut tests = suite::load(&arguments.tests.clone().unwrap_or_else(|| module.join("tests")))?;
    if let Some(only) = &arguments.only {
        tests.retain(|test| test.is(only));
    }
    ensure!(!tests.is_empty(), "there is no such test");
    if arguments.beside_nginx {
        let known = exceptions("testing/waf/beside-nginx.yaml")?;
        let verdicts = beside::Verdicts::of(
            &tests,
            arguments.ordinary,
            arguments.level.unwrap_or(1),
            &arguments.profile,
        )?;
        return Ok(beside::told(&verdicts, &known));
    }
    let rules = rules::compile(&folder, arguments.level.unwrap_or(LEVEL))?;
    if let Some(file) = &arguments.record {
        record::write(file, &tests, arguments.ordinary, &rules)?;
        if arguments.level.is_some() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let exceptions = exceptions("testing/waf/exceptions.yaml")?;
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
pub(crate) fn module() -> Result<PathBuf> {
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

/// A list of tests that are known to differ, by test.
fn exceptions(file: &str) -> Result<BTreeMap<String, String>> {
    let path = root().join(file);
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
