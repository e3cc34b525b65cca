//! HTTP Digest authentication (RFC 7616 with MD5 and `qop=auth`; ingress-nginx: `auth-type: digest`).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use clients::NonceUse;
use md5::{Digest, Md5};
use model::BasicAuth;
use observe::Reason;

use crate::admit::Targeted;
use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// Parameters of the client's credentials (RFC 7616 section 3.4).
#[derive(Debug, Default, PartialEq, Eq)]
struct Credentials {
    username: String,
    realm: String,
    nonce: String,
    uri: String,
    qop: String,
    nc: String,
    cnonce: String,
    response: String,
    algorithm: Option<String>,
}

pub(super) fn check(targeted: &Targeted<'_>, auth: &BasicAuth) -> FilterResult {
    let (head, request) = (targeted.head, targeted.parsed);
    let field = request.fields.find_name(head, b"authorization");
    let method = &head[request.method.clone()];
    let target = &head[request.target.clone()];
    let credentials = field.and_then(|field| Credentials::read(field.value(head)));
    let (nonces, now) = (&targeted.worker.clients.nonces, targeted.worker.clock.unix().as_secs());
    let right = credentials.filter(|credentials| credentials.is_right(auth, method, target));
    let is_stale = match right.map(|right| nonces.take(&right.nonce, right.count(), now)) {
        Some(NonceUse::Good) => return FilterResult::Continue,
        Some(NonceUse::NoRoom) => return FilterResult::Refuse(Reason::PasswordLimit),
        Some(NonceUse::Stale) => true,
        None => false,
    };
    let nonce = nonces.make(now, targeted.worker.random.next());
    let stale = if is_stale { ", stale=\"true\"" } else { "" };
    let realm = &auth.realm;
    let challenge =
        format!("Digest algorithm=\"MD5\", qop=\"auth\", realm=\"{realm}\", nonce=\"{nonce}\"{stale}");
    FilterResult::Answer(Answer::refusal(401, &[challenge.into_bytes()]))
}

impl Credentials {
    /// Reads the value of `Authorization`; none if a required parameter is missing.
    fn read(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let (mut credentials, mut rest) = (Self::default(), rest);
        while let Some((name, value, after)) = split_parameter(rest).ok()? {
            rest = after;
            let place = match name.to_ascii_lowercase().as_str() {
                "username" => &mut credentials.username,
                "realm" => &mut credentials.realm,
                "nonce" => &mut credentials.nonce,
                "uri" => &mut credentials.uri,
                "qop" => &mut credentials.qop,
                "nc" => &mut credentials.nc,
                "cnonce" => &mut credentials.cnonce,
                "response" => &mut credentials.response,
                "algorithm" => credentials.algorithm.get_or_insert_default(),
                _ => continue,
            };
            // Of a repeated parameter neither value can be trusted.
            if !std::mem::replace(place, value).is_empty() {
                return None;
            }
        }
        let Self { username, nonce, uri, cnonce, .. } = &credentials;
        let is_complete = [username, nonce, uri, cnonce].iter().all(|value| !value.is_empty());
        let is_md5 = |name: &String| name.eq_ignore_ascii_case("MD5");
        let is_known = credentials.qop == "auth" && credentials.algorithm.as_ref().is_none_or(is_md5);
        let is_count = credentials.nc.len() == 8 && u32::from_str_radix(&credentials.nc, 16).is_ok();
        (is_complete && is_known && is_count).then_some(credentials)
    }

    fn count(&self) -> u32 {
        u32::from_str_radix(&self.nc, 16).unwrap_or(0)
    }

    /// Whether the client knows the password, for this request. As with nginx, the query may be missing in
    /// its `uri`.
    fn is_right(&self, auth: &BasicAuth, method: &[u8], target: &[u8]) -> bool {
        let is_same =
            target.strip_prefix(self.uri.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'?', ..]));
        // An unknown user takes the same time.
        let (hash, is_known) = match auth.users.hash(&self.username) {
            Some(hash) => (hash, self.realm == auth.realm),
            None => ("00000000000000000000000000000000", false),
        };
        let request = hex(&[method, self.uri.as_bytes()]);
        let Self { nonce, nc, cnonce, qop, response, .. } = self;
        let parts = [hash, nonce, nc, cnonce, qop, &request].map(str::as_bytes);
        let expected = hex(&parts);
        let is_equal = verify_slices_are_equal(expected.as_bytes(), response.as_bytes()).is_ok();
        is_known && is_same && is_equal
    }
}

