use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Only clients with a name and a password of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BasicAuth {
    /// How a client shows that it knows its password.
    pub scheme: PasswordScheme,
    /// The realm that is sent in `WWW-Authenticate`.
    pub realm: String,
    /// The users that may use the route.
    pub users: Arc<Users>,
}

/// How a client shows that it knows a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum PasswordScheme {
    /// It sends the password (RFC 7617).
    #[default]
    Basic,
    /// The client sends a hash of the password and of the server's nonce (RFC 7616 with MD5 and `qop=auth`).
    Digest,
}

/// Names with the hashes of their passwords: as Apache's `htpasswd` writes them, or for
/// [`PasswordScheme::Digest`] the MD5 of name, realm and password in hexadecimal digits, as `htdigest` does.
/// The hashes are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    /// Names and password hashes, sorted by name.
    users: Box<[(Box<str>, Box<str>)]>,
    /// Identifies this set of users.
    digest: [u8; 32],
}

impl Users {
    /// Names and hashes; of a name that occurs twice the first counts. `digest` is of all of them.
    pub fn new(users: Vec<(String, String)>, digest: [u8; 32]) -> Self {
        let mut users: Vec<(Box<str>, Box<str>)> =
            users.into_iter().map(|(name, hash)| (name.into(), hash.into())).collect();
        users.sort_by(|(a, _), (b, _)| a.cmp(b));
        users.dedup_by(|(a, _), (b, _)| a == b);
        Self { users: users.into(), digest }
    }

    /// The hash of a user's password.
    pub fn hash(&self, name: &str) -> Option<&str> {
        let at = self.users.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.users[at].1)
    }

    /// The hash of some other user, to verify the password of an unknown name against: this takes as long as
    /// for a known name, so that response times do not reveal which names exist.
    pub fn stand_in(&self, name: &str) -> Option<&str> {
        let at = self.users.partition_point(|(known, _)| **known < *name);
        Some(&self.users.get(at).or_else(|| self.users.last())?.1)
    }

    /// A digest of all names and hashes, which identifies this set of users.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, fourth, ..] = self.digest;
        let short = u32::from_be_bytes([first, second, third, fourth]);
        write!(f, "{} users ({short:08x})", self.users.len())
    }
}

impl Serialize for Users {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_none_is_shown() {
        let user = |name: &str, hash: &str| (name.to_owned(), hash.to_owned());
        let users = Users::new(vec![user("b", "1"), user("a", "2"), user("b", "3")], [7; 32]);
        assert_eq!((users.hash("b"), users.hash("a"), users.hash("c")), (Some("1"), Some("2"), None));
        assert_eq!(format!("{users:?}"), "2 users (07070707)");
        assert_eq!(["", "aa", "c"].map(|name| users.stand_in(name)), [Some("2"), Some("1"), Some("1")]);
        assert_eq!(Users::default().stand_in("a"), None);
    }
}
