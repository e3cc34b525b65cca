/// A step that a request goes through before it is forwarded, and its response before it is sent.
///
/// The order in which filters run is not the order of this list: `proxy::filters` fixes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Send clients that came in clear to the TLS port.
    TlsRedirect(TlsRedirect),
    /// Answer 503 and say why: something that guards this route cannot be enforced.
    Unavailable {
        /// What is wrong, for the log and the `/configuration` page; the client is not told.
        reason: String,
    },
}

/// Redirect from clear text to TLS: `Location: https://<host without port><request URI>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRedirect {
    /// 301, 302, 307 or 308.
    pub status: u16,
    /// Redirect by the scheme that a trusted hop reported, even where this proxy has no certificate for the host.
    pub force: bool,
    /// Path prefixes that are never redirected (`/.well-known/acme-challenge`).
    pub except: Vec<String>,
    /// Keep a trailing slash; without this, one is removed.
    pub keep_trailing_slash: bool,
    /// Port to name in `Location`; none for the scheme's own.
    pub port: Option<u16>,
}
