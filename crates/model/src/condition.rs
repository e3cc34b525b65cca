use serde::Serialize;

use crate::Pattern;

/// Conditions on a request, beside its path, for a route to match. All of them have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Its method, in upper case; none for any.
    pub method: Option<String>,
    /// Conditions on headers. Names are compared without regard to case; the values of a repeated header are
    /// joined with a comma.
    pub headers: Vec<Condition>,
    /// Conditions on parameters of the query, as sent. Of a repeated parameter, the first value counts.
    pub query: Vec<Condition>,
    /// Conditions on cookies. Of a repeated cookie, the first value counts.
    pub cookies: Vec<Condition>,
}

/// A condition on a named value of a request. A request without that value does not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Name of the header, parameter or cookie.
    pub name: String,
    /// The comparison for the value.
    pub value: ValueMatch,
}

/// A comparison for the value of a [`Condition`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ValueMatch {
    /// The whole value.
    Exact(String),
    /// An expression that is found in it. Bytes that are no UTF-8 match none.
    Pattern(Pattern),
}

/// The order of two routes with equal paths: the one with the greater precedence is tried first.
///
/// Gateway API, `HTTPRouteRule`: "Precedence in the order of: [...] "Prefix" path match with largest number
/// of characters. Method match. Largest number of header matches. Largest number of query param matches." The
/// Gateway API has no conditions on cookies; they come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    method: bool,
    headers: usize,
    query: usize,
    cookies: usize,
}

impl Conditions {
    /// The precedence of a route with these conditions among routes with an equal path. A route without
    /// conditions has the default, which is the lowest.
    pub fn precedence(&self) -> Precedence {
        let Self { method, headers, query, cookies } = self;
        Precedence {
            method: method.is_some(),
            headers: headers.len(),
            query: query.len(),
            cookies: cookies.len(),
        }
    }
}

impl ValueMatch {
    /// Whether a value complies.
    pub fn takes(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == value,
            Self::Pattern(pattern) => std::str::from_utf8(value).is_ok_and(|text| pattern.is_match(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(method: bool, headers: usize, query: usize, cookies: usize) -> Precedence {
        let some = |count| {
            let value = ValueMatch::Exact(String::new());
            vec![Condition { name: "a".to_owned(), value }; count]
        };
        let method = method.then(|| "GET".to_owned());
        Conditions { method, headers: some(headers), query: some(query), cookies: some(cookies) }.precedence()
    }

    #[test]
    fn precedence_is_that_of_the_gateway_api() {
        let ascending = [
            Precedence::default(),
            conditions(false, 0, 0, 2),
            conditions(false, 0, 1, 0),
            conditions(false, 1, 0, 0),
            conditions(false, 1, 3, 0),
            conditions(false, 2, 0, 0),
            conditions(true, 0, 0, 0),
            conditions(true, 1, 0, 0),
        ];
        assert!(ascending.is_sorted_by(|a, b| a < b), "{ascending:?}");
    }

    #[test]
    fn values_are_equal_or_match() {
        let pattern = ValueMatch::Pattern(Pattern::parse("^a+$").unwrap());
        assert!(pattern.takes(b"aa") && !pattern.takes(b"ab") && !pattern.takes(b"\xff"));
        let exact = ValueMatch::Exact("a".to_owned());
        assert!(exact.takes(b"a") && !exact.takes(b"A"));
    }
}
