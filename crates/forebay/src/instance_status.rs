//! The state of a Forebay at `/status`: small enough to be queried from every Pod of a cluster, one after the
//! other.
//!
//! Must not be in here: routes, and figures that `/metrics` has by route.

use control::acme::Report;
use control::{Condition, Problem, Severity, Translation};
use doctor::{Finding, Verdict};
use model::log::Output;
use serde::{Deserialize, Serialize};

use crate::canaries::CanaryStatus;
use crate::relay::RelayStatus;
use crate::rule_sets::RuleSets;

/// Most problems that are listed, the worst first.
const PROBLEMS_MAX: usize = 100;

/// Longest message of a problem in bytes, so that a value of an annotation does not become the answer.
const MESSAGE_BYTES_MAX: usize = 2000;

/// How a Forebay does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceStatus {
    pub(crate) version: String,
    /// Seconds since the process was started, by a clock that is not set.
    pub(crate) up_seconds: f64,
    /// The configuration that every worker serves, counted from 1; 0 before there is one.
    pub(crate) generation: u64,
    /// Requests of clients since the start.
    pub(crate) requests: u64,
    /// The served configuration comes from a copy on disk, since the API server does not deliver everything.
    pub(crate) from_disk: bool,
    /// Watches of the API server that fail, each with its error.
    pub(crate) watch_troubles: Vec<String>,
    pub(crate) problems: Problems,
    /// The worst finding of the doctor's checks; none where all are in order, or none has looked yet.
    pub(crate) finding: Option<WorstFinding>,
    /// None without a web application firewall.
    pub(crate) firewall: Option<RuleSets>,
    /// Canaries with steps.
    #[serde(default)]
    pub(crate) canaries: Vec<CanaryStatus>,
    /// None before there is a configuration.
    pub(crate) access_log: Option<AccessLog>,
    /// The watch that replicas share; none where each watches by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared_watch: Option<RelayStatus>,
    /// The certificates that are obtained; none where none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) acme: Option<Report>,
}

/// Problems of the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Problems {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) notices: usize,
    /// The worst of them.
    pub(crate) first: Vec<ProblemLine>,
}

/// A problem with an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ProblemLine {
    pub(crate) severity: String,
    pub(crate) object: Option<String>,
    pub(crate) message: String,
}

/// A finding without its figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct WorstFinding {
    pub(crate) id: String,
    pub(crate) verdict: Verdict,
    pub(crate) message: String,
}

/// Whether and how requests are logged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct AccessLog {
    pub(crate) enabled: bool,
    /// `stdout`, `stderr`, a path, or a syslog server.
    pub(crate) output: String,
    /// The template of a line, in nginx's notation.
    pub(crate) format: String,
}

impl InstanceStatus {
    /// Adds the figures of the objects and of the settings.
    pub(crate) fn set_objects(&mut self, translation: &Translation) {
        self.problems = Problems::of(&translation.problems);
        self.firewall = RuleSets::of(&translation.model);
        self.access_log = Some(AccessLog::of(&translation.model.settings.access_log));
    }

    /// Adds the condition of the watches.
    pub(crate) fn set_condition(&mut self, condition: &Condition) {
        self.from_disk = condition.from_disk;
        self.watch_troubles.clone_from(&condition.troubles);
    }

    /// Adds the worst finding, unless everything is in order.
    pub(crate) fn set_findings(&mut self, findings: &[Finding]) {
        let worst = findings.iter().max_by_key(|finding| finding.verdict);
        self.finding = worst.filter(|worst| worst.verdict > Verdict::Unknown).map(|worst| WorstFinding {
            id: worst.id.to_owned(),
            verdict: worst.verdict,
            message: worst.message.clone(),
        });
    }
}

impl Problems {
    fn of(problems: &[Problem]) -> Self {
        let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
        let mut worst: Vec<_> = problems.iter().collect();
        worst.sort_by_key(|problem| problem.severity);
        let told = |problem: &&Problem| ProblemLine {
            severity: problem.severity.as_str().to_owned(),
            object: problem.object.as_ref().map(ToString::to_string),
            message: shortened(&problem.message),
        };
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notices: count(Severity::Notice),
            first: worst.iter().take(PROBLEMS_MAX).map(told).collect(),
        }
    }
}

impl AccessLog {
    fn of(log: &model::AccessLog) -> Self {
        Self {
            enabled: log.enabled,
            output: match &log.output {
                Output::Stdout => "stdout".to_owned(),
                Output::Stderr => "stderr".to_owned(),
                Output::File(path) => path.clone(),
                Output::Syslog { host, port } => format!("syslog server {host}:{port}"),
            },
            format: log.format.template.to_string(),
        }
    }
}

fn shortened(message: &str) -> String {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    if end == message.len() { message.to_owned() } else { format!("{}...", &message[..end]) }
}

#[cfg(test)]
mod tests {
    use control::Reason;

    use super::*;

    #[test]
    fn the_worst_problems_come_first_and_all_are_counted() {
        let problem = |number: usize| Problem {
            severity: if number == 150 { Severity::Error } else { Severity::Notice },
            object: None,
            uid: None,
            file: None,
            line: None,
            reason: Reason::Invalid,
            message: number.to_string(),
        };
        let problems: Vec<_> = (0..200).map(problem).collect();
        let told = Problems::of(&problems);
        assert_eq!((told.errors, told.warnings, told.notices), (1, 0, 199));
        assert_eq!((told.first.len(), told.first[0].message.as_str()), (PROBLEMS_MAX, "150"));
    }

    #[test]
    fn a_message_is_as_long_as_one_can_read() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"\u{e4}x".repeat(MESSAGE_BYTES_MAX));
        assert!(long.len() <= MESSAGE_BYTES_MAX + 3 && long.ends_with("..."));
    }

    #[test]
    fn the_format_is_told_as_it_was_written() {
        let log = AccessLog::of(&model::AccessLog::default());
        assert_eq!((log.format.as_str(), log.output.as_str()), (model::log::DEFAULT_FORMAT, "stdout"));
    }
}
