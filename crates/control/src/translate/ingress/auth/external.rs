//! Authentication by an external service (`auth-url`, `global-auth-url`).
//!
//! An invalid setting either has its default, or closes the locations; none leaves them open.

use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{AuthScript, ExternalAuthCache, ExternalCheck};

use super::super::resolve::{Context, Fault};
use crate::problem::Reason;
use crate::translate::claim::{AuthOfHost, AuthPlace, AuthService, ExternalDraft};
use crate::translate::header::{self, Side};
use crate::translate::value::{self, Parsed};

/// The annotations `auth-*`, or the keys `global-auth-*`. Those that only have an effect with a URL are kept
/// as texts.
#[derive(Clone, Debug)]
pub(in crate::translate) struct External {
    pub(in crate::translate) url: Option<String>,
    pub(in crate::translate) method: Option<String>,
    pub(in crate::translate) signin: Option<String>,
    pub(in crate::translate) signin_param: String,
    pub(in crate::translate) response_headers: String,
    pub(in crate::translate) request_redirect: Option<Template>,
    pub(super) proxy_set_headers: Option<String>,
    pub(in crate::translate) cache_key: Option<Template>,
    pub(in crate::translate) cache_duration: String,
    pub(in crate::translate) always_set_cookie: bool,
    /// Changes of the subrequest by a snippet.
    pub(in crate::translate) script: Option<Arc<AuthScript>>,
    /// Variables of snippets, each with the response header of the auth service that gives its value.
    pub(super) variables: Vec<(Arc<str>, String)>,
}

impl Default for External {
    fn default() -> Self {
        Self {
            url: None,
            method: None,
            signin: None,
            signin_param: "rd".to_owned(),
            response_headers: String::new(),
            request_redirect: None,
            proxy_set_headers: None,
            cache_key: None,
            cache_duration: "200 202 401 5m".to_owned(),
            always_set_cookie: false,
            script: None,
            variables: Vec::new(),
        }
    }
}

/// The reason for closing the locations, with the name of the annotation without its prefix.
type Faulty = (&'static str, Fault);

const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"];

impl External {
    /// The service and the check.
    pub(super) fn draft(&self, context: &Context<'_, '_>) -> Result<ExternalDraft, Faulty> {
        let bad = |name| move |why| (name, (Reason::Annotation, why));
        let url = self.url.as_deref().unwrap_or_default();
        let (place, host, target) = parse_place(url).map_err(bad("auth-url"))?;
        let method = self.method.clone().map(method).transpose().map_err(bad("auth-method"))?;
        let response_headers = header_names(&self.response_headers).map_err(bad("auth-response-headers"))?;
        let durations = durations(&self.cache_duration).map_err(bad("auth-cache-duration"))?;
        let cache = self.cache_key.clone().map(|key| ExternalAuthCache { key, durations });
        let request_headers = self.request_headers(context)?;
        let check = ExternalCheck {
            host,
            target,
            method,
            redirect: self.request_redirect.clone(),
            request_headers,
            response_headers,
            variables: self.variables.clone(),
            signin: self.signin.as_ref().and_then(|url| signin_url(url, &self.signin_param).ok()),
            always_set_cookie: self.always_set_cookie,
            cache,
            script: self.script.clone(),
        };
        Ok(ExternalDraft { place, check: Arc::new(check) })
    }

    fn request_headers(&self, context: &Context<'_, '_>) -> Result<Vec<(String, Template)>, Faulty> {
        const NAME: &str = "auth-proxy-set-headers";
        let Some(name) = &self.proxy_set_headers else { return Ok(Vec::new()) };
        let configmap = context.configmap(name).map_err(|fault| (NAME, fault))?;
        let headers = configmap.data.iter().map(|(header, value)| {
            let header = header::name(header, Side::Request)?;
            Ok((header, header::template(&value.value)?))
        });
        headers
            .collect::<Parsed<_>>()
            .map_err(|why| (NAME, (Reason::Invalid, format!("ConfigMap {}: {why}", configmap.key()))))
    }
}

/// The text of a URL, which may contain variables, with the characters that ingress-nginx allows.
pub(in crate::translate::ingress) fn url_text(text: &str) -> Parsed<Option<String>> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the URL is empty".to_owned());
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,?&=$ ".contains(&byte);
    match text.bytes().find(|&byte| !is_allowed(byte)) {
        None => Ok(Some(text.to_owned())),
        Some(byte) => {
            Err(format!("{text:?} has the character {:?}, which ingress-nginx does not allow", byte as char))
        }
    }
}

