//! Conditions about claims: `claims.groups has "admin" and claims.level >= 3`.
//!
//! | form | it holds if the claim |
//! |---|---|
//! | `claims.a.b == "x"` | has this value; texts, numbers and booleans are never equal to one another |
//! | `claims.a != "x"` | does not have it, or is missing |
//! | `claims.a < 3` (`<=`, `>`, `>=`) | is a number for which this is true |
//! | `claims.a in ["x", "y"]` | has one of the values |
//! | `claims.a has "x"` | is a list with the value, or is the value; `scope` and `scp` as text are words |
//! | `claims.a exists` | is there, and not `null` |
//!
//! `claims["https://x.test/a"]` is a claim whose name has other characters than letters, digits, `_` and
//! `-`. `not` binds closer than `and`, and `and` closer than `or`; parentheses group.

mod parse;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::json::{Object, Value};

/// A condition about claims. Two are equal if their texts are.
#[derive(Clone)]
pub struct Expression {
    text: String,
    root: Node,
}

/// Where an expression cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The character, counted from 1.
    pub position: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "character {}: {}", self.position, self.message)
    }
}

impl std::error::Error for SyntaxError {}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Test(Path, Test),
}

/// The names that lead to a claim, from the outside in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Path(Vec<String>);

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Equals(Value),
    Differs(Value),
    Compares(Comparison, f64),
    In(Vec<Value>),
    Has(Value),
    Exists,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, and why.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { text: text.trim().to_owned(), root: parse::expression(text)? })
    }

    /// Whether these claims satisfy it.
    pub fn holds(&self, claims: &Object) -> bool {
        self.root.holds(claims)
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Expression {
    /// The names of the claims at the top that it depends on.
    pub fn claims(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.paths(&mut |path| names.push(path.first()));
        names
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Path {
    /// A path as it is without `claims.` before it: names with dots between them. A name with dots in it is
    /// in brackets and quotes.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, and why.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        parse::path(text)
    }

    /// The claim; none if it is missing.
    pub fn find<'c>(&self, claims: &'c Object) -> Option<&'c Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(claims.get(first)?, |value, name| value.as_object()?.get(name))
    }

    /// Whether it is one name, and that is this one.
    pub fn is(&self, name: &str) -> bool {
        matches!(self.0.as_slice(), [only] if only == name)
    }

    /// The name of the claim at the top.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    fn is_scope(&self) -> bool {
        self.is("scope") || self.is("scp")
    }
}

/// A claim as text for a header: numbers and booleans as JSON has them, and the items of a list joined by
/// commas. None for what is no plain value: an object, `null`, a list with such items, or text with control
/// characters. Items of a list may have no commas, which would make one item two.
pub fn header_value(claim: &Value) -> Option<String> {
    let plain = |value: &Value| match value {
        Value::String(text) if !text.chars().any(char::is_control) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(is_so.to_string()),
        _ => None,
    };
    match claim {
        Value::Array(items) => {
            let items: Option<Vec<_>> =
                items.iter().map(|item| plain(item).filter(|text| !text.contains(','))).collect();
            Some(items?.join(","))
        }
        value => plain(value),
    }
}

impl Node {
    /// Calls back with the claim of each test.
    fn paths<'n>(&'n self, found: &mut impl FnMut(&'n Path)) {
        match self {
            Self::Any(nodes) | Self::All(nodes) => nodes.iter().for_each(|node| node.paths(found)),
            Self::Not(node) => node.paths(found),
            Self::Test(path, _) => found(path),
        }
    }

    fn holds(&self, claims: &Object) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(claims)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(claims)),
            Self::Not(node) => !node.holds(claims),
            Self::Test(path, test) => test.holds(path, path.find(claims)),
        }
    }
}

impl Test {
    fn holds(&self, path: &Path, claim: Option<&Value>) -> bool {
        match self {
            Self::Differs(value) => !claim.is_some_and(|claim| equals(claim, value)),
            Self::Exists => claim.is_some_and(|claim| !claim.is_null()),
            Self::Equals(value) => claim.is_some_and(|claim| equals(claim, value)),
            Self::In(values) => claim.is_some_and(|claim| values.iter().any(|value| equals(claim, value))),
            Self::Compares(comparison, number) => {
                let claim = claim.and_then(Value::as_f64);
                claim.is_some_and(|claim| match comparison {
                    Comparison::Less => claim < *number,
                    Comparison::AtMost => claim <= *number,
                    Comparison::Greater => claim > *number,
                    Comparison::AtLeast => claim >= *number,
                })
            }
            Self::Has(value) => match (claim, value) {
                (Some(Value::Array(items)), _) => items.iter().any(|item| equals(item, value)),
                (Some(Value::String(words)), Value::String(word)) if path.is_scope() => {
                    words.split(' ').any(|one| one == word)
                }
                (Some(claim), _) => equals(claim, value),
                (None, _) => false,
            },
        }
    }
}

/// Whether a claim has a value. Numbers are compared as such: 1 and 1.0 are equal.
fn equals(claim: &Value, value: &Value) -> bool {
    match (claim, value) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| is_same(one, other))
        }
        _ => claim == value,
    }
}

/// Whether two numbers are the same, and exact as such: beyond 2^53 different integers are equal as floats.
fn is_same(one: f64, other: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    one.total_cmp(&other).is_eq() && one.abs() < EXACT
}

#[cfg(test)]
mod tests;
