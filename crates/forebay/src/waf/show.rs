//! The verdicts on requests, as text and as JSON.

use std::fmt::Write as _;

use ::waf::{Outcome, Verdict};
use control::legible;
use serde::Serialize;

use super::matched::{Matched, text as lossy};
use super::recorded::Recorded;

/// Characters of a target that are shown in text.
const TARGET_CHARS_MAX: usize = 100;

/// All requests with their verdicts.
#[derive(Serialize)]
pub(super) struct Tested {
    pub(super) requests: Vec<Judged>,
}

/// A request with its verdict.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judged {
    /// File, and line or entry.
    place: String,
    method: String,
    host: String,
    target: String,
    verdict: Word,
    /// The status of the answer; none for a request that passes, or whose connection is closed.
    status: Option<u16>,
    /// The phase in which it was refused; 0 if it was not.
    phase: u8,
    /// The rule that refuses it, or would without `DetectionOnly`; none for a limit.
    rule: Option<u64>,
    inbound_score: Option<i64>,
    outbound_score: Option<i64>,
    /// The budget of work is exhausted.
    is_exhausted: bool,
    matches: Vec<Matched>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Passed,
    /// It passes, since the rules only report.
    Detected,
    Blocked,
}

// === impl Judged ===

impl Judged {
    pub(super) fn new(recorded: &Recorded, outcome: &Outcome) -> Self {
        let Outcome { verdict, phase, report } = outcome;
        let status = match verdict {
            Verdict::Deny { status, .. } | Verdict::Redirect { status, .. } => Some(*status),
            Verdict::Pass | Verdict::Drop { .. } => None,
        };
        Self {
            place: recorded.place.clone(),
            method: lossy(&recorded.method),
            host: lossy(&recorded.host),
            target: lossy(&recorded.target),
            verdict: match report.stopped_by {
                _ if !verdict.passes() => Word::Blocked,
                Some(_) => Word::Detected,
                None => Word::Passed,
            },
            status,
            phase: *phase,
            rule: report.stopped_by,
            inbound_score: report.inbound_score,
            outbound_score: report.outbound_score,
            is_exhausted: report.exhausted,
            matches: report.matches.iter().map(Matched::from).collect(),
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.verdict == Word::Blocked
    }

    fn write(&self, out: &mut String) {
        let target: String = self.target.chars().take(TARGET_CHARS_MAX).collect();
        let dots = if target.len() < self.target.len() { "..." } else { "" };
        let asked = format!("{} {target}{dots}", self.method);
        let _ = write!(
            out,
            "{:<8} {}  {}",
            self.verdict.as_str(),
            legible::line(&self.place),
            legible::line(&asked)
        );
        let mut details = Vec::new();
        if self.is_blocked() {
            let status = self.status.map_or_else(|| "connection closed".to_owned(), |it| it.to_string());
            details.push(format!("{status} in phase {}", self.phase));
        }
        details.extend(self.rule.map(|rule| {
            let message = self.matches.iter().find(|found| found.rule == rule && found.is_disruptive);
            let message = message.map_or("", |found| found.message.as_str());
            if message.is_empty() { format!("rule {rule}") } else { format!("rule {rule} ({message})") }
        }));
        details.extend(self.is_exhausted.then(|| "the budget of work is exhausted".to_owned()));
        for (name, score) in [("inbound", self.inbound_score), ("outbound", self.outbound_score)] {
            details.extend(score.filter(|score| *score > 0).map(|score| format!("{name} score {score}")));
        }
        if !details.is_empty() {
            let _ = write!(out, ": {}", legible::line(&details.join(", ")));
        }
        out.push('\n');
    }
}

impl Word {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Detected => "detected",
            Self::Blocked => "blocked",
        }
    }
}

/// A line for each request, with its matches below it if they are wanted, and the sum.
pub(super) fn text(tested: &Tested, is_verbose: bool) -> String {
    let mut out = String::new();
    for request in &tested.requests {
        request.write(&mut out);
        for found in request.matches.iter().filter(|_| is_verbose) {
            found.write(&mut out, "         ");
        }
    }
    let count = |word| tested.requests.iter().filter(|request| request.verdict == word).count();
    let all = tested.requests.len();
    let noun = if all == 1 { "request" } else { "requests" };
    let passed = count(Word::Passed);
    let detected = count(Word::Detected);
    let blocked = count(Word::Blocked);
    let _ = writeln!(out, "{all} {noun}: {passed} passed, {detected} detected, {blocked} blocked");
    out
}
