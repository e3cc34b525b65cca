//! The report of a cache to clients: `Cache-Status` (RFC 9211).

/// The reason for forwarding a request to an endpoint (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache is configured not to handle such requests.
    Bypass,
    /// The method is not cached.
    Method,
    /// No response is stored for the URI.
    UriMiss,
    /// No response that is stored for the URI matches the request.
    VaryMiss,
    /// Either of these misses.
    Miss,
    /// The request requires it.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response is incomplete.
    Partial,
}

impl Forward {
    /// The token in the header.
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

/// The handling of a request by a cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus<'a> {
    /// The name of the cache: letters, digits and `-`, beginning with a letter.
    pub cache: &'a str,
    /// The response comes from the cache, without a request to the endpoint.
    pub hit: bool,
    /// The reason for the request to the endpoint. If it is given, `hit` is not written (section 2.1).
    pub forward: Option<Forward>,
    /// The endpoint's status, if it differs from the client's: 304.
    pub forward_status: Option<u16>,
    /// Seconds for which the response is still fresh.
    pub ttl: Option<i64>,
    /// The response was stored.
    pub stored: bool,
    /// The request was combined with another one.
    pub collapsed: bool,
    /// The key in the cache.
    pub key: Option<&'a str>,
    /// A token with further details.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the value of the header.
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

/// Writes a string of structured fields (RFC 9651 section 4.1.6), which may contain only visible ASCII: any
/// other character becomes `?`.
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

    /// The examples of RFC 9211 section 3, and texts that could break out of a string.
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
