//! The fields of a message that an intermediary forwards (RFC 9110 section 7.6.1).

use crate::Known;

/// Whether a field concerns one connection only. `Transfer-Encoding` does: a forwarded body in chunks gets a
/// field of its own.
pub fn ends_here(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Whether a trailer field may end a forwarded body. Fields that frame or route a message may not (RFC 9110
/// section 6.5.1), and every field that a proxy reads does one or the other.
pub fn may_trail(name: &[u8]) -> bool {
    Known::of(name) == Known::Other
}

/// Further names that no trailer of a request may have: they identify a client and its rights, or change the
/// meaning of the request (RFC 9110 section 6.5.1).
const NOT_IN_REQUEST_TRAILERS: &[&[u8]] = &[
    b"authorization",
    b"cache-control",
    b"client-ip",
    b"content-encoding",
    b"content-location",
    b"content-range",
    b"content-type",
    b"cookie",
    b"forwarded",
    b"max-forwards",
    b"origin",
    b"pragma",
    b"range",
    b"referer",
    b"set-cookie",
    b"traceparent",
    b"tracestate",
    b"true-client-ip",
    b"user-agent",
    b"via",
];

/// The beginnings of such names, if many names have the same beginning.
const NOT_BEFORE_REQUEST_TRAILERS: &[&[u8]] = &[
    b"accept",
    b"access-control-",
    b"cf-",
    b"if-",
    b"proxy-",
    b"remote-",
    b"sec-",
    b"ssl-",
    b"x-auth-",
    b"x-client-",
    b"x-cluster-",
    b"x-forwarded-",
    b"x-http-method",
    b"x-method-",
    b"x-original-",
    b"x-real-",
    b"x-remote-",
    b"x-rewrite-",
    b"x-ssl-",
    b"x-user",
];

/// Whether a trailer field of a request may be forwarded.
pub fn may_trail_request(name: &[u8]) -> bool {
    let begins = |with: &&[u8]| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    may_trail(name)
        && !NOT_IN_REQUEST_TRAILERS.iter().any(|listed| name.eq_ignore_ascii_case(listed))
        && !NOT_BEFORE_REQUEST_TRAILERS.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_of_requests_say_nothing_of_the_client() {
        for name in [&b"X-Checksum"[..], b"Content-Digest", b"x-amz-checksum-crc32", b"Grpc-Status", b"X-A"] {
            assert!(may_trail_request(name), "{}", name.escape_ascii());
        }
        for name in
            [&b"Authorization"[..], b"X-Forwarded-User", b"cookie", b"Host", b"IF-MATCH", b"ssl-client-s-dn"]
        {
            assert!(!may_trail_request(name), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn trailers_that_frame_or_route_are_dropped() {
        assert!(may_trail(b"Grpc-Status") && may_trail(b"X-Checksum"));
        assert!(!may_trail(b"content-length") && !may_trail(b"Host") && !may_trail(b"X-Forwarded-For"));
    }
}
