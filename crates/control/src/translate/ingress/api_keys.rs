//! Authentication by the keys in a Secret (`forebay.io/auth-api-keys`): each entry is a client's name with
//! its key, or with `sha256:` and the digest of the key in hexadecimal digits.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::{ApiKeys, KeyHolders};

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
        "Secret with the keys that let clients in: each entry is a client's name with its key, or with `sha256:` and the key's digest. The name is `$remote_user`, and the endpoint gets it in `X-Auth-Request-User`.", Medium;
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
        let digest = key_digest(&secret.content(name)?).map_err(|why| format!("key {name}: {why}"))?;
        if !holders.add(name, digest) {
            return Err(format!("key {name}: another client has the same key"));
        }
    }
    Ok(holders)
}

/// The digest of the key in an entry of a Secret, without the end of line that editors add.
fn key_digest(entry: &[u8]) -> Result<[u8; 32], String> {
    let text =
        std::str::from_utf8(entry).map_err(|_| "the value is not text")?.trim_end_matches(['\r', '\n']);
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
        assert_eq!(key_digest(b"abc\n"), key_digest(of_abc.as_bytes()));
        assert_eq!(key_digest(b"abc"), key_digest(of_abc.to_uppercase().replace("SHA", "sha").as_bytes()));
        for bad in ["", "\n", "a b", "a\nb", "\u{e4}", "sha256:", &of_abc[..70], &of_abc.replace('b', "g")] {
            assert!(key_digest(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(key_digest(b"\xff").is_err());
    }

    #[test]
    fn parameters_need_no_escapes() {
        assert_eq!(parameter(" api_key "), Ok(Some("api_key".to_owned())));
        assert_eq!(parameter(""), Ok(None));
        assert!(parameter("a&b").is_err() && parameter("a%20").is_err());
    }
}
