//! Caching of a route's responses: which are cached, and for how long. Never in here: the rules of HTTP
//! caching, which apply wherever these settings are silent.

use std::time::Duration;

use serde::Serialize;

/// The cache of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CachePolicy {
    /// Freshness lifetime of a response that does not state one; none for the heuristic of RFC 9111.
    pub default_ttl: Option<Duration>,
    /// The part of the query that belongs to the cache key.
    pub query: CacheKeyQuery,
    /// Longest body that is cached, in bytes.
    pub object_bytes_max: u64,
    /// How long a stale response may be served while the endpoint is queried anew (RFC 5861), unless the
    /// response itself says.
    pub stale_while_revalidate: Duration,
    /// The same where the endpoint fails.
    pub stale_if_error: Duration,
    /// Requests that bypass the cache.
    pub bypass: CacheBypass,
    /// Names, in lower case, of request headers that do not change the response, beside those that are known
    /// not to.
    pub harmless_headers: Vec<String>,
    /// An object has its home at one of the [`Replicas`](crate::Replicas), and the others ask there.
    pub is_shared: bool,
}

/// The part of the query that belongs to the cache key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum CacheKeyQuery {
    /// All of it, byte by byte.
    #[default]
    All,
    /// No parameter of the query.
    None,
    /// The parameters with these names, in the order of the query.
    Named(Vec<String>),
}

/// Headers and cookies that mark a request as private to one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
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
