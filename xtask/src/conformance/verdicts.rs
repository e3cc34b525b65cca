//! The verdicts of programs that print a line for each case, and the list of cases that are known to fail. A
//! list may only shrink.
//!
//! Must not be in here: cases, and reasons; these stand in the lists of `testing`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::exceptions::exceptions;

/// The results of a suite.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    passed: BTreeSet<String>,
    /// The reason of each.
    failed: BTreeMap<String, String>,
}

impl Verdicts {
    /// Adds lines of `ok CASE` and `failed CASE: WHY`; the names of these cases begin with `prefix`.
    pub(super) fn read(&mut self, prefix: &str, output: &str) {
        for line in output.lines() {
            if let Some(case) = line.strip_prefix("ok ") {
                self.passed.insert(format!("{prefix}{case}"));
            } else if let Some((case, why)) =
                line.strip_prefix("failed ").and_then(|line| line.split_once(": "))
            {
                self.failed.insert(format!("{prefix}{case}"), why.to_owned());
            }
        }
    }

    /// How many cases pass and how many are excepted. It is an error where the list and the run do not agree,
    /// or fewer than `least` cases have run.
    pub(super) fn judge(&self, list: &Path, least: usize) -> Result<(usize, usize)> {
        let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
        self.compare(&exceptions(&text)?, least).with_context(|| format!("by {}", list.display()))
    }

    fn compare(&self, exceptions: &BTreeSet<String>, least: usize) -> Result<(usize, usize)> {
        let new = self.failed.iter().filter(|(case, _)| !exceptions.contains(*case));
        let new: Vec<_> = new.map(|(case, why)| format!("{case}: {why}")).collect();
        if !new.is_empty() {
            bail!("not passed: {}", new.join("; "));
        }
        let mended: Vec<_> = self.passed.intersection(exceptions).collect();
        ensure!(mended.is_empty(), "passed, so that it must not stand in the list: {mended:?}");
        let run = self.passed.len() + self.failed.len();
        ensure!(run >= least, "{run} cases have run, and there are {least} at least");
        Ok((self.passed.len(), self.failed.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_in_the_list_and_nothing_else() {
        let mut verdicts = Verdicts::default();
        verdicts.read("go ", "noise\nok http get\nfailed http idle: it is: closed\n");
        let compare = |list: &str, least| verdicts.compare(&exceptions(list).unwrap(), least);
        assert_eq!(compare("go http idle: So it is.\n", 2).unwrap(), (1, 1));
        let said = |list: &str, least| compare(list, least).unwrap_err().to_string();
        assert_eq!(said("", 1), "not passed: go http idle: it is: closed");
        assert!(said("go http idle: So.\ngo http get: So.\n", 1).contains("must not stand"));
        assert!(said("go http idle: So it is.\n", 3).contains("2 cases have run"));
    }
}
