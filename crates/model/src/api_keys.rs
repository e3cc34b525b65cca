//! Keys by which programs prove who they are.

use std::collections::HashMap;
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

/// Names of clients by the SHA-256 of their keys. The digests are never shown.
///
/// A look-up may take longer for some digests than for others. That gives no key away: nobody can choose the
/// digest of a guess.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyHolders(HashMap<[u8; 32], Box<str>>);

impl KeyHolders {
    /// Adds a client. False if another client has the same key.
    pub fn add(&mut self, name: &str, digest: [u8; 32]) -> bool {
        self.0.insert(digest, name.into()).is_none()
    }

    /// The client whose key has this digest.
    pub fn name(&self, digest: &[u8; 32]) -> Option<&str> {
        self.0.get(digest).map(|name| &**name)
    }
}

impl fmt::Debug for KeyHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.values().collect();
        names.sort();
        f.debug_list().entries(names).finish()
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
        let mut holders = KeyHolders::default();
        assert!(holders.add("b", [1; 32]) && holders.add("a", [2; 32]));
        assert!(!holders.add("c", [1; 32]));
        assert_eq!((holders.name(&[2; 32]), holders.name(&[3; 32])), (Some("a"), None));
        assert_eq!(format!("{holders:?}"), r#"["a", "c"]"#);
    }
}
