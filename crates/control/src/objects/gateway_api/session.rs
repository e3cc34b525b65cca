//! Session persistence (GEP-1619), of rules and of backends, in both of its forms: that of version 1.7 of
//! the Gateway API, and that of the versions before, with the name outside of `cookieConfig`. Must not be in
//! here: which of the two a value has.

use serde::{Deserialize, Serialize};

use super::open::{CookieLifetime, SessionType};

/// Session persistence, which keeps a client's requests at one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Name of the cookie or header, until version 1.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<Box<str>>,
    /// Longest duration of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<Box<str>>,
    /// The place where the client keeps the session.
    #[serde(default, rename = "type")]
    pub kind: SessionType,
    /// Settings of the cookie, until version 1.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_config: Option<CookieConfig>,
    /// Settings of the cookie, since version 1.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<CookieConfig>,
    /// Settings of the header, since version 1.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderConfig>,
}

/// The cookie of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// Name of the cookie, since version 1.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Path of the cookie, since version 1.7; none for `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Box<str>>,
    /// Lifetime of the cookie.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// The header of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HeaderConfig {
    /// Name of the header.
    pub name: Box<str>,
}
