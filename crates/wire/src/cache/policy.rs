//! The decisions of a cache where responses state nothing.

/// The decisions that a route leaves to its cache where responses state nothing.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Names of fields for this kind of cache, the most specific first (RFC 9213).
    pub targets: &'a [&'a str],
    /// Seconds for which a response without a lifetime is fresh; none for a tenth of the time since its last
    /// change.
    pub default_ttl: Option<u32>,
    /// The most seconds for which a response without a lifetime is fresh.
    pub heuristic_max: u32,
    /// The windows for stale responses that state none themselves.
    pub grace: Grace,
    /// A response with `Set-Cookie` may be stored if it states its lifetime itself. RFC 9111 section 7.3
    /// allows this; if `false`, no such response is stored.
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

/// Seconds for which a stale response may be used if the response itself states none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// The window while another response is fetched.
    pub stale_while_revalidate: u32,
    /// The window if no other response is available.
    pub stale_if_error: u32,
}

/// Statuses of responses that may be stored without a stated lifetime (RFC 9110 section 15.1).
pub(super) fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
