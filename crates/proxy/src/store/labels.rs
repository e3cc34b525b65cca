//! Labels by which a response can be purged: the URL that clients request, and the tags that the endpoint
//! sets.
//!
//! Labels are stored with the response and are not indexed: a purge scans the whole cache, so that a hit
//! costs nothing.

use std::sync::Arc;

use cache_disk::{Purge as Matcher, read_labels, write_labels};
use wire::cache::Head;

use crate::limits::CACHE_LABELS_BYTES_MAX;

/// Response headers with tags, and the separators between tags. They are meant for caches and are removed
/// from responses to clients.
pub(crate) const TAG_FIELDS: [(&str, &[u8]); 2] = [("cache-tag", b", \t"), ("surrogate-key", b" \t")];

/// Replaces the query where not all of the query is part of the key.
const ANY_QUERY: &[u8] = b" *";

/// The labels of a response, the URL first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels(Arc<[u8]>);

/// The subject of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All cached responses.
    All,
    /// All responses of a host.
    Host(String),
    /// The responses of a URL: its host, and its path with the query.
    Url(String, String),
    /// The responses whose URLs begin with this host and path.
    Prefix(String, String),
    /// The responses with this tag.
    Tag(String),
}

impl Labels {
    /// The labels of a response without tags. None where the URL is too long.
    pub(crate) fn of_url(host: &[u8], target: &[u8], is_by_query: bool) -> Option<Self> {
        let path = wire::path::of_target(target);
        let rest = if is_by_query { &target[path.len()..] } else { ANY_QUERY };
        Self::encode(vec![url_label(&name_of(host), &[path, rest].concat())])
    }

    /// The same URL, with the tags that the endpoint gives. None where they are too long.
    pub(crate) fn tagged(&self, response: Head<'_>) -> Option<Self> {
        let mut labels: Vec<Vec<u8>> = self.iter().take(1).map(<[u8]>::to_vec).collect();
        for (name, separators) in TAG_FIELDS {
            let tags = response.values(name.as_bytes());
            let tags = tags.flat_map(|value| value.split(|byte| separators.contains(byte)));
            labels.extend(tags.filter(|tag| !tag.is_empty()).map(tag_label));
        }
        if labels.len() == 1 {
            return Some(Self(Arc::clone(&self.0)));
        }
        Self::encode(labels)
    }

    fn encode(mut labels: Vec<Vec<u8>>) -> Option<Self> {
        labels[1..].sort_unstable();
        labels.dedup();
        let bytes = write_labels(&labels).filter(|bytes| bytes.len() <= CACHE_LABELS_BYTES_MAX)?;
        Some(Self(bytes.into()))
    }

    /// Labels in encoded form, read from the disk or another replica. None where there are none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read_labels(bytes).next().map(|_| Self(bytes.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        read_labels(&self.0)
    }

    /// Whether one of these purges matches these labels.
    pub(super) fn are_meant(&self, purges: &[Matcher]) -> bool {
        purges.iter().any(|purge| purge.matches(self.iter()))
    }
}

impl Purge {
    /// The purge as matchers, which both tiers understand.
    pub(super) fn matchers(&self) -> Vec<Matcher> {
        match self {
            Self::All => vec![Matcher::All],
            Self::Host(host) => vec![Matcher::LabelPrefix(url_label(&name_of(host.as_bytes()), b"/"))],
            Self::Tag(tag) => vec![Matcher::Label(tag_label(tag.as_bytes()))],
            Self::Url(host, target) => {
                vec![
                    Matcher::Label(url_label(&name_of(host.as_bytes()), target.as_bytes())),
                    of_all_queries(host, target),
                ]
            }
            Self::Prefix(host, target) => {
                let prefix = Matcher::LabelPrefix(url_label(&name_of(host.as_bytes()), target.as_bytes()));
                let has_query = target.contains('?');
                [prefix].into_iter().chain(has_query.then(|| of_all_queries(host, target))).collect()
            }
        }
    }
}

