use serde::Serialize;

/// Changes to the headers of a request or of a response (Gateway API: `HTTPHeaderFilter`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeaderChanges {
    set: Vec<(String, String)>,
    add: Vec<(String, String)>,
    remove: Vec<String>,
}

/// A change that would make another message of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChange {
    /// No header can have this name.
    #[error("{0:?} is no name of a header")]
    Name(String),
    /// No header can have this value.
    #[error("the value of header {0} holds control characters")]
    Value(String),
    /// The proxy itself sets this header for each connection and message.
    #[error("header {0} says where a message ends or what becomes of a connection, and cannot be changed")]
    Framing(String),
    /// A request has one.
    #[error("a request has one Host, which can be set and nothing else")]
    Host,
}

/// Headers that belong to a connection or say where a message ends (RFC 9110 section 7.6.1, RFC 9112 section
/// 6).
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

impl HeaderChanges {
    /// Changes to a head. Of several changes to a name, whatever its letter case, the first counts.
    ///
    /// `set`: headers that get this value alone and lose others. `add`: values that are appended to those
    /// received. `remove`: headers that are dropped.
    ///
    /// # Errors
    ///
    /// A name or a value is invalid, or a header must not be changed.
    pub fn new(
        set: Vec<(String, String)>,
        add: Vec<(String, String)>,
        remove: Vec<String>,
    ) -> Result<Self, InvalidChange> {
        let all = || set.iter().chain(&add);
        for name in all().map(|(name, _)| name).chain(&remove) {
            check_name(name)?;
        }
        if let Some((name, _)) = all().find(|(_, value)| !is_value(value)) {
            return Err(InvalidChange::Value(name.clone()));
        }
        if add.iter().map(|(name, _)| name).chain(&remove).any(|name| name.eq_ignore_ascii_case("host")) {
            return Err(InvalidChange::Host);
        }
        let mut known = Vec::new();
        let mut is_first = |name: &str| {
            let name = name.to_ascii_lowercase();
            let is_first = !known.contains(&name);
            known.push(name);
            is_first
        };
        let set = set.into_iter().filter(|(name, _)| is_first(name)).collect();
        let add = add.into_iter().filter(|(name, _)| is_first(name)).collect();
        let remove = remove.into_iter().filter(|name| is_first(name)).collect();
        Ok(Self { set, add, remove })
    }

    /// Headers that have this value alone, whatever came.
    pub fn set(&self) -> &[(String, String)] {
        &self.set
    }

    /// Values that are appended to those received under the name.
    pub fn add(&self) -> &[(String, String)] {
        &self.add
    }

    /// Headers that do not pass.
    pub fn remove(&self) -> &[String] {
        &self.remove
    }
}

/// RFC 9110 section 5.6.2: a token.
fn check_name(name: &str) -> Result<(), InvalidChange> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_of_token) {
        return Err(InvalidChange::Name(name.to_owned()));
    }
    if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) {
        return Err(InvalidChange::Framing(name.to_owned()));
    }
    Ok(())
}

/// RFC 9110 section 5.5, without its obsolete forms.
fn is_value(value: &str) -> bool {
    !value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn of_a_name_the_first_change_counts() {
        let changes = HeaderChanges::new(
            vec![pair("X-A", "1"), pair("x-a", "2")],
            vec![pair("X-a", "3"), pair("x-b", "4")],
            vec!["X-B".to_owned(), "x-c".to_owned()],
        );
        let changes = changes.unwrap();
        assert_eq!((changes.set(), changes.add()), (&[pair("X-A", "1")][..], &[pair("x-b", "4")][..]));
        assert_eq!(changes.remove(), ["x-c"]);
    }

    #[test]
    fn what_would_make_another_message_is_refused() {
        let set = |name, value| HeaderChanges::new(vec![pair(name, value)], Vec::new(), Vec::new());
        assert!(set("Host", "a.test").is_ok() && set("x", "a\tb").is_ok());
        for name in ["", "a b", ":path", "a:"] {
            assert_eq!(set(name, "x"), Err(InvalidChange::Name(name.to_owned())));
        }
        assert_eq!(set("x", "a\r\nb: c"), Err(InvalidChange::Value("x".to_owned())));
        for name in ["Content-Length", "transfer-encoding", "Connection", "TE"] {
            let removed = HeaderChanges::new(Vec::new(), Vec::new(), vec![name.to_owned()]);
            assert_eq!(removed, Err(InvalidChange::Framing(name.to_owned())));
        }
        assert_eq!(
            HeaderChanges::new(Vec::new(), vec![pair("host", "a")], Vec::new()),
            Err(InvalidChange::Host)
        );
    }
}
