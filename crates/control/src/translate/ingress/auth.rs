//! Authentication: by an external service, or by the passwords or keys in a Secret.

mod basic;
pub(in crate::translate) mod external;

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::api_keys;
use super::ext_authz;
use super::jwt;
use super::oidc;
use super::resolve::{Context, Fault, Findings, Resolve};
use crate::problem::Severity;
use crate::translate::claim::{AuthzDraft, DraftRoute, ExternalDraft};
use crate::translate::value::{self, set};
use external::External;
use model::{ApiKeys, AuthScript, BasicAuth, Jwt, Oidc};
use std::sync::Arc;

const POOLED: &str = "connections to the auth service are kept open like those to endpoints";

annotations! {
    "auth-always-set-cookie", Location, "false", Supported(|s, v| set(&mut s.auth.own.always_set_cookie, value::boolean(v))),
        "Passes cookies of the auth service on with every status.";
    "auth-cache-duration", Location, "200 202 401 5m", Supported(|s, v| set(&mut s.auth.own.cache_duration, Ok(v.to_owned()))),
        "How long responses of the auth service are cached, by status.", Medium;
    "auth-cache-key", Location, "", Supported(|s, v| set(&mut s.auth.own.cache_key, external::cache_key(v))),
        "Caches responses of the auth service, under this key.", Medium;
    "auth-keepalive", Location, "0", Ignored(POOLED), "Idle connections kept to the auth service.";
    "auth-keepalive-requests", Location, "1000", Ignored(POOLED), "Requests on one connection to the auth service.";
    "auth-keepalive-share-vars", Location, "false", Ignored("a request to the auth service has no variables of its own"),
        "Shares nginx variables with the request to the auth service.";
    "auth-keepalive-timeout", Location, "60", Ignored(POOLED), "Idle time of a connection to the auth service.";
    "auth-method", Location, "", Supported(|s, v| set(&mut s.auth.own.method, Ok(value::name(v)))),
        "Method of the request to the auth service, which is GET otherwise.";
    "auth-proxy-set-headers", Location, "", Supported(|s, v| set(&mut s.auth.own.proxy_set_headers, Ok(value::name(v)))),
        "ConfigMap with headers for the auth service.", Medium;
    "auth-realm", Location, "", Supported(|s, v| set(&mut s.auth.basic.realm, basic::realm(v))), IgnoresIngress,
        "Realm in the challenge to clients without credentials.", Medium;
    "auth-request-redirect", Location, "", Supported(|s, v| set(&mut s.auth.own.request_redirect, external::optional_template(v))),
        "Value of X-Auth-Request-Redirect.", Medium;
    "auth-response-headers", Location, "", Supported(|s, v| set(&mut s.auth.own.response_headers, Ok(v.to_owned()))),
        "Headers of the auth service's answer that the endpoint gets.", Medium;
    "auth-secret", Location, "", Supported(|s, v| set(&mut s.auth.basic.secret, Ok(value::name(v)))), "Secret with the users of `auth-type`.", Medium;
    "auth-secret-type", Location, "auth-file", Supported(|s, v| set(&mut s.auth.basic.is_map, basic::secret_type(v))), IgnoresIngress,
        "`auth-file`: one htpasswd; `auth-map`: one key for each user.";
    "auth-signin", Location, "", Supported(|s, v| set(&mut s.auth.own.signin, external::signin(v))),
        "URL to which clients are redirected after a 401 of the auth service.", High;
    "auth-signin-redirect-param", Location, "rd", Supported(|s, v| set(&mut s.auth.own.signin_param, external::parameter(v))),
        "Query parameter in which `auth-signin` gets the URL to return to.", Medium;
    "auth-snippet", Location, "", Supported(|s, v| set(&mut s.snippets.auth, Ok(value::unless_blank(v)))),
        "nginx configuration for the request to the auth service.", Critical;
    "auth-type", Location, "", Supported(|s, v| set(&mut s.auth.basic.kind, basic::kind(v))), IgnoresIngress, "Turns on `basic` or `digest` authentication.";
    "auth-url", Location, "", Supported(|s, v| set(&mut s.auth.own.url, external::url_text(v))), IgnoresIngress,
        "URL of the auth service that allows or refuses each request.", High;
    "enable-global-auth", Location, "true", Supported(|s, v| set(&mut s.auth.asks_global, value::boolean(v))),
        "Whether the ConfigMap's `global-auth-url` is asked.";
}

/// Name of the annotation with the users.
const SECRET: &str = "auth-secret";

