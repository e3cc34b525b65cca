//! Sign-in by `OpenID Connect` (`forebay.io/auth-oidc-issuer`).

use std::sync::Arc;
use std::time::Duration;

use identity::Rules;
use identity::claims;
use identity::oidc::login::{OWN_PARAMETERS, own_target};
use identity::oidc::provider;
use identity::oidc::seal::Keys;
use identity::oidc::session::Lifetime;
use identity::oidc::{form, metadata};
use model::{Oidc, OidcClient};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::jwt::{claim_headers, rules};
use super::resolve::{Context, Fault};
use crate::objects::Secret;
use crate::problem::Reason;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "auth-oidc-back-channel-path", Location, "/oauth2/backchannel_logout", Supported(|s, v| set(&mut s.auth.oidc.back_channel_path, path(v))), ClosesLocations,
        "Path at which the provider ends sessions (OpenID Connect Back-Channel Logout).", Medium;
    "auth-oidc-ca", Location, "", Supported(|s, v| set(&mut s.auth.oidc.authorities, Ok(value::name(v)))),
        "Secret with `ca.crt`: the authorities of the provider's certificate, in place of the system's.", Medium;
    "auth-oidc-callback-path", Location, "/oauth2/callback", Supported(|s, v| set(&mut s.auth.oidc.callback_path, path(v))), ClosesLocations,
        "Path to which the provider sends users back. `https://HOST` and this path is the redirect URI to register there.", Medium;
    "auth-oidc-claims-to-headers", Location, "", Supported(|s, v| set(&mut s.auth.oidc.headers, claim_headers(v))), ClosesLocations,
        "Headers for the endpoint with values of claims: `X-Auth-Request-Email: email, X-Auth-Request-Groups: groups`. A client cannot set them itself.", Medium;
    "auth-oidc-client-id", Location, "", Supported(|s, v| set(&mut s.auth.oidc.client_id, Ok(value::name(v)))),
        "Identifier of the client at the provider.", Medium;
    "auth-oidc-client-secret", Location, "", Supported(|s, v| set(&mut s.auth.oidc.client_secret, Ok(value::name(v)))),
        "Secret of the namespace with the client's secret, as `NAME` or `NAME/KEY`. The key is `client-secret`. A public client has none.", Medium;
    "auth-oidc-grace", Location, "5m", Supported(|s, v| set(&mut s.auth.oidc.grace, value::duration(v))), ClosesLocations,
        "How long a session lasts beyond the end of its tokens while the provider cannot be asked.";
    "auth-oidc-issuer", Location, "", Supported(|s, v| set(&mut s.auth.oidc.issuer, issuer(v))), ClosesLocations,
        "Issuer at which people sign in by OpenID Connect, such as `https://accounts.example.com`.", High;
    "auth-oidc-logout-path", Location, "/oauth2/sign_out", Supported(|s, v| set(&mut s.auth.oidc.logout_path, path(v))), ClosesLocations,
        "Path at which people sign out, here and at the provider.", Medium;
    "auth-oidc-parameters", Location, "", Supported(|s, v| set(&mut s.auth.oidc.parameters, parameters(v))), ClosesLocations,
        "More parameters for the provider's sign-in page, as in a query: `prompt=login&audience=api`.", Medium;
    "auth-oidc-post-logout-redirect", Location, "", Supported(|s, v| set(&mut s.auth.oidc.post_logout_redirect, after_logout(v))), ClosesLocations,
        "Where people are sent once they have signed out: a path of the host, or an https URL.", Medium;
    "auth-oidc-rules", Location, "", Supported(|s, v| set(&mut s.auth.oidc.rules, rules(v))), ClosesLocations,
        "What those who have signed in may request, in lines such as `GET /reports when claims.groups has \"staff\"`. The first that fits decides; without one, the request is refused.", Medium;
    "auth-oidc-scopes", Location, "openid profile email", Supported(|s, v| set(&mut s.auth.oidc.scopes, scopes(v))), ClosesLocations,
        "Scopes that are asked for. Many providers give a refresh token only for `offline_access`.", Medium;
    "auth-oidc-session-max-age", Location, "12h", Supported(|s, v| set(&mut s.auth.oidc.max_age, max_age(v))), ClosesLocations,
        "Time after which people sign in again, whatever happens.";
    "auth-oidc-session-secret", Location, "", Supported(|s, v| set(&mut s.auth.oidc.session_secret, Ok(value::name(v)))),
        "Secret with the keys of the cookies, of 32 bytes or more. The entry `current` seals, or else the first by name; all others still open.", Medium;
    "auth-oidc-user-claim", Location, "sub", Supported(|s, v| set(&mut s.auth.oidc.user, claim(v))), ClosesLocations,
        "Claim whose value is `$remote_user`, such as `email`.", Medium;
}

/// Name of the annotation that turns sign-in on.
pub(super) const ISSUER: &str = "auth-oidc-issuer";

