//! What a cache tells clients of what it did: `Cache-Status` (RFC 9211).

/// Why a request went on to an endpoint (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was told to handle no such request.
    Bypass,
    /// The method.
    Method,
    /// Nothing is stored for the URI.
    UriMiss,
    /// Nothing that is stored for the URI matches the request.
    VaryMiss,
    /// One of both.
    Miss,
    /// The request asked for it.
    Request,
    /// What is stored is stale.
    Stale,
    /// Only a part of it is stored.
    Partial,
}

impl Forward {
    /// The token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// What a cache did for a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus<'a> {
    /// The name of the cache: letters, digits and `-`, a letter first.
    pub cache: &'a str,
    /// The response is a stored one, and no request was made for it.
    pub hit: bool,
    /// Why a request was made. With it, `hit` is not told (section 2.1).
    pub forward: Option<Forward>,
    /// What the endpoint answered, where that differs from what the client gets: 304.
    pub forward_status: Option<u16>,
    /// For how many seconds the response is still fresh.
    pub ttl: Option<i64>,
    /// The response was stored.
    pub stored: bool,
    /// The request went along with another one.
    pub collapsed: bool,
    /// The key in the cache.
    pub key: Option<&'a str>,
    /// Anything else; a token.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.cache.as_bytes());
        match self.forward {
            None if self.hit => out.extend(b"; hit"),
            None => {}
            Some(forward) => self.write_forward(forward, out),
        }
        if let Some(ttl) = self.ttl {
            out.extend(b"; ttl=");
            out.extend(itoa::Buffer::new().format(ttl).as_bytes());
        }
        if let Some(key) = self.key {
            out.extend(b"; key=");
            write_text(key, out);
        }
        if let Some(detail) = self.detail {
            out.extend(b"; detail=");
            out.extend(detail.as_bytes());
        }
    }

    fn write_forward(&self, forward: Forward, out: &mut Vec<u8>) {
        out.extend(b"; fwd=");
        out.extend(forward.as_str().as_bytes());
        if let Some(status) = self.forward_status {
            out.extend(b"; fwd-status=");
            out.extend(itoa::Buffer::new().format(status).as_bytes());
        }
        if self.stored {
            out.extend(b"; stored");
        }
        if self.collapsed {
            out.extend(b"; collapsed");
        }
    }
}

/// A string of structured fields (RFC 9651 section 4.1.6), in which only visible ASCII can stand: the rest becomes `?`.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9211 section 3, and what could break out of a string.
    #[test]
    fn what_was_done_is_told() {
        let cache = CacheStatus { cache: "ExampleCache", ..CacheStatus::default() };
        for (status, text) in [
            (CacheStatus { hit: true, ..cache }, "ExampleCache; hit"),
            (CacheStatus { hit: true, ttl: Some(376), ..cache }, "ExampleCache; hit; ttl=376"),
            (CacheStatus { hit: true, ttl: Some(-412), ..cache }, "ExampleCache; hit; ttl=-412"),
            (
                CacheStatus { forward: Some(Forward::UriMiss), collapsed: true, hit: true, ..cache },
                "ExampleCache; fwd=uri-miss; collapsed",
            ),
            (
                CacheStatus { forward: Some(Forward::Stale), forward_status: Some(304), ..cache },
                "ExampleCache; fwd=stale; fwd-status=304",
            ),
            (
                CacheStatus { forward: Some(Forward::VaryMiss), stored: true, ttl: Some(60), ..cache },
                "ExampleCache; fwd=vary-miss; stored; ttl=60",
            ),
            (
                CacheStatus { forward: Some(Forward::Bypass), detail: Some("cookie"), ..cache },
                "ExampleCache; fwd=bypass; detail=cookie",
            ),
            (
                CacheStatus { hit: true, key: Some("/a\"b\\\r\n\u{e4}"), ..cache },
                "ExampleCache; hit; key=\"/a\\\"b\\\\????\"",
            ),
        ] {
            let mut out = Vec::new();
            status.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
