//! The rule sets of web application firewalls that a configuration uses, in figures.
//!
//! Never in here: rules.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Model, RuleSet};
use serde::{Deserialize, Serialize};

/// The name of the core rules, before their version in `SecComponentSignature`.
const CORE_RULES: &str = "OWASP_CRS/";

/// The rule sets of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleSets {
    /// The version of the core rules; none where no set has them.
    core_rules: Option<String>,
    /// The number of sets; routes with equal rules share one.
    count: usize,
    /// The number of rules in all sets.
    rules: usize,
    /// The time at which the newest set was compiled (RFC 3339).
    loaded: String,
}

impl RuleSets {
    /// The sets that routes of a configuration use; none without a firewall.
    pub(crate) fn of(model: &Model) -> Option<Self> {
        let routes = model.hosts().flat_map(|host| &host.routes);
        let firewalls = routes.filter_map(|route| route.access.as_ref()?.firewall.as_ref());
        let sets: HashMap<_, &RuleSet> =
            firewalls.map(|firewall| (Arc::as_ptr(firewall.rules.rules()), &firewall.rules)).collect();
        let newest = sets.values().map(|set| set.made()).max()?;
        let mut signatures = sets.values().flat_map(|set| &set.rules().settings().signatures);
        Some(Self {
            core_rules: signatures.find_map(|name| name.strip_prefix(CORE_RULES)).map(str::to_owned),
            count: sets.len(),
            rules: sets.values().map(|set| set.rules().len()).sum(),
            loaded: Timestamp::try_from(newest).map(|time| format!("{time:.0}")).unwrap_or_default(),
        })
    }
}

impl fmt::Display for RuleSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core_rules, count, rules, .. } = self;
        f.write_str("web application firewall: ")?;
        if let Some(version) = core_rules {
            write!(f, "core rules {version}, ")?;
        }
        let plural = |number: usize| if number == 1 { "" } else { "s" };
        write!(f, "{count} rule set{}, {rules} rule{}", plural(*count), plural(*rules))
    }
}
