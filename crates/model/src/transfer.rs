//! How requests and responses are passed between clients and endpoints. Never in here: which endpoints.

use std::fmt;
use std::sync::Arc;

use crate::template::Template;
use crate::{ClusterId, Compression};

/// How a request and its response are passed between a client and an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// A request's body is read whole before an endpoint is asked, and so many bytes of it are kept in memory: a longer one goes to a
    /// file. None to pass bodies on as they come (nginx: `proxy_request_buffering`, `client_body_buffer_size`).
    pub request_buffer_bytes: Option<u64>,
    /// Endpoints are spoken to in HTTP/1.0, unless they speak HTTP/2: one request for each connection, and no chunks.
    pub uses_http_1_0: bool,
    /// Longest head of an endpoint's response in HTTP/1, in bytes: the status line and all lines up to the empty one, which counts too.
    pub response_head_bytes_max: u64,
    /// What is done with responses; none for nothing. On the heap, since most routes have none.
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

/// What is done with the responses of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsePolicy {
    /// Bytes of a body that are read from the endpoint before the client takes them; 0 to read what the client takes.
    pub read_ahead_bytes: u64,
    /// How fast a body is sent; none for as fast as the client takes it.
    pub pace: Option<Pace>,
    /// What is changed in `Location` and in the URL of `Refresh`.
    pub location: Option<Substitution>,
    /// What is changed in the `Domain` of cookies.
    pub cookie_domain: Option<Substitution>,
    /// What is changed in the `Path` of cookies.
    pub cookie_path: Option<Substitution>,
    /// How contents are coded; none to leave them as they are.
    pub compression: Option<Arc<Compression>>,
}

/// A text in place of another. Whether that is a whole value or its beginning is said where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// What is replaced.
    pub from: String,
    /// What takes its place.
    pub to: String,
}

/// How fast a body is sent (nginx: `limit_rate`, `limit_rate_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes in a second.
    pub bytes_per_second: u64,
    /// Bytes at the beginning that are sent at once.
    pub after_bytes: u64,
}

/// Copies of requests, whose responses nobody sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Who gets them.
    pub cluster: ClusterId,
    /// How they are made; none for the request as endpoints get it, with its body: the path, the host and the headers that the route's filters
    /// have made of the client's.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// All of them.
    pub const ALL: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator` of `denominator`. More than all are all; of a denominator of zero, which no fraction has, none.
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
