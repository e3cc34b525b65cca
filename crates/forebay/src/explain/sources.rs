//! The annotations and keys of the `ConfigMap` that cause a step, and the objects that carry them.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use control::objects::{At, Ingress, Origin, Sourced};
use control::translate::RouteSetting;
use control::{RouteOrigin, Translation};
use model::Route;
use proxy::explain::Stage;
use routing::Snapshot;
use serde::{Deserialize, Serialize};

/// The served configuration, and the objects that it was made from.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) translation: Arc<Translation>,
    /// Prefix of the annotations.
    pub(crate) prefix: Arc<str>,
}

/// An annotation or a key.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) object: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

/// Whose annotations count for a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Annotations of the object that declares the route.
    Route,
    /// Annotations of all objects with the host, which they share.
    Host,
    /// Annotations of canaries of the path.
    Canary,
    /// No object: only keys can cause the step.
    Nobody,
}

/// The annotations about certificates of clients.
const CERTIFICATE: &[&str] =
    &["auth-tls-secret", "auth-tls-verify-client", "auth-tls-match-cn", "auth-tls-error-page"];

/// For each step its name, the objects whose annotations count, and the names that can cause it: of
/// annotations, of keys, and of fields of rules of the Gateway API.
const STEPS: &[(Stage, &str, Whose, &[&str])] = &[
    (Stage::BlockedHeaders, "blocked headers", Whose::Nobody, &["block-user-agents", "block-referers"]),
    (Stage::Route, "route", Whose::Host, &["server-alias", "use-regex", "from-to-www-redirect"]),
    (Stage::HostGuards, "client certificate", Whose::Host, CERTIFICATE),
    (Stage::GuardsInClear, "client certificate", Whose::Host, CERTIFICATE),
    (Stage::AppRoot, "app root", Whose::Host, &["app-root"]),
    (Stage::HostScript, "host's snippet", Whose::Host, &["server-snippet"]),
    (Stage::Location, "location of a snippet", Whose::Host, &["server-snippet"]),
    (Stage::BodyLength, "body length", Whose::Route, &["proxy-body-size"]),
    (
        Stage::Closed,
        "closed",
        Whose::Route,
        &[
            "auth-secret",
            "auth-url",
            "forebay.io/auth-jwt",
            "forebay.io/auth-oidc-issuer",
            "configuration-snippet",
            "auth-snippet",
            "enable-modsecurity",
            "modsecurity-snippet",
            "enable-owasp-core-rules",
            "forebay.io/waf-exclusions",
            "forebay-waf-exclusions",
            "forebay.io/waf-mode",
            "forebay-waf-mode",
            "denylist-source-range",
            "allowlist-source-range",
            "whitelist-source-range",
            "forebay.io/allow-asn",
            "forebay.io/allow-countries",
            "forebay.io/deny-asn",
            "forebay.io/deny-countries",
            "forebay-allow-asn",
            "forebay-allow-countries",
            "forebay-deny-asn",
            "forebay-deny-countries",
            "enable-owasp-modsecurity-crs",
            "location-snippet",
            "server-snippet",
            "http-snippet",
        ],
    ),
    (
        Stage::Preflight,
        "CORS",
        Whose::Route,
        &[
            "enable-cors",
            "cors-allow-origin",
            "cors-allow-methods",
            "cors-allow-headers",
            "cors-allow-credentials",
            "CORS",
        ],
    ),
    (Stage::RouteScript, "snippet", Whose::Route, &["configuration-snippet", "location-snippet"]),
    (
        Stage::Redirect,
        "redirect",
        Whose::Route,
        &[
            "permanent-redirect",
            "permanent-redirect-code",
            "temporal-redirect",
            "temporal-redirect-code",
            "from-to-www-redirect",
            "RequestRedirect",
        ],
    ),
    (Stage::Rewrite, "rewrite", Whose::Route, &["rewrite-target", "URLRewrite"]),
    (Stage::RequestHeaders, "request headers", Whose::Route, &["RequestHeaderModifier"]),
    (
        Stage::TlsRedirect,
        "redirect to TLS",
        Whose::Route,
        &[
            "ssl-redirect",
            "force-ssl-redirect",
            "no-tls-redirect-locations",
            "http-redirect-code",
            "preserve-trailing-slash",
        ],
    ),
    (
        Stage::Maintenance,
        "maintenance",
        Whose::Route,
        &["forebay.io/maintenance", "forebay.io/maintenance-allow"],
    ),
    (
        Stage::Backend,
        "backend",
        Whose::Canary,
        &[
            "canary-by-header",
            "canary-by-header-value",
            "canary-by-header-pattern",
            "canary-by-cookie",
            "canary-weight",
            "canary-weight-total",
            "forebay.io/canary-steps",
            "forebay.io/canary-stop",
            "forebay.io/canary-run",
            "service-upstream",
            "default-backend",
            "forebay.io/fallback",
            "forebay.io/direct-response",
            "DirectResponse",
        ],
    ),
    (
        Stage::Firewall,
        "firewall",
        Whose::Route,
        &[
            "enable-modsecurity",
            "modsecurity-snippet",
            "enable-owasp-core-rules",
            "enable-owasp-modsecurity-crs",
            "forebay.io/waf-mode",
            "forebay-waf-mode",
            "forebay.io/waf-exclusions",
            "forebay-waf-exclusions",
            "forebay.io/waf-paranoia-level",
            "forebay-waf-paranoia-level",
            "forebay.io/waf-detection-paranoia-level",
            "forebay-waf-detection-paranoia-level",
            "forebay.io/waf-inbound-anomaly-threshold",
            "forebay-waf-inbound-anomaly-threshold",
            "forebay.io/waf-outbound-anomaly-threshold",
            "forebay-waf-outbound-anomaly-threshold",
        ],
    ),
    (
        Stage::Limits,
        "limits",
        Whose::Route,
        &[
            "limit-rps",
            "limit-rpm",
            "limit-connections",
            "limit-burst-multiplier",
            "limit-allowlist",
            "limit-whitelist",
            "limit-req-status-code",
            "limit-conn-status-code",
            "limit-conn-zone-variable",
            "forebay.io/limit-key",
            "forebay.io/limit-requests",
            "forebay.io/limit-shared",
            "forebay-limit-key",
            "forebay-limit-requests",
            "forebay-limit-shared",
        ],
    ),
    (
        Stage::Networks,
        "addresses",
        Whose::Route,
        &[
            "denylist-source-range",
            "allowlist-source-range",
            "whitelist-source-range",
            "block-cidrs",
            "forebay.io/allow-asn",
            "forebay.io/allow-countries",
            "forebay.io/deny-asn",
            "forebay.io/deny-countries",
            "forebay-allow-asn",
            "forebay-allow-countries",
            "forebay-deny-asn",
            "forebay-deny-countries",
            "satisfy",
        ],
    ),
    (
        Stage::ApiKeys,
        "API key",
        Whose::Route,
        &[
            "forebay.io/auth-api-keys",
            "forebay.io/auth-api-key-header",
            "forebay.io/auth-api-key-parameter",
            "satisfy",
        ],
    ),
    (
        Stage::Jwt,
        "token",
        Whose::Route,
        &[
            "forebay.io/auth-jwt",
            "forebay.io/auth-jwt-header",
            "forebay.io/auth-jwt-cookie",
            "forebay.io/auth-jwt-query",
            "forebay.io/auth-jwt-rules",
            "satisfy",
        ],
    ),
    (Stage::BasicAuth, "password", Whose::Route, &["auth-type", "auth-secret", "auth-realm", "satisfy"]),
    (
        Stage::Oidc,
        "sign-in",
        Whose::Route,
        &[
            "forebay.io/auth-oidc-issuer",
            "forebay.io/auth-oidc-client-id",
            "forebay.io/auth-oidc-rules",
            "forebay.io/auth-oidc-session-max-age",
            "satisfy",
        ],
    ),
    (
        Stage::ExternalAuth,
        "auth service",
        Whose::Route,
        &[
            "auth-url",
            "auth-method",
            "auth-signin",
            "auth-snippet",
            "global-auth-url",
            "global-auth-signin",
            "satisfy",
        ],
    ),
    (
        Stage::ExtAuthz,
        "authorization service",
        Whose::Route,
        &[
            "forebay.io/ext-authz-url",
            "forebay.io/ext-authz-allowed-headers",
            "forebay.io/ext-authz-body-max",
            "forebay.io/ext-authz-body-partial",
            "forebay.io/ext-authz-cache-key",
            "forebay.io/ext-authz-client-headers",
            "forebay.io/ext-authz-client-headers-on-success",
            "forebay.io/ext-authz-context",
            "forebay.io/ext-authz-fail-open",
            "forebay.io/ext-authz-status-on-error",
            "forebay.io/ext-authz-timeout",
            "forebay.io/ext-authz-upstream-headers",
            "ExternalAuth",
            "satisfy",
        ],
    ),
    (
        Stage::Processor,
        "external processor",
        Whose::Route,
        &[
            "forebay.io/ext-proc-url",
            "forebay.io/ext-proc-mode",
            "forebay.io/ext-proc-message-timeout",
            "forebay.io/ext-proc-max-message-timeout",
            "forebay.io/ext-proc-fail-open",
            "forebay.io/ext-proc-allow-mode-override",
            "forebay.io/ext-proc-body-max",
        ],
    ),
    (
        Stage::Buffering,
        "request buffering",
        Whose::Route,
        &["proxy-request-buffering", "client-body-buffer-size", "mirror-target", "proxy-http-version"],
    ),
    (Stage::UpstreamHead, "headers to the endpoint", Whose::Route, &["upstream-vhost", "x-forwarded-prefix"]),
    (
        Stage::Cache,
        "cache",
        Whose::Route,
        &[
            "forebay.io/cache",
            "forebay.io/cache-bypass",
            "forebay.io/cache-harmless-headers",
            "forebay.io/cache-key-query",
            "forebay-cache",
            "forebay-cache-bypass",
            "forebay-cache-harmless-headers",
            "forebay-cache-key-query",
        ],
    ),
    (
        Stage::Guard,
        "priority",
        Whose::Route,
        &["forebay.io/priority", "forebay-priority", "forebay-priority-header", "forebay-guard"],
    ),
    (
        Stage::Mirror,
        "mirror",
        Whose::Route,
        &["mirror-target", "mirror-host", "mirror-request-body", "forebay.io/mirror-share", "RequestMirror"],
    ),
    (
        Stage::Balance,
        "balancing",
        Whose::Route,
        &[
            "affinity",
            "affinity-mode",
            "session-cookie-name",
            "upstream-hash-by",
            "upstream-hash-by-subset",
            "load-balance",
            "sessionPersistence",
            "forebay.io/health-check",
            "forebay.io/health-check-path",
            "forebay.io/health-check-interval",
        ],
    ),
    (
        Stage::Timeouts,
        "timeouts",
        Whose::Route,
        &["proxy-connect-timeout", "proxy-send-timeout", "proxy-read-timeout", "timeouts"],
    ),
    (
        Stage::Retries,
        "tries",
        Whose::Route,
        &[
            "proxy-next-upstream",
            "proxy-next-upstream-tries",
            "proxy-next-upstream-timeout",
            "retry-non-idempotent",
            "retry",
        ],
    ),
    (
        Stage::Overload,
        "overload",
        Whose::Route,
        &[
            "forebay.io/overload",
            "forebay.io/concurrency",
            "forebay.io/queue-timeout",
            "forebay-overload",
            "forebay-concurrency",
            "forebay-queue-timeout",
        ],
    ),
    (
        Stage::Responses,
        "response",
        Whose::Route,
        &[
            "custom-headers",
            "enable-cors",
            "proxy-buffering",
            "limit-rate",
            "limit-rate-after",
            "proxy-redirect-from",
            "proxy-redirect-to",
            "proxy-cookie-domain",
            "proxy-cookie-path",
            "ResponseHeaderModifier",
            "CORS",
        ],
    ),
    (Stage::Replacements, "texts in responses", Whose::Route, &["configuration-snippet", "location-snippet"]),
    (
        Stage::Codings,
        "compression",
        Whose::Route,
        &[
            "forebay.io/compression",
            "forebay.io/decompression",
            "forebay-compression",
            "forebay-compression-types",
            "forebay-compression-min-length",
            "forebay-decompression",
            "use-gzip",
            "gzip-level",
            "gzip-types",
            "gzip-min-length",
            "gzip-disable",
            "enable-brotli",
            "brotli-level",
            "brotli-types",
            "brotli-min-length",
        ],
    ),
    (
        Stage::ErrorPages,
        "error pages",
        Whose::Route,
        &["custom-http-errors", "default-backend", "disable-proxy-intercept-errors"],
    ),
    (
        Stage::Tracing,
        "tracing",
        Whose::Route,
        &[
            "enable-opentelemetry",
            "opentelemetry-trust-incoming-span",
            "opentelemetry-operation-name",
            "otel-sampler",
            "otel-sampler-ratio",
            "otel-sampler-parent-based",
            "otlp-collector-host",
        ],
    ),
];

