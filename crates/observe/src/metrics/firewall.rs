//! The metrics of web application firewalls: requests by result, and refused ones by phase and rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Counter;
use super::encode::{Page, labels, sum};
use super::names;
use super::recorder::Recorder;
use super::registry::Registry;
use super::rule_cells::RULE_BITS;
use super::worker_cells::WorkerCells;

/// The result of a firewall for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallResult {
    /// No rule that is logged has matched.
    Passed,
    /// Rules have matched, and the request went on.
    Matched,
    /// A rule has refused the request or its response.
    Blocked {
        /// The phase in which the rule ran, from 1.
        phase: u8,
        /// The id of the rule; 0 for a limit.
        rule: u64,
    },
}

impl Recorder {
    /// Records a request that a firewall has looked at.
    #[cold]
    pub fn firewall(&self, result: FirewallResult) {
        self.count(match result {
            FirewallResult::Passed => Counter::FirewallPassed,
            FirewallResult::Matched => Counter::FirewallMatched,
            FirewallResult::Blocked { phase, rule } => {
                self.cells.rules.count(phase, rule);
                Counter::FirewallBlocked
            }
        });
    }

    /// Records a request whose rules ran out of their budget of work.
    #[cold]
    pub fn firewall_exhausted(&self) {
        self.count(Counter::FirewallExhausted);
    }
}

impl Registry {
    pub(super) fn encode_firewall(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::WAF_REQUESTS);
        for (result, counter) in [
            ("passed", Counter::FirewallPassed),
            ("matched", Counter::FirewallMatched),
            ("blocked", Counter::FirewallBlocked),
        ] {
            let count = sum(workers, |worker| worker.counter(counter));
            page.sample(names::WAF_REQUESTS.name, &labels(&[("result", result)]), count);
        }
        page.family(&names::WAF_EXHAUSTED);
        let exhausted = sum(workers, |worker| worker.counter(Counter::FirewallExhausted));
        page.sample(names::WAF_EXHAUSTED.name, "", exhausted);
        page.family(&names::WAF_BLOCKED);
        let mut all = BTreeMap::<u64, u64>::new();
        for (tag, count) in workers.iter().flat_map(|worker| worker.rules.get()) {
            *all.entry(tag).or_default() += count;
        }
        for (tag, count) in all {
            let (phase, rule) = (tag >> RULE_BITS, tag & ((1 << RULE_BITS) - 1));
            let labels = labels(&[("phase", &phase.to_string()), ("rule", &rule.to_string())]);
            page.sample(names::WAF_BLOCKED.name, &labels, count);
        }
    }
}
