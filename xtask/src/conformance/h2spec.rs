//! h2spec, and the list of cases that it is known not to pass. The list may only shrink.
//!
//! Must not be in here: reasons; they stand in `testing/h2spec/exceptions.txt`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::exceptions::exceptions;
use super::stage::Stage;
use crate::child::Program;

const LIMIT: Duration = Duration::from_secs(120);

/// A case, such as `http2/3.5/2`: a section of a specification, and a number in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    id: String,
    title: String,
    passed: bool,
}

/// Runs all cases against both ports.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let list = fs::read_to_string(stage.tools.testing.join("h2spec/exceptions.txt"))?;
    let exceptions = exceptions(&list)?;
    let mut said = Vec::new();
    for (port, address, flags) in
        [("clear", stage.http, &[][..]), ("tls", stage.https, &["--tls", "--insecure"])]
    {
        let report = stage.folder.join(format!("h2spec-{port}.xml"));
        let mut command = stage.tools.go_program("h2spec");
        command.args(flags).args(["--strict", "--host", &address.ip().to_string()]);
        command.args(["--port", &address.port().to_string(), "--path", "/1k", "--timeout", "2"]);
        command.arg("--junit-report").arg(&report);
        let (_, output) =
            Program::start("h2spec", command, &[], &stage.folder)?.ending(LIMIT, &stage.interrupt)?;
        let cases = read(&report).with_context(|| output.clone())?;
        let excepted = compare(port, &cases, &exceptions).with_context(|| output)?;
        said.push(format!(
            "{port}: {} of {} cases pass, {excepted} excepted",
            cases.len() - excepted,
            cases.len()
        ));
    }
    Ok(said.join("; "))
}

/// How many cases are excepted; an error where the list and the run do not agree.
fn compare(port: &str, cases: &[Case], exceptions: &BTreeSet<String>) -> Result<usize> {
    let is_excepted = |case: &&Case| exceptions.contains(&format!("{port} {}", case.id));
    let failed: Vec<_> = cases.iter().filter(|case| !case.passed && !is_excepted(case)).collect();
    let passed: Vec<_> = cases.iter().filter(|case| case.passed && is_excepted(case)).collect();
    let ids = |cases: &[&Case]| {
        cases.iter().map(|case| format!("{} ({})", case.id, case.title)).collect::<Vec<_>>().join(", ")
    };
    if !failed.is_empty() {
        bail!("{port}: not passed: {}", ids(&failed));
    }
    if !passed.is_empty() {
        bail!("{port}: passed, so that it must not stand in testing/h2spec/exceptions.txt: {}", ids(&passed));
    }
    Ok(cases.iter().filter(is_excepted).count())
}

fn read(report: &Path) -> Result<Vec<Case>> {
    let report = fs::read_to_string(report).context("h2spec has written no report")?;
    let cases = cases(&report);
    if cases.is_empty() {
        bail!("h2spec has run no case");
    }
    Ok(cases)
}

/// The cases of a `JUnit` report, which h2spec writes with one element in a line.
fn cases(report: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in report.lines().map(str::trim_start) {
        if let Some(attributes) = line.strip_prefix("<testcase ") {
            let (section, title) = (attribute(attributes, "package"), attribute(attributes, "classname"));
            let in_section =
                |case: &&Case| case.id.rsplit_once('/').is_some_and(|(other, _)| other == section);
            let number = cases.iter().filter(in_section).count() + 1;
            cases.push(Case { id: format!("{section}/{number}"), title: title.to_owned(), passed: true });
        }
        let is_verdict = ["<failure", "<error", "<skipped"].iter().any(|tag| line.starts_with(tag));
        if let (true, Some(case)) = (is_verdict, cases.last_mut()) {
            case.passed = false;
        }
    }
    cases
}

fn attribute<'l>(attributes: &'l str, name: &str) -> &'l str {
    let value = attributes.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
    value.split('"').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<testsuite name="3.5." package="http2/3.5" id="3.5" tests="2">
    <testcase package="http2/3.5" classname="First" time="0.0002"></testcase>
    <testcase package="http2/3.5" classname="Second" time="0.0012">
      <error>Connection closed
Error: something</error>
    </testcase>
    <testcase package="hpack/2.3" classname="Third" time="0.1"></testcase>"#;

    #[test]
    fn a_report_is_read() {
        let ids: Vec<_> = cases(REPORT).into_iter().map(|case| (case.id, case.passed)).collect();
        let expected = [("http2/3.5/1", true), ("http2/3.5/2", false), ("hpack/2.3/1", true)];
        assert_eq!(ids, expected.map(|(id, passed)| (id.to_owned(), passed)));
    }

    #[test]
    fn the_list_has_to_agree_with_the_run() {
        let cases = cases(REPORT);
        let listed = exceptions("# x\n\nclear http2/3.5/2: It is so.\n").unwrap();
        assert_eq!(compare("clear", &cases, &listed).unwrap(), 1);
        assert!(compare("tls", &cases, &listed).is_err(), "it holds for one port only");
        assert!(compare("clear", &cases, &BTreeSet::new()).is_err(), "not listed");
        let too_many = exceptions("clear http2/3.5/2: Yes.\nclear http2/3.5/1: No.\n").unwrap();
        assert!(compare("clear", &cases, &too_many).is_err(), "passed, but listed");
        assert!(
            exceptions("clear http2/3.5/2\n").is_err() && exceptions("clear http2/3.5/2: because\n").is_err()
        );
    }
}
