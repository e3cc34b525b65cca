//! Whether a transaction is what a test expects.

use std::fmt::Write as _;

use regex::Regex;

use super::suite::Output;

/// The outcome of a request.
#[derive(Default)]
pub(super) struct Outcome {
    /// The status of the response.
    pub(super) status: u16,
    /// The rules that wrote a line in the log.
    pub(super) rules: Vec<u64>,
    /// The log, with a line for each rule in the form of `ModSecurity`.
    pub(super) log: String,
    /// The rules were not asked to their end, because they took too much work.
    pub(super) is_exhausted: bool,
}

/// The differences from what a test expects, in one line; empty without any.
pub(super) fn differences(expected: &Output, outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut complain = |difference: String| {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{difference}");
    };
    if let Some(status) = expected.status.filter(|status| *status != outcome.status) {
        complain(format!("status {status}, not {}", outcome.status));
    }
    if outcome.is_exhausted {
        complain("rules that end within the budget of work".to_owned());
    }
    let log = &expected.log;
    for id in log.expect_ids.iter().filter(|id| !outcome.rules.contains(id)) {
        complain(format!("rule {id}"));
    }
    for id in log.no_expect_ids.iter().filter(|id| outcome.rules.contains(id)) {
        complain(format!("not rule {id}"));
    }
    let matches = |expression: &str| {
        Regex::new(expression)
            .is_ok_and(|expression| outcome.log.lines().any(|line| expression.is_match(line)))
    };
    if let Some(expression) = log.match_regex.as_deref().filter(|expression| !matches(expression)) {
        complain(format!("a log line that matches {expression}"));
    }
    if let Some(expression) = log.no_match_regex.as_deref().filter(|expression| matches(expression)) {
        complain(format!("no log line that matches {expression}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_difference_is_named() {
        let outcome = Outcome {
            status: 200,
            rules: vec![1, 2],
            log: "[id \"1\"]\n[id \"2\"]".into(),
            ..Outcome::default()
        };
        let of = |yaml: &str| differences(&serde_saphyr::from_str(yaml).expect("an output"), &outcome);
        assert_eq!(
            of("{status: 200, log: {expect_ids: [1, 2], no_expect_ids: [3], match_regex: 'id \"1'}}"),
            ""
        );
        assert_eq!(
            of("{status: 400, log: {expect_ids: [3], no_expect_ids: [2]}}"),
            "status 400, not 200, rule 3, not rule 2"
        );
        assert_eq!(
            of("{log: {match_regex: x, no_match_regex: id}}"),
            "a log line that matches x, no log line that matches id"
        );
    }
}
