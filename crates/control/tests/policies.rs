//! Policies and annotations have the same meaning: each field has the effect on a route of the Gateway API
//! that its annotation has on an Ingress.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::translate::policy::fields::{self, Field};
use control::{Firewalls, Options, Translation, load_at};
use model::{Action, Protocol, RequestFilter, Route};
use serde_json::{Map, Value, json};

/// The first of July 2026.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_782_864_000)
}

type Annotations<'t> = &'t [(&'t str, &'t str)];

const URL: (&str, &str) = ("auth-url", "http://auth.default.svc.cluster.local/check");
const CACHE: (&str, &str) = ("cache", "true");
const GRPC: (&str, &str) = ("ext-authz-url", "grpc://authz.default.svc:9001");
const HTTP: (&str, &str) = ("ext-authz-url", "http://authz.default.svc/check");
const PROCESSOR: (&str, &str) = ("ext-proc-url", "grpc://proc.default.svc:9002");
const FIREWALL: Annotations = &[("enable-modsecurity", "true"), ("enable-owasp-core-rules", "true")];
const KEYS: (&str, &str) = ("auth-api-keys", "keys");
const JWT: (&str, &str) = ("auth-jwt", r#"[{"issuer": "joe", "secret": "keys", "algorithms": ["HS256"]}]"#);
const ANSWER: (&str, &str) = ("direct-response", "403");
const FALLBACK: (&str, &str) = ("fallback", "errors:80");
const MAINTENANCE: (&str, &str) = ("maintenance", "true");
const FILES: (&str, &str) = ("files", "site");
const PASSWORDS: Annotations = &[("auth-type", "basic"), ("auth-secret", "users")];
const RATE: (&str, &str) = ("limit-rps", "5");
const HEALTH: (&str, &str) = ("health-check", "http");
const GRPC_HEALTH: (&str, &str) = ("health-check", "grpc");
const REQUESTS: (&str, &str) = ("limit-requests", "5/1m");
const SIGN_IN: Annotations = &[
    ("auth-oidc-issuer", "https://issuer.test"),
    ("auth-oidc-client-id", "forebay"),
    ("auth-oidc-session-secret", "session"),
];
const STATUSES: (&str, &str) = ("custom-http-errors", "502,503");
const TRACED: (&str, &str) = ("enable-opentelemetry", "true");
const BUFFERED: (&str, &str) = ("proxy-buffering", "on");
const REDIRECT: Annotations = &[("proxy-redirect-from", "http://a/"), ("proxy-redirect-to", "http://b/")];

/// A value for each annotation, and the other annotations that it needs for an effect.
const VALUES: &[(&str, &str, Annotations)] = &[
    ("abuse", "enforce", &[]),
    ("abuse-key", "$http_x_api_key", &[]),
    ("allow-asn", "64496,64500", &[]),
    ("allow-countries", "DE,AT", &[]),
    ("allowlist-source-range", "10.0.0.0/8,192.0.2.1", &[]),
    ("auth-always-set-cookie", "true", &[URL]),
    ("auth-api-key-header", "X-Key", &[KEYS]),
    ("auth-api-key-parameter", "key", &[KEYS]),
    ("auth-api-keys", "keys", &[]),
    ("auth-cache-duration", "200 7m", &[URL, ("auth-cache-key", "$http_cookie")]),
    ("auth-cache-key", "$http_cookie", &[URL]),
    ("auth-jwt", r#"[{"issuer": "joe", "jwks": "https://joe.test/keys", "leeway": "5s"}]"#, &[]),
    ("auth-jwt-claims-to-headers", "X-User: sub, X-Groups: groups", &[JWT]),
    ("auth-jwt-cookie", "token", &[JWT]),
    ("auth-jwt-header", "X-Token", &[JWT]),
    ("auth-jwt-query", "access_token", &[JWT]),
    ("auth-jwt-rules", "GET /reports when claims.scope has \"read\"", &[JWT]),
    ("auth-jwt-strip", "true", &[JWT]),
    ("auth-method", "POST", &[URL]),
    ("auth-oidc-back-channel-path", "/auth/ended", SIGN_IN),
    ("auth-oidc-ca", "authorities", SIGN_IN),
    ("auth-oidc-callback-path", "/auth/back", SIGN_IN),
    ("auth-oidc-claims-to-headers", "X-Mail: email", SIGN_IN),
    ("auth-oidc-client-id", "forebay", SIGN_IN),
    ("auth-oidc-client-secret", "client/other", SIGN_IN),
    ("auth-oidc-grace", "1m", SIGN_IN),
    ("auth-oidc-issuer", "https://issuer.test", SIGN_IN),
    ("auth-oidc-logout-path", "/auth/out", SIGN_IN),
    ("auth-oidc-parameters", "prompt=login", SIGN_IN),
    ("auth-oidc-post-logout-redirect", "/bye", SIGN_IN),
    ("auth-oidc-rules", "/ when claims.groups has \"a\"", SIGN_IN),
    ("auth-oidc-scopes", "openid", SIGN_IN),
    ("auth-oidc-session-max-age", "1h", SIGN_IN),
    ("auth-oidc-session-secret", "session", SIGN_IN),
    ("auth-oidc-user-claim", "email", SIGN_IN),
    ("auth-proxy-set-headers", "default/headers", &[URL]),
    ("auth-realm", "Home", PASSWORDS),
    ("auth-request-redirect", "http://a.test/", &[URL]),
    ("auth-response-headers", "X-User,X-Groups", &[URL]),
    ("auth-secret", "users", &[("auth-type", "basic")]),
    ("auth-secret-type", "auth-map", PASSWORDS),
    ("auth-signin", "http://sign.test/in", &[URL]),
    ("auth-signin-redirect-param", "back", &[URL, ("auth-signin", "http://sign.test/in")]),
    ("auth-type", "basic", &[("auth-secret", "users")]),
    ("auth-url", "http://auth.default.svc.cluster.local/check", &[]),
    ("cache", "true", &[]),
    ("cache-bypass", "cookie:a,header:b", &[CACHE]),
    ("cache-default-ttl", "10m", &[CACHE]),
    ("cache-harmless-headers", "X-Nonce,App-Trace", &[CACHE]),
    ("cache-key-query", "none", &[CACHE]),
    ("cache-object-max", "1m", &[CACHE]),
    ("cache-stale-if-error", "1h", &[CACHE]),
    ("cache-stale-while-revalidate", "30s", &[CACHE]),
    ("client-body-buffer-size", "16k", &[]),
    ("compression", "zstd:3,gzip", &[]),
    ("concurrency", "7", &[]),
    ("connection-proxy-header", "close", &[]),
    ("custom-http-errors", "502,503", &[("default-backend", "errors")]),
    ("decompression", "true", &[]),
    ("default-backend", "errors", &[]),
    ("deny-asn", "AS64497", &[]),
    ("deny-countries", "KP", &[]),
    ("denylist-source-range", "192.0.2.0/24", &[]),
    ("direct-response", "403", &[]),
    ("direct-response-body", "nobody", &[ANSWER]),
    ("direct-response-body-from", "page", &[ANSWER]),
    ("direct-response-content-type", "text/html", &[ANSWER]),
    ("direct-response-headers", "X-A: 1\nX-B: 2", &[ANSWER]),
    ("disable-proxy-intercept-errors", "true", &[STATUSES, ("default-backend", "errors")]),
    ("ejection", "off", &[]),
    ("enable-access-log", "false", &[]),
    ("enable-global-auth", "true", &[]),
    ("enable-modsecurity", "true", &[]),
    ("enable-opentelemetry", "true", &[]),
    ("enable-owasp-core-rules", "true", FIREWALL),
    ("ext-authz-allowed-headers", "X-Token,Cookie", &[GRPC]),
    ("ext-authz-body-max", "8k", &[GRPC]),
    ("ext-authz-body-partial", "true", &[GRPC, ("ext-authz-body-max", "8k")]),
    ("ext-authz-cache-key", "$http_authorization", &[GRPC]),
    ("ext-authz-client-headers", "X-Why", &[HTTP]),
    ("ext-authz-client-headers-on-success", "Set-Cookie", &[HTTP]),
    ("ext-authz-context", "tenant=a,tier=gold", &[GRPC]),
    ("ext-authz-fail-open", "true", &[GRPC]),
    ("ext-authz-status-on-error", "503", &[GRPC]),
    ("ext-authz-timeout", "1s", &[GRPC]),
    ("ext-authz-upstream-headers", "X-User", &[GRPC]),
    ("ext-authz-url", "grpc://authz.default.svc:9001", &[]),
    ("ext-proc-allow-mode-override", "true", &[PROCESSOR]),
    ("ext-proc-body-max", "8k", &[PROCESSOR]),
    ("ext-proc-fail-open", "true", &[PROCESSOR]),
    ("ext-proc-max-message-timeout", "2s", &[PROCESSOR]),
    ("ext-proc-message-timeout", "1s", &[PROCESSOR]),
    ("ext-proc-mode", "request-body=streamed,response-headers=skip", &[PROCESSOR]),
    ("ext-proc-url", "grpc://proc.default.svc:9002", &[]),
    ("fallback", "errors:80", &[]),
    ("fallback-recovery", "30s", &[FALLBACK]),
    ("files", "site", &[]),
    ("files-404", "/404.html", &[FILES]),
    ("files-cache-control", "max-age=60", &[FILES]),
    ("files-fallback", "/index.html", &[FILES]),
    ("files-index", "a.html,b.html", &[FILES]),
    ("files-listing", "true", &[FILES]),
    ("health-check", "tcp", &[]),
    ("health-check-always", "true", &[HEALTH]),
    ("health-check-fall", "4", &[HEALTH]),
    ("health-check-host", "inner.test", &[HEALTH]),
    ("health-check-interval", "700ms", &[HEALTH]),
    ("health-check-path", "/healthz", &[HEALTH]),
    ("health-check-rise", "3", &[HEALTH]),
    ("health-check-service", "shop.Cart", &[GRPC_HEALTH]),
    ("health-check-status", "200-299,404", &[HEALTH]),
    ("health-check-timeout", "250ms", &[HEALTH]),
    ("limit-allowlist", "10.0.0.0/8", &[RATE]),
    ("limit-burst-multiplier", "3", &[RATE]),
    ("limit-connections", "4", &[]),
    ("limit-key", "$http_x_api_key", &[REQUESTS]),
    ("limit-requests", "5/1m,50/1h", &[]),
    ("limit-rpm", "60", &[]),
    ("limit-rps", "5", &[]),
    ("limit-shared", "true", &[REQUESTS]),
    ("limit-rate", "100", &[BUFFERED]),
    ("limit-rate-after", "10", &[BUFFERED, ("limit-rate", "100")]),
    ("maintenance", "true", &[]),
    ("maintenance-allow", "10.0.0.0/8,192.0.2.1", &[MAINTENANCE]),
    ("maintenance-from", "2026-07-01T22:00:00Z", &[MAINTENANCE]),
    ("maintenance-page", "page", &[MAINTENANCE]),
    ("maintenance-retry-after", "5m", &[MAINTENANCE]),
    ("maintenance-until", "2026-07-02T02:00:00+02:00", &[MAINTENANCE]),
    ("modsecurity-snippet", "SecRuleEngine On", FIREWALL),
    ("modsecurity-transaction-id", "$req_id", FIREWALL),
    ("opentelemetry-operation-name", "buy", &[TRACED]),
    ("opentelemetry-trust-incoming-span", "false", &[TRACED]),
    ("overload", "enforce", &[]),
    ("priority", "critical", &[]),
    ("proxy-body-size", "3m", &[]),
    ("proxy-buffer-size", "16k", &[]),
    ("proxy-buffering", "on", &[]),
    ("proxy-buffers-number", "9", &[BUFFERED]),
    ("proxy-connect-timeout", "3", &[]),
    ("proxy-cookie-domain", "a.test b.test", &[]),
    ("proxy-cookie-path", "/a /b", &[]),
    ("proxy-http-version", "1.0", &[]),
    ("proxy-next-upstream", "error http_503", &[]),
    ("proxy-next-upstream-timeout", "4", &[]),
    ("proxy-next-upstream-tries", "5", &[]),
    ("proxy-read-timeout", "33", &[]),
    ("proxy-redirect-from", "http://c/", REDIRECT),
    ("proxy-redirect-to", "http://c/", REDIRECT),
    ("proxy-request-buffering", "off", &[]),
    ("proxy-send-timeout", "44", &[]),
    ("queue-timeout", "5s", &[]),
    ("retry-budget", "35%", &[]),
    ("satisfy", "any", &[("denylist-source-range", "192.0.2.0/24")]),
    ("slow-start", "20s", &[]),
    ("upstream-vhost", "inner.test", &[]),
    ("waf-detection-paranoia-level", "3", &[("waf-mode", "On"), ("waf-paranoia-level", "2")]),
    (
        "waf-exclusions",
        r#"[{"rules": [949110], "targets": ["ARGS:a"]}, {"path": {"value": "/a"}}]"#,
        FIREWALL,
    ),
    ("waf-inbound-anomaly-threshold", "10", FIREWALL),
    ("waf-mode", "On", &[]),
    ("waf-outbound-anomaly-threshold", "10", FIREWALL),
    ("waf-paranoia-level", "2", FIREWALL),
    ("waf-request-body-limit", "1m", FIREWALL),
    ("waf-request-body-no-files-limit", "64k", FIREWALL),
    ("waf-response-body-limit", "1m", FIREWALL),
];

/// The annotations that have an effect only with replicas.
const OF_REPLICAS: &[&str] = &["cache-shared"];

const COMMON: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {reports: 01234567-89ab-cdef-01234567-89ab-cdef}
---
apiVersion: v1
kind: Secret
metadata: {name: session}
stringData: {one: 0123456789abcdef0123456789abcdef}
---
apiVersion: v1
kind: Secret
metadata: {name: client}
stringData: {other: secret}
---
apiVersion: v1
kind: Secret
metadata: {name: authorities}
stringData: {ca.crt: none}
---
apiVersion: v1
kind: Secret
metadata: {name: users}
stringData: {auth: "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: headers}
data: {X-Asked: "yes"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {body: "<h1>closed</h1>", content-type: text/html}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  global-auth-url: "http://global.test/check"
  otlp-collector-host: "192.0.2.9"
  allow-snippet-annotations: "true"
  annotations-risk-level: Critical
  use-geoip2: "true"
---
apiVersion: v1
kind: Service
metadata: {name: errors}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: forebay}
spec: {controllerName: forebay.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: forebay
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
"#;

/// The page's Secret, for its examples.
const USERS_OF_SHOP: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: users, namespace: shop}
stringData: {auth: "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n"}
---
apiVersion: v1
kind: Service
metadata: {name: sorry, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: closed, namespace: shop}
data: {body: "<h1>We are back soon.</h1>", content-type: text/html; charset=utf-8}
"#;

/// A Service whose endpoints speak HTTP/2, for health checks by gRPC.
const SPEAKING_HTTP2: &str = r"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}
";

/// Objects that these annotations need beside the common ones.
fn beside(annotations: &[(&str, &str)]) -> &'static str {
    if annotations.contains(&GRPC_HEALTH) { SPEAKING_HTTP2 } else { "" }
}

fn load(documents: &[Value], text: &str) -> Translation {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let documents: Vec<_> = documents.iter().map(ToString::to_string).collect();
    std::fs::write(&file, format!("{COMMON}---\n{}\n---\n{text}", documents.join("\n---\n"))).unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waf");
    let endpoint = |name: &str| format!("{name}:80=192.0.2.1:80").parse().unwrap();
    let options = Options {
        manifests: vec![file],
        configmap: Some("default/settings".parse().unwrap()),
        endpoints: ["default/web", "default/errors", "shop/web", "shop/sorry"].map(endpoint).into(),
        has_cache: true,
        has_files_root: true,
        has_limit_redis: true,
        firewalls: Arc::new(Firewalls::load(&[rules]).unwrap()),
        ..Options::default()
    };
    load_at(&options, now()).unwrap()
}

/// The route of the only rule.
fn route(translation: &Translation) -> &Route {
    let listener = translation.model.listeners.iter().find_map(|listener| match &listener.protocol {
        Protocol::Http(hosts) => Some(hosts),
        _ => None,
    });
    let routes = listener.unwrap().iter().flat_map(|host| &host.routes);
    routes.into_iter().find(|route| route.labels.object() == "web").unwrap()
}

/// The route of an Ingress with these annotations.
fn of_annotations(annotations: &[(&str, &str)]) -> BTreeMap<&'static str, String> {
    let beside = beside(annotations);
    let key = |name: &str| fields::of_annotation(name).unwrap().annotation_key();
    let annotations: Map<_, _> =
        annotations.iter().map(|(name, value)| (key(name), Value::from(*value))).collect();
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "web.test", "http": {"paths": [path]}}]},
    });
    let translation = load(&[ingress], beside);
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    aspects(&translation)
}

