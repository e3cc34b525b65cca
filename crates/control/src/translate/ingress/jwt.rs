//! Authentication by JSON Web Tokens (`forebay.io/auth-jwt`): issuers with their keys, where the token is,
//! which claims the endpoint gets, and which requests they allow.
//!
//! Never in here: how tokens are verified, and how keys are fetched.

pub(crate) mod issuers;

use std::sync::Arc;

use aws_lc_rs::digest::{Context as Digest, SHA256};
use identity::claims::Path;
use identity::{KeySet, KeySource, Origin, Rules};
use model::{Jwt, JwtIssuer, TokenPlace};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::asker::Asker;
use super::resolve::{Context, Fault};
use crate::problem::Reason;
use crate::providers::Place;
use crate::translate::header::{self, Side};
use crate::translate::value::{self, Parsed, set};
use issuers::{Issuer, KeyPlace};

annotations! {
    "auth-jwt", Location, "", Supported(|s, v| set(&mut s.auth.jwt.issuers, issuers::of_annotation(v))), ClosesLocations,
        "Issuers whose JSON Web Tokens let clients in: a list in YAML, see [JWT](auth.md#jwt). The claim `sub` is `$remote_user`.", Medium;
    "auth-jwt-claims-to-headers", Location, "", Supported(|s, v| set(&mut s.auth.jwt.headers, claim_headers(v))), ClosesLocations,
        "Headers that the endpoint gets with claims of the token: `X-User: sub, X-Groups: realm.groups`. Clients cannot set them.", Medium;
    "auth-jwt-cookie", Location, "", Supported(|s, v| set(&mut s.auth.jwt.cookie, token_name(v))), ClosesLocations,
        "Cookie with the token of requests that do not have the header.", Medium;
    "auth-jwt-header", Location, "Authorization", Supported(|s, v| set(&mut s.auth.jwt.header, header_name(v))), ClosesLocations,
        "Header with the token; in `Authorization` it has the scheme `Bearer`.", Medium;
    "auth-jwt-query", Location, "", Supported(|s, v| set(&mut s.auth.jwt.parameter, token_name(v))), ClosesLocations,
        "Query parameter with the token of requests that have neither header nor cookie. Tokens in URLs get into logs.", Medium;
    "auth-jwt-rules", Location, "", Supported(|s, v| set(&mut s.auth.jwt.rules, rules(v))), ClosesLocations,
        "Requests that are allowed by claims, a rule in a line: `GET,HEAD /reports when claims.scope has \"read\"`. The first that fits decides; what none allows gets 403.", Medium;
    "auth-jwt-strip", Location, "false", Supported(|s, v| set(&mut s.auth.jwt.strips, value::boolean(v))), ClosesLocations,
        "Whether the endpoint does not get the token.";
}

/// Name of the annotation with the issuers.
pub(super) const ISSUERS: &str = "auth-jwt";

/// The annotations that have no effect without issuers.
const OTHERS: &[&str] = &[
    "auth-jwt-claims-to-headers",
    "auth-jwt-cookie",
    "auth-jwt-header",
    "auth-jwt-query",
    "auth-jwt-rules",
    "auth-jwt-strip",
];

/// The most claims that become headers.
const HEADERS_MAX: usize = 32;

/// The annotations of tokens.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// Empty if clients need no token.
    issuers: Arc<[Issuer]>,
    header: String,
    cookie: Option<String>,
    parameter: Option<String>,
    strips: bool,
    headers: Vec<(String, Path)>,
    rules: Option<Arc<Rules>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            issuers: Arc::default(),
            header: TokenPlace::default().header,
            cookie: None,
            parameter: None,
            strips: false,
            headers: Vec::new(),
            rules: None,
        }
    }
}

/// The name of the setting with the fault, and the fault.
pub(super) type Faulty = (&'static str, Fault);

impl Settings {
    /// The tokens that let clients in; none if clients need none.
    pub(super) fn draft(&self, context: &Context<'_, '_>) -> Result<Option<Arc<Jwt>>, Faulty> {
        if self.issuers.is_empty() {
            return Ok(None);
        }
        let (mut issuers, mut digest) = (Vec::new(), Digest::new(&SHA256));
        for (at, issuer) in self.issuers.iter().enumerate() {
            let (keys, identity) = keys(issuer, context).map_err(|(reason, why)| {
                (ISSUERS, (reason, format!("[{at}] ({}): {why}", issuer.terms.issuer)))
            })?;
            digest.update(&identity);
            digest.update(format!("{:?}\n", issuer.terms).as_bytes());
            issuers.push(JwtIssuer { terms: issuer.terms.clone(), keys });
        }
        let place = TokenPlace {
            header: self.header.clone(),
            cookie: self.cookie.clone(),
            parameter: self.parameter.clone(),
        };
        let fingerprint = digest.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Some(Arc::new(Jwt {
            issuers: issuers.into(),
            fingerprint,
            place,
            strips: self.strips,
            headers: self.headers.clone(),
            rules: self.rules.clone(),
        })))
    }

    /// The settings that are given and have no effect, since there are no issuers.
    pub(super) fn without_effect<'a>(&self, asker: &'a dyn Asker) -> impl Iterator<Item = &'static str> + 'a {
        let has_issuers = !self.issuers.is_empty() || asker.given(ISSUERS).is_some();
        OTHERS.iter().copied().filter(move |name| !has_issuers && asker.given(name).is_some())
    }
}

