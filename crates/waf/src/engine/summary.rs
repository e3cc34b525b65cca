//! The report of a transaction: matches with their texts, scores, and whether the audit log wants it.
//!
//! Never in here: decisions.

use super::Transaction;
use super::named::Value;
use super::values::Matched;
use crate::limits::{MATCHED_VARIABLES_MAX, MATCHES_MAX, VALUE_BYTES_MAX};
use crate::report::{Match, MatchedVariable, Report};
use crate::rule::Rule;
use crate::settings::AuditMode;
use crate::template::number;
use crate::transform::TRANSFORMATIONS;
use crate::variables::Variable;

impl Transaction {
    /// Notes a rule that matched.
    pub(super) fn note(&mut self, rule: &Rule, stops: bool) {
        if let Some(severity) = rule.about.severity {
            self.report.highest_severity = self.report.highest_severity.min(severity);
        }
        let lists = self.report.audit_parts.contains('K') && self.report.matched_rules.len() < MATCHES_MAX;
        if lists {
            self.report.matched_rules.push(rule.id);
        }
        if !rule.log && !rule.audit && !stops {
            return;
        }
        if self.report.matches.len() >= MATCHES_MAX {
            self.report.matches_lost += 1;
            return;
        }
        let about = &rule.about;
        let expanded = |template: &Option<crate::template::Template>| {
            template.as_ref().map(|template| template.expand(self)).unwrap_or_default()
        };
        let tags = about.tags.iter().map(|tag| match &tag.template {
            Some(template) => template.expand(self),
            None => tag.text.as_bytes().to_vec(),
        });
        let link = rule.links.first();
        let noted = Match {
            rule: rule.id,
            phase: self.phase,
            message: expanded(&about.message),
            data: expanded(&about.data),
            tags: tags.collect(),
            severity: about.severity,
            version: about.version.to_string(),
            revision: about.revision.to_string(),
            maturity: about.maturity,
            accuracy: about.accuracy,
            file: rule.file.to_string(),
            line: rule.line as usize,
            variables: self
                .matched
                .iter()
                .take(MATCHED_VARIABLES_MAX)
                .map(|&matched| self.matched_variable(matched))
                .collect(),
            transformations: link.map_or_else(Vec::new, |link| {
                link.transformations.iter().filter_map(|&made| name_of(made)).map(str::to_owned).collect()
            }),
            operator: link.map_or_else(String::new, |link| link.operator_text.to_string()),
            log: rule.log,
            audit: rule.audit,
            disruptive: stops,
        };
        self.report.matches.push(noted);
    }

    fn matched_variable(&self, matched: Matched) -> MatchedVariable {
        let mut variable = MatchedVariable::default();
        self.append_name(matched.variable, matched.label, &mut variable.name);
        self.append_subject(matched.subject, &mut variable.value);
        variable.value.truncate(VALUE_BYTES_MAX);
        variable
    }

    /// Ends the report.
    pub(super) fn summarize(mut self) -> Report {
        self.report.inbound_score = self.score(b"blocking_inbound_anomaly_score");
        self.report.outbound_score = self.score(b"blocking_outbound_anomaly_score");
        self.report.work = self.store.texts.work;
        self.report.exhausted = self.store.texts.exhausted;
        self.report.audit = match self.audit_mode {
            AuditMode::On => true,
            AuditMode::Off => false,
            AuditMode::RelevantOnly => {
                self.report.matches.iter().any(|noted| noted.audit) || self.has_relevant_status()
            }
        };
        if self.report.audit {
            self.report.exchange = Some(Box::new(self.audit_parts()));
        }
        self.report
    }

    fn score(&self, name: &[u8]) -> Option<i64> {
        match self.tx.get(self.rules.names(), name) {
            Value::None => None,
            Value::Number(number) => Some(number),
            Value::Text(text) => Some(number(self.store.texts.get(text))),
        }
    }

    fn has_relevant_status(&self) -> bool {
        use crate::report::Verdict;
        let status = match &self.verdict {
            Verdict::Deny { status, .. } | Verdict::Redirect { status, .. } => {
                status.to_string().into_bytes()
            }
            _ => self.store.bytes(Variable::ResponseStatus).to_vec(),
        };
        let pattern = self.rules.settings().audit.relevant_status.as_ref();
        pattern.is_some_and(|pattern| pattern.is_match(&status))
    }
}

fn name_of(transformation: crate::transform::Transformation) -> Option<&'static str> {
    TRANSFORMATIONS.iter().find(|entry| entry.transformation == transformation).map(|entry| entry.name)
}