/// The route of an `HTTPRoute` with a policy that has the fields of these annotations. Some fields have no
/// effect without others.
fn of_fields(annotations: &[(&str, &str)], is_whole: bool) -> BTreeMap<&'static str, String> {
    let http_route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "web"},
        "spec": {
            "parentRefs": [{"name": "edge", "namespace": "shop"}],
            "hostnames": ["web.test"],
            "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
        },
    });
    let mut documents = vec![http_route];
    if !annotations.is_empty() {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "web"});
        let mut spec = json!({"targetRefs": [target]});
        for (name, text) in annotations {
            let Field { section, name, kind, .. } = fields::of_annotation(name).unwrap();
            spec[section.name][name] = kind.value_of(text).unwrap();
        }
        documents.push(json!({
            "apiVersion": "forebay.io/v1alpha1",
            "kind": "ForebayPolicy",
            "metadata": {"name": "web"},
            "spec": spec,
        }));
    }
    let translation = load(&documents, beside(annotations));
    assert!(!is_whole || translation.problems.is_empty(), "{:?}", translation.problems);
    aspects(&translation)
}

/// The handling of requests, in parts. The ids of clusters are left out, because they differ between models.
fn aspects(translation: &Translation) -> BTreeMap<&'static str, String> {
    let route = route(translation);
    let mut aspects = BTreeMap::new();
    let mut add = |name, value: &dyn std::fmt::Debug| {
        let mut text = String::new();
        let mut rest = format!("{value:?}");
        while let Some((before, after)) = rest.split_once("ClusterId(") {
            write!(text, "{before}ClusterId").unwrap();
            rest = after.split_once(')').unwrap().1.to_owned();
        }
        aspects.insert(name, text + &rest);
    };
    add("abuse", &route.abuse);
    add("access log", &route.access_log);
    add("tracing", &route.tracing);
    add("error pages", &route.error_pages);
    let access = route.access.as_deref().cloned().unwrap_or_default();
    add("firewall", &access.firewall);
    add("limits", &access.limits);
    add("quota", &access.quota);
    add("networks", &access.networks);
    add("keys", &access.api_keys);
    add("tokens", &access.jwt);
    add("passwords", &access.basic);
    add("sign-in", &(&access.oidc, &access.oidc_endpoints));
    add("auth service", &access.external);
    add("authorization", &access.ext_authz);
    add("processor", &access.processor);
    add("satisfy", &access.satisfy);
    add("closed", &access.unavailable);
    let is_page = |filter: &&RequestFilter| matches!(filter, RequestFilter::Maintenance(_));
    add("maintenance", &route.request_filters.as_slice().iter().find(is_page));
    let Action::Forward(forward) = &route.action else {
        add("action", &route.action);
        return aspects;
    };
    let check = |id| translation.model.cluster(id).health_check.clone();
    add("health checks", &forward.backends.clusters().map(check).collect::<Vec<_>>());
    add("timeouts", &forward.timeouts);
    add("retry", &forward.retry);
    add("bodies", &forward.body_bytes_max);
    add("connection", &forward.connection_header);
    add("head", &forward.head);
    add("transfer", &forward.transfer);
    add("cache", &forward.cache);
    add("overload", &forward.overload);
    add("priority", &forward.priority);
    add("fallback", &forward.fallback);
    aspects
}

