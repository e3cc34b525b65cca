//! JSON Web Tokens by which clients prove who they are.

use std::sync::Arc;

use identity::claims::Path;
use identity::{KeySource, Rules, Terms};
use serde::Serialize;

/// Tokens that let the clients of a route in (`forebay.io/auth-jwt`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwt {
    /// The issuers whose tokens are accepted, each name once.
    pub issuers: Arc<[JwtIssuer]>,
    /// A digest of what the issuers ask of tokens: equal for equal issuers.
    #[serde(skip)]
    pub fingerprint: [u8; 32],
    /// Where the token of a request is.
    pub place: TokenPlace,
    /// Whether the endpoint does not get the token.
    pub strips: bool,
    /// Headers for the endpoint with the claims that they have.
    pub headers: Vec<(String, Path)>,
    /// The rules by which claims allow requests; none if each verified token does.
    pub rules: Option<Arc<Rules>>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JwtIssuer {
    /// The terms that its tokens have to meet.
    #[serde(flatten)]
    pub terms: Terms,
    /// The keys that its tokens are signed with.
    pub keys: Arc<KeySource>,
}

/// Where the token of a request is. The places are looked at in the order of the fields, and the first that
/// has something counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenPlace {
    /// A header. In `Authorization` the token has the scheme `Bearer`.
    pub header: String,
    /// The name of a cookie.
    pub cookie: Option<String>,
    /// The name of a query parameter.
    pub parameter: Option<String>,
}

impl Default for TokenPlace {
    fn default() -> Self {
        Self { header: "Authorization".to_owned(), cookie: None, parameter: None }
    }
}