fn names(stage: Stage) -> (&'static str, Whose, &'static [&'static str]) {
    let found = STEPS.iter().find(|(of, ..)| *of == stage);
    found.map_or(("step", Whose::Nobody, &[]), |(_, name, whose, names)| (name, *whose, names))
}

/// Whether the step is there by default where no annotation and no key puts it there, and not because an
/// Ingress has a rule.
pub(super) fn has_default(stage: Stage) -> bool {
    !matches!(stage, Stage::Route | Stage::Backend)
}

/// The name of a step.
pub(super) fn name(stage: Stage) -> &'static str {
    names(stage).0
}

impl Objects {
    /// The object that declares a route, and where.
    pub(super) fn origin(&self, route: &Arc<Route>) -> Option<&RouteOrigin> {
        let all = || {
            let hosts = self.translation.model.hosts().zip(self.translation.origins.iter());
            hosts.flat_map(|(host, origins)| host.routes.iter().zip(origins.iter()))
        };
        let same = all().find(|(other, _)| Arc::ptr_eq(other, route));
        same.or_else(|| all().find(|(other, _)| *other == route)).map(|(_, origin)| origin)
    }

    /// The causes of a step: annotations of Ingresses and fields of policies, or else keys of the
    /// `ConfigMap`. None if the step is a default.
    pub(super) fn sources(&self, stage: Stage, route: Option<&Arc<Route>>) -> Vec<Source> {
        let (_, whose, names) = names(stage);
        let of_annotations = self.carriers(whose, route).flat_map(|ingress| self.annotations(ingress, names));
        let found: Vec<_> = of_annotations.chain(self.fields(route, names)).collect();
        if !found.is_empty() {
            return found;
        }
        let Some(configmap) = self.translation.configmap.as_deref() else { return Vec::new() };
        let of = |name: &&str| {
            let value = configmap.data.get(*name)?;
            Some(source(name, value, configmap.reference().to_string(), &configmap.origin))
        };
        names.iter().filter_map(of).collect()
    }