/// Settings of authentication.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    pub(super) keys: api_keys::Settings,
    pub(super) oidc: oidc::Settings,
    pub(super) jwt: jwt::Settings,
    pub(super) ext_authz: ext_authz::Settings,
    basic: basic::Settings,
    own: External,
    /// The keys `global-auth-*` of the `ConfigMap`.
    pub(in crate::translate) global: External,
    asks_global: bool,
    /// Path prefixes of rules without authentication.
    pub(in crate::translate) except: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: api_keys::Settings::default(),
            oidc: oidc::Settings::default(),
            jwt: jwt::Settings::default(),
            ext_authz: ext_authz::Settings::default(),
            basic: basic::Settings::default(),
            own: External::default(),
            global: External::default(),
            asks_global: true,
            except: vec!["/.well-known/acme-challenge".to_owned()],
        }
    }
}

/// The result of the settings, after looking up the objects that they name.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    api_keys: Option<ApiKeys>,
    jwt: Option<Arc<Jwt>>,
    basic: Option<BasicAuth>,
    oidc: Option<Arc<Oidc>>,
    external: Option<ExternalDraft>,
    ext_authz: Option<AuthzDraft>,
    /// The reasons for closing the locations.
    denials: Vec<String>,
}

impl Settings {
    /// Sets the snippet for requests to the Ingress's own auth service.
    pub(super) fn set_own_script(&mut self, script: Option<Arc<AuthScript>>) {
        self.own.script = script;
    }

    /// Sets the variables that a snippet of the locations reads from the response of an auth service.
    pub(super) fn set_variables(&mut self, variables: &[(Arc<str>, String)]) {
        self.own.variables = variables.to_vec();
        self.global.variables = variables.to_vec();
    }
}

impl Resolve for Settings {
    type Resolved = Resolved;

    /// Looks up the objects that authentication needs.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> Resolved {
        let asker = context.asker;
        let mut resolved = Resolved::default();
        let mut close = |what: String, name: &str, (reason, why): Fault| {
            let problem = asker.problem(Severity::Error, name, asker.closing(&what, &why));
            findings.problems.push(problem.because(reason));
            resolved.denials.push(format!("{what} cannot be enforced"));
        };
        match self.keys.draft(context) {
            Ok(keys) => resolved.api_keys = keys,
            Err(fault) => close(asker.called(api_keys::SECRET), api_keys::SECRET, fault),
        }
        match self.jwt.draft(context) {
            Ok(jwt) => resolved.jwt = jwt,
            Err((name, fault)) => close(asker.called(name), name, fault),
        }
        match self.basic.draft(context) {
            Ok(basic) => resolved.basic = basic,
            Err(fault) => close(asker.called(SECRET), SECRET, fault),
        }
        match self.oidc.draft(context) {
            Ok(oidc) => resolved.oidc = oidc,
            Err(fault) => close(asker.called(oidc::ISSUER), oidc::ISSUER, fault),
        }
        let is_own = self.own.url.is_some();
        let external = if is_own { &self.own } else { &self.global };
        if external.url.is_some() && (is_own || self.asks_global) {
            match external.draft(context) {
                Ok(draft) => resolved.external = Some(draft),
                Err((name, fault)) if is_own => close(asker.called(name), name, fault),
                Err((name, fault)) => close(format!("key global-{name}"), "", fault),
            }
        }
        match self.ext_authz.draft() {
            Ok(draft) => resolved.ext_authz = draft,
            Err(fault) => close(asker.called(ext_authz::URL), ext_authz::URL, fault),
        }
        for name in self.jwt.without_effect(asker) {
            let (called, issuers) = (asker.called(name), asker.short(jwt::ISSUERS));
            let message = format!("{called} has no effect without {issuers}: nobody is asked for a token");
            findings.problems.extend(context.without_effect(name, message));
        }
        if self.oidc.is_without_effect() {
            let (called, issuer) = (asker.called("auth-oidc-client-id"), asker.short(oidc::ISSUER));
            let message = format!("{called} has no effect without {issuer}: nobody is asked to sign in");
            findings.problems.extend(context.without_effect("auth-oidc-client-id", message));
        }
        if self.basic.is_without_effect() {
            let (called, kind) = (asker.called(SECRET), asker.short("auth-type"));
            let message = format!("{called} has no effect without {kind}: nobody is asked for a password");
            findings.problems.extend(context.without_effect(SECRET, message));
        }
        resolved
    }
}

/// Applies authentication to a route. "no-auth-locations compares the rule's path and lifts every auth
/// there."
pub(super) fn apply(settings: &Settings, resolved: &Resolved, route: &mut DraftRoute) {
    if settings.except.iter().any(|prefix| route.path.path().starts_with(prefix.as_str())) {
        return;
    }
    route.access.api_keys.clone_from(&resolved.api_keys);
    route.access.jwt.clone_from(&resolved.jwt);
    route.access.basic.clone_from(&resolved.basic);
    route.access.oidc.clone_from(&resolved.oidc);
    route.access.external.clone_from(&resolved.external);
    route.access.ext_authz.clone_from(&resolved.ext_authz);
    route.denials.extend_from_slice(&resolved.denials);
}