/// The MD5 of texts with colons between them.
fn hex(parts: &[&[u8]]) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(parts.join(&b':')).into()))
}

/// The list of parameters is malformed.
struct Malformed;

/// The first parameter of a list: name, value and the rest; none at the end of the list.
fn split_parameter(text: &str) -> Result<Option<(&str, String, &str)>, Malformed> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    if text.is_empty() {
        return Ok(None);
    }
    parameter(text).map(Some).ok_or(Malformed)
}

fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    let (name, rest) = (name.trim_end(), rest.trim_start());
    let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
        unquote(quoted)?
    } else {
        let (value, rest) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
        (value.trim_end().to_owned(), rest)
    };
    let rest = rest.trim_start();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte));
    (is_plain && (rest.is_empty() || rest.starts_with(','))).then_some((name, value, rest))
}

/// The text up to a quotation mark, and what follows that.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.chars());
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{PasswordScheme, Users};
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 2617 section 3.5.
    const EXAMPLE: &str = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, nc=00000001, \
        cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";

    fn auth() -> BasicAuth {
        let hash = hex(&[b"Mufasa", b"testrealm@host.com", b"Circle Of Life"]);
        let users = Arc::new(Users::new(vec![("Mufasa".to_owned(), hash)], [0; 32]));
        BasicAuth { scheme: PasswordScheme::Digest, realm: "testrealm@host.com".to_owned(), users }
    }

    #[test]
    fn the_example_of_the_standard_is_right() {
        let example = Credentials::read(EXAMPLE.as_bytes()).unwrap();
        assert_eq!((example.count(), &*example.username), (1, "Mufasa"));
        assert!(example.is_right(&auth(), b"GET", b"/dir/index.html"));
        assert!(example.is_right(&auth(), b"GET", b"/dir/index.html?a=b"));
        for (method, target) in
            [("POST", "/dir/index.html"), ("GET", "/dir/index.htm"), ("GET", "/dir/index.html2")]
        {
            assert!(!example.is_right(&auth(), method.as_bytes(), target.as_bytes()), "{method} {target}");
        }
        assert!(!example.is_right(
            &BasicAuth { realm: "other".to_owned(), ..auth() },
            b"GET",
            b"/dir/index.html"
        ));
        for (from, to) in [("Mufasa", "mufasa"), ("0a4f", "0a4e"), ("6629", "6628"), ("6629", "")] {
            let other = Credentials::read(EXAMPLE.replace(from, to).as_bytes()).unwrap();
            assert!(!other.is_right(&auth(), b"GET", b"/dir/index.html"), "{to}");
        }
    }

    #[test]
    fn what_is_incomplete_or_of_another_kind_is_none() {
        for (from, to) in [
            ("Digest ", "Basic "),
            ("Digest ", "Digest"),
            ("qop=auth", "qop=auth-int"),
            ("qop=auth,", ""),
            ("nc=00000001", "nc=1"),
            ("nc=00000001", "nc=0000000g"),
            ("cnonce=\"0a4f113b\"", "cnonce=\"\""),
            ("opaque=", "algorithm=SHA-256, opaque="),
            ("opaque=", "username=\"b\", opaque="),
            ("uri=\"/dir/index.html\"", "uri=\"/dir/index.html"),
            (", nonce", "; nonce"),
        ] {
            assert_eq!(Credentials::read(EXAMPLE.replacen(from, to, 1).as_bytes()), None, "{to}");
        }
        let md5 = EXAMPLE.replace("opaque=", "ALGORITHM=md5, opaque=");
        assert!(Credentials::read(md5.as_bytes()).is_some());
    }

    #[test]
    fn a_quoted_name_may_hold_anything() {
        let text = EXAMPLE.replace("\"Mufasa\"", r#""a\"b\\, c=\"d""#);
        assert_eq!(Credentials::read(text.as_bytes()).unwrap().username, r#"a"b\, c="d"#);
    }

    proptest! {
        #[test]
        fn no_value_panics(value in "(Digest )?[ -~é\\\\\",=]{0,60}") {
            let _ = Credentials::read(value.as_bytes());
        }
    }
}
