//! Cookies of sessions and sign-ins: their names and attributes, and long values in several of them.

use aws_lc_rs::digest::{SHA256, digest};

/// The longest value of one cookie. Browsers refuse cookies of more than 4096 bytes with name and attributes.
pub const VALUE_BYTES_MAX: usize = 3800;

/// Most cookies of a session.
pub const PARTS_MAX: usize = 4;

/// Sign-ins of a client that may be in progress at a time, such as in several tabs.
pub const LOGINS_MAX: usize = 5;

/// Attributes of all cookies. Without `Domain` and with these, a browser accepts the prefix `__Host-`, so
/// that no other host can set the cookie.
const ATTRIBUTES: &str = "; Path=/; Secure; HttpOnly; SameSite=Lax";

/// The names of the cookies of one client of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The first cookie of the session; the others have `-1`, `-2` and so on after it.
    pub session: String,
    /// The beginning of the names of the cookies of sign-ins.
    pub login: String,
}

impl Names {
    /// The names for a client of an issuer.
    pub fn new(issuer: &str, client_id: &str) -> Self {
        Self::of("forebay", issuer, client_id)
    }

    /// The names for the console of the admin server, which may be behind a route with a sign-in of its own.
    pub fn of_console(issuer: &str, client_id: &str) -> Self {
        Self::of("console", issuer, client_id)
    }

    fn of(owner: &str, issuer: &str, client_id: &str) -> Self {
        let mut text = issuer.as_bytes().to_vec();
        text.push(0);
        text.extend_from_slice(client_id.as_bytes());
        let digest = digest(&SHA256, &text);
        let short = u32::from_be_bytes(digest.as_ref()[..4].try_into().unwrap_or_default());
        Self {
            session: format!("__Host-{owner}-session-{short:08x}"),
            login: format!("__Host-{owner}-login-{short:08x}-"),
        }
    }

    /// The name of the cookie of a sign-in.
    pub fn of_login(&self, state: &str) -> String {
        let short = state.get(..16).unwrap_or(state);
        format!("{}{short}", self.login)
    }

    /// The number of a session's cookie with this name; none if the cookie is no part of the session.
    pub fn part(&self, name: &[u8]) -> Option<usize> {
        let rest = name.strip_prefix(self.session.as_bytes())?;
        match rest {
            [] => Some(0),
            [b'-', digit @ b'1'..=b'9'] => {
                Some(usize::from(digit - b'0')).filter(|&number| number < PARTS_MAX)
            }
            _ => None,
        }
    }

    /// Whether a cookie is one of a session or a sign-in, which endpoints do not get.
    pub fn has(&self, name: &[u8]) -> bool {
        name.starts_with(self.login.as_bytes()) || self.part(name).is_some()
    }

    fn of_part(&self, number: usize) -> String {
        if number == 0 { self.session.clone() } else { format!("{}-{number}", self.session) }
    }

    /// The values of `Set-Cookie` for a session. Cookies of an earlier session that was longer are removed,
    /// if the client has sent them: `sent` is the number of cookies. None if the session is too long.
    pub fn set_session(&self, sealed: &str, seconds: u64, sent: usize) -> Option<Vec<String>> {
        let chunks: Vec<&str> = (0..sealed.len())
            .step_by(VALUE_BYTES_MAX)
            .map(|begin| &sealed[begin..sealed.len().min(begin + VALUE_BYTES_MAX)])
            .collect();
        if chunks.is_empty() || chunks.len() > PARTS_MAX {
            return None;
        }
        let count = chunks.len();
        let mut set: Vec<_> = chunks
            .into_iter()
            .enumerate()
            .map(|(number, chunk)| {
                let count = if number == 0 { format!("{count}.") } else { String::new() };
                format!("{}={count}{chunk}; Max-Age={seconds}{ATTRIBUTES}", self.of_part(number))
            })
            .collect();
        set.extend((count..sent.min(PARTS_MAX)).map(|number| removed(&self.of_part(number))));
        Some(set)
    }

    /// The values of `Set-Cookie` that remove a session of so many cookies.
    pub fn remove_session(&self, sent: usize) -> Vec<String> {
        (0..sent.clamp(1, PARTS_MAX)).map(|number| removed(&self.of_part(number))).collect()
    }
}