/// The text of a URL as [`url_text`] reads it, for a key of the `ConfigMap`.
pub(in crate::translate) fn global_url(text: &str) -> Parsed<Option<String>> {
    let is_fit = |text: &str| url_text(text).is_ok() && parse_place(text).is_ok();
    if is_fit(text) { url_text(text) } else { Err(format!("{text:?} is no URL that can be asked")) }
}

pub(in crate::translate) fn signin(text: &str) -> Parsed<Option<String>> {
    let url = url_text(text)?;
    signin_url(url.as_deref().unwrap_or_default(), "rd")?;
    Ok(url)
}

pub(in crate::translate) fn parameter(text: &str) -> Parsed<String> {
    let text = text.trim();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no name of a parameter"))
    }
}

pub(in crate::translate) fn optional_template(text: &str) -> Parsed<Option<Template>> {
    url_text(text)?;
    template(text.trim()).map(Some)
}

pub(in crate::translate) fn cache_key(text: &str) -> Parsed<Option<Template>> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_${} ".contains(&byte);
    if text.trim().is_empty() || !text.bytes().all(is_allowed) {
        return Err(format!("{text:?} is no text with variables"));
    }
    template(text.trim()).map(Some)
}

fn template(text: &str) -> Parsed<Template> {
    Template::parse(text).map_err(|error| error.to_string())
}

/// The URL of the sign-in page. "401 → 302 to `<url>?rd=<scheme>://<Host as sent><escaped uri>`; `&rd=` if it
/// has a query; nothing if `rd` is there already."
fn signin_url(url: &str, parameter: &str) -> Parsed<Template> {
    let way_back = "$pass_access_scheme://$http_host$escaped_request_uri";
    let text = match url.split_once('?') {
        None => format!("{url}?{parameter}={way_back}"),
        Some((_, query)) if query.split('&').any(|one| one.split('=').next() == Some(parameter)) => {
            url.to_owned()
        }
        Some(_) => format!("{url}&{parameter}={way_back}"),
    };
    template(&text)
}

fn method(text: String) -> Parsed<String> {
    if METHODS.contains(&text.as_str()) { Ok(text) } else { Err(format!("{text:?} is no method")) }
}

fn header_names(text: &str) -> Parsed<Vec<String>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| header::name(item, Side::Request)).collect()
}

/// Parses statuses with a time, separated by commas from others. nginx applies a time without statuses to
/// 200, 301 and 302.
fn durations(text: &str) -> Parsed<Vec<(Vec<u16>, Duration)>> {
    text.split(',')
        .map(|item| {
            let mut words: Vec<&str> = item.split_whitespace().collect();
            let time = value::duration(words.pop().unwrap_or_default())?;
            let statuses = match words.as_slice() {
                [] => vec![200, 301, 302],
                ["any"] => Vec::new(),
                words => words.iter().map(|word| status(word)).collect::<Parsed<_>>()?,
            };
            Ok((statuses, time))
        })
        .collect()
}

fn status(text: &str) -> Parsed<u16> {
    let status = value::number(text).ok().filter(|status| (100..600).contains(status));
    status.ok_or_else(|| format!("{text:?} is no status"))
}

