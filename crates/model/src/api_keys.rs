//! Keys by which programs prove who they are.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Keys that let the clients of a route in (`forebay.io/auth-api-keys`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiKeys {
    /// The header with the key. In `Authorization` the key has the scheme `Bearer`.
    pub header: String,
    /// The query parameter with the key of a request that does not have the header.
    pub parameter: Option<String>,
    /// The clients that have a key.
    pub holders: Arc<KeyHolders>,
}

/// The client that has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The client's name.
    pub name: Box<str>,
    /// Names and values of its labels, by name.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

/// Clients by the SHA-256 of their keys. The digests are never shown.
///
/// A look-up may take longer for some digests than for others. That gives no key away: nobody can choose the
/// digest of a guess.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyHolders(HashMap<[u8; 32], Arc<KeyHolder>>);

impl KeyHolders {
    /// Adds a client. False if another client has the same key.
    pub fn add(&mut self, holder: KeyHolder, digest: [u8; 32]) -> bool {
        self.0.insert(digest, Arc::new(holder)).is_none()
    }

    /// The client whose key has this digest.
    pub fn find(&self, digest: &[u8; 32]) -> Option<&Arc<KeyHolder>> {
        self.0.get(digest)
    }
}

impl fmt::Debug for KeyHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut holders: Vec<_> = self.0.values().map(|holder| (&holder.name, &holder.labels)).collect();
        holders.sort();
        f.debug_map().entries(holders).finish()
    }
}

impl Serialize for KeyHolders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_holder_and_no_digest_is_shown() {
        let holder = |name: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            KeyHolder { name: name.into(), labels }
        };
        let mut holders = KeyHolders::default();
        assert!(
            holders.add(holder("b", &[("team", "x")]), [1; 32]) && holders.add(holder("a", &[]), [2; 32])
        );
        assert!(!holders.add(holder("c", &[]), [1; 32]));
        let name = |digest| holders.find(digest).map(|holder| &*holder.name);
        assert_eq!((name(&[2; 32]), name(&[3; 32])), (Some("a"), None));
        assert_eq!(format!("{holders:?}"), r#"{"a": {}, "c": {}}"#);
    }
}
