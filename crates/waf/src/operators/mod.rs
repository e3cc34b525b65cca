//! Operators: what a rule asks of a value. One table names all of them.
//!
//! Never in here: variables, transformations, actions.

mod backtrack;
mod checks;
mod dynamic;
mod make;
mod network;
mod pattern;
mod pcre;
mod starts;
mod words;

use std::ops::Range;

use smallvec::smallvec;

pub(crate) use backtrack::{GROUPS, Groups};
pub(crate) use make::{Argument, Compiled, compile};
pub use make::{Entry, OPERATORS};
pub(crate) use pattern::{Pattern, Reading};

use crate::prefilter::ByteSet;
use crate::template::{Template, Values, number};
pub(crate) use checks::{Checksum, invalid_url_encoding as has_invalid_url_encoding};
use dynamic::Dynamic;
use network::Network;
use words::Words;

/// A comparison of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Both are the same (`@streq`).
    Equal,
    /// The value has the argument (`@contains`, `@strmatch`).
    Contains,
    /// The value has the argument between borders of words (`@containsWord`).
    ContainsWord,
    /// The value begins with the argument (`@beginsWith`).
    Begins,
    /// The value ends with the argument (`@endsWith`).
    Ends,
    /// The argument has the value (`@within`).
    Within,
}

/// A comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    GreaterOrEqual,
    Greater,
    LessOrEqual,
    Less,
}

impl Order {
    /// True if the comparison holds.
    pub(crate) fn holds(self, value: i64, argument: i64) -> bool {
        match self {
            Order::Equal => value == argument,
            Order::GreaterOrEqual => value >= argument,
            Order::Greater => value > argument,
            Order::LessOrEqual => value <= argument,
            Order::Less => value < argument,
        }
    }
}

/// A compiled operator.
pub(crate) enum Operator {
    /// `@unconditionalMatch`, and the operator of `SecAction`.
    Always,
    Never,
    Pattern(Pattern),
    /// `@rx` with macros.
    Dynamic(Box<Dynamic>),
    Words(Words),
    /// Comparisons of texts.
    Text(Comparison, Template),
    /// Comparisons of numbers.
    Number(Order, Template),
    /// `@validateByteRange`: the bytes that are valid.
    ByteRange(ByteSet),
    UrlEncoding,
    Utf8,
    Networks(Vec<Network>),
    Sqli,
    Xss,
    /// `@verifyCC` and its like.
    Checksum(Checksum, Pattern),
}

/// The result of a match for `capture`.
pub(crate) enum Capture {
    /// Ranges of the value.
    Groups(Groups),
    /// A text of the operator's own.
    Text(Vec<u8>),
}

impl Capture {
    fn range(range: Range<usize>) -> Capture {
        Capture::Groups(smallvec![Some(range)])
    }
}

impl Operator {
    /// Bytes that the operator takes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Operator>()
            + match self {
                Operator::Pattern(pattern) | Operator::Checksum(_, pattern) => pattern.memory(),
                Operator::Words(words) => words.memory(),
                _ => 0,
            }
    }

    /// True if the operator can decide from a number alone.
    pub(crate) fn is_numeric(&self) -> bool {
        matches!(self, Operator::Number(..) | Operator::Always | Operator::Never)
    }

    /// True if the operator matches a number. Work is added, as below.
    pub(crate) fn matches_number(&self, value: i64, values: &dyn Values, work: &mut usize) -> bool {
        match self {
            Operator::Always => true,
            Operator::Number(order, argument) => order.holds(value, argument.number(values)),
            _ => self.matches(value.to_string().as_bytes(), values, work),
        }
    }

    /// True if the operator matches a text. Work beyond one step for each byte is added.
    pub(crate) fn matches(&self, text: &[u8], values: &dyn Values, work: &mut usize) -> bool {
        match self {
            Operator::Always => true,
            Operator::Never => false,
            Operator::Pattern(pattern) => pattern.is_match_with_work(text, work),
            Operator::Dynamic(dynamic) => {
                dynamic.pattern(values, work).is_some_and(|pattern| pattern.is_match_with_work(text, work))
            }
            Operator::Words(words) => words.find(text).is_some(),
            Operator::Text(comparison, argument) => match argument.constant() {
                Some(argument) => compare(*comparison, text, argument),
                None => compare(*comparison, text, &argument.expand(values)),
            },
            Operator::Number(order, argument) => order.holds(number(text), argument.number(values)),
            Operator::ByteRange(valid) => text.iter().any(|&byte| !valid.contains(byte)),
            Operator::UrlEncoding => checks::invalid_url_encoding(text),
            Operator::Utf8 => std::str::from_utf8(text).is_err(),
            Operator::Networks(networks) => network::contain(networks, text),
            Operator::Sqli => crate::inject::detect_sqli_with_work(text, work).is_some(),
            Operator::Xss => crate::inject::detect_xss_with_work(text, work),
            Operator::Checksum(kind, pattern) => checks::find(*kind, pattern, text, work).is_some(),
        }
    }

    /// The captures of a text that matches; `None` if it does not match. Work is added.
    pub(crate) fn capture(&self, text: &[u8], values: &dyn Values, work: &mut usize) -> Option<Capture> {
        match self {
            Operator::Pattern(pattern) => pattern.groups(text, work).map(Capture::Groups),
            Operator::Dynamic(dynamic) => {
                dynamic.pattern(values, work)?.groups(text, work).map(Capture::Groups)
            }
            Operator::Words(words) => words.find(text).map(Capture::range),
            Operator::Checksum(kind, pattern) => checks::find(*kind, pattern, text, work).map(Capture::range),
            Operator::Sqli => {
                crate::inject::detect_sqli(text).map(|found| Capture::Text(found.as_bytes().to_vec()))
            }
            _ => self.matches(text, values, work).then(|| Capture::range(0..text.len())),
        }
    }
}

fn compare(comparison: Comparison, text: &[u8], argument: &[u8]) -> bool {
    match comparison {
        Comparison::Equal => text == argument,
        Comparison::Contains => memchr::memmem::find(text, argument).is_some(),
        Comparison::ContainsWord => contains_word(text, argument),
        Comparison::Begins => text.starts_with(argument),
        Comparison::Ends => text.ends_with(argument),
        Comparison::Within => text.is_empty() || memchr::memmem::find(argument, text).is_some(),
    }
}

fn contains_word(text: &[u8], word: &[u8]) -> bool {
    let part_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    word.is_empty()
        || memchr::memmem::find_iter(text, word).any(|start| {
            let before = start.checked_sub(1).and_then(|index| text.get(index));
            !before.is_some_and(part_of_word) && !text.get(start + word.len()).is_some_and(part_of_word)
        })
}

#[cfg(test)]
mod tests;
