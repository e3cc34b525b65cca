//! Flags of the sign-in in front of the console and the admin pages.

use std::path::PathBuf;

use clap::Args;

/// A sign-in by `OpenID Connect`.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct ConsoleSignIn {
    /// Issuer at which people sign in for the console and the admin pages (OpenID Connect).
    #[arg(long, value_name = "URL", requires_all = ["console_oidc_client_id", "console_oidc_rule"])]
    pub(crate) console_oidc_issuer_url: Option<String>,
    /// Identifier of the client at that issuer.
    #[arg(long, value_name = "ID", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_client_id: Option<String>,
    /// File with the client's secret; a public client has none.
    #[arg(long, value_name = "PATH", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_client_secret_file: Option<PathBuf>,
    /// File with the key of the sessions' cookies, of 32 bytes or more [default: made of --replicas-secret,
    /// or else at random: then sessions end with the process].
    #[arg(long, value_name = "PATH", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_cookie_secret_file: Option<PathBuf>,
    /// PEM file with the authorities of the issuer's certificate [default: those of the system].
    #[arg(long, value_name = "PATH", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_ca_file: Option<PathBuf>,
    /// Scopes that are asked for.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "openid,profile,email")]
    pub(crate) console_oidc_scope: Vec<String>,
    /// URL that is registered at the issuer, with the path /console/oauth2/callback [default: at the host
    /// that the browser has asked for, with https where X-Forwarded-Proto says so].
    #[arg(long, value_name = "URL", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_redirect_url: Option<String>,
    /// Rule for those who have signed in, as "* when claims.groups has \"admins\"" or "*" for all of them.
    /// May be given several times; the first that fits decides.
    #[arg(long, value_name = "RULE", requires = "console_oidc_issuer_url")]
    pub(crate) console_oidc_rule: Vec<String>,
}
