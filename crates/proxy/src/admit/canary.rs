//! The choice of one of a route's backends, where there are several.
//!
//! Never in here: what is known of the endpoints, and the affinity cookies that come before the rules of a
//! canary.

use balance::CanaryChoice;
use model::{CanaryRules, HeaderNames, StepBudget};
use wire::h1::Request;

use crate::request::lookup;

/// The rule of a canary that decides for a request: "header -> cookie -> weight". `head` holds the bytes
/// of its head.
pub(crate) fn by_rules(
    rules: &CanaryRules,
    head: &[u8],
    request: &Request,
    names: HeaderNames,
    budget: &StepBudget,
) -> CanaryChoice {
    let header = |name: &str| lookup::header_variable(head, request, name.as_bytes(), names);
    let cookie = |name: &str| lookup::cookie_variable(head, request, name.as_bytes());
    CanaryChoice::by_rules(rules, budget, header, cookie)
}

#[cfg(test)]
mod tests {
    use model::{CanaryHeader, CanaryHeaderRule, CanaryWeight, Expression};
    use wire::h1::{Fields, RequestLimits, parse_request};

    use super::*;

    fn is_for_canary(rules: &CanaryRules, head: &[u8], request: &Request, random: u64) -> bool {
        by_rules(rules, head, request, HeaderNames::Plain, &StepBudget::default())
            .takes()
            .unwrap_or_else(|| rules.weight.takes(random))
    }

    fn takes(rules: &CanaryRules, fields: &str) -> bool {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let limits = RequestLimits { line_bytes_max: 1000, head_bytes_max: 1000 };
        let request = parse_request(head.as_bytes(), limits, Fields::default()).unwrap().unwrap();
        is_for_canary(rules, head.as_bytes(), &request, 0)
    }

    /// Of those that reach it, the weight takes all or nothing.
    fn rules(rule: CanaryHeaderRule, all: bool) -> CanaryRules {
        CanaryRules {
            header: Some(CanaryHeader { name: "X-Canary".to_owned(), rule }),
            cookie: Some("canary".to_owned()),
            weight: CanaryWeight::new(u64::from(all), 1),
        }
    }

    #[test]
    fn the_header_decides_before_the_cookie_and_the_cookie_before_the_weight() {
        for all in [false, true] {
            let rules = rules(CanaryHeaderRule::AlwaysOrNever, all);
            for (fields, expected) in [
                ("x-canary: always\r\nCookie: canary=never\r\n", true),
                ("X-CANARY: never\r\nCookie: canary=always\r\n", false),
                ("X-Canary: Always\r\nCookie: canary=always\r\n", true),
                ("X-Canary: Never\r\nCookie: a=b; canary=never\r\n", false),
                ("X-Canary:\r\nCookie: canary=Always\r\n", all),
                ("Cookie: Canary=never\r\n", false),
                ("Cookie: a=b; CANARY=always\r\n", true),
                ("X_Canary: always\r\n", all),
                ("", all),
            ] {
                assert_eq!(takes(&rules, fields), expected, "{fields:?} {all}");
            }
        }
    }

    #[test]
    fn a_value_of_the_header_takes_the_place_of_always_and_never() {
        for all in [false, true] {
            let rules = rules(CanaryHeaderRule::Value("eu".to_owned()), all);
            assert!(takes(&rules, "X-Canary: eu\r\nCookie: canary=never\r\n"));
            for fields in ["X-Canary: EU\r\n", "X-Canary: always\r\n", "X-Canary: never\r\n", ""] {
                assert_eq!(takes(&rules, fields), all, "{fields:?}");
                let with_cookie = format!("{fields}Cookie: canary=always\r\n");
                assert!(takes(&rules, &with_cookie), "{fields:?}");
            }
        }
    }

    #[test]
    fn a_pattern_is_searched_for_and_a_broken_one_means_the_mainline_at_once() {
        let pattern = |text| CanaryHeaderRule::Pattern(Expression::case_sensitive(text).unwrap());
        for all in [false, true] {
            let eu = rules(pattern("e(u|e)"), all);
            assert!(takes(&eu, "X-Canary: see\r\nCookie: canary=never\r\n"));
            assert_eq!(takes(&eu, "X-Canary: EU\r\n"), all);
            assert!(takes(&eu, "X-Canary: us\r\nCookie: canary=always\r\n"));
            for rule in [CanaryHeaderRule::Never, pattern("(?:(?=a)a|a)*c")] {
                let broken = rules(rule, all);
                let fields = format!("X-Canary: {}\r\nCookie: canary=always\r\n", "a".repeat(900));
                assert!(!takes(&broken, &fields));
                assert!(takes(&broken, "Cookie: canary=always\r\n"), "a request without the header");
            }
        }
    }

    #[test]
    fn the_weight_takes_its_share_of_our_random_numbers() {
        let random = clock::Random::seeded(7);
        let rules = CanaryRules { weight: CanaryWeight::new(30, 100), ..CanaryRules::default() };
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let limits = RequestLimits { line_bytes_max: 1000, head_bytes_max: 1000 };
        let request = parse_request(head, limits, Fields::default()).unwrap().unwrap();
        let taken = (0..10_000).filter(|_| is_for_canary(&rules, head, &request, random.next())).count();
        assert!((2_800..3_200).contains(&taken), "{taken}");
    }
}
