use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use crate::template::Template;

/// A web application firewall before a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Firewall {
    /// The rules that requests and responses are held against.
    pub rules: RuleSet,
    /// The id of a request in reports and in `UNIQUE_ID`; none for the id of the request itself.
    pub transaction_id: Option<Template>,
}

/// Compiled rules with the values that they keep from one request to the next. Clones share both.
#[derive(Clone)]
pub struct RuleSet {
    rules: Arc<waf::Rules>,
    collections: Arc<waf::Collections>,
    digest: u64,
    made: SystemTime,
}

impl RuleSet {
    /// Compiled rules. `texts` are the texts that they are made of, in order: replicas with equal texts have
    /// equal configurations. `seed` is random, so that clients cannot choose names that collide.
    pub fn new<'t>(rules: Arc<waf::Rules>, texts: impl IntoIterator<Item = &'t str>, seed: u64) -> Self {
        let mut digest = FNV_BASIS;
        for text in texts {
            for byte in text.bytes().chain([0]) {
                digest = (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        let collections = Arc::new(waf::Collections::new(seed));
        Self { rules, collections, digest, made: SystemTime::now() }
    }

    /// The time at which the set was made.
    pub fn made(&self) -> SystemTime {
        self.made
    }

    /// The compiled rules.
    pub fn rules(&self) -> &Arc<waf::Rules> {
        &self.rules
    }

    /// The values that rules keep from one request to the next (`initcol`).
    pub fn collections(&self) -> &Arc<waf::Collections> {
        &self.collections
    }
}

/// The hash function FNV-1a with 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Sets are equal if they are the same: equal texts are compiled once.
impl PartialEq for RuleSet {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
    }
}

impl Eq for RuleSet {}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, mode) = (self.rules.len(), self.rules.settings().mode);
        write!(f, "{count} rules, SecRuleEngine {mode:?}, digest {:016x}", self.digest)
    }
}

impl Serialize for RuleSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_equal_to_itself_and_tells_its_texts_apart() {
        let set = |text: &str| {
            let source = waf::Source { name: "a", text };
            let rules = waf::Rules::compile(&[source], &waf::NoFiles).unwrap();
            RuleSet::new(Arc::new(rules), [text], 1)
        };
        let (on, off) = (set("SecRuleEngine On"), set("SecRuleEngine Off"));
        assert_eq!(on, on.clone());
        assert_ne!(on, off);
        assert!(format!("{on:?}").starts_with("0 rules, SecRuleEngine On, digest "), "{on:?}");
        let digest = |set: &RuleSet| format!("{set:?}").split_once("digest").unwrap().1.to_owned();
        assert_eq!(digest(&on), digest(&set("SecRuleEngine On")));
        assert_ne!(digest(&on), digest(&off));
    }
}
