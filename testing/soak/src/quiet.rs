//! The judgement of the doctor on what the flight recorder has recorded of a run in which nothing was
//! disturbed: there must be no finding but those that are true about a machine whose CPUs are contended.
//!
//! Must not be in here: how a run is made quiet.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::report::Report;

/// The record of the run, in its folder.
pub(crate) const RECORD: &str = "record";

/// The part of the run that is not judged: all connections are opened in it.
const BEGIN: Duration = Duration::from_secs(20);

/// The checks whose findings may be due to CPUs that others use: replies and the event loop are late then.
const OF_CPU: [&str; 2] = ["slow-replies", "guard"];
/// Their evidence for it: what the kernel said, in the same samples, about the CPUs of the machine.
const CONTENDED: [&str; 2] = ["cpu_waiting_percent", "cpu_busy_percent"];

/// Asks the doctor. A finding is a fault, unless the kernel says that it is true: that threads had to wait
/// for CPUs when it was at its worst. The lines of the judgement are for the report.
pub(crate) fn judge(report: &Report) -> Result<Vec<String>> {
    let (text, _) = ask(report, &[])?;
    let (json, errors) = ask(report, &["--output", "json"])?;
    let mut lines: Vec<_> = text.lines().map(|line| format!("doctor: {line}")).collect();
    match judgement(&json) {
        Ok(judgement) => {
            let excused = judgement.excused.iter();
            lines.extend(excused.map(|id| format!("doctor: no fault, since CPUs were contended: {id}")));
            for fault in judgement.faults {
                report.fault(format!("the record of a quiet run is judged: {fault}"));
            }
        }
        Err(error) => report.fault(format!("the doctor says: {error:#}: {}{}", text.trim(), errors.trim())),
    }
    Ok(lines)
}

/// The answer of the doctor about the run, and its errors.
fn ask(report: &Report, more: &[&str]) -> Result<(String, String)> {
    let mut command = Command::new(adversary::binary::path()?.canonicalize()?);
    let judged = report.elapsed().saturating_sub(BEGIN).as_secs();
    command.args(["doctor", "--lang", "en", "--since", &format!("-{judged}s"), "--record"]);
    command.arg(report.folder().join(RECORD)).args(more);
    let output = command.output().context("the doctor does not run")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&output.stdout), text(&output.stderr)))
}

/// The outcome of a judgement in JSON.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judgement {
    faults: Vec<String>,
    /// The checks whose findings are true about a busy machine.
    excused: Vec<String>,
}

fn judgement(json: &str) -> Result<Judgement> {
    let page: Value = serde_json::from_str(json).context("no JSON")?;
    let list = |name: &str| page[name].as_array().with_context(|| format!("no {name}"));
    let mut judgement = Judgement::default();
    if page["samples"].as_u64().is_none_or(|samples| samples == 0) {
        judgement.faults.push("nothing is recorded".to_owned());
    }
    judgement.faults.extend(list("damage")?.iter().map(|damage| format!("left out: {damage}")));
    for finding in list("findings")?.iter().filter(|finding| !is_only_named(finding)) {
        let id = finding["id"].as_str().context("no id")?;
        if OF_CPU.contains(&id) && CONTENDED.iter().any(|name| finding["evidence"][name].is_number()) {
            judgement.excused.push(id.to_owned());
        } else {
            let of = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            let message = of("message");
            let time = format!("from {} to {}", of("began"), of("ended"));
            judgement.faults.push(format!("{id} {time}: {message}; {}", finding["evidence"]));
        }
    }
    Ok(judgement)
}

/// Whether the doctor only names a finding: it was there all the time, such as a parameter of the kernel, or
/// is a warning of one window.
fn is_only_named(finding: &Value) -> bool {
    let is = |name: &str| finding[name].as_bool() == Some(true);
    let is_brief = finding["windows"].as_u64().is_some_and(|windows| windows <= 1);
    is("goesOn") && is("beganBefore") || is_brief && !is("goesOn") && finding["verdict"] == "warning"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(id: &str, windows: u64, constant: bool, evidence: &Value) -> Value {
        json!({
            "id": id, "verdict": "warning", "message": "so it is", "began": "a", "ended": "b",
            "beganBefore": constant, "goesOn": constant, "windows": windows, "evidence": evidence,
        })
    }

    fn of(findings: &[Value]) -> Judgement {
        let page = json!({"samples": 180, "damage": [], "findings": findings});
        judgement(&page.to_string()).unwrap()
    }

    #[test]
    fn a_finding_a_damage_and_an_empty_record_are_not_quiet() {
        let none = json!({});
        let quiet = [finding("somaxconn", 9, true, &none), finding("upstream-reuse", 1, false, &none)];
        assert_eq!(of(&quiet), Judgement::default());
        let faults = of(&[finding("upstream-reuse", 2, false, &none)]).faults;
        assert_eq!(faults, ["upstream-reuse from a to b: so it is; {}"]);
        let page = json!({"samples": 0, "damage": ["segment 3"], "findings": []});
        assert_eq!(judgement(&page.to_string()).unwrap().faults.len(), 2);
        assert!(judgement("nothing is recorded of that time\n").is_err() && judgement("{}").is_err());
    }

    #[test]
    fn only_what_the_kernel_confirms_is_true_about_a_busy_machine() {
        let waiting = json!({"slow": 9, "cpu_waiting_percent": 63});
        let judged = of(&[
            finding("slow-replies", 5, false, &waiting),
            finding("slow-replies", 5, false, &json!({"slow": 9})),
            finding("upstream-reuse", 5, false, &waiting),
        ]);
        assert_eq!((judged.excused.len(), judged.faults.len()), (1, 2));
        assert_eq!(judged.excused, ["slow-replies"]);
    }
}
