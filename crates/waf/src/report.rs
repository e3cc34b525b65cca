//! Verdicts, and the report of a transaction that logs and metrics are made from.
//!
//! Never in here: a decision.

use crate::limits::MATCHES_MAX;
use crate::rule::Mask;

/// The decision after one step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The exchange goes on.
    Pass,
    /// The client gets an error.
    Deny {
        /// The status of the response.
        status: u16,
        /// The id of the rule that decided.
        rule: u64,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status of the response: 301, 302, 303 or 307.
        status: u16,
        /// The value of `Location`.
        location: Vec<u8>,
        /// The id of the rule that decided.
        rule: u64,
    },
    /// The connection is closed without a response.
    Drop {
        /// The id of the rule that decided.
        rule: u64,
    },
}

impl Verdict {
    /// True unless the exchange is stopped.
    pub fn passes(&self) -> bool {
        matches!(self, Verdict::Pass)
    }
}

/// The place of a match: which variable, with which value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchedVariable {
    /// The name as `MATCHED_VAR_NAME` has it, such as `ARGS:q`.
    pub name: Vec<u8>,
    /// The value after the rule's transformations, cut to `VALUE_BYTES_MAX`.
    pub value: Vec<u8>,
}

/// One rule that matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The rule's id; 0 if it has none.
    pub rule: u64,
    /// The phase in which it ran, from 1 to 5.
    pub phase: u8,
    /// `msg` with its macros expanded.
    pub message: Vec<u8>,
    /// `logdata` with its macros expanded.
    pub data: Vec<u8>,
    /// `tag`, each with its macros expanded.
    pub tags: Vec<Vec<u8>>,
    /// `severity` from 0 (emergency) to 7 (debug), if the rule has one.
    pub severity: Option<u8>,
    /// `ver` of the rule.
    pub version: String,
    /// `rev` of the rule.
    pub revision: String,
    /// `maturity` of the rule, 0 without.
    pub maturity: u8,
    /// `accuracy` of the rule, 0 without.
    pub accuracy: u8,
    /// The file of the rule.
    pub file: String,
    /// The line of the rule in its file.
    pub line: usize,
    /// The variables that matched.
    pub variables: Vec<MatchedVariable>,
    /// The names of the rule's transformations, in their order.
    pub transformations: Vec<String>,
    /// The operator with its parameter, as the rule has them.
    pub operator: String,
    /// True if the rule asks for a line in the error log (`log`, and not `nolog`).
    pub log: bool,
    /// True if the rule asks for an entry in the audit log (`auditlog`, and not `noauditlog`).
    pub audit: bool,
    /// True if the rule stopped the exchange, or would have without `DetectionOnly`.
    pub disruptive: bool,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The rules that matched, in the order in which they did; chains appear once.
    pub matches: Vec<Match>,
    /// Matches beyond the bound that were not kept.
    pub matches_lost: usize,
    /// `TX:BLOCKING_INBOUND_ANOMALY_SCORE` of the core rules, if they ran.
    pub inbound_score: Option<i64>,
    /// `TX:BLOCKING_OUTBOUND_ANOMALY_SCORE` of the core rules, if they ran.
    pub outbound_score: Option<i64>,
    /// The rule that stopped the exchange, or would have without `DetectionOnly`.
    pub stopped_by: Option<u64>,
    /// True if the audit log wants this transaction.
    pub audit: bool,
    /// The parts of the audit log's entry, as `SecAuditLogParts` and `ctl:auditLogParts` say.
    pub audit_parts: String,
    /// Parts of the exchange for that entry; none if the audit log does not want it.
    pub exchange: Option<Box<AuditParts>>,
    /// The ids of all rules that matched, also of those that log nothing, if part `K` is wanted.
    pub matched_rules: Vec<u64>,
    /// The highest severity of all matches, as `HIGHEST_SEVERITY` has it; 255 without a match.
    pub highest_severity: u8,
    /// The work of prefilter, transformations and operators: a measure of the cost that does not depend on
    /// the machine.
    pub work: u64,
    /// True if the bound of that work, or of the texts' bytes, was reached: the exchange is refused then.
    pub exhausted: bool,
    /// Values that the audit log masks, as `sanitiseArg` and its like say.
    pub masked: Vec<Masked>,
}

/// Parts of an exchange, as far as `SecAuditLogParts` wants them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditParts {
    /// The request's body; none without one, or if the rules have not seen it.
    pub request_body: Option<AuditBody>,
    /// The headers of the response, as the rules saw them.
    pub response_headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The response's body, as far as the rules saw it.
    pub response_body: Option<AuditBody>,
}

/// A body, or its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditBody {
    /// Its bytes, up to a bound.
    pub content: Vec<u8>,
    /// True if more bytes than these came.
    pub is_cut: bool,
    /// True for pairs of names and values, as in a query.
    pub is_form: bool,
}

/// A value that the audit log masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The kind of the value.
    pub place: Mask,
    /// Its name; for `Mask::Matched` with the variable, such as `ARGS:password`.
    pub name: Vec<u8>,
}

impl Report {
    /// Whether the audit log masks a value of this kind and name.
    pub fn is_masked(&self, place: Mask, name: &[u8]) -> bool {
        self.masked.iter().any(|masked| masked.place == place && masked.name.eq_ignore_ascii_case(name))
    }

    /// Whether the audit log masks the values of a match.
    pub fn masks(&self, matched: &Match) -> bool {
        matched.variables.iter().any(|variable| {
            let name = variable.name.split(|byte| *byte == b':').next_back().unwrap_or_default();
            self.is_masked(Mask::Matched, &variable.name) || self.is_masked(Mask::Argument, name)
        })
    }

    /// Adds a value that the audit log masks.
    pub(crate) fn mask(&mut self, place: Mask, name: Vec<u8>) {
        let masked = Masked { place, name };
        if self.masked.len() < MATCHES_MAX && !self.masked.contains(&masked) {
            self.masked.push(masked);
        }
    }
}
