//! The sign-in as the flags of the command line have it.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use control::Providers;
use identity::Rules;
use identity::oidc::cookies::Names;
use identity::oidc::metadata::check_url;
use identity::oidc::provider::Settings;
use identity::oidc::seal::{CURRENT, Keys};

use super::{CALLBACK, SignIn};
use crate::{cli, replicas};

impl SignIn {
    /// The sign-in that the flags ask for; none without an issuer.
    ///
    /// # Errors
    ///
    /// When a flag or its file cannot be used.
    pub(crate) fn of(options: &cli::Serve) -> anyhow::Result<Option<Self>> {
        let flags = &options.console_sign_in;
        let Some(issuer) = &flags.console_oidc_issuer_url else { return Ok(None) };
        ensure!(!issuer.contains(['?', '#']), "--console-oidc-issuer-url {issuer} has a query or a fragment");
        check_url(issuer).map_err(|why| anyhow::anyhow!("--console-oidc-issuer-url {issuer}: {why}"))?;
        let client_id = flags.console_oidc_client_id.clone().unwrap_or_default();
        let rules = Rules::parse(&flags.console_oidc_rule.join("\n"));
        let rules = rules.map_err(|why| anyhow::anyhow!("--console-oidc-rule: {why}"))?;
        let scopes = flags.console_oidc_scope.join(" ");
        if !scopes.split_whitespace().any(|scope| scope == "openid") {
            bail!("--console-oidc-scope {scopes}: nobody signs in without the scope openid");
        }
        if let Some(url) = &flags.console_oidc_redirect_url {
            ensure!(
                check_redirect(url),
                "--console-oidc-redirect-url {url} is no URL with the path {CALLBACK}"
            );
        }
        let read =
            |flag: &str, path: &Path| fs::read(path).with_context(|| format!("--{flag} {}", path.display()));
        let secret = flags.console_oidc_client_secret_file.as_deref().map(|path| {
            let text = read("console-oidc-client-secret-file", path)?;
            let text = String::from_utf8(text).ok().map(|text| text.trim_end().to_owned());
            let text = text.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
            text.with_context(|| {
                format!("--console-oidc-client-secret-file {} is no secret of a client", path.display())
            })
        });
        let authorities = flags.console_oidc_ca_file.as_deref();
        let authorities = authorities.map(|path| read("console-oidc-ca-file", path)).transpose()?;
        let settings = Settings {
            issuer: issuer.clone(),
            client_id,
            client_secret: secret.transpose()?.unwrap_or_default(),
            authorities: authorities.map(Into::into),
        };
        let keys = match &flags.console_oidc_cookie_secret_file {
            Some(path) => {
                let content = read("console-oidc-cookie-secret-file", path)?;
                Keys::new([(CURRENT, content)].into_iter()).map_err(|why| {
                    anyhow::anyhow!("--console-oidc-cookie-secret-file {}: {why}", path.display())
                })?
            }
            None => replicas::console_keys(&options.reading)?.unwrap_or_else(Keys::random),
        };
        let providers = Providers::default();
        let mut wanted: Vec<_> = rules.claims().map(str::to_owned).collect();
        wanted.sort();
        wanted.dedup();
        Ok(Some(Self {
            names: Names::of_console(&settings.issuer, &settings.client_id),
            provider: providers.sign_in(settings),
            providers,
            keys,
            rules,
            wanted,
            scopes,
            redirect_url: flags.console_oidc_redirect_url.clone(),
        }))
    }
}

/// Whether a text is a URL at which the console's callback can be.
fn check_redirect(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        rest.find('/').is_some_and(|at| at > 0 && rest[at..].ends_with(CALLBACK))
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_url_leads_to_the_callback() {
        for good in ["https://a.test/console/oauth2/callback", "http://127.0.0.1:1/x/console/oauth2/callback"]
        {
            assert!(check_redirect(good), "{good}");
        }
        for bad in [
            "a.test/console/oauth2/callback",
            "https:///console/oauth2/callback",
            "https://a.test/",
            "https://a.test/console/oauth2/callback?x",
            "https://u@a.test/console/oauth2/callback",
        ] {
            assert!(!check_redirect(bad), "{bad}");
        }
    }
}
