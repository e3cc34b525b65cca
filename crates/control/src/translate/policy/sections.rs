//! The table of a policy's sections: the annotations that have a field in each, and the form of the field's
//! value. The meaning of an annotation, and its documentation, is in the table of annotations.

use super::kinds::FieldKind::{
    self, Boolean, ConfigMap, Duration, Exclusions, Integer, Integers, Issuers, Lines, List, Pattern, Rules,
    Secret, Size, Switch, Text, Word,
};
use crate::translate::ingress::firewall_tuning::{LEVELS, THRESHOLD_MAX};

/// A section of a policy's `spec`.
#[derive(Debug)]
pub struct Section {
    /// Name of the section in `spec`.
    pub name: &'static str,
    /// The purpose of the section.
    pub doc: &'static str,
    /// The section restricts access: if it cannot be applied, routes are closed.
    pub(super) guards: bool,
    /// Beginnings of annotations' names that the names of fields omit, the longest first.
    pub(super) prefixes: &'static [&'static str],
    /// An end of annotations' names that the names of fields omit.
    pub(super) suffix: &'static str,
    /// The annotations, and the forms of their fields' values.
    pub(super) entries: &'static [Entry],
}

/// The field of an annotation.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) annotation: &'static str,
    pub(super) kind: FieldKind,
    /// Name of the field, if it cannot be derived from the annotation's name.
    pub(super) name: Option<&'static str>,
}

const fn field(annotation: &'static str, kind: FieldKind) -> Entry {
    Entry { annotation, kind, name: None }
}

const fn named(annotation: &'static str, name: &'static str, kind: FieldKind) -> Entry {
    Entry { annotation, kind, name: Some(name) }
}

/// A number that must not be negative.
const COUNT: FieldKind = Integer(0, u32::MAX as i64);

/// A paranoia level of the core rules, and a score at which they refuse.
const LEVEL: FieldKind = Integer(*LEVELS.start() as i64, *LEVELS.end() as i64);
const THRESHOLD: FieldKind = Integer(1, THRESHOLD_MAX as i64);

