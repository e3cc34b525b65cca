//! Conditions as a tree, and what they mean for claims.

use std::fmt;

use serde::Serialize;

use crate::json::{Object, Value};

/// Where an expression cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The character, counted from 1.
    pub position: usize,
    /// The mistake, in words.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "character {}: {}", self.position, self.message)
    }
}

impl std::error::Error for SyntaxError {}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Test(Path, Test),
}

/// The names that lead to a claim, from the outside in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Path(pub(super) Vec<String>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Equals(Value),
    Differs(Value),
    Compares(Comparison, f64),
    In(Vec<Value>),
    Has(Value),
    Exists,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Path {
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

impl Node {
    /// Calls back with the claim of each test.
    pub(super) fn paths<'n>(&'n self, found: &mut impl FnMut(&'n Path)) {
        match self {
            Self::Any(nodes) | Self::All(nodes) => nodes.iter().for_each(|node| node.paths(found)),
            Self::Not(node) => node.paths(found),
            Self::Test(path, _) => found(path),
        }
    }

    pub(super) fn holds(&self, claims: &Object) -> bool {
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