    /// The fields of policies and of the rule that hold for a route.
    fn fields(&self, route: Option<&Arc<Route>>, names: &[&str]) -> impl Iterator<Item = Source> {
        let origin = route.and_then(|route| self.origin(route));
        let settings =
            origin.and_then(|origin| origin.settings().map(|settings| &**settings)).unwrap_or_default();
        let is_meant = |setting: &&RouteSetting| {
            // Forebay's own are named with their prefix.
            names.iter().any(|name| name.strip_prefix("forebay.io/").unwrap_or(name) == setting.annotation)
        };
        let source = |setting: &RouteSetting| Source {
            name: setting.field.clone(),
            value: setting.value.clone(),
            object: setting.object.to_string(),
            file: setting.file.as_ref().map(|file| file.display().to_string()),
            line: setting.line,
        };
        settings.iter().filter(is_meant).map(source).collect::<Vec<_>>().into_iter()
    }

    fn carriers<'o>(
        &'o self,
        whose: Whose,
        route: Option<&'o Arc<Route>>,
    ) -> impl Iterator<Item = &'o Sourced<Ingress>> {
        let origin = route.and_then(|route| self.origin(route));
        let declares = move |ingress: &Sourced<Ingress>| {
            origin.is_some_and(|origin| origin.object() == ingress.reference())
        };
        let carries = move |ingress: &Sourced<Ingress>| match whose {
            Whose::Nobody => false,
            Whose::Route => declares(ingress),
            Whose::Host => {
                declares(ingress) || route.is_some_and(|route| has_host(ingress, route.labels.host()))
            }
            Whose::Canary => {
                declares(ingress) || route.is_some_and(|route| self.is_canary_of(ingress, route))
            }
        };
        self.translation.ingresses.iter().map(|ingress| &**ingress).filter(move |ingress| carries(ingress))
    }

    fn is_canary_of(&self, ingress: &Sourced<Ingress>, route: &Route) -> bool {
        let paths = ingress.spec.rules.iter().flat_map(|rule| &rule.value.http).flat_map(|http| &http.paths);
        self.annotation(ingress, "canary").is_some()
            && has_host(ingress, route.labels.host())
            && paths
                .map(|path| path.value.path.as_deref().unwrap_or("/"))
                .any(|path| path == route.path.path())
    }

    fn annotation<'i>(&self, ingress: &'i Sourced<Ingress>, name: &str) -> Option<&'i At<String>> {
        // Forebay's own are named with their prefix.
        let annotations = &ingress.metadata.annotations;
        if name.contains('/') {
            annotations.get(name)
        } else {
            annotations.get(&format!("{}/{name}", self.prefix))
        }
    }

    fn annotations(&self, ingress: &Sourced<Ingress>, names: &[&str]) -> Vec<Source> {
        let of = |name: &&str| {
            let value = self.annotation(ingress, name)?;
            Some(source(name, value, ingress.reference().to_string(), &ingress.origin))
        };
        names.iter().filter_map(of).collect()
    }
}

/// Whether an Ingress has a rule for a host, which is `_` for all.
fn has_host(ingress: &Sourced<Ingress>, host: &str) -> bool {
    let hosts = ingress.spec.rules.iter().map(|rule| rule.value.host.as_ref().map_or("", |host| &host.value));
    hosts.map(|name| if name.is_empty() { "_" } else { name }).any(|name| name.eq_ignore_ascii_case(host))
}

fn source(name: &str, value: &At<String>, object: String, origin: &Origin) -> Source {
    Source {
        name: name.to_owned(),
        value: value.value.clone(),
        object,
        file: origin.file.as_ref().map(|file| file.display().to_string()),
        line: origin.line_of(value),
    }
}
