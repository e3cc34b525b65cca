//! The findings of the checks within `serve`. The flight recorder's thread takes the samples and judges them.

use std::sync::{Mutex, PoisonError};

use doctor::{Finding, Verdict};
use observe::Registry;

/// The latest findings; empty before the second sample.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Vec<Finding>>);

impl Findings {
    /// All findings as one JSON object; none before there are any.
    pub(crate) fn json(&self) -> Option<String> {
        let findings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!findings.is_empty()).then(|| super::json(&findings))
    }

    /// All findings; none before there are any.
    pub(crate) fn all(&self) -> Vec<Finding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the findings, and sets the metrics.
    pub(crate) fn set(&self, registry: &Registry, findings: Vec<Finding>) {
        registry.set_findings(findings.iter().map(|finding| (finding.id, level(finding.verdict))).collect());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }
}

/// The value of the metric for a verdict.
fn level(verdict: Verdict) -> i8 {
    match verdict {
        Verdict::Unknown => -1,
        Verdict::Ok => 0,
        Verdict::Warning => 1,
        Verdict::Failure => 2,
    }
}