/// Names of the annotations that name Secrets.
pub(super) const SESSION_SECRET: &str = "auth-oidc-session-secret";
pub(super) const AUTHORITIES: &str = "auth-oidc-ca";
pub(in crate::translate) const CLIENT_SECRET: &str = "auth-oidc-client-secret";

/// The entry with the client's secret, where no other is named.
const CLIENT_SECRET_KEY: &str = "client-secret";

/// The entry of a Secret with authorities.
const AUTHORITIES_KEY: &str = "ca.crt";

/// The longest session.
const MAX_AGE_MAX: Duration = Duration::from_hours(90 * 24);

/// The annotations of sign-in.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    issuer: Option<String>,
    client_id: Option<String>,
    /// `NAME` or `NAME/KEY`.
    client_secret: Option<String>,
    /// `[namespace/]name` of the Secrets.
    session_secret: Option<String>,
    authorities: Option<String>,
    scopes: String,
    parameters: Vec<(String, String)>,
    headers: Vec<(String, claims::Path)>,
    rules: Option<Arc<Rules>>,
    user: claims::Path,
    callback_path: String,
    logout_path: String,
    back_channel_path: String,
    post_logout_redirect: Option<String>,
    max_age: Duration,
    grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: None,
            client_secret: None,
            session_secret: None,
            authorities: None,
            scopes: "openid profile email".to_owned(),
            parameters: Vec::new(),
            headers: Vec::new(),
            rules: None,
            user: claims::Path::parse("sub").expect("it is the name of a claim"),
            callback_path: "/oauth2/callback".to_owned(),
            logout_path: "/oauth2/sign_out".to_owned(),
            back_channel_path: "/oauth2/backchannel_logout".to_owned(),
            post_logout_redirect: None,
            max_age: Duration::from_hours(12),
            grace: Duration::from_mins(5),
        }
    }
}

/// The name of the Secret in the text of [`CLIENT_SECRET`].
pub(in crate::translate) fn client_secret_name(text: &str) -> Option<&str> {
    let name = text.trim().split('/').next().unwrap_or_default();
    (!name.is_empty()).then_some(name)
}

impl Settings {
    /// The sign-in; none if clients need none.
    pub(super) fn draft(&self, context: &Context<'_, '_>) -> Result<Option<Arc<Oidc>>, Fault> {
        let Some(issuer) = &self.issuer else { return Ok(None) };
        let (client_id, session_secret) = match (&self.client_id, &self.session_secret) {
            (Some(client_id), Some(session_secret)) => (client_id, session_secret),
            (client_id, session_secret) => {
                let missing = [
                    ("auth-oidc-client-id", client_id.is_none()),
                    ("auth-oidc-session-secret", session_secret.is_none()),
                ];
                let names = missing.iter().filter(|(_, is_missing)| *is_missing);
                let names: Vec<_> = names.map(|(name, _)| context.asker.short(name)).collect();
                return Err((Reason::Annotation, format!("it needs {} too", names.join(" and "))));
            }
        };
        let own = [&self.callback_path, &self.logout_path, &self.back_channel_path];
        if own[0] == own[1] || own[0] == own[2] || own[1] == own[2] {
            return Err((Reason::Annotation, "its three paths have to differ".to_owned()));
        }
        let secret = context.secret(&context.with_namespace(session_secret))?;
        let keys = keys(secret).map_err(|why| unusable(secret, &why))?;
        let provider = context.inputs.options.providers.sign_in(provider::Settings {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            client_secret: self.client_secret(context)?,
            authorities: self.authorities(context)?,
        });
        let mut wanted: Vec<String> = self.headers.iter().map(|(_, path)| path.first().to_owned()).collect();
        wanted.push(self.user.first().to_owned());
        wanted.extend(self.rules.iter().flat_map(|rules| rules.claims()).map(str::to_owned));
        wanted.sort();
        wanted.dedup();
        let client = OidcClient {
            provider,
            keys,
            scopes: self.scopes.clone(),
            parameters: self.parameters.clone(),
            callback_path: self.callback_path.clone(),
            logout_path: self.logout_path.clone(),
            back_channel_path: self.back_channel_path.clone(),
            post_logout_redirect: self.post_logout_redirect.clone(),
            lifetime: Lifetime { max: self.max_age.as_secs(), grace: self.grace.as_secs() },
            wanted,
        };
        Ok(Some(Arc::new(Oidc {
            client: Arc::new(client),
            user: self.user.clone(),
            headers: self.headers.clone(),
            rules: self.rules.clone(),
        })))
    }

    /// Whether there are settings of a sign-in that nobody needs.
    pub(super) fn is_without_effect(&self) -> bool {
        self.issuer.is_none() && self.client_id.is_some()
    }

