//! Authentication by the passwords in a Secret (`auth-type`).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::{BasicAuth, PasswordScheme, Users};

use super::super::resolve::{Context, Fault};
use crate::objects::Secret;
use crate::problem::Reason;
use crate::translate::value::{Parsed, name};

/// The annotations of passwords.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) kind: Option<PasswordScheme>,
    /// `[namespace/]name` of the Secret.
    pub(super) secret: Option<String>,
    /// Each key of the Secret is a user. Without this, a single key holds all users.
    pub(super) is_map: bool,
    pub(super) realm: String,
}

/// The key of a Secret that holds all users.
const FILE: &str = "auth";

impl Settings {
    /// The users; none if clients need no password.
    pub(super) fn draft(&self, context: &Context<'_, '_>) -> Result<Option<BasicAuth>, Fault> {
        let Some(scheme) = self.kind else { return Ok(None) };
        let users = Arc::new(self.users(scheme, context)?);
        Ok(Some(BasicAuth { scheme, realm: self.realm.clone(), users }))
    }

    /// Whether a Secret is named although clients need no password.
    pub(super) fn is_without_effect(&self) -> bool {
        self.secret.is_some() && self.kind.is_none()
    }

    fn users(&self, scheme: PasswordScheme, context: &Context<'_, '_>) -> Result<Users, Fault> {
        let text = self.secret.as_deref();
        let text =
            text.ok_or_else(|| (Reason::Annotation, "auth-type needs a Secret with users".to_owned()))?;
        let secret = context.secret(&context.with_namespace(text))?;
        let read = if self.is_map { of_map(secret) } else { secret.content(FILE) };
        let unusable = |why| (Reason::Secret, format!("Secret {} cannot be used: {why}", secret.key()));
        let text = read.map_err(unusable)?;
        let mut sum = [0; 32];
        sum.copy_from_slice(digest(&SHA256, &text).as_ref());
        let text = String::from_utf8_lossy(&text);
        let users = match scheme {
            PasswordScheme::Basic => of_file(&text),
            PasswordScheme::Digest => of_digest_file(&text, &self.realm),
        };
        Ok(Users::new(users, sum))
    }
}

/// The users of a Secret with one key for each, in the form of a file.
fn of_map(secret: &Secret) -> Parsed<Vec<u8>> {
    let mut file = Vec::new();
    for user in secret.keys() {
        let hash = secret.content(user)?;
        file.extend_from_slice(user.as_bytes());
        file.push(b':');
        file.extend(hash.iter().take_while(|&&byte| byte != b'\n' && byte != b'\r'));
        file.push(b'\n');
    }
    Ok(file)
}

/// Parses lines `user:hash`; text after another colon is ignored.
fn of_file(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let users = lines.filter_map(|line| {
        let (user, rest) = line.split_once(':')?;
        Some((user.to_owned(), rest.split(':').next().unwrap_or_default().to_owned()))
    });
    users.collect()
}

/// Parses the lines `user:realm:hash` of one realm; text after another colon is ignored. A hash that is no
/// MD5 matches no password.
fn of_digest_file(text: &str, realm: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let users = lines.filter_map(|line| {
        let [user, of_realm, hash] = line.splitn(4, ':').collect::<Vec<_>>().get(..3)?.try_into().ok()?;
        let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        (of_realm == realm && is_hash).then(|| (user.to_owned(), hash.to_ascii_lowercase()))
    });
    users.collect()
}

pub(super) fn kind(text: &str) -> Parsed<Option<PasswordScheme>> {
    match text.trim() {
        "basic" => Ok(Some(PasswordScheme::Basic)),
        "digest" => Ok(Some(PasswordScheme::Digest)),
        _ => Err(format!("{text:?} is neither \"basic\" nor \"digest\"")),
    }
}

pub(super) fn secret_type(text: &str) -> Parsed<bool> {
    match text.trim() {
        "auth-file" => Ok(false),
        "auth-map" => Ok(true),
        _ => Err(format!("{text:?} is neither \"auth-file\" nor \"auth-map\"")),
    }
}

/// A text for a quoted string in a header.
pub(super) fn realm(text: &str) -> Parsed<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/: ".contains(&byte);
    let text = name(text).unwrap_or_default();
    if text.bytes().all(is_allowed) {
        Ok(text)
    } else {
        Err(format!("{text:?} has a character that no realm may have"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_users() {
        let user = |name: &str, hash: &str| (name.to_owned(), hash.to_owned());
        let users = of_file("# c:d\n\na:$apr1$x\r\nb:{PLAIN}y:comment\nnonsense\n");
        assert_eq!(users, [user("a", "$apr1$x"), user("b", "{PLAIN}y")]);
    }

    #[test]
    fn files_of_users_with_realms() {
        let hash = "0123456789abcdef0123456789ABCDEF";
        let text = format!("# x\na:R:{hash}\nb:other:{hash}\nc:R:{hash}:comment\nd:R:short\ne:{hash}\n");
        let user = |name: &str| (name.to_owned(), hash.to_ascii_lowercase());
        assert_eq!(of_digest_file(&text, "R"), [user("a"), user("c")]);
        assert_eq!(of_digest_file(&text, ""), []);
    }

    #[test]
    fn a_realm_cannot_end_its_header() {
        assert_eq!(realm("Members only"), Ok("Members only".to_owned()));
        assert!(realm("a\"b").is_err() && realm("a\r\nb").is_err());
    }
}
