//! Transfer of requests and responses between clients and endpoints. Never in here: the choice of endpoints.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::template::Template;
use crate::{ClusterId, Compression, Replacements};

/// How a request and its response are passed between a client and an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// Reads a request's body whole before the endpoint is called, with up to this many bytes in memory and
    /// longer bodies in a file. None to stream bodies (nginx: `proxy_request_buffering`,
    /// `client_body_buffer_size`).
    pub request_buffer_bytes: Option<u64>,
    /// Endpoints are spoken to in HTTP/1.0, unless they speak HTTP/2: one request for each connection, and no
    /// chunks.
    pub uses_http_1_0: bool,
    /// Longest head of an endpoint's response in HTTP/1, in bytes: the status line and all lines up to and
    /// including the empty one.
    pub response_head_bytes_max: u64,
    /// Changes to responses; none for no changes. On the heap, since most routes have none.
    pub response: Option<Box<ResponsePolicy>>,
    /// Where copies of requests go; none for nowhere.
    pub mirrors: Option<Box<[Mirror]>>,
}

impl Default for Transfer {
    /// Bodies are passed on as they come.
    fn default() -> Self {
        Self {
            request_buffer_bytes: None,
            uses_http_1_0: false,
            response_head_bytes_max: 64 << 10,
            response: None,
            mirrors: None,
        }
    }
}

/// Changes to the responses of endpoints, and how they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResponsePolicy {
    /// Bytes of a body that are read from the endpoint ahead of the client; 0 for no read-ahead.
    pub read_ahead_bytes: u64,
    /// How fast a body is sent; none for as fast as the client takes it.
    pub pace: Option<Pace>,
    /// The change to `Location` and to the URL of `Refresh`.
    pub location: Option<Substitution>,
    /// The change to the `Domain` of cookies.
    pub cookie_domain: Option<Substitution>,
    /// The change to the `Path` of cookies.
    pub cookie_path: Option<Substitution>,
    /// Content codings on offer; none to pass contents on unchanged.
    pub compression: Option<Arc<Compression>>,
    /// Replacements of texts in the content; none for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacements: Option<Arc<Replacements>>,
}

/// The replacement of one text by another. Each user says whether the text is a whole value or its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Substitution {
    /// The text to replace.
    pub from: String,
    /// The text that replaces it.
    pub to: String,
}

/// How fast a body is sent (nginx: `limit_rate`, `limit_rate_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pace {
    /// Bytes in a second.
    pub bytes_per_second: u64,
    /// Bytes at the beginning that are sent at once.
    pub after_bytes: u64,
}

/// A target for copies of requests. The responses to copies are discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// The cluster that gets the copies.
    pub cluster: ClusterId,
    /// How copies differ from the request to the endpoint; none for an equal one with its body: with the
    /// path, host and headers that the route's filters produce.
    pub copy: Option<Arc<MirrorCopy>>,
    /// How many of the requests are copied.
    pub share: Share,
}

impl Mirror {
    /// Whether copies have the request's body.
    pub fn has_body(&self) -> bool {
        self.copy.as_ref().is_none_or(|copy| copy.has_body)
    }
}

/// So many of so many requests, picked at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// All of them.
    pub const ALL: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator` of `denominator`. More than the whole counts as the whole; a denominator of zero, which no
    /// fraction has, selects nothing.
    pub fn new(numerator: u32, denominator: u32) -> Self {
        if denominator == 0 { Self { numerator: 0, denominator: 1 } } else { Self { numerator, denominator } }
    }

    /// Whether a request is one of them, by a random number.
    pub fn takes(self, random: u64) -> bool {
        random % u64::from(self.denominator) < u64::from(self.numerator)
    }
}

impl fmt::Display for Share {
    /// As a fraction: `1/4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// How the copy of a request is made: with its method and its client's headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorCopy {
    /// Value of `Host`.
    pub host: Template,
    /// Path and query.
    pub target: Template,
    /// Whether the request's query is added to the target.
    pub adds_query: bool,
    /// Whether it has the request's body.
    pub has_body: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_as_many_as_it_says() {
        let taken = |share: Share, of: u64| (0..of).filter(|&random| share.takes(random)).count();
        assert_eq!(taken(Share::new(20, 100), 1000), 200);
        assert_eq!(taken(Share::new(1, 3), 999), 333);
        assert_eq!(taken(Share::ALL, 10), 10);
        assert_eq!(taken(Share::new(5, 4), 10), 10);
        assert_eq!((taken(Share::new(0, 100), 100), taken(Share::new(1, 0), 100)), (0, 0));
    }
}
