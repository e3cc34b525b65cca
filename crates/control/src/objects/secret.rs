use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::Authorities;
use serde::{Deserialize, Serialize};

use super::de::nullable;
use super::{Metadata, Sourced};
use crate::certificate::{self, Pair};

/// A Secret: a certificate with its key, or certificate authorities.
///
/// The certificate and the authorities are parsed when they are first needed, and the result is stored with
/// the object. So the next translation parses nothing again for an unchanged Secret, and a Secret that no
/// object names is never parsed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Secret {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// Type; `kubernetes.io/tls` for a certificate.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    data: BTreeMap<String, Hidden>,
    #[serde(default, rename = "stringData", deserialize_with = "nullable")]
    string_data: BTreeMap<String, Hidden>,
    #[serde(skip)]
    pair: Memo<Arc<Pair>>,
    #[serde(skip)]
    authorities: Memo<Arc<Authorities>>,
}

impl Secret {
    /// The bytes of a key; none if the Secret lacks the key. "`stringData` overwrites `data`."
    fn bytes(&self, key: &str) -> Option<Result<Vec<u8>, String>> {
        if let Some(text) = self.string_data.get(key) {
            return Some(Ok(text.0.clone().unwrap_or_default().into_bytes()));
        }
        let mut text = self.data.get(key)?.0.clone().unwrap_or_default();
        text.retain(|char| !char.is_ascii_whitespace());
        Some(STANDARD.decode(text).map_err(|_| format!("{key} is not base64")))
    }

    fn has(&self, key: &str) -> bool {
        self.bytes(key).is_some_and(|bytes| bytes.is_err() || bytes.is_ok_and(|bytes| !bytes.is_empty()))
    }

    fn required(&self, key: &str) -> Result<Vec<u8>, String> {
        self.bytes(key).unwrap_or_else(|| Err(format!("there is no {key}")))
    }
}

impl Secret {
    /// The content of a key, or the reason why it is missing.
    pub(crate) fn content(&self, key: &str) -> Result<Vec<u8>, String> {
        self.required(key)
    }

    /// The names of all keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> =
            self.data.keys().chain(self.string_data.keys()).map(String::as_str).collect();
        names.into_iter()
    }
}

impl Sourced<Secret> {
    /// The certificate and its key (`tls.crt`, `tls.key`), or the reason why they cannot be used.
    pub(crate) fn pair(&self) -> &Result<Arc<Pair>, String> {
        self.pair.get(|| {
            let (chain, key) = (self.required("tls.crt")?, self.required("tls.key")?);
            Pair::parse(&self.key(), &chain, &key).map(Arc::new)
        })
    }

    /// Whether the Secret has the keys of a certificate, valid or not.
    pub(crate) fn has_pair(&self) -> bool {
        self.has("tls.crt")
    }

    /// Whether the Secret has authorities, valid or not. cert-manager leaves `ca.crt` empty if it knows none.
    pub(crate) fn has_authorities(&self) -> bool {
        self.has("ca.crt")
    }

    /// The authorities and their revocation lists (`ca.crt`, `ca.crl`), or the reason why they cannot be
    /// used.
    pub(crate) fn authorities(&self) -> &Result<Arc<Authorities>, String> {
        self.authorities.get(|| {
            let revoked = self.bytes("ca.crl").transpose()?.filter(|list| !list.is_empty());
            certificate::authorities(&self.required("ca.crt")?, revoked.as_deref()).map(Arc::new)
        })
    }
}

/// A text that debug output does not show.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
struct Hidden(Option<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// A parsed value. Equality ignores it, because the object's data determines it.
struct Memo<T>(OnceLock<Result<T, String>>);

impl<T> Memo<T> {
    fn get(&self, read: impl FnOnce() -> Result<T, String>) -> &Result<T, String> {
        self.0.get_or_init(read)
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Clone> Clone for Memo<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PartialEq for Memo<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Memo<T> {}

impl<T> fmt::Debug for Memo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Origin;

    fn secret(fields: &str) -> Sourced<Secret> {
        let text = format!("metadata: {{name: a}}\n{fields}\n");
        Sourced { origin: Origin::default(), object: serde_saphyr::from_str(&text).unwrap() }
    }

    #[test]
    fn text_comes_before_base64() {
        let one = secret("data: {a: 'eA ==', b: eA, n: }\nstringData: {a: y}");
        assert_eq!(one.bytes("a"), Some(Ok(b"y".to_vec())));
        assert_eq!(one.bytes("b"), Some(Err("b is not base64".to_owned())));
        assert_eq!(one.bytes("n"), Some(Ok(vec![])));
        assert_eq!(one.bytes("c"), None);
        assert_eq!(secret("data: {a: \"e\\nA==\"}").bytes("a"), Some(Ok(b"x".to_vec())));
    }

    #[test]
    fn nothing_of_it_is_shown() {
        assert!(!format!("{:?}", secret("data: {tls.key: c2VjcmV0}")).contains("c2VjcmV0"));
    }

    #[test]
    fn what_was_read_stays() {
        let one = secret("stringData: {tls.crt: x}");
        assert!(std::ptr::eq(one.pair(), one.pair()));
        assert_eq!(one.pair().as_ref().unwrap_err(), "there is no tls.key");
        assert_eq!(one.authorities().as_ref().unwrap_err(), "there is no ca.crt");
    }
}
