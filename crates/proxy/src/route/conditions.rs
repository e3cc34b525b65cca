//! Whether a request complies with the conditions of a route. Only routes with conditions come here.

use model::{Condition, Conditions};
use wire::h1::Request;

use crate::request::lookup::{cookies, header, named, parameters};

/// So many conditions are looked at in one pass over what a request has: a bit for each.
const AT_ONCE_MAX: usize = u64::BITS as usize;

/// Whether all conditions hold. `head` holds the bytes of the request's head.
#[inline(never)]
pub(crate) fn hold(conditions: &Conditions, head: &[u8], request: &Request) -> bool {
    let Conditions { method, headers, query, cookies: pairs } = conditions;
    method.as_ref().is_none_or(|method| method.as_bytes() == &head[request.method.clone()])
        && headers.chunks(AT_ONCE_MAX).all(|some| headers_hold(some, head, request))
        && query
            .chunks(AT_ONCE_MAX)
            .all(|some| firsts_hold(some, parameters(head, request).into_iter().flatten()))
        && pairs.chunks(AT_ONCE_MAX).all(|some| firsts_hold(some, cookies(head, request)))
}

/// Headers that come once are compared in one pass.
fn headers_hold(conditions: &[Condition], head: &[u8], request: &Request) -> bool {
    let mut met = 0_u64;
    for field in &request.fields {
        let name = field.name(head);
        for (index, one) in conditions.iter().enumerate() {
            if !is_same(one.name.as_bytes(), name) {
                continue;
            }
            if met & 1 << index != 0 || !one.value.takes(field.value(head)) {
                return joined_hold(conditions, head, request);
            }
            met |= 1 << index;
        }
    }
    met.count_ones() as usize == conditions.len()
}

/// Whether two names of headers are equal. Most of those that are equally long end in different letters.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let last = |name: &[u8]| name.last().map(u8::to_ascii_lowercase);
    one.len() == other.len() && last(one) == last(other) && one.eq_ignore_ascii_case(other)
}

/// A value that is not the one that is asked for may be when other lines of the header are added.
fn joined_hold(conditions: &[Condition], head: &[u8], request: &Request) -> bool {
    let value = |one: &Condition| header(head, request, one.name.as_bytes());
    conditions.iter().all(|one| value(one).is_some_and(|value| one.value.takes(&value)))
}

/// Whether the first of the pairs with each name has the value.
fn firsts_hold<'h>(conditions: &[Condition], pairs: impl Iterator<Item = &'h [u8]>) -> bool {
    let mut met = 0_u64;
    for pair in pairs {
        for (index, one) in conditions.iter().enumerate() {
            let name = one.name.as_bytes();
            // Most names differ in their first letter.
            if name.first() != pair.first() || met & 1 << index != 0 {
                continue;
            }
            let Some(value) = named(pair, name) else { continue };
            if !one.value.takes(value) {
                return false;
            }
            met |= 1 << index;
        }
    }
    met.count_ones() as usize == conditions.len()
}

#[cfg(test)]
mod tests {
    use model::{Pattern, ValueMatch};
    use wire::h1::{Fields, RequestLimits, parse_request};

    use super::*;

    const HEAD: &str = "GET /a?x=1&flag&x=2&xy=%20 HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\n\
                        Cookie: s=abc; t=\r\nCookie: s=other;u=v\r\n\r\n";

    fn exact(name: &str, value: &str) -> Vec<Condition> {
        vec![Condition { name: name.to_owned(), value: ValueMatch::Exact(value.to_owned()) }]
    }

    fn complies(conditions: &Conditions) -> bool {
        let limits = RequestLimits { line_bytes_max: 1000, head_bytes_max: 1000 };
        let request = parse_request(HEAD.as_bytes(), limits, Fields::default()).unwrap().unwrap();
        hold(conditions, HEAD.as_bytes(), &request)
    }

    #[test]
    fn methods_are_compared() {
        let of_method =
            |method: &str| Conditions { method: Some(method.to_owned()), ..Conditions::default() };
        assert!(complies(&Conditions::default()) && complies(&of_method("GET")));
        assert!(!complies(&of_method("GETS")) && !complies(&of_method("get")));
    }

    #[test]
    fn headers_that_come_more_than_once_are_joined() {
        let of_headers = |headers| Conditions { headers, ..Conditions::default() };
        assert!(complies(&of_headers(exact("x-A", "1,2"))) && complies(&of_headers(exact("host", "a"))));
        assert!(!complies(&of_headers(exact("x-a", "1"))) && !complies(&of_headers(exact("x-b", ""))));
        let both = [exact("x-a", "1,2"), exact("host", "b")].concat();
        assert!(!complies(&of_headers(both)), "all have to hold");
    }

    #[test]
    fn the_first_of_equal_parameters_counts() {
        let of_query = |query| Conditions { query, ..Conditions::default() };
        for (name, value, expected) in [
            ("x", "1", true),
            ("x", "2", false),
            ("flag", "", true),
            ("xy", "%20", true),
            ("y", "", false),
            ("X", "1", false),
        ] {
            assert_eq!(complies(&of_query(exact(name, value))), expected, "{name}={value}");
        }
        let value = ValueMatch::Pattern(Pattern::parse("^[0-9]$").unwrap());
        assert!(complies(&of_query(vec![Condition { name: "x".to_owned(), value }])));
    }

    #[test]
    fn more_conditions_than_are_looked_at_in_one_pass_hold_too() {
        let many = |one: Vec<Condition>| vec![one[0].clone(); AT_ONCE_MAX];
        for (last, expected) in [("1", true), ("2", false)] {
            let query = [many(exact("x", "1")), exact("x", last)].concat();
            assert_eq!(complies(&Conditions { query, ..Conditions::default() }), expected);
            let headers = [many(exact("host", "a")), exact("x-a", &format!("{last},2"))].concat();
            assert_eq!(complies(&Conditions { headers, ..Conditions::default() }), expected);
        }
    }

    #[test]
    fn cookies_are_found_in_all_lines() {
        let of_cookies = |cookies| Conditions { cookies, ..Conditions::default() };
        for (name, value, expected) in
            [("s", "abc", true), ("t", "", true), ("u", "v", true), ("s", "other", false), ("v", "", false)]
        {
            assert_eq!(complies(&of_cookies(exact(name, value))), expected, "{name}={value}");
        }
    }
}
