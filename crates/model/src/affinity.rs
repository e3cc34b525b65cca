use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::template::Template;
use crate::{CookieText, HeaderName};

/// Session affinity: a cookie keeps the requests of a client at one endpoint (ingress-nginx:
/// `affinity: cookie`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Affinity {
    /// How an endpoint is found by the cookie.
    pub mode: AffinityMode,
    /// A client whose endpoint fails is moved to another one, with a new cookie. Otherwise all its tries go
    /// to its endpoint.
    pub change_on_failure: bool,
    /// The cookie that is set.
    pub cookie: AffinityCookie,
    /// The header that carries the endpoint's name, in responses and in later requests, in place of the
    /// cookie (Gateway API: `SessionPersistence` of type `Header`); none for the cookie.
    pub header: Option<HeaderName>,
    /// Age after which the name of an endpoint is ignored, whatever the client does with it; none for no
    /// limit.
    pub age_max: Option<Duration>,
    /// The key for opaque endpoint names, from which no address can be derived; none for ingress-nginx's
    /// names, which a client can guess.
    pub key: Option<SessionKey>,
}

/// A secret key for the names of endpoints, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Arc<[u8]>);

impl SessionKey {
    /// Derives one key from several secrets.
    pub fn new(secrets: &[&[u8]]) -> Self {
        let mut key = Vec::new();
        for secret in secrets {
            key.extend_from_slice(&(secret.len() as u64).to_be_bytes());
            key.extend_from_slice(secret);
        }
        Self(key.into())
    }

    /// The key as bytes, to make names of endpoints with.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKey").finish_non_exhaustive()
    }
}

impl Serialize for SessionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

/// How an endpoint is found by the cookie of [`Affinity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum AffinityMode {
    /// By consistent hashing of the cookie's random value. When endpoints come or go, some of the clients
    /// move.
    #[default]
    Balanced,
    /// The cookie names the endpoint. A client moves only when its endpoint is gone.
    Persistent,
}

/// The attributes of the cookie that [`Affinity`] sets (RFC 6265 section 4.1.2). `HttpOnly` is always there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AffinityCookie {
    /// Name of the cookie.
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
    /// Always sets `Secure`. Otherwise the cookie has it only for clients that came over TLS.
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

/// The value that is hashed to select an endpoint (ingress-nginx: `upstream-hash-by`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HashBy {
    /// Text with values of the request.
    pub key: Template,
    /// Size of the subset of endpoints that the hash selects, one of which is taken at random; none where the
    /// hash selects a single endpoint.
    pub subset: Option<usize>,
}
