//! The public suite for HTTP caches (`http-cache-tests`), and the list of tests that are known not to pass.
//! The list may only shrink.
//!
//! Must not be in here: reasons; they stand in `testing/http-cache/exceptions.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::exceptions::exceptions;
use super::stage::{Stage, forebay};
use crate::child::{Program, free_address};

const LIMIT: Duration = Duration::from_secs(120);

/// Tests that have to pass (required) and that a good cache passes (optimal) in this version of the suite.
const REQUIRED: usize = 157;
const OPTIMAL: usize = 86;
/// How many of the latter have to.
const OPTIMAL_MIN: usize = 75;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/http-cache.yaml");

/// The results of the suite.
#[derive(Debug, Default)]
struct Verdicts {
    /// Kind and id.
    passed: BTreeSet<String>,
    /// Why, of each.
    failed: BTreeMap<String, String>,
}

/// Runs all tests through a Forebay of its own, whose origin the suite brings along.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let (http, origin) = (free_address()?, free_address()?);
    let mut command = forebay(Path::new(MANIFEST), http, free_address()?, free_address()?)?;
    command.args(["--cache-memory", "64m", "--endpoints", &format!("default/origin={origin}")]);
    let mut forebay = Program::start("forebay-cache", command, &[], &stage.folder)?;
    forebay.wait_for(http, &stage.interrupt)?;
    let mut command = stage.tools.node_script("http-cache/run.mjs");
    command
        .arg(stage.tools.node_modules("http-cache"))
        .arg(origin.port().to_string())
        .arg(format!("http://{http}"));
    let output = stage.output("http-cache", command, LIMIT)?;
    let list = fs::read_to_string(stage.tools.testing.join("http-cache/exceptions.txt"))?;
    judge(&read(&output), &exceptions(&list)?).with_context(|| output.clone())
}

/// Lines of `KIND ID pass`, or why not.
fn read(output: &str) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for line in output.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(kind @ ("required" | "optimal")), Some(id), Some(result)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let test = format!("{kind} {id}");
        match result {
            "pass" => _ = verdicts.passed.insert(test),
            why => _ = verdicts.failed.insert(test, why.to_owned()),
        }
    }
    verdicts
}

/// An error where the list and the run do not agree, or too little passes.
fn judge(verdicts: &Verdicts, exceptions: &BTreeSet<String>) -> Result<String> {
    let Verdicts { passed, failed } = verdicts;
    let new = failed.iter().filter(|(test, _)| !exceptions.contains(*test));
    let new: Vec<_> = new.map(|(test, why)| format!("{test}: {why}")).collect();
    if !new.is_empty() {
        bail!("not passed: {}", new.join("; "));
    }
    let mended: Vec<_> = passed.intersection(exceptions).collect();
    if !mended.is_empty() {
        bail!("passed, so that it must not stand in testing/http-cache/exceptions.txt: {mended:?}");
    }
    let [required, optimal] = ["required", "optimal"].map(|kind| {
        let of_kind = |test: &&String| test.starts_with(kind);
        (passed.iter().filter(of_kind).count(), failed.keys().filter(of_kind).count())
    });
    ensure!(
        (required.0 + required.1, optimal.0 + optimal.1) == (REQUIRED, OPTIMAL),
        "the suite has other tests than it had: {required:?}, {optimal:?}"
    );
    ensure!(optimal.0 >= OPTIMAL_MIN, "{} of the optimal tests pass, which is too few", optimal.0);
    Ok(format!(
        "{} of {REQUIRED} required tests pass, {} excepted; {} of {OPTIMAL} optimal ones",
        required.0, required.1, optimal.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_in_the_list_and_nothing_else() {
        let verdicts =
            read("noise\nrequired a pass\nrequired b Assertion,Response 2\noptimal c pass\ncheck d pass\n");
        assert_eq!((verdicts.passed.len(), verdicts.failed.len()), (2, 1));
        let said = |list: &str| judge(&verdicts, &exceptions(list).unwrap()).unwrap_err().to_string();
        assert!(said("").contains("not passed: required b: Assertion,Response 2"));
        assert!(said("required b: Why.\nrequired a: Why.").contains("must not stand in"));
        assert!(said("required b: Why.").contains("other tests"));
        assert!(exceptions("required b").is_err() && exceptions("required b: why").is_err());
    }
}
