//! Authorization by a service in Envoy's protocol (`forebay.io/ext-authz-url`), over gRPC or HTTP.
//!
//! An invalid setting closes the locations; none leaves them open.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{AppProtocol, AuthzBody, AuthzCheck, AuthzProtocol};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::auth::external;
use super::resolve::Fault;
use crate::problem::Reason;
use crate::translate::claim::{AuthService, AuthzDraft};
use crate::translate::header::{self, Side};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "ext-authz-allowed-headers", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.allowed_headers, some_headers(v))), ClosesLocations,
        "The client's headers that the service of `forebay.io/ext-authz-url` sees. Without it all over gRPC, and `Authorization` over HTTP, which is seen in any case.", Medium;
    "ext-authz-body-max", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.body_max, body_max(v))), ClosesLocations,
        "Bytes of the request's body that the service sees, `1m` at most; a longer body gets 413. Without it the service sees no body.";
    "ext-authz-body-partial", Location, "false", Supported(|s, v| set(&mut s.auth.ext_authz.sees_partial_body, value::boolean(v))), ClosesLocations,
        "Shows the service the beginning of a body that is longer than `forebay.io/ext-authz-body-max`.";
    "ext-authz-cache-key", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.cache_key, external::cache_key(v))), ClosesLocations,
        "Caches answers under this key for as long as their `Cache-Control` says, in gRPC that of the response's metadata.", Medium;
    "ext-authz-client-headers", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.client_headers, some_headers(v))), ClosesLocations,
        "Headers of an answer over HTTP that denies a request, for the client, beside `Location`, `WWW-Authenticate` and those about the content. Without it all.", Medium;
    "ext-authz-client-headers-on-success", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.client_headers_on_success, headers(v))), ClosesLocations,
        "Headers of an answer over HTTP that allows a request, for the client, such as `Set-Cookie`.", Medium;
    "ext-authz-context", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.context, context(v))), ClosesLocations,
        "Values for a service over gRPC, `NAME=VALUE` separated by commas: Envoy's `context_extensions`.", Medium;
    "ext-authz-fail-open", Location, "false", Supported(|s, v| set(&mut s.auth.ext_authz.fails_open, value::boolean(v))), ClosesLocations,
        "Lets requests in while the service gives no answer. The endpoint gets `x-envoy-auth-failure-mode-allowed: true` then.";
    "ext-authz-status-on-error", Location, "403", Supported(|s, v| set(&mut s.auth.ext_authz.status_on_error, status(v))), ClosesLocations,
        "Status for clients if the service gives no answer, from 400 to 599.";
    "ext-authz-timeout", Location, "200ms", Supported(|s, v| set(&mut s.auth.ext_authz.timeout, timeout(v))), ClosesLocations,
        "Time for the answer of the service, connecting to it included.";
    "ext-authz-upstream-headers", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.upstream_headers, some_headers(v))), ClosesLocations,
        "Headers that the service may set for the endpoint. A client can never set these itself. Without it all that an answer over gRPC names, and none over HTTP.", Medium;
    "ext-authz-url", Location, "", Supported(|s, v| set(&mut s.auth.ext_authz.url, external::url_text(v))), ClosesLocations,
        "Service that authorizes each request by Envoy's protocol `ext_authz`: `grpc://NAME.NAMESPACE.svc:PORT` or `grpcs://` for gRPC, `http://` or `https://` with a prefix of the path for HTTP.", High;
}

/// Name of the annotation with the service.
pub(super) const URL: &str = "ext-authz-url";

/// Bytes of bodies that services see at most: servers of gRPC take messages of 4 MiB.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// The statuses for clients if a service gives no answer.
const STATUSES: RangeInclusive<u16> = 400..=599;

/// The time for an answer that Envoy gives.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The annotations of authorization services.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    url: Option<String>,
    timeout: Duration,
    fails_open: bool,
    status_on_error: u16,
    allowed_headers: Option<Vec<String>>,
    upstream_headers: Option<Vec<String>>,
    client_headers: Option<Vec<String>>,
    client_headers_on_success: Vec<String>,
    /// None if the service sees no body.
    body_max: Option<u32>,
    sees_partial_body: bool,
    context: Vec<(String, String)>,
    cache_key: Option<Template>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: None,
            timeout: TIMEOUT,
            fails_open: false,
            status_on_error: 403,
            allowed_headers: None,
            upstream_headers: None,
            client_headers: None,
            client_headers_on_success: Vec::new(),
            body_max: None,
            sees_partial_body: false,
            context: Vec::new(),
            cache_key: None,
        }
    }
}

impl Settings {
    /// The service and the check; none if no service is asked.
    pub(super) fn draft(&self) -> Result<Option<AuthzDraft>, Fault> {
        let Some(url) = &self.url else { return Ok(None) };
        let bad = |why| (Reason::Annotation, why);
        let place = service(url).map_err(bad)?;
        if self.cache_key.is_some() && self.body_max.is_some() {
            let why = "forebay.io/ext-authz-cache-key cannot be used with forebay.io/ext-authz-body-max: no key tells bodies apart";
            return Err(bad(why.to_owned()));
        }
        let is_grpc = place.version == AppProtocol::Http2;
        let all_or = |headers: &Option<Vec<String>>| match headers {
            None if !is_grpc => Some(Vec::new()),
            headers => headers.clone(),
        };
        let protocol = if is_grpc {
            let AuthService { host, port, .. } = &place.service;
            AuthzProtocol::Grpc { authority: format!("{host}:{port}"), context: self.context.clone() }
        } else {
            AuthzProtocol::Http {
                prefix: place.prefix,
                client_headers: self.client_headers.clone(),
                client_headers_on_success: self.client_headers_on_success.clone(),
            }
        };
        let check = AuthzCheck {
            protocol,
            timeout: self.timeout,
            fails_open: self.fails_open,
            status_on_error: self.status_on_error,
            allowed_headers: all_or(&self.allowed_headers),
            body: self
                .body_max
                .map(|bytes_max| AuthzBody { bytes_max, allows_partial: self.sees_partial_body }),
            upstream_headers: all_or(&self.upstream_headers),
            cache_key: self.cache_key.clone(),
        };
        Ok(Some(AuthzDraft { service: place.service, version: place.version, check: Arc::new(check) }))
    }
}

