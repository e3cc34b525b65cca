//! A rule that matched, as `waf test`, `explain` and the console show it.

use std::fmt::Write as _;

use ::waf::Match;
use control::legible;
use serde::{Deserialize, Serialize};

/// Names of severities, from 0.
const SEVERITIES: [&str; 8] =
    ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// A rule that matched.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Matched {
    pub(crate) rule: u64,
    pub(crate) phase: u8,
    pub(crate) message: String,
    /// `logdata` of the rule.
    pub(crate) data: String,
    pub(crate) severity: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The operator with its parameter.
    pub(crate) operator: String,
    pub(crate) transformations: Vec<String>,
    pub(crate) variables: Vec<MatchedValue>,
    /// The rule refuses the request, or would without `DetectionOnly`.
    pub(crate) is_disruptive: bool,
}

/// A variable that a rule matched.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct MatchedValue {
    pub(crate) name: String,
    /// The value behind the transformations, cut to a bound.
    pub(crate) value: String,
}

impl From<&Match> for Matched {
    fn from(of: &Match) -> Self {
        let variables = of
            .variables
            .iter()
            .map(|variable| MatchedValue { name: text(&variable.name), value: text(&variable.value) });
        Self {
            rule: of.rule,
            phase: of.phase,
            message: text(&of.message),
            data: text(&of.data),
            severity: of
                .severity
                .and_then(|severity| SEVERITIES.get(usize::from(severity)))
                .map(|&name| name.to_owned()),
            tags: of.tags.iter().map(|tag| text(tag)).collect(),
            file: of.file.clone(),
            line: of.line,
            operator: of.operator.clone(),
            transformations: of.transformations.clone(),
            variables: variables.collect(),
            is_disruptive: of.disruptive,
        }
    }
}

impl Matched {
    /// The match in lines that begin with `indent`: rule and place, then each variable with its value.
    pub(crate) fn write(&self, out: &mut String, indent: &str) {
        let severity = self.severity.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
        let refuses = if self.is_disruptive { ", refuses" } else { "" };
        let _ = writeln!(
            out,
            "{indent}{} {} (phase {}{severity}{refuses}; {}:{})",
            self.rule,
            legible::line(&self.message),
            self.phase,
            legible::line(&self.file),
            self.line
        );
        let through = match &*self.transformations {
            [] => String::new(),
            names => format!(", after {}", names.join(", ")),
        };
        for variable in &self.variables {
            let (name, value) = (legible::line(&variable.name), &variable.value);
            let operator = legible::line(&self.operator);
            let shown: String = operator.chars().take(OPERATOR_CHARS_MAX).collect();
            let dots = if shown.len() < operator.len() { "..." } else { "" };
            let _ = writeln!(out, "{indent}  {name} = {value:?} matches {shown}{dots}{through}");
        }
    }
}

/// Characters of an operator that are shown: expressions of the core rules have thousands.
const OPERATOR_CHARS_MAX: usize = 60;

/// A text of a rule or a request. Bytes that are no UTF-8 are replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
