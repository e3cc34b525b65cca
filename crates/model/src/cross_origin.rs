//! Cross-origin resource sharing as the Gateway API has it (`HTTPCORSFilter`, GEP-1767).
//! [`Cors`](crate::Cors) is ingress-nginx's.

use serde::Serialize;

use crate::{HeadText, InvalidHeadText};

/// Cross-origin resource sharing as the Gateway API defines it: which origins may use a route, and with which
/// methods and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CrossOrigin {
    /// The origins that may use the route.
    pub origins: Vec<OriginPattern>,
    /// Whether requests may carry credentials.
    pub credentials: bool,
    /// Methods that are allowed.
    pub methods: Allowed,
    /// Request headers that are allowed.
    pub headers: Allowed,
    /// Response headers that scripts may read.
    pub expose: Allowed,
    /// Seconds for which a browser may cache the answer to a preflight.
    pub max_age: u32,
}

/// The values that a header of CORS lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Allowed {
    /// The header is not sent.
    #[default]
    Unsaid,
    /// All values: `*`.
    Any,
    /// These, as the header's value: `GET, PUT`.
    Listed(HeadText),
}

/// Origins that are allowed, such as `https://a.test:8443`. A `*` in the host stands for any number of
/// characters, dots included: the host `*` is every host, and the origin `*` every origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginPattern {
    text: Box<str>,
}

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin: '*', or http:// or https:// with a host and perhaps a port")]
pub struct InvalidOrigin(String);

impl Allowed {
    /// The values of a list, of which `*` stands for all.
    ///
    /// # Errors
    ///
    /// An entry is not a valid header value.
    pub fn of<T: AsRef<str>>(list: &[T]) -> Result<Self, InvalidHeadText> {
        let names: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
        Ok(match names.as_slice() {
            [] => Self::Unsaid,
            names if names.contains(&"*") => Self::Any,
            names => Self::Listed(HeadText::new(&names.join(", "))?),
        })
    }
}

impl CrossOrigin {
    /// Whether an `Origin` as sent is allowed.
    pub fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|pattern| pattern.takes(origin))
    }
}

impl OriginPattern {
    /// Reads an origin, or a pattern of origins.
    ///
    /// # Errors
    ///
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid = || InvalidOrigin(text.to_owned());
        let pattern = Self { text: text.to_ascii_lowercase().into() };
        if text == "*" {
            return Ok(pattern);
        }
        let (scheme, rest) = pattern.text.split_once("://").ok_or_else(invalid)?;
        let (host, port) = split_port(rest);
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*[]:".contains(&byte);
        if !matches!(scheme, "http" | "https")
            || host.is_empty()
            || !host.bytes().all(is_of_host)
            || !port.is_none_or(is_port)
        {
            return Err(invalid());
        }
        Ok(pattern)
    }

    /// Whether an `Origin` as sent matches. The letter case of scheme and host does not count; a port that is
    /// the scheme's own is the same as none.
    pub fn takes(&self, origin: &[u8]) -> bool {
        if &*self.text == "*" {
            return true;
        }
        let Ok(origin) = std::str::from_utf8(origin) else { return false };
        let origin = origin.to_ascii_lowercase();
        let (Some((scheme, rest)), Some((own_scheme, own_rest))) =
            (origin.split_once("://"), self.text.split_once("://"))
        else {
            return false;
        };
        let ((host, port), (own_host, own_port)) = (split_port(rest), split_port(own_rest));
        let usual = if own_scheme == "https" { "443" } else { "80" };
        scheme == own_scheme
            && port.unwrap_or(usual) == own_port.unwrap_or(usual)
            && matches(own_host.as_bytes(), host.as_bytes())
    }
}

/// Splits off the port. The colons of an IPv6 literal stand within brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Whether a text matches a pattern in which each `*` stands for at least one character. Where the part
/// behind a star does not match, the last star is extended by one character, so that matching costs at most
/// the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut in_pattern, mut in_text) = (0, 0);
    // Where pattern and text go on after the last star.
    let mut after_star = None;
    while in_text < text.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => after_star = Some((in_pattern + 1, in_text + 1)),
            Some(byte) if *byte == text[in_text] => {}
            _ => {
                let Some((pattern_then, text_then)) = after_star else { return false };
                (in_pattern, in_text) = (pattern_then, text_then + 1);
                after_star = Some((in_pattern, in_text));
                continue;
            }
        }
        (in_pattern, in_text) = (in_pattern + 1, in_text + 1);
    }
    in_pattern == pattern.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(pattern: &str, origin: &str) -> bool {
        OriginPattern::parse(pattern).unwrap().takes(origin.as_bytes())
    }

    #[test]
    fn origins_match_as_the_gateway_api_says() {
        for (pattern, origin, expected) in [
            ("https://www.foo.com", "https://www.foo.com", true),
            ("https://www.foo.com", "HTTPS://WWW.foo.com:443", true),
            ("http://www.foo.com:80", "http://www.foo.com", true),
            ("https://www.foo.com", "http://www.foo.com", false),
            ("https://www.foo.com", "https://www.foo.com:8443", false),
            ("https://*.bar.com", "https://www.bar.com", true),
            ("https://*.bar.com", "https://xpto.www.bar.com", true),
            ("https://*.bar.com", "https://bar.com", false),
            ("https://*.bar.com", "https://.bar.com", false),
            ("https://*.bar.com", "https://www.bar.com.evil", false),
            ("https://*", "https://a.b", true),
            ("https://*", "https://a.b:8443", false),
            ("http://*:8080", "http://a:8080", true),
            ("*", "https://foobar.com:12345", true),
            ("*", "null", true),
            ("https://a", "null", false),
            ("http://[::1]:80", "http://[::1]", true),
        ] {
            assert_eq!(takes(pattern, origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in
            ["", "a", "ftp://a", "https://", "https://a/b", "https://a:0", "https://a:b", "https://a b"]
        {
            assert!(OriginPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_star_in_a_list_stands_for_all() {
        assert_eq!(Allowed::of::<&str>(&[]), Ok(Allowed::Unsaid));
        assert_eq!(Allowed::of(&["GET", "PUT"]), HeadText::new("GET, PUT").map(Allowed::Listed));
        assert_eq!(Allowed::of(&["*"]), Ok(Allowed::Any));
        assert!(Allowed::of(&["GET", "A\r\nX-Injected: 1"]).is_err());
    }
}
