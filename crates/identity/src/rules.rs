//! Rules of a route by claims, one in a line: `[METHODS] PATH [when EXPRESSION]`.
//!
//! `GET,HEAD /reports when claims.scope has "read"`. The first rule whose methods and path fit decides: the
//! request is allowed if its expression holds, or if it has none. A request for which no rule fits is
//! refused.

use serde::Serialize;

use crate::claims::Expression;
use crate::json::Object;
use crate::limits::RULES_MAX;

/// The rules of a route, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Rule {
    /// Empty for all.
    methods: Vec<String>,
    /// A path and all paths below it; none for all.
    path: Option<String>,
    /// None if every verified client is allowed.
    when: Option<Expression>,
}

impl Rules {
    /// Reads rules. Empty lines, and lines that begin with `#`, are passed over.
    ///
    /// # Errors
    ///
    /// A text that names the line, and the character where an expression is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rules =
            lines.map(|(number, line)| rule(line).map_err(|why| format!("rule in line {number}: {why}")));
        let rules: Vec<_> = rules.collect::<Result<_, _>>()?;
        match rules.len() {
            0 => Err("there is no rule".to_owned()),
            many if many > RULES_MAX => Err(format!("there are more than {RULES_MAX} rules")),
            _ => Ok(Self(rules)),
        }
    }

    /// The names of the claims at the top that the rules depend on.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|rule| rule.when.as_ref()).flat_map(Expression::claims)
    }

    /// Whether a request with these claims is allowed. The path is normalized, without a query.
    pub fn allow(&self, method: &[u8], path: &[u8], claims: &Object) -> bool {
        let first = self.0.iter().find(|rule| rule.fits(method, path));
        first.is_some_and(|rule| rule.when.as_ref().is_none_or(|when| when.holds(claims)))
    }
}

impl Rule {
    fn fits(&self, method: &[u8], path: &[u8]) -> bool {
        let is_method =
            self.methods.is_empty() || self.methods.iter().any(|known| known.as_bytes() == method);
        is_method && self.path.as_ref().is_none_or(|begin| is_below(path, begin.as_bytes()))
    }
}

/// Whether a path is another one or below it, by its elements: `/ab` is not below `/a`.
fn is_below(path: &[u8], begin: &[u8]) -> bool {
    let begin = begin.strip_suffix(b"/").unwrap_or(begin);
    path.strip_prefix(begin).is_some_and(|rest| rest.first().is_none_or(|&next| next == b'/'))
}

fn rule(line: &str) -> Result<Rule, String> {
    let (scope, when) = match split_word(line, "when") {
        Some((scope, text)) => {
            let offset = line.len() - text.len();
            let expression = Expression::parse(text).map_err(|mut error| {
                error.position += line[..offset].chars().count();
                error.to_string()
            });
            (scope, Some(expression?))
        }
        None => (line, None),
    };
    let (methods, path) = match scope.split_whitespace().collect::<Vec<_>>().as_slice() {
        [path] => (Vec::new(), *path),
        [methods, path] => (read_methods(methods)?, *path),
        _ => return Err("a rule is \"[METHODS] PATH when EXPRESSION\"".to_owned()),
    };
    let path = match path {
        "*" => None,
        path if path.starts_with('/') && !path.contains(['?', '#']) => Some(path.to_owned()),
        _ => return Err(format!("{path:?} is no path: it begins with \"/\", or is \"*\" for all")),
    };
    Ok(Rule { methods, path, when })
}

fn read_methods(text: &str) -> Result<Vec<String>, String> {
    let is_token = |method: &str| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    let method = |method: &str| {
        if is_token(method) {
            Ok(method.to_owned())
        } else {
            Err(format!("{method:?} is no method: methods are in upper case, with commas between them"))
        }
    };
    text.split(',').map(method).collect()
}

/// A text before and behind the first occurrence of a word.
fn split_word<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    text.match_indices(word).find_map(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        let is_apart = before.ends_with(char::is_whitespace)
            && (behind.is_empty() || behind.starts_with(char::is_whitespace));
        is_apart.then_some((before, behind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn rules(text: &str) -> Rules {
        Rules::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(
            "# who may what\n\
             GET,HEAD /reports when claims.scope has \"read\"\n\
             /reports when claims.scope has \"write\"\n\n\
             \t/open\n\
             * when claims.groups has \"admin\"",
        );
        let reader = json::object(br#"{"scope": "read other"}"#).unwrap();
        let admin = json::object(br#"{"groups": ["admin"]}"#).unwrap();
        for (method, path, reader_may, admin_may) in [
            ("GET", "/reports", true, false),
            ("HEAD", "/reports/", true, false),
            ("GET", "/reports/2026/q1", true, false),
            ("POST", "/reports", false, false),
            ("GET", "/reportsx", false, true),
            ("GET", "/open/a", true, true),
            ("GET", "/", false, true),
        ] {
            let may = |claims| rules.allow(method.as_bytes(), path.as_bytes(), claims);
            assert_eq!((may(&reader), may(&admin)), (reader_may, admin_may), "{method} {path}");
        }
    }

    #[test]
    fn what_no_rule_fits_is_refused() {
        let rules = rules("GET /a/");
        let nobody = Object::new();
        assert!(rules.allow(b"GET", b"/a", &nobody) && rules.allow(b"GET", b"/a/b", &nobody));
        assert!(!rules.allow(b"get", b"/a", &nobody) && !rules.allow(b"GET", b"/b", &nobody));
        assert!(Rules::parse("/").unwrap().allow(b"GET", b"/b", &nobody));
    }

    #[test]
    fn errors_say_where() {
        for (text, why) in [
            ("", "there is no rule"),
            ("# nothing", "there is no rule"),
            ("\n/a when claims.a = 1", "rule in line 2: character 18: '=' is not expected here"),
            ("/a when", "rule in line 1: character 8: \"claims.NAME\", \"not\" or \"(\" is expected here"),
            ("a when claims.a exists", "rule in line 1: \"a\" is no path"),
            ("get /a", "rule in line 1: \"get\" is no method"),
            ("GET, /a", "rule in line 1: \"\" is no method"),
            ("GET HEAD /a", "rule in line 1: a rule is"),
            ("/a?b", "rule in line 1: \"/a?b\" is no path"),
        ] {
            let found = Rules::parse(text).unwrap_err();
            assert!(found.starts_with(why), "{text}: {found}");
        }
        let many = "/a\n".repeat(RULES_MAX + 1);
        assert!(Rules::parse(&many).unwrap_err().contains("more than"));
    }
}