#[test]
fn a_field_means_what_its_annotation_means() {
    for &(name, value, companions) in VALUES {
        let without: Vec<_> = companions.iter().copied().filter(|(other, _)| *other != name).collect();
        let with: Vec<_> = without.iter().copied().chain([(name, value)]).collect();
        let (before, after) = (of_fields(&without, false), of_fields(&with, true));
        let changed: Vec<_> =
            after.iter().filter(|(aspect, text)| before.get(*aspect) != Some(*text)).collect();
        assert!(!changed.is_empty(), "{name} changes nothing");
        let of_ingress = of_annotations(&with);
        for (aspect, text) in changed {
            assert_eq!(of_ingress.get(aspect), Some(text), "{name}: {aspect}");
        }
    }
}

#[test]
fn every_field_is_compared() {
    let compared: BTreeSet<_> =
        VALUES.iter().map(|(name, ..)| *name).chain(OF_REPLICAS.iter().copied()).collect();
    let all: BTreeSet<_> = fields::all().iter().map(|field| field.annotation.name).collect();
    assert_eq!(compared, all);
}

/// Users can copy the page's examples: each block of YAML loads without a problem, and is accepted.
#[test]
fn examples_of_the_page_load() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rule = |name: &str| json!({"name": name, "backendRefs": [{"name": "web", "port": 80}]});
    let rules = ["admin", "assets", "upload"].map(rule);
    let http_route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "parentRefs": [{"name": "edge"}],
            "hostnames": ["web.test"],
            "rules": rules,
        },
    });
    let mut count = 0;
    for block in page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let translation = load(std::slice::from_ref(&http_route), &format!("{block}---\n{USERS_OF_SHOP}"));
        assert!(translation.problems.is_empty(), "{block}: {:?}", translation.problems);
        let policies = &translation.gateway.policies;
        let conditions = policies.iter().flat_map(|policy| &policy.ancestors).flat_map(|one| &one.conditions);
        let accepted: Vec<_> = conditions.map(|condition| condition.is_true).collect();
        assert_eq!(accepted, [true], "{block}");
        count += 1;
    }
    assert_eq!(count, 11);
}
