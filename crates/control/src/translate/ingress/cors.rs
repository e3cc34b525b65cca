//! Cross-origin resource sharing (CORS).

use std::sync::Arc;

use model::{Cors, Origin, Origins};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "cors-allow-credentials", Ingress, "true", Supported(|s, v| set(&mut s.cors.cors.credentials, value::boolean(v))),
        "Access-Control-Allow-Credentials.";
    "cors-allow-headers", Ingress, "", Supported(|s, v| set(&mut s.cors.cors.headers, names(v))),
        "Access-Control-Allow-Headers.", Medium;
    "cors-allow-methods", Ingress, "GET, PUT, POST, DELETE, PATCH, OPTIONS", Supported(|s, v| set(&mut s.cors.cors.methods, methods(v))),
        "Access-Control-Allow-Methods.", Medium;
    "cors-allow-origin", Ingress, "*", Supported(allow_origin), "Origins that are allowed.", Medium;
    "cors-expose-headers", Ingress, "", Supported(|s, v| set(&mut s.cors.cors.expose, exposed(v).map(Some))),
        "Access-Control-Expose-Headers.", Medium;
    "cors-max-age", Ingress, "1728000", Supported(|s, v| set(&mut s.cors.cors.max_age, value::number::<i64>(v).map(|age| age.to_string()))),
        "Access-Control-Max-Age.";
    "enable-cors", Ingress, "false", Supported(|s, v| set(&mut s.cors.is_enabled, value::boolean(v))),
        "Answers preflight requests and adds CORS headers.";
}

/// Settings of CORS.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    is_enabled: bool,
    cors: Cors,
}

impl Default for Settings {
    fn default() -> Self {
        let cors = Cors {
            origins: Origins::Any,
            credentials: true,
            methods: "GET, PUT, POST, DELETE, PATCH, OPTIONS".to_owned(),
            headers:
                "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,\
                      Range,Authorization"
                    .to_owned(),
            max_age: "1728000".to_owned(),
            expose: None,
        };
        Self { is_enabled: false, cors }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.cors = settings.is_enabled.then(|| Arc::new(settings.cors.clone()));
}

fn methods(text: &str) -> Parsed<String> {
    listed(text, |byte| byte.is_ascii_alphabetic())
}

fn names(text: &str) -> Parsed<String> {
    listed(text, |byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Parses names of headers, or `*` for all.
fn exposed(text: &str) -> Parsed<String> {
    listed(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*'))
}

/// Parses a list that becomes the unchanged value of a header.
fn listed(text: &str, is_allowed: impl Fn(u8) -> bool) -> Parsed<String> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| is_allowed(byte) || byte == b',' || byte == b' ') {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no list of names"))
    }
}

/// Reads the origins. "Entries without scheme are skipped; a `*` within a list, or a list with other
/// characters, stands for all origins."
fn allow_origin(settings: &mut super::Settings, text: &str) -> Applied {
    let (mut origins, mut skipped) = (Vec::new(), Vec::new());
    for item in value::list(text) {
        match origin(&item) {
            _ if item == "*" => {
                settings.cors.cors.origins = Origins::Any;
                return Ok(None);
            }
            Some(origin) => origins.push(origin),
            None if item.bytes().all(is_of_origin) => skipped.push(item),
            None => {
                return Err(format!(
                    "{item:?} is no origin such as https://a.test, so that every origin is allowed"
                ));
            }
        }
    }
    if origins.is_empty() && skipped.is_empty() {
        return Err("there is no origin in the list".to_owned());
    }
    settings.cors.cors.origins = Origins::Listed(origins.into());
    Ok((!skipped.is_empty()).then(|| format!("ignored, since they have no scheme: {}", skipped.join(", "))))
}

fn origin(text: &str) -> Option<Origin> {
    let (scheme, host) = text.split_once("://")?;
    let is_wildcard = host.starts_with("*.");
    let rest = host.strip_prefix('*').filter(|_| is_wildcard).unwrap_or(host);
    let (name, port) = rest.split_once(':').unwrap_or((rest, "0"));
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_good = is_scheme && is_port && !name.is_empty() && name.bytes().all(is_of_origin);
    is_good.then(|| Origin { scheme: format!("{scheme}://"), is_wildcard, rest: rest.to_owned() })
}

/// Whether a name of a host may have this character.
fn is_of_origin(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(text: &str) -> (Applied, Origins) {
        let mut settings = crate::translate::ingress::Settings::default();
        let taken = allow_origin(&mut settings, text);
        (taken, settings.cors.cors.origins)
    }

    #[test]
    fn lists_of_origins() {
        let (taken, listed) = origins("https://a.test, http://*.b.test:81 ,c.test");
        assert!(taken.unwrap().unwrap().contains("c.test"));
        let Origins::Listed(listed) = listed else { panic!("{listed:?}") };
        let (scheme, rest) = ("http://".to_owned(), ".b.test:81".to_owned());
        assert_eq!(listed[1], Origin { scheme, is_wildcard: true, rest });
        assert_eq!(origins("c.test").1, Origins::Listed(Box::default()), "nobody");
        assert_eq!(origins("https://a.test,*").1, Origins::Any);
        for text in
            ["https://a.test/", "https://a.*.test", "https://a test", "https://*", "a:b", "Https://a", ""]
        {
            assert!(origins(text).0.is_err(), "{text}");
        }
    }

    #[test]
    fn lists_of_names_cannot_end_a_header() {
        assert_eq!(names(" X-A, x_b ").unwrap(), "X-A, x_b");
        assert!(
            names("a\r\nb: c").is_err()
                && methods("GET;").is_err()
                && names("*").is_err()
                && exposed("*").is_ok()
        );
    }
}
