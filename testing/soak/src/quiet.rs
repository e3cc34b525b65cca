//! The judgement of the doctor on what the flight recorder has recorded of a run in which nothing was
//! disturbed: there must be no finding.
//!
//! Must not be in here: how a run is made quiet.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::Report;

/// The record of the run, in its folder.
pub(crate) const RECORD: &str = "record";

/// The part of the run that is not judged: all connections are opened in it.
const BEGIN: Duration = Duration::from_secs(20);

/// Asks the doctor. A finding is a fault, unless the machine was busy: its findings may then be true. The
/// lines of the judgement are for the report.
pub(crate) fn judge(report: &Report, was_busy: bool) -> Result<Vec<String>> {
    let mut command = Command::new(adversary::binary::path()?.canonicalize()?);
    let judged = report.elapsed().saturating_sub(BEGIN).as_secs();
    command.args(["doctor", "--lang", "en", "--since", &format!("-{judged}s"), "--record"]);
    command.arg(report.folder().join(RECORD));
    let output = command.output().context("the doctor does not run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<_> = text.lines().map(|line| format!("doctor: {line}")).collect();
    if was_busy {
        lines.push("doctor: not judged, since threads waited for CPUs on this machine".to_owned());
    } else if !is_quiet(&text) {
        let errors = String::from_utf8_lossy(&output.stderr);
        report.fault(format!("the record of a quiet run is judged: {}{}", text.trim(), errors.trim()));
    }
    Ok(lines)
}

/// Whether the judgement is the one line of a quiet time. Findings that are named in it were there all the
/// time, such as parameters of the kernel, or for one sample.
fn is_quiet(text: &str) -> bool {
    text.lines().count() == 1 && text.contains(" samples: quiet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_a_damage_and_an_empty_record_are_not_quiet() {
        let span = "2026-11-27 02:50:00 to 03:19:50, 180 samples";
        assert!(is_quiet(&format!("{span}: quiet\n")));
        assert!(is_quiet(&format!("{span}: quiet; all the time: somaxconn (--all shows them)\n")));
        assert!(!is_quiet(&format!("{span}: quiet\nleft out: segment 3\n")));
        assert!(!is_quiet(&format!("{span}\n\n\u{d7} upstream-reuse  03:02:10 to 03:04:20\n\n1 finding\n")));
        assert!(!is_quiet("nothing is recorded of that time\n"));
        assert!(!is_quiet(""));
    }
}