/// The place of a URL's service, the value of `Host` for it, and path and query.
fn parse_place(url: &str) -> Parsed<(AuthPlace, Template, Template)> {
    let (is_encrypted, authority, target) = split_url(url)?;
    if !authority.contains('$') {
        let (service, target) = parse_url(url)?;
        let host = template(&service.host)?;
        return Ok((AuthPlace::Known(service), host, target));
    }
    let (host, port) = host_and_port(authority, is_encrypted)?;
    let host = template(host)?;
    let path = target.split('?').next().unwrap_or_default();
    let path = Some(path).filter(|path| !path.contains('$')).map(absolute);
    let of_host = AuthOfHost { host: host.clone(), port, is_encrypted, path };
    Ok((AuthPlace::OfHost(of_host), host, template(&absolute(target))?))
}

/// Splits an absolute URL with a constant host: the service, and path and query.
pub(in crate::translate) fn parse_url(url: &str) -> Parsed<(AuthService, Template)> {
    let (is_encrypted, authority, target) = split_url(url)?;
    if authority.contains('$') {
        return Err(
            "the host holds variables, so that nobody can say whom the request would go to".to_owned()
        );
    }
    let (host, port) = host_and_port(authority, is_encrypted)?;
    if !AuthService::is_host(host) {
        return Err(format!("{host:?} is no host"));
    }
    let service = AuthService { host: host.to_ascii_lowercase(), port, is_encrypted };
    Ok((service, template(&absolute(target))?))
}

/// Splits a URL: whether it is encrypted, host and port, path and query.
fn split_url(url: &str) -> Parsed<(bool, &str, &str)> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("{url:?} is no absolute URL"))?;
    let is_encrypted = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(format!("the scheme of {url:?} is neither http nor https")),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    Ok((is_encrypted, authority, target))
}

fn host_and_port(authority: &str, is_encrypted: bool) -> Parsed<(&str, u16)> {
    let (host, port) =
        authority.split_once(':').unwrap_or((authority, if is_encrypted { "443" } else { "80" }));
    let port = port.parse::<u16>().ok().filter(|&port| port > 0);
    let port = port.ok_or_else(|| format!("{authority:?} has no port that can be connected to"))?;
    Ok((host, port))
}

fn absolute(target: &str) -> String {
    if target.starts_with('/') { target.to_owned() } else { format!("/{target}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NsName;

    #[test]
    fn urls_are_taken_apart() {
        let (service, target) = parse_url("http://Auth.ns.svc.cluster.local:8080/check?a=$host").unwrap();
        assert_eq!((service.host.as_str(), service.port), ("auth.ns.svc.cluster.local", 8080));
        assert_eq!(service.service(), Some(NsName::new("ns", "auth")));
        assert_eq!(target, Template::parse("/check?a=$host").unwrap());
        let (service, target) = parse_url("https://auth.test?x").unwrap();
        assert_eq!((service.port, service.is_encrypted, service.service()), (443, true, None));
        assert_eq!(target, Template::parse("/?x").unwrap());
        for url in [
            "/check",
            "ftp://a/",
            "http:///x",
            "http://a..b/",
            "http://$host/",
            "http://a:$p/",
            "http://a:0/",
            "http://a:b",
        ] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_way_back_is_added_once() {
        let text = |url| signin_url(url, "rd").unwrap();
        let parse = |text: &str| Template::parse(text).unwrap();
        let back = "$pass_access_scheme://$http_host$escaped_request_uri";
        assert_eq!(text("https://a/s"), parse(&format!("https://a/s?rd={back}")));
        assert_eq!(text("https://a/s?x=1"), parse(&format!("https://a/s?x=1&rd={back}")));
        assert_eq!(text("https://a/s?rd=$uri"), parse("https://a/s?rd=$uri"));
    }

    #[test]
    fn answers_are_kept_by_status() {
        assert_eq!(durations("200 202 401 5m").unwrap(), [(vec![200, 202, 401], Duration::from_mins(5))]);
        assert_eq!(durations("1s, any 0s").unwrap()[0].0, [200, 301, 302]);
        for text in ["", "200 abc", "99 1s", "200 1s,"] {
            assert!(durations(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_of_the_connection_cannot_be_set() {
        assert_eq!(header_names("X-User, x_b,").unwrap(), ["X-User", "x_b"]);
        assert!(header_names("X-User, Transfer-Encoding").is_err() && header_names("a b").is_err());
    }
}
