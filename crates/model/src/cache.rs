//! Which responses are kept and given again, and for how long. Never in here: the rules of HTTP, which hold wherever this says nothing.

use std::time::Duration;

/// The cache of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CachePolicy {
    /// How long a response is fresh that says nothing of it; none for the heuristic of RFC 9111.
    pub default_ttl: Option<Duration>,
    /// What of the query tells responses apart.
    pub query: CacheKeyQuery,
    /// Longest body that is kept, in bytes.
    pub object_bytes_max: u64,
    /// How long a response that is not fresh any more may be given while the endpoint is asked anew (RFC 5861), unless it says so itself.
    pub stale_while_revalidate: Duration,
    /// The same where the endpoint fails.
    pub stale_if_error: Duration,
    /// Requests that the cache has nothing to do with.
    pub bypass: CacheBypass,
    /// Names, in lower case, of headers that change no response, beside those of which that is known.
    pub harmless_headers: Vec<String>,
    /// An object has its home at one of the [`Replicas`](crate::Replicas), and the others ask there.
    pub is_shared: bool,
}

/// What of the query tells responses apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheKeyQuery {
    /// All of it, byte by byte.
    #[default]
    All,
    /// Nothing.
    None,
    /// The parameters with these names, in the order of the query.
    Named(Vec<String>),
}

/// What marks requests that are one user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheBypass {
    /// Names of cookies.
    pub cookies: Vec<String>,
    /// Names of headers.
    pub headers: Vec<String>,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self {
            default_ttl: None,
            query: CacheKeyQuery::All,
            object_bytes_max: 8 << 20,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            bypass: CacheBypass::default(),
            harmless_headers: Vec::new(),
            is_shared: false,
        }
    }
}
