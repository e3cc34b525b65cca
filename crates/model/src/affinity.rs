use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::template::Template;
use crate::{CookieText, HeaderName};

/// How the requests of a client are kept at one endpoint: by a cookie that names it (ingress-nginx: `affinity: cookie`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// How an endpoint is found by the cookie.
    pub mode: AffinityMode,
    /// A client whose endpoint fails is moved to another one, with a new cookie. Otherwise all its tries go to its endpoint.
    pub change_on_failure: bool,
    /// The cookie that is set.
    pub cookie: AffinityCookie,
    /// The header, of responses and of requests after them, that names the endpoint in place of the cookie (Gateway API:
    /// `SessionPersistence` of type `Header`); none for the cookie.
    pub header: Option<HeaderName>,
    /// Age after which what names the endpoint counts no more, whatever the client does with it; none for no such age.
    pub age_max: Option<Duration>,
    /// Makes names of endpoints of which nobody can tell their addresses; none for those of ingress-nginx, which a client can try out.
    pub key: Option<SessionKey>,
}

/// A key under which endpoints are named. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Arc<[u8]>);

impl SessionKey {
    /// Of several secrets, which together are one.
    pub fn new(secrets: &[&[u8]]) -> Self {
        let mut key = Vec::new();
        for secret in secrets {
            key.extend_from_slice(&(secret.len() as u64).to_be_bytes());
            key.extend_from_slice(secret);
        }
        Self(key.into())
    }

    /// The key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKey").finish_non_exhaustive()
    }
}

/// How an endpoint is found by the cookie of [`Affinity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AffinityMode {
    /// By consistent hashing of the cookie's value, which is random. When endpoints come or go, a part of the clients moves.
    #[default]
    Balanced,
    /// The cookie names the endpoint. A client moves only when its endpoint is gone.
    Persistent,
}

/// The attributes of the cookie that [`Affinity`] sets (RFC 6265 section 4.1.2). `HttpOnly` is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityCookie {
    /// Its name.
    pub name: CookieText,
    /// `Path`; none for the path of the route.
    pub path: Option<CookieText>,
    /// `Domain`; none for no such attribute.
    pub domain: Option<CookieText>,
    /// `Max-Age` in seconds; none for no such attribute.
    pub max_age: Option<i64>,
    /// Seconds from now until the time in `Expires`; none for no such attribute.
    pub expires: Option<i64>,
    /// `SameSite`, as it was written; none for no such attribute.
    pub same_site: Option<CookieText>,
    /// `SameSite=None` is left out for browsers that would take it for `Strict`.
    pub omits_none_for_old_browsers: bool,
    /// `Secure` is always there. Otherwise it is there for clients that came over TLS.
    pub is_secure: bool,
}

impl Default for AffinityCookie {
    fn default() -> Self {
        Self {
            name: CookieText::new("INGRESSCOOKIE").expect("it is a word"),
            path: None,
            domain: None,
            max_age: None,
            expires: None,
            same_site: None,
            omits_none_for_old_browsers: false,
            is_secure: false,
        }
    }
}

/// What is hashed to find an endpoint (ingress-nginx: `upstream-hash-by`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashBy {
    /// Text with values of the request.
    pub key: Template,
    /// The hash finds a set of so many endpoints, one of which is picked at random; none where it finds the endpoint.
    pub subset: Option<usize>,
}
