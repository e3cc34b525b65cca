use serde::Serialize;

/// Cross-origin resource sharing (Fetch standard, "CORS protocol"): which origins may use a route, and with
/// which methods and headers. The texts are values of headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cors {
    /// The origins that may use the route.
    pub origins: Origins,
    /// Whether requests may carry credentials.
    pub credentials: bool,
    /// Methods that are allowed.
    pub methods: String,
    /// Request headers that are allowed.
    pub headers: String,
    /// Seconds for which a browser may cache the answer to a preflight.
    pub max_age: String,
    /// Response headers that scripts may read.
    pub expose: Option<String>,
}

/// Origins that are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Origins {
    /// All, also requests without one.
    Any,
    /// The origins that match an entry of the list.
    Listed(Box<[Origin]>),
}

/// An origin such as `https://a.test:8443`, or one for all names a label below a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The scheme, such as `https://`.
    pub scheme: String,
    /// Whether one label is required before `rest`.
    pub is_wildcard: bool,
    /// The host, or its parent with the dot before it, and the port.
    pub rest: String,
}

impl Origin {
    /// Whether an `Origin` as sent matches. As in ingress-nginx letter case does not count, and only the end
    /// has to match.
    pub fn matches(&self, origin: &[u8]) -> bool {
        let Some(before) = strip_end(origin, self.rest.as_bytes()) else { return false };
        let before = if self.is_wildcard {
            let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            let label = before.iter().rev().take_while(|byte| is_label(byte)).count();
            if label == 0 {
                return false;
            }
            &before[..before.len() - label]
        } else {
            before
        };
        strip_end(before, self.scheme.as_bytes()).is_some()
    }
}

fn strip_end<'t>(text: &'t [u8], end: &[u8]) -> Option<&'t [u8]> {
    let at = text.len().checked_sub(end.len())?;
    text[at..].eq_ignore_ascii_case(end).then_some(&text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_one_label() {
        let origin = |is_wildcard, rest: &str| Origin {
            scheme: "https://".to_owned(),
            is_wildcard,
            rest: rest.to_owned(),
        };
        let one = origin(false, "a.test:81");
        assert!(one.matches(b"https://a.test:81") && one.matches(b"HTTPS://A.test:81"));
        assert!(!one.matches(b"http://a.test:81") && !one.matches(b"https://a.test") && !one.matches(b""));
        let below = origin(true, ".a.test");
        assert!(below.matches(b"https://x-1.a.test"));
        for other in ["https://a.test", "https://.a.test", "https://y.x.a.test", "http://x.a.test"] {
            assert!(!below.matches(other.as_bytes()), "{other}");
        }
    }
}
