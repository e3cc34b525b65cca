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

mod node;
mod parse;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::json::{Object, Value};
use node::Node;
pub use node::{Path, SyntaxError};

/// A condition about claims. Two are equal if their texts are.
#[derive(Clone)]
pub struct Expression {
    text: String,
    root: Node,
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

    /// The text of the expression.
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

#[cfg(test)]
mod tests;
