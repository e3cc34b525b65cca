//! Settings that hold for all requests of an Ingress and have a field in rules: filters and session
//! persistence.
//!
//! Never in here: redirects, paths and backends.

use super::annotations::Annotations;
use super::document::{all, at};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::At;
use crate::objects::gateway_api::{
    CookieConfig, CookieLifetime, Cors, Filter, FilterType, Fraction, Header, HeaderModifier,
    ObjectReference, PathModifier, RequestMirror, SessionPersistence, SessionType, UrlRewrite,
};
use crate::problem::Severity;
use crate::translate::ingress::mirror_share;

const CORS: &[&str] = &[
    "cors-allow-credentials",
    "cors-allow-headers",
    "cors-allow-methods",
    "cors-allow-origin",
    "cors-expose-headers",
    "cors-max-age",
];

/// The CORS defaults of ingress-nginx.
const CORS_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";
const CORS_METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const CORS_MAX_AGE: u32 = 1_728_000;

/// Settings of session cookies that the Gateway API cannot express.
const COOKIE: &[&str] = &[
    "affinity-mode",
    "affinity-canary-behavior",
    "session-cookie-change-on-failure",
    "session-cookie-conditional-samesite-none",
    "session-cookie-domain",
    "session-cookie-samesite",
    "session-cookie-secure",
];

/// The parts that all rules of an Ingress have in common.
#[derive(Default)]
pub(super) struct Common {
    /// The filters, without the one for paths and hosts.
    pub(super) filters: Vec<Filter>,
    /// The `Host` header for backends.
    pub(super) host: Option<String>,
    /// The value of `X-Forwarded-Prefix`, if a path is rewritten.
    pub(super) forwarded_prefix: Option<String>,
    pub(super) session: Option<SessionPersistence>,
    pub(super) remarks: Vec<String>,
    /// The Service of another namespace that gets copies of requests.
    pub(super) mirrored: Option<NsName>,
}

impl Common {
    /// Reads the common settings of an Ingress.
    pub(super) fn read(annotations: &Annotations<'_>, index: &Index) -> Self {
        let mut common = Self::default();
        let is_literal = |text: &&str| !text.contains('$');
        common.forwarded_prefix =
            annotations.text("x-forwarded-prefix").filter(is_literal).map(str::to_owned);
        if annotations.text("x-forwarded-prefix").is_some_and(|text| !is_literal(&text)) {
            let message = "filters of the Gateway API have no variables; it is ignored";
            common.remarks.push(annotations.lose(Severity::Warning, "x-forwarded-prefix", message));
        }
        if let Some(headers) = common.custom_headers(annotations, index) {
            common.filters.push(headers);
        }
        common.filters.extend(cors(annotations));
        common.mirror(annotations);
        common.session(annotations);
        common
    }

    /// The filters of a rule with this change of the path.
    pub(super) fn filters_with(&self, path: Option<PathModifier>, is_rewritten: bool) -> Vec<At<Filter>> {
        let mut filters = Vec::new();
        let hostname = self.host.as_deref().map(Into::into);
        if path.is_some() || hostname.is_some() {
            let url_rewrite = Some(Box::new(UrlRewrite { hostname, path }));
            filters.push(Filter { kind: FilterType::URLRewrite, url_rewrite, ..Filter::default() });
        }
        if let Some(prefix) = self.forwarded_prefix.as_deref().filter(|_| is_rewritten) {
            let set = vec![Header { name: "X-Forwarded-Prefix".into(), value: prefix.into() }];
            let changes = Some(Box::new(HeaderModifier { set, ..HeaderModifier::default() }));
            filters.push(Filter {
                kind: FilterType::RequestHeaderModifier,
                request_header_modifier: changes,
                ..Filter::default()
            });
        }
        filters.extend(self.filters.iter().cloned());
        all(filters)
    }

    fn custom_headers(&mut self, annotations: &Annotations<'_>, index: &Index) -> Option<Filter> {
        let name = annotations.text("custom-headers")?;
        let found = name.parse::<NsName>().ok().and_then(|key| index.configmaps.get(&key));
        let Some(configmap) = found else {
            let message =
                format!("ConfigMap {name} is not among the objects that were read; its headers are ignored");
            self.remarks.push(annotations.lose(Severity::Warning, "custom-headers", &message));
            return None;
        };
        let headers = configmap.data.iter();
        let set = headers
            .map(|(name, value)| Header { name: name.as_str().into(), value: value.value.trim().into() });
        let changes = Some(Box::new(HeaderModifier { set: set.collect(), ..HeaderModifier::default() }));
        let kind = FilterType::ResponseHeaderModifier;
        Some(Filter { kind, response_header_modifier: changes, ..Filter::default() })
    }