/// All sections, by name.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "abuse",
        doc: "Clients that are far off the others.",
        guards: false,
        prefixes: &["abuse-"],
        suffix: "",
        entries: &[named("abuse", "mode", Word(&["watch", "enforce", "off"])), field("abuse-key", Text)],
    },
    Section {
        name: "access",
        doc: "Which clients are let in by their addresses, and by the countries and autonomous systems that databases have for them.",
        guards: true,
        prefixes: &[],
        suffix: "",
        entries: &[
            field("allow-asn", List),
            field("allow-countries", List),
            field("allowlist-source-range", List),
            field("deny-asn", List),
            field("deny-countries", List),
            field("denylist-source-range", List),
            field("satisfy", Word(&["all", "any"])),
        ],
    },
    Section {
        name: "auth",
        doc: "Authentication: by sign-in at a provider, by tokens of issuers, by the keys or passwords in a Secret, or by a service that is asked.",
        guards: true,
        prefixes: &["auth-", "enable-"],
        suffix: "",
        entries: &[
            field("auth-always-set-cookie", Boolean),
            field("auth-api-key-header", Text),
            field("auth-api-key-parameter", Text),
            field("auth-api-keys", Secret),
            field("auth-cache-duration", Text),
            field("auth-cache-key", Text),
            field("auth-jwt", Issuers),
            field("auth-jwt-claims-to-headers", Text),
            field("auth-jwt-cookie", Text),
            field("auth-jwt-header", Text),
            field("auth-jwt-query", Text),
            field("auth-jwt-rules", Lines),
            field("auth-jwt-strip", Boolean),
            field("auth-method", Text),
            field("auth-oidc-back-channel-path", Text),
            field("auth-oidc-ca", Secret),
            field("auth-oidc-callback-path", Text),
            field("auth-oidc-claims-to-headers", Text),
            field("auth-oidc-client-id", Text),
            field("auth-oidc-client-secret", Text),
            field("auth-oidc-grace", Duration),
            field("auth-oidc-issuer", Text),
            field("auth-oidc-logout-path", Text),
            field("auth-oidc-parameters", Text),
            field("auth-oidc-post-logout-redirect", Text),
            field("auth-oidc-rules", Lines),
            field("auth-oidc-scopes", Text),
            field("auth-oidc-session-max-age", Duration),
            field("auth-oidc-session-secret", Secret),
            field("auth-oidc-user-claim", Text),
            field("auth-proxy-set-headers", ConfigMap),
            field("auth-realm", Text),
            field("auth-request-redirect", Text),
            field("auth-response-headers", List),
            field("auth-secret", Secret),
            field("auth-secret-type", Word(&["auth-file", "auth-map"])),
            field("auth-signin", Text),
            field("auth-signin-redirect-param", Text),
            field("auth-type", Word(&["basic", "digest"])),
            field("auth-url", Text),
            field("enable-global-auth", Boolean),
        ],
    },
    Section {
        name: "bodies",
        doc: "Bodies of requests, and the version of HTTP in which endpoints get them.",
        guards: false,
        prefixes: &["client-body-", "proxy-"],
        suffix: "",
        entries: &[
            field("client-body-buffer-size", Size),
            field("proxy-body-size", Size),
            field("proxy-http-version", Word(&["1.0", "1.1"])),
            field("proxy-request-buffering", Switch),
        ],
    },
    Section {
        name: "cache",
        doc: "Responses that are kept and given again.",
        guards: false,
        prefixes: &["cache-"],
        suffix: "",
        entries: &[
            named("cache", "enabled", Boolean),
            field("cache-bypass", List),
            field("cache-default-ttl", Duration),
            field("cache-harmless-headers", List),
            field("cache-key-query", Text),
            field("cache-object-max", Size),
            field("cache-shared", Boolean),
            field("cache-stale-if-error", Duration),
            field("cache-stale-while-revalidate", Duration),
        ],
    },
    Section {
        name: "compression",
        doc: "Codings of responses.",
        guards: false,
        prefixes: &[],
        suffix: "",
        entries: &[named("compression", "codings", List), field("decompression", Boolean)],
    },
    Section {
        name: "directResponse",
        doc: "An answer in place of a backend.",
        guards: true,
        prefixes: &["direct-response-"],
        suffix: "",
        entries: &[
            named("direct-response", "status", Integer(200, 599)),
            field("direct-response-body", Lines),
            field("direct-response-body-from", ConfigMap),
            field("direct-response-content-type", Text),
            field("direct-response-headers", Lines),
        ],
    },
    Section {
        name: "errors",
        doc: "Errors that another backend answers, and who serves where there is no endpoint.",
        guards: false,
        prefixes: &["custom-"],
        suffix: "",
        entries: &[
            field("custom-http-errors", Integers(400, 599)),
            field("default-backend", Text),
            field("disable-proxy-intercept-errors", Boolean),
        ],
    },
    Section {
        name: "extAuthz",
        doc: "A service that authorizes each request by Envoy's protocol `ext_authz`.",
        guards: true,
        prefixes: &["ext-authz-"],
        suffix: "",
        entries: &[
            field("ext-authz-allowed-headers", List),
            field("ext-authz-body-max", Size),
            field("ext-authz-body-partial", Boolean),
            field("ext-authz-cache-key", Text),
            field("ext-authz-client-headers", List),
            field("ext-authz-client-headers-on-success", List),
            field("ext-authz-context", Text),
            field("ext-authz-fail-open", Boolean),
            field("ext-authz-status-on-error", Integer(400, 599)),
            field("ext-authz-timeout", Duration),
            field("ext-authz-upstream-headers", List),
            field("ext-authz-url", Text),
        ],
    },
    Section {
        name: "extProc",
        doc: "An external processor, which changes requests and responses on their way.",
        guards: true,
        prefixes: &["ext-proc-"],
        suffix: "",
        entries: &[
            field("ext-proc-allow-mode-override", Boolean),
            field("ext-proc-body-max", Size),
            field("ext-proc-fail-open", Boolean),
            field("ext-proc-max-message-timeout", Duration),
            field("ext-proc-message-timeout", Duration),
            field("ext-proc-mode", List),
            field("ext-proc-url", Text),
        ],
    },
    Section {
        name: "fallback",
        doc: "Services that serve while the backend is out of use.",
        guards: false,
        prefixes: &["fallback-"],
        suffix: "",
        entries: &[named("fallback", "services", List), field("fallback-recovery", Duration)],
    },
    Section {
        name: "files",
        doc: "Files in place of endpoints.",
        guards: false,
        prefixes: &["files-"],
        suffix: "",
        entries: &[
            named("files", "folder", Text),
            named("files-404", "notFound", Text),
            field("files-cache-control", Text),
            field("files-fallback", Text),
            field("files-index", List),
            field("files-listing", Boolean),
        ],
    },
    Section {
        name: "headers",
        doc: "Headers of requests to endpoints.",
        guards: false,
        prefixes: &[],
        suffix: "",
        entries: &[
            field("connection-proxy-header", Word(&["keep-alive", "close"])),
            field("upstream-vhost", Text),
        ],
    },
    Section {
        name: "healthCheck",
        doc: "Active health checks of endpoints.",
        guards: false,
        prefixes: &["health-check-"],
        suffix: "",
        entries: &[
            named("health-check", "kind", Word(&["http", "grpc", "tcp", "off"])),
            field("health-check-always", Boolean),
            field("health-check-fall", Integer(1, 100)),
            field("health-check-host", Text),
            field("health-check-interval", Duration),
            field("health-check-path", Text),
            field("health-check-rise", Integer(1, 100)),
            field("health-check-service", Text),
            field("health-check-status", List),
            field("health-check-timeout", Duration),
        ],
    },
    Section {
        name: "limits",
        doc: "How many requests a client may send.",
        guards: false,
        prefixes: &["limit-"],
        suffix: "",
        entries: &[
            field("limit-allowlist", List),
            field("limit-burst-multiplier", Integer(1, u32::MAX as i64)),
            field("limit-connections", COUNT),
            field("limit-key", Text),
            field("limit-requests", List),
            field("limit-rpm", COUNT),
            field("limit-rps", COUNT),
            field("limit-shared", Boolean),
        ],
    },
    Section {
        name: "logging",
        doc: "The access log.",
        guards: false,
        prefixes: &["enable-"],
        suffix: "",
        entries: &[field("enable-access-log", Boolean)],
    },
    Section {
        name: "maintenance",
        doc: "A page in place of a route, except for some clients.",
        guards: true,
        prefixes: &["maintenance-"],
        suffix: "",
        entries: &[
            named("maintenance", "enabled", Boolean),
            field("maintenance-allow", List),
            field("maintenance-from", Text),
            field("maintenance-page", ConfigMap),
            field("maintenance-retry-after", Duration),
            field("maintenance-until", Text),
        ],
    },
    Section {
        name: "overload",
        doc: "What is done when more requests come than endpoints can answer.",
        guards: false,
        prefixes: &[],
        suffix: "",
        entries: &[
            field("concurrency", Pattern("^(auto|off|[1-9][0-9]*)$")),
            field("ejection", Switch),
            named("overload", "mode", Word(&["watch", "enforce", "off"])),
            field("priority", Word(&["critical", "normal", "sheddable"])),
            field("queue-timeout", Duration),
            field("retry-budget", Pattern("^(off|[0-9]{1,3}%)$")),
            field("slow-start", Duration),
        ],
    },
    Section {
        name: "responses",
        doc: "How responses are passed on.",
        guards: false,
        prefixes: &["proxy-", "limit-"],
        suffix: "",
        entries: &[
            field("limit-rate", COUNT),
            field("limit-rate-after", COUNT),
            field("proxy-buffer-size", Size),
            field("proxy-buffering", Switch),
            field("proxy-buffers-number", COUNT),
            field("proxy-cookie-domain", Text),
            field("proxy-cookie-path", Text),
            field("proxy-redirect-from", Text),
            field("proxy-redirect-to", Text),
        ],
    },
    Section {
        name: "retries",
        doc: "What is tried again.",
        guards: false,
        prefixes: &["proxy-next-upstream-"],
        suffix: "",
        entries: &[
            named("proxy-next-upstream", "conditions", Text),
            field("proxy-next-upstream-timeout", COUNT),
            field("proxy-next-upstream-tries", COUNT),
        ],
    },
    Section {
        name: "timeouts",
        doc: "Timeouts towards endpoints, in seconds.",
        guards: false,
        prefixes: &["proxy-"],
        suffix: "-timeout",
        entries: &[
            field("proxy-connect-timeout", COUNT),
            field("proxy-read-timeout", COUNT),
            field("proxy-send-timeout", COUNT),
        ],
    },
    Section {
        name: "tracing",
        doc: "Tracing with OpenTelemetry.",
        guards: false,
        prefixes: &["opentelemetry-"],
        suffix: "",
        entries: &[
            named("enable-opentelemetry", "enabled", Boolean),
            field("opentelemetry-operation-name", Text),
            field("opentelemetry-trust-incoming-span", Boolean),
        ],
    },
    Section {
        name: "waf",
        doc: "The web application firewall.",
        guards: true,
        prefixes: &["waf-", "modsecurity-"],
        suffix: "",
        entries: &[
            named("enable-modsecurity", "enabled", Boolean),
            named("enable-owasp-core-rules", "coreRules", Boolean),
            named("modsecurity-snippet", "rules", Rules),
            field("modsecurity-transaction-id", Text),
            field("waf-detection-paranoia-level", LEVEL),
            field("waf-exclusions", Exclusions),
            field("waf-inbound-anomaly-threshold", THRESHOLD),
            field("waf-mode", Word(&["On", "DetectionOnly", "Off"])),
            field("waf-outbound-anomaly-threshold", THRESHOLD),
            field("waf-paranoia-level", LEVEL),
            field("waf-request-body-limit", Size),
            field("waf-request-body-no-files-limit", Size),
            field("waf-response-body-limit", Size),
        ],
    },
];