/// A matcher for a path whose responses are not all told apart by the query: a purge of a URL matches all of
/// them.
fn of_all_queries(host: &str, target: &str) -> Matcher {
    let path = wire::path::of_target(target.as_bytes());
    Matcher::Label(url_label(&name_of(host.as_bytes()), &[path, ANY_QUERY].concat()))
}

/// A host in lower case, without its port and final dot.
fn name_of(host: &[u8]) -> Vec<u8> {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let host = host[..host.len() - digits].strip_suffix(b":").unwrap_or(host);
    host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
}

fn url_label(host: &[u8], target: &[u8]) -> Vec<u8> {
    [b"u", host, target].concat()
}

fn tag_label(tag: &[u8]) -> Vec<u8> {
    [b"t", tag].concat().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use wire::h1::{Fields, parse_response};

    use super::*;

    fn labels(host: &str, target: &str, is_by_query: bool) -> Labels {
        Labels::of_url(host.as_bytes(), target.as_bytes(), is_by_query).unwrap()
    }

    fn tagged(fields: &str) -> Option<Labels> {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let response = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
        labels("a.test", "/", true).tagged(Head::of_response(head.as_bytes(), &response))
    }

    fn url(target: &str) -> Purge {
        Purge::Url("a.test".to_owned(), target.to_owned())
    }

    fn prefix(target: &str) -> Purge {
        Purge::Prefix("a.test".to_owned(), target.to_owned())
    }

    #[test]
    fn a_purge_is_about_what_it_names() {
        let whole = labels("A.Test.:8080", "/x/y?b=1", true);
        let path = labels("a.test", "/x/y?b=1", false);
        for (purge, of_whole, of_path) in [
            (Purge::All, true, true),
            (Purge::Host("A.TEST:80".to_owned()), true, true),
            (Purge::Host("test".to_owned()), false, false),
            (Purge::Host("a.tes".to_owned()), false, false),
            (url("/x/y?b=1"), true, true),
            (url("/x/y?b=2"), false, true),
            (url("/x/y"), false, true),
            (url("/x"), false, false),
            (prefix("/x/"), true, true),
            (prefix("/x/y?b"), true, true),
            (prefix("/x/y?c"), false, true),
            (prefix("/y"), false, false),
            (Purge::Tag("/x/y?b=1".to_owned()), false, false),
        ] {
            let matchers = purge.matchers();
            assert_eq!(
                (whole.are_meant(&matchers), path.are_meant(&matchers)),
                (of_whole, of_path),
                "{purge:?}"
            );
        }
    }

    #[test]
    fn tags_are_words_in_any_case() {
        let labels =
            tagged("Cache-Tag: one, Two\r\ncache-tag: three\r\nSurrogate-Key: four five,six\r\n").unwrap();
        for (tag, is_there) in [
            ("ONE", true),
            ("two", true),
            ("three", true),
            ("four", true),
            ("five,six", true),
            ("five", false),
            ("", false),
        ] {
            assert_eq!(labels.are_meant(&Purge::Tag(tag.to_owned()).matchers()), is_there, "{tag}");
        }
        assert!(labels.are_meant(&url("/").matchers()));
        assert_eq!(tagged("Cache-Tag: b, a\r\n"), tagged("Surrogate-Key: a b a\r\n"));
        assert_eq!(tagged(""), Some(self::labels("a.test", "/", true)));
    }

    #[test]
    fn what_has_too_long_labels_has_none() {
        assert_eq!(tagged(&format!("Cache-Tag: {}\r\n", "x".repeat(CACHE_LABELS_BYTES_MAX))), None);
        assert!(Labels::of_url(b"a.test", &vec![b'x'; 1 << 16], true).is_none());
        assert!(Labels::of_url(&vec![b'x'; 1 << 16], b"/", true).is_none());
    }
}
