use std::fmt;
use std::sync::Arc;

/// Only clients with a name and a password of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAuth {
    /// How a client shows that it knows its password.
    pub scheme: PasswordScheme,
    /// What clients are told that the password is for.
    pub realm: String,
    /// Who may.
    pub users: Arc<Users>,
}

/// How a client shows that it knows a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PasswordScheme {
    /// It sends the password (RFC 7617).
    #[default]
    Basic,
    /// It sends a hash of the password and of what the server has said (RFC 7616 with MD5 and `qop=auth`).
    Digest,
}

/// Names with the hashes of their passwords: as Apache's `htpasswd` writes them, or for [`PasswordScheme::Digest`] the MD5 of name, realm
/// and password in hexadecimal digits, as `htdigest` does. The hashes are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    /// By name.
    users: Box<[(Box<str>, Box<str>)]>,
    /// Tells these users from others.
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

    /// The hash of some user, in place of the one that an unknown name does not have: to verify a password takes as long for both.
    pub fn stand_in(&self, name: &str) -> Option<&str> {
        let at = self.users.partition_point(|(known, _)| **known < *name);
        Some(&self.users.get(at).or_else(|| self.users.last())?.1)
    }

    /// What tells these users, and their passwords, from others.
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
