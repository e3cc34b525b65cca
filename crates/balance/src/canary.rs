//! The choice between a cluster and its canary.
//!
//! Must not be in here: the request; its headers and cookies are looked up by whoever has it.

use std::borrow::Cow;

use model::{CanaryHeader, CanaryHeaderRule, CanaryRules, StepBudget};

/// The rule that decides between a mainline and its canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryChoice {
    /// The mainline has no endpoint. The canary does not step in for it.
    MainlineEmpty,
    /// The canary has no endpoint.
    CanaryEmpty,
    /// The client's affinity cookie: true if the canary has set it.
    Affinity(bool),
    /// A header of the request: true if it is for the canary.
    Header(bool),
    /// A cookie of the request: true if it is for the canary.
    Cookie(bool),
    /// A random number and the canary's weight.
    Weight,
}

impl CanaryChoice {
    /// The rule of a canary that decides for a request: "header -> cookie -> weight".
    ///
    /// `header` and `cookie` look up a value of the request by name. A pattern that exceeds `budget` counts
    /// as one that does not compile: the mainline takes the request.
    pub fn by_rules<'v>(
        rules: &CanaryRules,
        budget: &StepBudget,
        header: impl FnOnce(&str) -> Option<Cow<'v, [u8]>>,
        cookie: impl FnOnce(&str) -> Option<&'v [u8]>,
    ) -> Self {
        let by_header = |rule: &CanaryHeader| by_header(&rule.rule, &header(&rule.name)?, budget);
        let by_cookie = |name: &String| always_or_never(cookie(name)?);
        let decided = rules.header.as_ref().and_then(by_header).map(Self::Header);
        let decided = decided.or_else(|| rules.cookie.as_ref().and_then(by_cookie).map(Self::Cookie));
        decided.unwrap_or(Self::Weight)
    }

    /// Whether the canary takes the request; none where a random number decides.
    pub fn takes(self) -> Option<bool> {
        match self {
            Self::MainlineEmpty | Self::CanaryEmpty => Some(false),
            Self::Affinity(takes) | Self::Header(takes) | Self::Cookie(takes) => Some(takes),
            Self::Weight => None,
        }
    }
}

/// Whether a header's value is for the canary; none where it does not decide.
fn by_header(rule: &CanaryHeaderRule, value: &[u8], budget: &StepBudget) -> Option<bool> {
    match rule {
        CanaryHeaderRule::AlwaysOrNever => always_or_never(value),
        CanaryHeaderRule::Value(wanted) => (wanted.as_bytes() == value).then_some(true),
        CanaryHeaderRule::Pattern(pattern) => match pattern.try_match(value, budget) {
            Ok(matches) => matches.then_some(true),
            Err(_) => Some(false),
        },
        CanaryHeaderRule::Never => Some(false),
    }
}

fn always_or_never(value: &[u8]) -> Option<bool> {
    match value {
        b"always" => Some(true),
        b"never" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::{CanaryWeight, Expression};

    use super::*;

    fn choose(rules: &CanaryRules, header: Option<&str>, cookie: Option<&str>) -> CanaryChoice {
        fn bytes(value: &str) -> Cow<'_, [u8]> {
            value.as_bytes().into()
        }
        CanaryChoice::by_rules(
            rules,
            &StepBudget::default(),
            |_| header.map(bytes),
            |_| cookie.map(str::as_bytes),
        )
    }

    fn rules(rule: CanaryHeaderRule) -> CanaryRules {
        CanaryRules {
            header: Some(CanaryHeader { name: "X-Canary".to_owned(), rule }),
            cookie: Some("canary".to_owned()),
            weight: CanaryWeight::new(0, 1),
        }
    }

    #[test]
    fn the_header_decides_before_the_cookie_and_the_cookie_before_the_weight() {
        let rules = rules(CanaryHeaderRule::AlwaysOrNever);
        assert_eq!(choose(&rules, Some("always"), Some("never")), CanaryChoice::Header(true));
        assert_eq!(choose(&rules, Some("perhaps"), Some("never")), CanaryChoice::Cookie(false));
        assert_eq!(choose(&rules, None, Some("perhaps")), CanaryChoice::Weight);
    }

    #[test]
    fn a_pattern_that_takes_too_long_means_the_mainline() {
        let pattern = Expression::case_sensitive("(?:(?=a)a|a)*c").unwrap();
        let rules = rules(CanaryHeaderRule::Pattern(pattern));
        let value = "a".repeat(900);
        assert_eq!(choose(&rules, Some(&value), Some("always")), CanaryChoice::Header(false));
        assert_eq!(choose(&rules, Some("b"), Some("always")), CanaryChoice::Cookie(true));
    }
}
