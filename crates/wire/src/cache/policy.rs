//! What a cache may decide by itself where responses do not say.

/// What a route lets its cache do beyond what responses say.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Names of fields for caches like this one, the most specific first (RFC 9213).
    pub targets: &'a [&'a str],
    /// Seconds for which a response is fresh that does not say; without, a tenth of the time since it was changed.
    pub default_ttl: Option<u32>,
    /// Seconds for which a response is fresh at most that does not say.
    pub heuristic_max: u32,
    /// How long stale responses may be used that do not say.
    pub grace: Grace,
    /// A response with `Set-Cookie` may be stored if it says itself how long it is fresh. RFC 9111 section 7.3 leaves it at that; where `false`,
    /// none is stored.
    pub cookies_if_explicit: bool,
}

impl Default for Policy<'_> {
    fn default() -> Self {
        Self {
            targets: &["CDN-Cache-Control"],
            default_ttl: None,
            heuristic_max: 24 * 3600,
            grace: Grace::default(),
            cookies_if_explicit: true,
        }
    }
}

/// For how many seconds a stale response may be used, where the response itself does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// While another is fetched.
    pub stale_while_revalidate: u32,
    /// Where no other can be had.
    pub stale_if_error: u32,
}

/// Statuses of responses that may be stored although nothing says how long they are fresh (RFC 9110 section 15.1).
pub(super) fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
