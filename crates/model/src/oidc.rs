//! Sign-in by `OpenID Connect` (`forebay.io/auth-oidc-issuer`).

use std::sync::Arc;

use identity::Rules;
use identity::claims;
use identity::oidc::provider::Provider;
use identity::oidc::seal::Keys;
use identity::oidc::session::Lifetime;
use serde::{Serialize, Serializer};

/// Only clients that have signed in at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// The client of the provider that clients sign in with.
    pub client: Arc<OidcClient>,
    /// The claim whose value is `$remote_user`.
    pub user: claims::Path,
    /// Headers for the endpoint, and the claims that they have the values of.
    pub headers: Vec<(String, claims::Path)>,
    /// The rules for requests of clients that have signed in; none if they may request everything.
    pub rules: Option<Arc<Rules>>,
}

/// A client of a provider, with its endpoints at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcClient {
    /// The provider that users sign in at.
    pub provider: Arc<Provider>,
    /// The keys of the cookies.
    pub keys: Keys,
    /// The scopes that are asked for, separated by spaces.
    pub scopes: String,
    /// More parameters for the provider, such as `prompt`.
    pub parameters: Vec<(String, String)>,
    /// The path to which the provider sends users back.
    pub callback_path: String,
    /// The path at which clients sign out.
    pub logout_path: String,
    /// The path to which the provider sends logout tokens.
    pub back_channel_path: String,
    /// Where clients are sent once they have signed out: a path of the host or a URL.
    pub post_logout_redirect: Option<String>,
    /// How long sessions last.
    pub lifetime: Lifetime,
    /// The claims that rules and headers of the route need.
    pub wanted: Vec<String>,
}

impl Oidc {
    /// Whether a path is one of those that Forebay itself answers.
    pub fn has_path(&self, path: &[u8]) -> bool {
        self.client.paths().iter().any(|own| own.as_bytes() == path)
    }
}

impl OidcClient {
    /// The paths that Forebay itself answers.
    pub fn paths(&self) -> [&str; 3] {
        [&self.callback_path, &self.logout_path, &self.back_channel_path]
    }
}

impl Serialize for Oidc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // No secret is in the form for developers: provider and keys hide theirs.
        serializer.collect_str(&format_args!("{self:?}"))
    }
}