/// Annotations without a field, with their replacements.
pub(super) const LEFT_OUT: &[(&[&str], &str)] = &[
    (
        &["acme"],
        "it is about `tls` of an Ingress; listeners of a Gateway name Secrets, which cert-manager fills",
    ),
    (
        &[
            "affinity",
            "affinity-canary-behavior",
            "affinity-mode",
            "session-cookie-change-on-failure",
            "session-cookie-conditional-samesite-none",
            "session-cookie-domain",
            "session-cookie-expires",
            "session-cookie-max-age",
            "session-cookie-name",
            "session-cookie-path",
            "session-cookie-samesite",
            "session-cookie-secure",
        ],
        "sessionPersistence of a rule",
    ),
    (
        &[
            "load-balance",
            "service-upstream",
            "upstream-hash-by",
            "upstream-hash-by-subset",
            "upstream-hash-by-subset-size",
        ],
        "it is about a Service, for which Ingresses and routes have one way of picking endpoints",
    ),
    (
        &[
            "canary",
            "canary-by-cookie",
            "canary-by-header",
            "canary-by-header-pattern",
            "canary-by-header-value",
            "canary-weight",
            "canary-weight-total",
        ],
        "weights of backendRefs, and rules that match headers",
    ),
    (
        &["canary-run", "canary-steps", "canary-stop"],
        "only canary Ingresses have steps; weights of backendRefs stay as they are written",
    ),
    (
        &[
            "auth-tls-error-page",
            "auth-tls-match-cn",
            "auth-tls-pass-certificate-to-upstream",
            "auth-tls-secret",
            "auth-tls-verify-client",
            "auth-tls-verify-depth",
        ],
        "tls.frontend of a Gateway",
    ),
    (
        &[
            "cors-allow-credentials",
            "cors-allow-headers",
            "cors-allow-methods",
            "cors-allow-origin",
            "cors-expose-headers",
            "cors-max-age",
            "enable-cors",
        ],
        "filter CORS",
    ),
    (&["fastcgi-index", "fastcgi-params-configmap"], "routes speak no FastCGI to endpoints"),
    (&["custom-headers"], "filter ResponseHeaderModifier"),
    (
        &["ssl-ciphers", "ssl-passthrough", "ssl-prefer-server-ciphers"],
        "TLS of listeners, and TLSRoute for what is passed through",
    ),
    (&["early-data"], "forebay-early-data of the ConfigMap"),
    (&["mirror-host", "mirror-request-body", "mirror-share", "mirror-target"], "filter RequestMirror"),
    (
        &[
            "app-root",
            "force-ssl-redirect",
            "from-to-www-redirect",
            "permanent-redirect",
            "permanent-redirect-code",
            "preserve-trailing-slash",
            "relative-redirects",
            "ssl-redirect",
            "temporal-redirect",
            "temporal-redirect-code",
            "use-port-in-redirects",
        ],
        "filter RequestRedirect",
    ),
    (&["rewrite-target", "use-regex", "x-forwarded-prefix"], "filter URLRewrite"),
    (&["server-alias"], "hostnames of a route"),
    (&["auth-snippet", "configuration-snippet", "server-snippet"], "policies hold no configuration of nginx"),
    (
        &[
            "backend-protocol",
            "proxy-ssl-ciphers",
            "proxy-ssl-name",
            "proxy-ssl-protocols",
            "proxy-ssl-secret",
            "proxy-ssl-server-name",
            "proxy-ssl-verify",
            "proxy-ssl-verify-depth",
        ],
        "BackendTLSPolicy, tls.backend of a Gateway, and appProtocol of a Service's port",
    ),
];
