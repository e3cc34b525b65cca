use crate::{Pattern, VerifyClient};

/// A step that a request goes through before it is forwarded, and its response before it is sent.
///
/// The order in which filters run is not the order of this list: `proxy::filters` fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Send clients that came in clear to the TLS port.
    TlsRedirect(TlsRedirect),
    /// Let only clients pass that have shown a good certificate.
    ClientCertificate(ClientCertificate),
    /// Answer 403 and say why: something that guards the whole host cannot be enforced.
    Forbidden {
        /// What is wrong, for the log and the `/configuration` page; the client is not told.
        reason: String,
    },
    /// Answer 503 and say why: something that guards this route cannot be enforced.
    Unavailable {
        /// What is wrong, for the log and the `/configuration` page; the client is not told.
        reason: String,
    },
}

/// What becomes of clients by the certificate that they have shown (ingress-nginx: `auth-tls-*`). One that is missing or bad
/// is answered with 400, as nginx does; which are asked for, and who is believed, says [`HostTls`](crate::HostTls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// What has to be shown.
    pub verify: VerifyClient,
    /// What the subject's name has to match (`CN=...`); else the answer is 403.
    pub match_subject: Option<Pattern>,
    /// Where to send clients instead of the 400: an absolute URL.
    pub error_page: Option<String>,
    /// Pass the certificate on to the endpoint, in `ssl-client-cert`.
    pub pass_certificate: bool,
    /// Serve requests that come in clear although a certificate is required: the challenge of a certificate authority (ACME's
    /// HTTP-01) comes in clear, and the route of its answer asks for no certificate itself.
    pub passes_in_clear: bool,
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
