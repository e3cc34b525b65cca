//! Authentication by the keys in a Secret (`forebay.io/auth-api-keys`): each entry is a client's name with
//! its key, or with `sha256:` and the digest of the key in hexadecimal digits. Further lines of an entry are
//! the client's labels, each as `name=value`.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::{ApiKeys, KeyHolder, KeyHolders};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Fault};
use crate::objects::Secret;
use crate::problem::Reason;
use crate::translate::header::{self, Side};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "auth-api-key-header", Location, "X-Api-Key", Supported(|s, v| set(&mut s.auth.keys.header, header_name(v))), ClosesLocations,
        "Header with the key of `forebay.io/auth-api-keys`; in `Authorization` it has the scheme `Bearer`.", Medium;
    "auth-api-key-parameter", Location, "", Supported(|s, v| set(&mut s.auth.keys.parameter, parameter(v))), ClosesLocations,
        "Query parameter with the key of requests that do not have the header. Keys in URLs get into logs.", Medium;
    "auth-api-keys", Location, "", Supported(|s, v| set(&mut s.auth.keys.secret, Ok(value::name(v)))),
        "Secret with the keys that let clients in: each entry is a client's name with its key, or with `sha256:` and the key's digest; further lines `name=value` are labels, which are `$claim_NAME`. The name is `$remote_user`, and the endpoint gets it in `X-Auth-Request-User`.", Medium;
}

/// Name of the annotation with the keys.
pub(super) const SECRET: &str = "auth-api-keys";

const DIGEST_PREFIX: &str = "sha256:";

/// The annotations of keys.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// `[namespace/]name` of the Secret; none if clients need no key.
    secret: Option<String>,
    header: String,
    parameter: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { secret: None, header: "X-Api-Key".to_owned(), parameter: None }
    }
}

impl Settings {
    /// The keys; none if clients need no key.
    pub(super) fn draft(&self, context: &Context<'_, '_>) -> Result<Option<ApiKeys>, Fault> {
        let Some(secret) = &self.secret else { return Ok(None) };
        let secret = context.secret(&context.with_namespace(secret))?;
        let holders = holders(secret)
            .map_err(|why| (Reason::Secret, format!("Secret {} cannot be used: {why}", secret.key())))?;
        Ok(Some(ApiKeys {
            header: self.header.clone(),
            parameter: self.parameter.clone(),
            holders: Arc::new(holders),
        }))
    }
}

fn holders(secret: &Secret) -> Result<KeyHolders, String> {
    let mut holders = KeyHolders::default();
    for name in secret.keys() {
        let content = secret.content(name)?;
        let (digest, labels) = entry(&content).map_err(|why| format!("key {name}: {why}"))?;
        if !holders.add(KeyHolder { name: name.into(), labels }, digest) {
            return Err(format!("key {name}: another client has the same key"));
        }
    }
    Ok(holders)
}

type Labels = BTreeMap<Box<str>, Box<str>>;

/// The digest of the key in an entry of a Secret, and the labels behind it.
fn entry(content: &[u8]) -> Result<([u8; 32], Labels), String> {
    let text = std::str::from_utf8(content).map_err(|_| "the value is not text")?;
    let mut lines = text.lines();
    let digest = key_digest(lines.next().unwrap_or_default())?;
    let mut labels = Labels::new();
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) =
            label(line).ok_or_else(|| format!("{line:?} is no label of the form name=value"))?;
        if labels.insert(name.into(), value.into()).is_some() {
            return Err(format!("the label {name} occurs twice"));
        }
    }
    Ok((digest, labels))
}

/// A label: its name can be the end of a variable's name, and its value can be a header's value.
fn label(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim_end(), value.trim_start());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && !value.chars().any(char::is_control)).then_some((name, value))
}

/// The digest of the key in the first line of an entry.
fn key_digest(text: &str) -> Result<[u8; 32], String> {
    let Some(digits) = text.strip_prefix(DIGEST_PREFIX) else {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a key has visible characters of ASCII only, and at least one".to_owned());
        }
        return Ok(digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes"));
    };
    let invalid = || format!("64 hexadecimal digits have to follow {DIGEST_PREFIX:?}");
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return Err(invalid());
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| invalid())?;
    }
    Ok(bytes)
}

fn header_name(text: &str) -> Parsed<String> {
    header::name(text.trim(), Side::Request)
}

fn parameter(text: &str) -> Parsed<Option<String>> {
    let Some(name) = value::name(text) else { return Ok(None) };
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        Ok(Some(name))
    } else {
        Err(format!("{text:?} has a character that a parameter with a key may not have"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_their_digests() {
        let of_abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = |content: &str| entry(content.as_bytes()).map(|(digest, _)| digest);
        assert_eq!(digest("abc\r\n"), digest(of_abc));
        assert_eq!(digest("abc"), digest(&of_abc.to_uppercase().replace("SHA", "sha")));
        for bad in ["", "\n", "a b", "\u{e4}", "sha256:", &of_abc[..70], &of_abc.replace('b', "g")] {
            assert!(digest(bad).is_err(), "{bad:?}");
        }
        assert!(entry(b"\xff").is_err());
    }

    #[test]
    fn labels_follow_the_key() {
        let labels = |text: &str| entry(text.as_bytes()).map(|(_, labels)| labels);
        let expected = [("team".into(), "data = all".into()), ("tier".into(), "".into())].into();
        assert_eq!(labels("abc\nteam = data = all\n\ntier=\n"), Ok(expected));
        for bad in ["abc\nteam", "abc\n=x", "abc\na-b=x", "abc\na=\u{7}", "abc\na=1\na=2"] {
            assert!(labels(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parameters_need_no_escapes() {
        assert_eq!(parameter(" api_key "), Ok(Some("api_key".to_owned())));
        assert_eq!(parameter(""), Ok(None));
        assert!(parameter("a&b").is_err() && parameter("a%20").is_err());
    }
}
