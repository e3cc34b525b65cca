//! Changes to a request's path and host, and redirects (Gateway API: `HTTPPathModifier`).

use serde::Serialize;

use crate::HeadText;

/// A change to a path. The query stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum PathChange {
    /// Replaces the whole path.
    Full(String),
    /// Replaces a prefix of whole path elements and keeps the rest.
    Prefix {
        /// The prefix that the route has matched. A final slash does not count.
        from: String,
        /// The replacement. A final slash does not count, and an empty result becomes `/`.
        to: String,
    },
}

/// Another path or host for the endpoint (Gateway API: `HTTPURLRewriteFilter`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UrlRewrite {
    /// The new `Host`, in place of the client's.
    pub host: Option<HeadText>,
    /// The change to the path.
    pub path: Option<PathChange>,
}

/// A redirect that replaces parts of the URL (Gateway API: `HTTPRequestRedirectFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestRedirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The scheme; none for that of the request.
    pub scheme: Option<Scheme>,
    /// The host; none for that of the request, without its port.
    pub host: Option<HeadText>,
    /// The port; none for the scheme's own where a scheme is given, and otherwise for the listener's. One
    /// that is the scheme's own is not named.
    pub port: Option<u16>,
    /// The port of the listener as its clients know it, which may differ from the port that the proxy listens
    /// at.
    pub listener_port: u16,
    /// The change to the path.
    pub path: Option<PathChange>,
}

/// Schemes of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Scheme {
    /// `http`, in clear.
    Http,
    /// `https`, over TLS.
    Https,
}

impl PathChange {
    /// The new path. Nothing in it is escaped or unescaped.
    pub fn apply(&self, path: &[u8]) -> Vec<u8> {
        let (begin, rest) = match self {
            Self::Full(path) => (path.as_str(), &[][..]),
            Self::Prefix { from, to } => {
                let rest = path.strip_prefix(from.trim_end_matches('/').as_bytes()).unwrap_or_default();
                (to.trim_end_matches('/'), rest)
            }
        };
        let slash =
            if begin.starts_with('/') || (begin.is_empty() && rest.starts_with(b"/")) { "" } else { "/" };
        [slash.as_bytes(), begin.as_bytes(), rest].concat()
    }
}

impl Scheme {
    /// The scheme as in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of URLs that name none.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the table in the documentation of `HTTPPathModifier.replacePrefixMatch`, and what that leaves
    /// open.
    #[test]
    fn prefixes_are_replaced_as_the_gateway_api_says() {
        for (path, from, to, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/bar", "/", "/xyz", "/xyz/bar"),
            ("/bar", "/", "/", "/bar"),
            ("/foo/bar", "/foo", "xyz", "/xyz/bar"),
        ] {
            let change = PathChange::Prefix { from: from.to_owned(), to: to.to_owned() };
            let changed = String::from_utf8(change.apply(path.as_bytes())).unwrap();
            assert_eq!(changed, expected, "{path} {from} {to}");
        }
    }

    #[test]
    fn a_whole_path_is_what_it_is() {
        assert_eq!(PathChange::Full("/one/".to_owned()).apply(b"/a/b"), b"/one/");
        assert_eq!(PathChange::Full(String::new()).apply(b"/a/b"), b"/");
    }
}