/// The place of a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) service: AuthService,
    pub(super) version: AppProtocol,
    /// The text before the paths of requests, over HTTP.
    pub(super) prefix: String,
}

/// Parses the URL of a service.
pub(super) fn service(url: &str) -> Parsed<Place> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("{url:?} is no absolute URL"))?;
    let (version, of_http) = match scheme {
        "grpc" => (AppProtocol::Http2, "http"),
        "grpcs" => (AppProtocol::Http2, "https"),
        "http" | "https" => (AppProtocol::Http1, scheme),
        _ => return Err(format!("the scheme of {url:?} is none of grpc, grpcs, http and https")),
    };
    let (service, _) = external::parse_url(&format!("{of_http}://{rest}"))?;
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let prefix = path.trim_end_matches('/').to_owned();
    if version == AppProtocol::Http2 {
        let authority = rest.split('/').next().unwrap_or_default();
        if !authority.contains(':') {
            return Err(format!("{url:?} has no port"));
        }
        if !prefix.is_empty() {
            return Err(format!("{url:?} has a path, which a service over gRPC has not"));
        }
    }
    if prefix.contains(['?', '$', ' ', ',']) {
        return Err(format!("the path of {url:?} has a character that a prefix may not have"));
    }
    Ok(Place { service, version, prefix })
}

fn headers(text: &str) -> Parsed<Vec<String>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| header::name(item, Side::Request)).collect()
}

fn some_headers(text: &str) -> Parsed<Option<Vec<String>>> {
    headers(text).map(|headers| Some(headers).filter(|headers| !headers.is_empty()))
}

fn body_max(text: &str) -> Parsed<Option<u32>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let bytes = value::size(text)?;
    if bytes > BODY_BYTES_MAX {
        return Err(format!("{text:?} is more than 1m"));
    }
    Ok(u32::try_from(bytes).ok().filter(|bytes| *bytes > 0))
}

fn timeout(text: &str) -> Parsed<Duration> {
    let time = value::duration(text)?;
    if time.is_zero() { Err("a service has no time to answer".to_owned()) } else { Ok(time) }
}

fn status(text: &str) -> Parsed<u16> {
    let status = value::number(text.trim())?;
    if STATUSES.contains(&status) {
        Ok(status)
    } else {
        Err(format!("{status} is not from {} to {}", STATUSES.start(), STATUSES.end()))
    }
}

/// Parses pairs such as `tenant=a, tier=gold`.
fn context(text: &str) -> Parsed<Vec<(String, String)>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let pair = |item: &str| match item.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("{item:?} is not NAME=VALUE")),
    };
    items.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_how() {
        for (url, host, port, is_encrypted, version, prefix) in [
            ("grpc://Authz.auth.svc:9001", "authz.auth.svc", 9001, false, AppProtocol::Http2, ""),
            ("grpc://authz.auth.svc:9001/", "authz.auth.svc", 9001, false, AppProtocol::Http2, ""),
            ("grpcs://authz.test:443", "authz.test", 443, true, AppProtocol::Http2, ""),
            (
                "http://a.b.svc.cluster.local/check/",
                "a.b.svc.cluster.local",
                80,
                false,
                AppProtocol::Http1,
                "/check",
            ),
            ("https://authz.test", "authz.test", 443, true, AppProtocol::Http1, ""),
        ] {
            let service = AuthService { host: host.to_owned(), port, is_encrypted };
            assert_eq!(
                super::service(url),
                Ok(Place { service, version, prefix: prefix.to_owned() }),
                "{url}"
            );
        }
        for url in [
            "authz.auth.svc:9001",
            "h2c://a:1",
            "grpc://a.b.svc",
            "grpc://a.b.svc:1/path",
            "grpc://$host:1",
            "http://a/?b",
            "http://a/$uri",
            "grpc://:1",
        ] {
            assert!(super::service(url).is_err(), "{url}");
        }
    }

    #[test]
    fn values_have_bounds() {
        assert_eq!(body_max("8k"), Ok(Some(8192)));
        assert_eq!(body_max("0"), Ok(None));
        assert!(body_max("2m").is_err() && body_max("x").is_err());
        assert_eq!(timeout("200ms"), Ok(Duration::from_millis(200)));
        assert!(timeout("0").is_err());
        assert_eq!(status("503"), Ok(503));
        assert!(status("302").is_err() && status("600").is_err());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(context("a=1, b=x=y,"), Ok(vec![pair("a", "1"), pair("b", "x=y")]));
        assert!(context("a").is_err() && context("=b").is_err());
        assert!(headers("X-User, Host").is_err());
    }

    #[test]
    fn nothing_is_told_apart_by_a_body() {
        let settings = Settings {
            url: Some("grpc://a.b.svc:1".to_owned()),
            body_max: Some(1),
            cache_key: external::cache_key("$remote_addr").unwrap(),
            ..Settings::default()
        };
        assert!(settings.draft().is_err());
        assert!(Settings { body_max: None, ..settings }.draft().is_ok());
    }
}