/// The keys of an issuer, and what makes them differ from those of others.
fn keys(issuer: &Issuer, context: &Context<'_, '_>) -> Result<(Arc<KeySource>, Vec<u8>), Fault> {
    let (name, document, origin) = match &issuer.keys {
        KeyPlace::Url { url, authority } => {
            let authority = match authority {
                Some(object) => Some(object.of_secret(context, "ca.crt")?.1.into()),
                None => None,
            };
            let place = Place { url: url.clone(), authority };
            let identity = format!("{place:?}\n").into_bytes();
            return Ok((context.inputs.options.providers.keys(&place), identity));
        }
        KeyPlace::Secret(object) => {
            let (name, document) = object.of_secret(context, issuers::KEYS)?;
            (name, document, Origin::Secret)
        }
        KeyPlace::ConfigMap(object) => {
            let (name, document) = object.of_configmap(context)?;
            (name, document, Origin::Public)
        }
    };
    let reason = if origin == Origin::Secret { Reason::Secret } else { Reason::Missing };
    let keys = issuer.read_keys(&document, origin).map_err(|why| (reason, format!("{name}: {why}")))?;
    let identity = KeySet::fingerprint(&keys).to_vec();
    Ok((Arc::new(KeySource::fixed(name, keys)), identity))
}

fn header_name(text: &str) -> Parsed<String> {
    let name = header::name(text.trim(), Side::Request)?;
    if name.eq_ignore_ascii_case("cookie") {
        return Err("a cookie with the token is named by auth-jwt-cookie".to_owned());
    }
    Ok(name)
}

/// The name of a cookie or a query parameter that needs no escapes; none if the text is empty.
fn token_name(text: &str) -> Parsed<Option<String>> {
    let Some(name) = value::name(text) else { return Ok(None) };
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        Ok(Some(name))
    } else {
        Err(format!("{text:?} has a character that the name of a token may not have"))
    }
}

/// Parses headers with claims, `X-User: sub, X-Groups: realm.groups`.
pub(super) fn claim_headers(text: &str) -> Parsed<Vec<(String, Path)>> {
    let mut headers: Vec<(String, Path)> = Vec::new();
    for item in split_outside_quotes(text) {
        let item = item.trim();
        if item.is_empty() {
            continue;
        }
        let (name, claim) = item
            .split_once(':')
            .ok_or_else(|| format!("{item:?} is no header with a claim, as in X-User: sub"))?;
        let name = header::name(name.trim(), Side::Request)?;
        if ["authorization", "cookie"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("{name:?} is no header for claims"));
        }
        if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            return Err(format!("the header {name:?} is named twice"));
        }
        let path = Path::parse(claim.trim()).map_err(|error| format!("claim {:?}: {error}", claim.trim()))?;
        headers.push((name, path));
    }
    if headers.len() > HEADERS_MAX {
        return Err(format!("there are {} headers, and {HEADERS_MAX} are the most", headers.len()));
    }
    Ok(headers)
}

/// The items of a list with commas or ends of lines between them, of which those in quotes are none.
fn split_outside_quotes(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut begin = 0;
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' | '\n' if !is_quoted => {
                items.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    items.push(&text[begin..]);
    items
}

pub(super) fn rules(text: &str) -> Parsed<Option<Arc<Rules>>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    Rules::parse(text).map(|rules| Some(Arc::new(rules)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_become_headers() {
        let names = |text: &str| {
            claim_headers(text).map(|headers| headers.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names("X-User: sub, X-Groups: realm.groups,\nX-Tenant: [\"a,b\"].c"), {
            Ok(vec!["X-User".to_owned(), "X-Groups".to_owned(), "X-Tenant".to_owned()])
        });
        assert_eq!(names(" "), Ok(Vec::new()));
        for bad in [
            "X-User",
            "X-User: ",
            "X-User: a b",
            "X-User: sub, x-user: sub",
            "Host: sub",
            "Content-Length: a",
            "Authorization: sub",
            "Cookie: sub",
            "X User: sub",
            ": sub",
            "Transfer-Encoding: sub",
        ] {
            assert!(claim_headers(bad).is_err(), "{bad}");
        }
        let many: Vec<_> = (0..=HEADERS_MAX).map(|number| format!("X-{number}: sub")).collect();
        assert!(claim_headers(&many.join(",")).is_err());
    }

    #[test]
    fn names_of_places() {
        assert_eq!(token_name(" token "), Ok(Some("token".to_owned())));
        assert_eq!(token_name(""), Ok(None));
        assert!(token_name("a=b").is_err() && token_name("a b").is_err() && token_name("a;b").is_err());
        assert!(header_name("Cookie").is_err() && header_name("Host").is_err());
        assert_eq!(header_name("X-Token"), Ok("X-Token".to_owned()));
    }
}