/// The value of `Set-Cookie` for a sign-in.
pub fn set_login(name: &str, sealed: &str, seconds: u64) -> String {
    format!("{name}={sealed}; Max-Age={seconds}{ATTRIBUTES}")
}

/// The value of `Set-Cookie` that removes a cookie.
pub fn removed(name: &str) -> String {
    format!("{name}=; Max-Age=0{ATTRIBUTES}")
}

/// The parts of a session among the cookies of a request.
#[derive(Debug, Default)]
pub struct Parts<'h> {
    values: [Option<&'h [u8]>; PARTS_MAX],
    /// A part has come twice: nobody knows which one is meant.
    is_ambiguous: bool,
}

impl<'h> Parts<'h> {
    /// Notes a part.
    pub fn note(&mut self, number: usize, value: &'h [u8]) {
        match self.values.get_mut(number) {
            Some(Some(known)) if *known != value => self.is_ambiguous = true,
            Some(known) => *known = Some(value),
            None => {}
        }
    }

    /// The highest number of a part, plus one.
    pub fn sent(&self) -> usize {
        self.values.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
    }

    /// Appends the sealed session to a buffer that is empty. False if parts are missing.
    pub fn join(&self, out: &mut Vec<u8>) -> bool {
        let Some(Some(first)) = self.values.first() else { return false };
        let [count @ b'1'..=b'9', b'.', rest @ ..] = first else { return false };
        let count = usize::from(count - b'0');
        if self.is_ambiguous || count > PARTS_MAX {
            return false;
        }
        out.extend_from_slice(rest);
        self.values[1..count].iter().all(|value| {
            let Some(value) = value else { return false };
            out.extend_from_slice(value);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("https://issuer.test", "client")
    }

    fn joined(cookies: &[String]) -> Option<String> {
        let names = names();
        let mut parts = Parts::default();
        for cookie in cookies {
            let (name, rest) = cookie.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            parts.note(names.part(name.as_bytes()).unwrap(), value.as_bytes());
        }
        let mut out = Vec::new();
        parts.join(&mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_long_session_is_split_and_joined() {
        for length in [1, VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1, PARTS_MAX * VALUE_BYTES_MAX] {
            let sealed: String = ('a'..='z').cycle().take(length).collect();
            let set = names().set_session(&sealed, 60, 0).unwrap();
            assert_eq!(set.len(), length.div_ceil(VALUE_BYTES_MAX));
            assert!(set.iter().all(|cookie| cookie.len() <= 4096 && cookie.starts_with("__Host-")));
            assert_eq!(joined(&set).as_deref(), Some(sealed.as_str()));
            if set.len() > 1 {
                assert_eq!(joined(&set[..set.len() - 1]), None, "a part is missing");
                assert_eq!(joined(&set[1..]), None, "the first part is missing");
            }
        }
        assert_eq!(names().set_session(&"a".repeat(PARTS_MAX * VALUE_BYTES_MAX + 1), 60, 0), None);
    }

    #[test]
    fn a_part_that_comes_twice_is_no_session() {
        let set = names().set_session("abc", 60, 0).unwrap();
        let other = names().set_session("abd", 60, 0).unwrap();
        assert_eq!(joined(&[set[0].clone(), set[0].clone()]).as_deref(), Some("abc"));
        assert_eq!(joined(&[set[0].clone(), other[0].clone()]), None);
    }

    #[test]
    fn a_shorter_session_removes_the_parts_of_a_longer_one() {
        let set = names().set_session("abc", 60, 3).unwrap();
        assert_eq!(set.len(), 3);
        assert!(set[1].contains("-1=; Max-Age=0;") && set[2].contains("-2=; Max-Age=0;"), "{set:?}");
        assert_eq!(names().remove_session(2).len(), 2);
    }

    #[test]
    fn only_whole_names_are_known() {
        let names = names();
        let session = names.session.clone();
        for (name, is_known) in [
            (session.clone(), true),
            (format!("{session}-1"), true),
            (format!("{session}-9"), false),
            (format!("{session}-0"), false),
            (format!("{session}-10"), false),
            (format!("{session}x"), false),
            (names.of_login("0123456789abcdefghi"), true),
            ("session".to_owned(), false),
            (Names::new("https://issuer.test", "other").session, false),
        ] {
            assert_eq!(names.has(name.as_bytes()), is_known, "{name}");
        }
    }
}