    fn mirror(&mut self, annotations: &Annotations<'_>) {
        let Some(target) = annotations.text("mirror-target") else {
            annotations.pass_over(&["mirror-host", "mirror-request-body", "mirror-share"]);
            return;
        };
        let lose = |name: &str, message: &str| annotations.lose(Severity::Warning, name, message);
        let Some((service, port)) = service_of(target) else {
            let message = format!("{target} is no Service with the path of the request; no copies are sent");
            self.remarks.push(lose("mirror-target", &message));
            annotations.pass_over(&["mirror-host", "mirror-request-body", "mirror-share"]);
            return;
        };
        match annotations.text("mirror-host") {
            Some("$host" | "$http_host") => {}
            _ => self
                .remarks
                .push(lose("mirror-target", "copies have the host of the request, not that of the target")),
        }
        if annotations.text("mirror-request-body") == Some("off") {
            self.remarks.push(lose("mirror-request-body", "copies have the body of the request"));
        }
        let is_own = service.namespace == annotations.ingress.namespace();
        let backend_ref = ObjectReference {
            name: service.name.as_str().into(),
            namespace: (!is_own).then(|| service.namespace.as_str().into()),
            port: Some(port),
            ..ObjectReference::default()
        };
        let parts = annotations.text("mirror-share").and_then(|text| mirror_share::parts(text).ok());
        let fraction = parts
            .filter(|parts| *parts < mirror_share::WHOLE)
            .map(|numerator| Fraction { numerator, denominator: Some(mirror_share::WHOLE) });
        let request_mirror = Some(Box::new(RequestMirror { backend_ref, percent: None, fraction }));
        self.filters.push(Filter { kind: FilterType::RequestMirror, request_mirror, ..Filter::default() });
        self.mirrored = Some(service).filter(|_| !is_own);
    }

    fn session(&mut self, annotations: &Annotations<'_>) {
        let is_on = annotations.text("affinity") == Some("cookie");
        let name = annotations.text("session-cookie-name").unwrap_or("INGRESSCOOKIE");
        let age = annotations.number::<u64>("session-cookie-max-age");
        let age = age.or(annotations.number("session-cookie-expires")).filter(|age| *age > 0);
        let lost: Vec<_> = COOKIE.iter().filter(|name| annotations.text(name).is_some()).collect();
        if !is_on {
            return;
        }
        for name in lost {
            let message = "sessionPersistence of the Gateway API cannot say it";
            self.remarks.push(annotations.lose(Severity::Warning, name, message));
        }
        let lifetime_type = if age.is_some() { CookieLifetime::Permanent } else { CookieLifetime::Session };
        let path = annotations.text("session-cookie-path").map(Into::into);
        self.session = Some(SessionPersistence {
            absolute_timeout: age.map(|age| duration(age).into()),
            kind: SessionType::Cookie,
            cookie: Some(CookieConfig { name: Some(name.into()), path, lifetime_type }),
            ..SessionPersistence::default()
        });
    }
}

/// Seconds as a duration of the Gateway API, whose numbers have five digits at most.
fn duration(seconds: u64) -> String {
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let mut text = String::new();
    for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
        text += &number.to_string();
        text += unit;
    }
    text
}

/// The CORS filter. In ingress-nginx, `*` allows all origins with the header `*`, and browsers never send
/// credentials to such a response. The Gateway API would name the origin, and with credentials would let
/// every site act for its visitors.
fn cors(annotations: &Annotations<'_>) -> Option<Filter> {
    let is_on = annotations.is_on("enable-cors");
    annotations.pass_over(CORS);
    if !is_on {
        return None;
    }
    let list = |name: &str, default: &str| -> Vec<Box<str>> {
        let text = annotations.text(name).unwrap_or(default);
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Into::into).collect()
    };
    let origins = list("cors-allow-origin", "*");
    let is_any = origins.iter().any(|origin| **origin == *"*");
    let listed: Vec<Box<str>> = origins.iter().filter(|origin| origin.contains("://")).cloned().collect();
    let credentials = annotations.boolean("cors-allow-credentials").unwrap_or(true) && !is_any;
    let cors = Cors {
        allow_origins: if is_any { vec!["*".into()] } else { listed },
        allow_credentials: Some(credentials),
        allow_methods: list("cors-allow-methods", CORS_METHODS),
        allow_headers: list("cors-allow-headers", CORS_HEADERS),
        expose_headers: list("cors-expose-headers", ""),
        max_age: Some(annotations.number("cors-max-age").unwrap_or(CORS_MAX_AGE)),
    };
    Some(Filter { kind: FilterType::CORS, cors: Some(Box::new(cors)), ..Filter::default() })
}

/// The Service of a URL that ends with the path and the query of the request:
/// `http://name.namespace.svc.cluster.local$request_uri`.
fn service_of(url: &str) -> Option<(NsName, u16)> {
    let rest = url.strip_prefix("http://")?;
    let end = rest.find(['/', '$']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !matches!(path, "" | "/" | "$request_uri") {
        return None;
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, "80"));
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    let rest: Vec<_> = labels.collect();
    let is_service = matches!(rest.as_slice(), [] | ["svc"] | ["svc", "cluster", "local"]);
    let key = NsName::new(namespace, name);
    is_service.then_some(key).zip(port.parse().ok())
}

/// A backend of the core group.
pub(super) fn backend(
    name: &str,
    port: u16,
    weight: Option<u32>,
) -> At<crate::objects::gateway_api::BackendRef> {
    let name = name.into();
    at(crate::objects::gateway_api::BackendRef { name, port: Some(port), weight, ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_in_urls() {
        let key = |url| service_of(url).map(|(key, port)| format!("{key}:{port}"));
        assert_eq!(key("http://a.b.svc.cluster.local$request_uri").as_deref(), Some("b/a:80"));
        assert_eq!(key("http://a.b:81").as_deref(), Some("b/a:81"));
        for url in ["https://a.b.svc", "http://example.com.test/x", "http://a", "http://a.b.svc/x"] {
            assert_eq!(key(url), None, "{url}");
        }
    }
}
