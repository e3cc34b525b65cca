//! `/console/firewall`: the last requests that firewalls refused, by the rule that matched, each with the
//! exclusion that would let it pass.
//!
//! All texts of a request are hostile: the page shows them as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use observe::Registry;
use observe::refusals::{Refusal, RefusalMatch};
use serde::Serialize;

use super::exclusion::Exclusion;

/// Matches of a rule that are listed; the others are counted.
const LISTED_MAX: usize = 20;

/// The last refused requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Firewall {
    /// Requests that are looked at here.
    requests: usize,
    /// Refused requests that were not kept, since several ended at once.
    missed: u64,
    /// Rules that can be excluded come first, and of these the one with the most matches.
    rules: Vec<MatchedRule>,
}

/// A rule that matched refused requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MatchedRule {
    rule: u64,
    message: String,
    /// All matches, also those that are not listed.
    count: usize,
    /// The newest matches first.
    matches: Vec<Listed>,
}

/// A match of a rule in a refused request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    /// When the request ended, in seconds since 1970.
    at_seconds: f64,
    client: IpAddr,
    method: String,
    host: String,
    path: String,
    status: u16,
    /// False where the rules only report, so that the request went on.
    is_blocked: bool,
    /// The rule that decided; 0 for a limit.
    decided_by: u64,
    /// `namespace/name` of the route's object.
    object: Option<String>,
    variable: String,
    value: String,
    exclusion: Option<Exclusion>,
}

impl Firewall {
    /// The state of this process.
    pub(super) fn of(registry: &Registry) -> Self {
        let last = registry.refusals().last();
        let mut rules = BTreeMap::<u64, MatchedRule>::new();
        for refusal in last.iter().rev() {
            for found in matches(refusal) {
                let entry = rules.entry(found.rule).or_insert_with(|| MatchedRule {
                    rule: found.rule,
                    message: found.message.clone(),
                    count: 0,
                    matches: Vec::new(),
                });
                entry.count += 1;
                if entry.matches.len() < LISTED_MAX {
                    entry.matches.push(Listed::of(refusal, &found));
                }
            }
        }
        let mut rules: Vec<_> = rules.into_values().collect();
        // Rules that only add scores up match each time, and are not those to exclude.
        rules.sort_by_key(|rule| (!rule.can_be_excluded(), Reverse(rule.count)));
        Self { requests: last.len(), missed: registry.refusals().missed(), rules }
    }
}

/// The matches of a request; the decision itself for a limit, which is no rule.
fn matches(refusal: &Arc<Refusal>) -> Vec<RefusalMatch> {
    if refusal.matches.is_empty() {
        let message = "a limit of the rules".to_owned();
        let (variable, value) = (String::new(), String::new());
        return vec![RefusalMatch { rule: refusal.rule, message, variable, value }];
    }
    refusal.matches.clone()
}

impl MatchedRule {
    fn can_be_excluded(&self) -> bool {
        self.matches.iter().any(|listed| listed.exclusion.is_some())
    }
}

impl Listed {
    fn of(refusal: &Refusal, found: &RefusalMatch) -> Self {
        Self {
            at_seconds: refusal.at.as_secs_f64(),
            client: refusal.client,
            method: refusal.method.clone(),
            host: refusal.host.clone(),
            path: refusal.path.clone(),
            status: refusal.status,
            is_blocked: refusal.phase > 0,
            decided_by: refusal.rule,
            object: refusal
                .labels
                .as_ref()
                .map(|labels| format!("{}/{}", labels.namespace(), labels.object())),
            variable: found.variable.clone(),
            value: found.value.clone(),
            exclusion: Exclusion::of(found.rule, &found.variable, &refusal.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use observe::MetricsOptions;

    use super::*;

    fn refusal(at: u64, rules: &[u64]) -> Refusal {
        let found = |&rule: &u64| RefusalMatch {
            rule,
            message: format!("message of {rule}"),
            variable: "ARGS:q".to_owned(),
            value: "<script>".to_owned(),
        };
        Refusal {
            at: Duration::from_secs(at),
            client: IpAddr::from([192, 0, 2, 1]),
            method: "GET".to_owned(),
            host: "a.test".to_owned(),
            path: "/editor".to_owned(),
            status: 403,
            phase: 2,
            rule: 949_110,
            labels: None,
            matches: rules.iter().map(found).collect(),
        }
    }

    #[test]
    fn matches_are_grouped_by_rule() {
        let registry = Registry::new(MetricsOptions::default());
        for (at, rules) in [(1, &[941_100][..]), (2, &[941_100, 942_100]), (3, &[])] {
            registry.refusals().add(|| refusal(at, rules));
        }
        let firewall = Firewall::of(&registry);
        let rules: Vec<_> = firewall.rules.iter().map(|rule| (rule.rule, rule.count)).collect();
        assert_eq!((firewall.requests, rules), (3, vec![(941_100, 2), (942_100, 1), (949_110, 1)]));
        let first = &firewall.rules[0].matches[0];
        assert_eq!((first.at_seconds, &*first.value, first.decided_by), (2.0, "<script>", 949_110));
        assert!(first.exclusion.is_some() && firewall.rules[2].matches[0].exclusion.is_none());
    }
}
