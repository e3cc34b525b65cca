//! Runs `forebay doctor`: live beside a load, or on captured files.
//!
//! Must not be in here: expected findings.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab::Program;
use serde_json::Value;

use crate::page::Section;
use crate::program::forebay;

/// How long it watches.
pub(crate) const WATCH: Duration = Duration::from_secs(3);
/// How long a load has to be, so that the doctor, which starts with it, sees nothing else.
pub(crate) const LOAD: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(20);

/// The doctor's findings.
#[derive(Debug)]
pub(crate) struct Diagnosis(Vec<Value>);

/// A finding that has to be there.
pub(crate) struct Expected {
    pub(crate) id: &'static str,
    /// `warning`, which may be a failure as well, or `failure`.
    pub(crate) verdict: &'static str,
    /// Figures of its evidence, and what they are at least.
    pub(crate) at_least: &'static [(&'static str, f64)],
}

/// A finding that may be there too, and why it belongs to the case.
pub(crate) type Related = (&'static str, &'static str);

/// A command that watches a process, its descendants and their network namespace, as a user on the machine
/// would start it.
pub(crate) fn watch(pid: u32, arguments: &[&str]) -> Result<Command> {
    let mut command = forebay()?;
    command.args(["doctor", "--output", "json", "--pid", &pid.to_string()]);
    command.args(["--watch", &format!("{}s", WATCH.as_secs())]).args(arguments);
    Ok(command)
}

/// Waits for what a doctor who watches has to say.
pub(crate) fn diagnosis(doctor: Program) -> Result<Diagnosis> {
    let (status, output) = doctor.ending(LIMIT)?;
    let output: Value = serde_json::from_str(&output).with_context(|| output)?;
    let diagnosis = Diagnosis::new(&output["findings"])?;
    let expected = if diagnosis.any("failure") { 2 } else { i32::from(diagnosis.any("warning")) };
    ensure!(status.code() == Some(expected), "the doctor ended with {status} instead of {expected}");
    Ok(diagnosis)
}

/// Judges a folder with captured files.
pub(crate) fn judge(root: &Path, folder: &Path) -> Result<Diagnosis> {
    let mut command = forebay()?;
    command.args(["doctor", "--output", "json", "--root"]).arg(root);
    diagnosis(Program::start("doctor", command, folder)?)
}

// === impl Diagnosis ===

impl Diagnosis {
    /// From a list of findings.
    pub(crate) fn new(findings: &Value) -> Result<Diagnosis> {
        Ok(Diagnosis(findings.as_array().context("no findings")?.clone()))
    }

    /// An error unless all that is expected was found, with these figures, and nothing else but what is
    /// related.
    pub(crate) fn check(&self, expected: &[Expected], related: &[Related]) -> Result<()> {
        for expected in expected {
            let finding = self.get(expected.id)?;
            let is_as_bad = finding["verdict"] == "failure" || finding["verdict"] == expected.verdict;
            ensure!(is_as_bad, "expected a {}: {finding:#}", expected.verdict);
            for (name, minimum) in expected.at_least {
                let number = self.number(expected.id, name)?;
                ensure!(number >= *minimum, "{name} is less than {minimum}: {finding:#}");
            }
            ensure!(finding["remedy"] != "", "no remedy: {finding:#}");
        }
        let known = |id: &str| {
            expected.iter().any(|expected| expected.id == id) || related.iter().any(|(known, _)| *known == id)
        };
        match self.bad().find(|finding| !known(id(finding))) {
            Some(unrelated) => bail!("this has nothing to do with the case: {unrelated:#}"),
            None => Ok(()),
        }
    }

    /// An error if one of these is found.
    pub(crate) fn check_absent(&self, ids: &[&str]) -> Result<()> {
        match self.bad().find(|finding| ids.contains(&id(finding))) {
            Some(finding) => bail!("this should be over: {finding:#}"),
            None => Ok(()),
        }
    }

    /// The finding of this name.
    pub(crate) fn get(&self, wanted: &str) -> Result<&Value> {
        let finding = self.0.iter().find(|finding| id(finding) == wanted);
        finding.with_context(|| format!("the doctor knows no {wanted}"))
    }

    /// A figure of a finding's evidence.
    pub(crate) fn number(&self, wanted: &str, name: &str) -> Result<f64> {
        let finding = self.get(wanted)?;
        finding["evidence"][name].as_f64().with_context(|| format!("no number {name}: {finding:#}"))
    }

    /// An error unless a figure is what was counted otherwise, but for a half: nobody counts at the same
    /// moments.
    pub(crate) fn check_near(&self, id: &str, name: &str, counted: f64) -> Result<()> {
        let number = self.number(id, name)?;
        let is_near = (counted / 2.0..=counted * 2.0).contains(&number);
        ensure!(is_near, "{id} tells of {number} {name}, and {counted} were counted");
        Ok(())
    }

    /// Adds what was expected of a scene to a section.
    pub(crate) fn tell(&self, expected: &[Expected], scene: &str, section: &mut Section) -> Result<()> {
        for Expected { id, .. } in expected {
            section.finding(scene, id, self.get(id)?["message"].as_str().context("no message")?);
        }
        Ok(())
    }

    fn any(&self, verdict: &str) -> bool {
        self.0.iter().any(|finding| finding["verdict"] == verdict)
    }

    fn bad(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|finding| ["warning", "failure"].iter().any(|bad| finding["verdict"] == *bad))
    }
}

fn id(finding: &Value) -> &str {
    finding["id"].as_str().unwrap_or_default()
}
