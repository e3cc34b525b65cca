//! Whether a request complies with the conditions of a route. Only routes with conditions come here.

use std::borrow::Cow;

use model::{Condition, Conditions};
use wire::h1::Request;

use crate::lookup::{cookie, header, parameter};

/// Whether all conditions hold. `head` holds the bytes of the request's head.
#[cold]
pub(crate) fn hold(conditions: &Conditions, head: &[u8], request: &Request) -> bool {
    let Conditions { method, headers, query, cookies } = conditions;
    method.as_ref().is_none_or(|method| method.as_bytes() == &head[request.method.clone()])
        && all_hold(headers, |name| header(head, request, name))
        && all_hold(query, |name| parameter(head, request, name).map(Cow::Borrowed))
        && all_hold(cookies, |name| cookie(head, request, name).map(Cow::Borrowed))
}

fn all_hold<'h>(conditions: &[Condition], value: impl Fn(&[u8]) -> Option<Cow<'h, [u8]>>) -> bool {
    conditions.iter().all(|one| value(one.name.as_bytes()).is_some_and(|value| one.value.takes(&value)))
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
    fn cookies_are_found_in_all_lines() {
        let of_cookies = |cookies| Conditions { cookies, ..Conditions::default() };
        for (name, value, expected) in
            [("s", "abc", true), ("t", "", true), ("u", "v", true), ("s", "other", false), ("v", "", false)]
        {
            assert_eq!(complies(&of_cookies(exact(name, value))), expected, "{name}={value}");
        }
    }
}
