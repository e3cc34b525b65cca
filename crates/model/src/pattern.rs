use regex::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

/// A regular expression that is matched in linear time, whatever the text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// A text that is no regular expression, or one that would take too much memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(String);

/// Bytes that a compiled expression may take.
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 20;

impl Pattern {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// The expression is malformed or exceeds the limit on memory.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
        built.map(Self).map_err(|error| InvalidPattern::of(&error.to_string()))
    }

    /// Whether the expression matches anywhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl InvalidPattern {
    /// The error for the message of a matcher about an invalid expression.
    pub(crate) fn of(text: &str) -> Self {
        // The lines before show where in the expression; they repeat it.
        let last = text.lines().last().unwrap_or_default();
        Self(last.strip_prefix("error: ").unwrap_or(last).to_owned())
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_expression_or_too_large_is_refused() {
        assert!(Pattern::parse("CN=(alice|bob)").unwrap().is_match("O=x,CN=bob"));
        assert!(Pattern::parse("(").is_err());
        assert!(Pattern::parse("(((a{100}){100}){100})").is_err());
    }
}