    fn client_secret(&self, context: &Context<'_, '_>) -> Result<String, Fault> {
        let Some(text) = &self.client_secret else { return Ok(String::new()) };
        let (name, key) = text.split_once('/').unwrap_or((text, CLIENT_SECRET_KEY));
        let secret = context.secret(&context.with_namespace(name))?;
        let content = secret.content(key).map_err(|why| unusable(secret, &why))?;
        let text = std::str::from_utf8(&content).ok().map(str::trim_end);
        let text = text.filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        text.map(str::to_owned)
            .ok_or_else(|| unusable(secret, &format!("key {key}: it is no secret of a client")))
    }

    fn authorities(&self, context: &Context<'_, '_>) -> Result<Option<Arc<[u8]>>, Fault> {
        let Some(name) = &self.authorities else { return Ok(None) };
        let secret = context.secret(&context.with_namespace(name))?;
        let content = secret.content(AUTHORITIES_KEY).map_err(|why| unusable(secret, &why))?;
        Ok(Some(content.into()))
    }
}

fn unusable(secret: &crate::objects::Sourced<Secret>, why: &str) -> Fault {
    (Reason::Secret, format!("Secret {} cannot be used: {why}", secret.key()))
}

fn keys(secret: &Secret) -> Result<Keys, String> {
    let entries: Result<Vec<_>, String> =
        secret.keys().map(|name| Ok((name, secret.content(name)?))).collect();
    Keys::new(entries?.into_iter())
}

fn issuer(text: &str) -> Parsed<Option<String>> {
    let Some(issuer) = value::name(text) else { return Ok(None) };
    if issuer.contains(['?', '#']) {
        return Err(format!("{issuer:?} is no issuer: it has a query or a fragment"));
    }
    metadata::check_url(&issuer).map_err(|why| format!("{issuer:?} is no issuer: {why}"))?;
    Ok(Some(issuer))
}

fn path(text: &str) -> Parsed<String> {
    let path = text.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let is_normal = path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
    if path.starts_with('/') && is_normal && path.bytes().all(is_plain) {
        Ok(path.to_owned())
    } else {
        Err(format!("{text:?} is no path such as \"/oauth2/callback\""))
    }
}

fn after_logout(text: &str) -> Parsed<Option<String>> {
    let Some(target) = value::name(text) else { return Ok(None) };
    let is_good = own_target(target.as_bytes()).is_some()
        || target.starts_with("https://") && target.bytes().all(|byte| byte.is_ascii_graphic());
    if is_good { Ok(Some(target)) } else { Err(format!("{text:?} is neither a path nor an https URL")) }
}

fn parameters(text: &str) -> Parsed<Vec<(String, String)>> {
    let pairs = form::parse(text.trim().as_bytes()).map_err(str::to_owned)?;
    match pairs.iter().find(|(name, _)| OWN_PARAMETERS.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("parameter {name} is set by Forebay itself")),
        None => Ok(pairs),
    }
}

fn scopes(text: &str) -> Parsed<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_scope =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    if !words.iter().all(is_scope) {
        return Err(format!("{text:?} has a character that no scope may have"));
    }
    if !words.contains(&"openid") {
        return Err(format!("{text:?} does not have the scope openid, without which nobody signs in"));
    }
    Ok(words.join(" "))
}

fn max_age(text: &str) -> Parsed<Duration> {
    let time = value::duration(text)?;
    if time.as_secs() > 0 && time <= MAX_AGE_MAX {
        Ok(time)
    } else {
        Err(format!("{text:?} is no time from 1 second to {} days", MAX_AGE_MAX.as_secs() / 86_400))
    }
}

fn claim(text: &str) -> Parsed<claims::Path> {
    claims::Path::parse(text.trim()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_strictly() {
        assert!(issuer("https://issuer.test/realm").is_ok() && issuer("").is_ok_and(|none| none.is_none()));
        for bad in ["http://issuer.test", "issuer.test", "https://a?b=c", "https://a#b"] {
            assert!(issuer(bad).is_err(), "{bad}");
        }
        assert_eq!(path(" /a/b "), Ok("/a/b".to_owned()));
        for bad in ["", "/", "a", "/a/", "//a", "/a/../b", "/a?b", "/a%2e"] {
            assert!(path(bad).is_err(), "{bad}");
        }
        assert_eq!(scopes(" openid  email\n"), Ok("openid email".to_owned()));
        assert!(scopes("email").is_err() && scopes("openid \"").is_err());
        assert!(parameters("prompt=login&audience=a%20b").is_ok_and(|pairs| pairs.len() == 2));
        assert!(parameters("redirect_uri=x").is_err() && parameters("a=%").is_err());
        assert!(after_logout("/bye").is_ok() && after_logout("https://a.test/").is_ok());
        assert!(after_logout("//a.test").is_err() && after_logout("http://a.test").is_err());
        assert!(max_age("0").is_err() && max_age("91d").is_err() && max_age("30d").is_ok());
    }
}
