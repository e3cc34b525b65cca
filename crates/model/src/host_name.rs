//! Host names and patterns of them. Must not be in here: the routes of a host.

use std::fmt;

use serde::Serialize;

use crate::Pattern;

/// The names that a [`Host`](crate::Host) answers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum HostName {
    /// One name, in lower case.
    Exact(String),
    /// `*.suffix` of an Ingress: exactly one label before the suffix. Holds the suffix without `*.`, in lower
    /// case.
    OneLabel(String),
    /// `*.suffix` of the Gateway API: any number of labels before the suffix, at least one. Holds the suffix
    /// without `*.`, in lower case.
    Suffix(String),
    /// Whatever no other host answers to.
    Any,
}

/// A further name of a [`Host`](crate::Host).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Alias {
    /// A name, or a wildcard.
    Name(HostName),
    /// All names in which this expression matches. Names are compared in lower case, without a port.
    Pattern(Pattern),
}

/// A string that is not a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host name: labels of letters, digits, '-' and '_', optionally with '*' as the first")]
pub struct InvalidHostName(String);

impl HostName {
    /// Reads a name as in an Ingress rule, where `*.` is one label; the empty string is [`HostName::Any`].
    ///
    /// # Errors
    ///
    /// The text is not a host name.
    pub fn parse(text: &str) -> Result<Self, InvalidHostName> {
        Self::parse_as(text, Self::OneLabel)
    }

    /// Reads a name as in the Gateway API, where `*.` is any number of labels; the empty string is
    /// [`HostName::Any`].
    ///
    /// # Errors
    ///
    /// The text is not a host name.
    pub fn parse_with_suffix(text: &str) -> Result<Self, InvalidHostName> {
        Self::parse_as(text, Self::Suffix)
    }

    /// Whether a name, in lower case and without a port, matches.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::Exact(own) => own == name,
            Self::OneLabel(suffix) => {
                name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == suffix)
            }
            Self::Suffix(suffix) => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|begin| begin.len() > 1 && begin.ends_with('.')),
            Self::Any => true,
        }
    }

    fn parse_as(text: &str, wildcard_of: fn(String) -> Self) -> Result<Self, InvalidHostName> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        let name = text.to_ascii_lowercase();
        let (wildcard, labels) = match name.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, name.as_str()),
        };
        if labels.len() > NAME_BYTES_MAX || !labels.split('.').all(is_label) {
            return Err(InvalidHostName(text.to_owned()));
        }
        Ok(if wildcard { wildcard_of(labels.to_owned()) } else { Self::Exact(name) })
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::OneLabel(suffix) | Self::Suffix(suffix) => write!(f, "*.{suffix}"),
            Self::Any => f.write_str("_"),
        }
    }
}

/// RFC 1035 section 2.3.4.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= LABEL_BYTES_MAX
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_cased_and_told_apart() {
        assert_eq!(HostName::parse("Web.Test.COM"), Ok(HostName::Exact("web.test.com".into())));
        assert_eq!(HostName::parse("*.Foo.com"), Ok(HostName::OneLabel("foo.com".into())));
        assert_eq!(HostName::parse_with_suffix("*.Foo.com"), Ok(HostName::Suffix("foo.com".into())));
        assert_eq!(HostName::parse_with_suffix("foo.com"), HostName::parse("foo.com"));
        assert_eq!(HostName::parse(""), Ok(HostName::Any));
        assert_eq!(HostName::parse("*.Foo.com").unwrap().to_string(), "*.foo.com");
    }

    #[test]
    fn wildcards_take_names() {
        let (one, any) = (HostName::OneLabel("a.test".into()), HostName::Suffix("a.test".into()));
        assert!(one.takes("x.a.test") && !one.takes("y.x.a.test") && !one.takes("a.test"));
        assert!(
            any.takes("x.a.test") && any.takes("y.x.a.test") && !any.takes("a.test") && !any.takes(".a.test")
        );
        assert!(HostName::Exact("a".into()).takes("a") && HostName::Any.takes("b"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["*", "a..b", ".a", "a.*.b", "a b", "a/b", "-a.b", "a-.b", "*.", "a:80"] {
            assert!(HostName::parse(text).is_err(), "{text}");
        }
        assert!(HostName::parse(&"a".repeat(64)).is_err());
    }
}
