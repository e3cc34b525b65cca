//! The static table (RFC 9204 appendix A).

use std::ops::Range;

use crate::compression::Token;
use crate::compression::checked::Checked;
use crate::field::Known;

/// A field of the table, as a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The line: name, colon and space, value, CRLF.
    pub(super) line: &'static [u8],
    pub(super) name_len: usize,
    pub(super) checked: Checked,
}

impl Entry {
    pub(super) fn value(&self) -> &'static [u8] {
        &self.line[self.name_len + 2..self.line.len() - 2]
    }
}

/// Defines `ENTRIES` from names, values and tokens, in the order of the indices.
macro_rules! entries {
    ($($name:literal $value:literal $token:expr,)*) => {
        /// The entries, from index 0 on.
        pub(super) static ENTRIES: [Entry; ENTRIES_LEN] = [$(Entry {
            line: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name_len: $name.len(),
            checked: Checked {
                token: $token,
                is_plain_name: $name.as_bytes()[0] != b':',
                name_is_valid: true,
                value_is_valid: true,
            },
        },)*];
    };
}

const ENTRIES_LEN: usize = 99;
const OTHER: Token = Token::Field(Known::Other);

entries! {
    ":authority" "" Token::Authority,
    ":path" "/" Token::Path,
    "age" "0" OTHER,
    "content-disposition" "" OTHER,
    "content-length" "0" Token::Field(Known::ContentLength),
    "cookie" "" Token::Cookie,
    "date" "" Token::Field(Known::Date),
    "etag" "" OTHER,
    "if-modified-since" "" OTHER,
    "if-none-match" "" OTHER,
    "last-modified" "" OTHER,
    "link" "" OTHER,
    "location" "" OTHER,
    "referer" "" OTHER,
    "set-cookie" "" OTHER,
    ":method" "CONNECT" Token::Method,
    ":method" "DELETE" Token::Method,
    ":method" "GET" Token::Method,
    ":method" "HEAD" Token::Method,
    ":method" "OPTIONS" Token::Method,
    ":method" "POST" Token::Method,
    ":method" "PUT" Token::Method,
    ":scheme" "http" Token::Scheme,
    ":scheme" "https" Token::Scheme,
    ":status" "103" Token::Status,
    ":status" "200" Token::Status,
    ":status" "304" Token::Status,
    ":status" "404" Token::Status,
    ":status" "503" Token::Status,
    "accept" "*/*" OTHER,
    "accept" "application/dns-message" OTHER,
    "accept-encoding" "gzip, deflate, br" OTHER,
    "accept-ranges" "bytes" OTHER,
    "access-control-allow-headers" "cache-control" OTHER,
    "access-control-allow-headers" "content-type" OTHER,
    "access-control-allow-origin" "*" OTHER,
    "cache-control" "max-age=0" OTHER,
    "cache-control" "max-age=2592000" OTHER,
    "cache-control" "max-age=604800" OTHER,
    "cache-control" "no-cache" OTHER,
    "cache-control" "no-store" OTHER,
    "cache-control" "public, max-age=31536000" OTHER,
    "content-encoding" "br" OTHER,
    "content-encoding" "gzip" OTHER,
    "content-type" "application/dns-message" OTHER,
    "content-type" "application/javascript" OTHER,
    "content-type" "application/json" OTHER,
    "content-type" "application/x-www-form-urlencoded" OTHER,
    "content-type" "image/gif" OTHER,
    "content-type" "image/jpeg" OTHER,
    "content-type" "image/png" OTHER,
    "content-type" "text/css" OTHER,
    "content-type" "text/html; charset=utf-8" OTHER,
    "content-type" "text/plain" OTHER,
    "content-type" "text/plain;charset=utf-8" OTHER,
    "range" "bytes=0-" OTHER,
    "strict-transport-security" "max-age=31536000" Token::Field(Known::StrictTransportSecurity),
    "strict-transport-security" "max-age=31536000; includesubdomains" Token::Field(Known::StrictTransportSecurity),
    "strict-transport-security" "max-age=31536000; includesubdomains; preload" Token::Field(Known::StrictTransportSecurity),
    "vary" "accept-encoding" OTHER,
    "vary" "origin" OTHER,
    "x-content-type-options" "nosniff" OTHER,
    "x-xss-protection" "1; mode=block" OTHER,
    ":status" "100" Token::Status,
    ":status" "204" Token::Status,
    ":status" "206" Token::Status,
    ":status" "302" Token::Status,
    ":status" "400" Token::Status,
    ":status" "403" Token::Status,
    ":status" "421" Token::Status,
    ":status" "425" Token::Status,
    ":status" "500" Token::Status,
    "accept-language" "" OTHER,
    "access-control-allow-credentials" "FALSE" OTHER,
    "access-control-allow-credentials" "TRUE" OTHER,
    "access-control-allow-headers" "*" OTHER,
    "access-control-allow-methods" "get" OTHER,
    "access-control-allow-methods" "get, post, options" OTHER,
    "access-control-allow-methods" "options" OTHER,
    "access-control-expose-headers" "content-length" OTHER,
    "access-control-request-headers" "content-type" OTHER,
    "access-control-request-method" "get" OTHER,
    "access-control-request-method" "post" OTHER,
    "alt-svc" "clear" OTHER,
    "authorization" "" OTHER,
    "content-security-policy" "script-src 'none'; object-src 'none'; base-uri 'none'" OTHER,
    "early-data" "1" OTHER,
    "expect-ct" "" OTHER,
    "forwarded" "" OTHER,
    "if-range" "" OTHER,
    "origin" "" OTHER,
    "purpose" "prefetch" OTHER,
    "server" "" Token::Field(Known::Server),
    "timing-allow-origin" "*" OTHER,
    "upgrade-insecure-requests" "1" OTHER,
    "user-agent" "" OTHER,
    "x-forwarded-for" "" Token::Field(Known::XForwardedFor),
    "x-frame-options" "deny" OTHER,
    "x-frame-options" "sameorigin" OTHER,
}

/// The indexes of the entries with a name, which has to be in lower case: a range, and one more.
pub(super) fn with_name(name: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let (first, second) = match name {
        b":authority" => (0..1, 0..0),
        b":method" => (15..22, 0..0),
        b":path" => (1..2, 0..0),
        b":scheme" => (22..24, 0..0),
        b":status" => (24..29, 63..72),
        b"accept" => (29..31, 0..0),
        b"accept-encoding" => (31..32, 0..0),
        b"accept-language" => (72..73, 0..0),
        b"accept-ranges" => (32..33, 0..0),
        b"access-control-allow-credentials" => (73..75, 0..0),
        b"access-control-allow-headers" => (33..35, 75..76),
        b"access-control-allow-methods" => (76..79, 0..0),
        b"access-control-allow-origin" => (35..36, 0..0),
        b"access-control-expose-headers" => (79..80, 0..0),
        b"access-control-request-headers" => (80..81, 0..0),
        b"access-control-request-method" => (81..83, 0..0),
        b"age" => (2..3, 0..0),
        b"alt-svc" => (83..84, 0..0),
        b"authorization" => (84..85, 0..0),
        b"cache-control" => (36..42, 0..0),
        b"content-disposition" => (3..4, 0..0),
        b"content-encoding" => (42..44, 0..0),
        b"content-length" => (4..5, 0..0),
        b"content-security-policy" => (85..86, 0..0),
        b"content-type" => (44..55, 0..0),
        b"cookie" => (5..6, 0..0),
        b"date" => (6..7, 0..0),
        b"early-data" => (86..87, 0..0),
        b"etag" => (7..8, 0..0),
        b"expect-ct" => (87..88, 0..0),
        b"forwarded" => (88..89, 0..0),
        b"if-modified-since" => (8..9, 0..0),
        b"if-none-match" => (9..10, 0..0),
        b"if-range" => (89..90, 0..0),
        b"last-modified" => (10..11, 0..0),
        b"link" => (11..12, 0..0),
        b"location" => (12..13, 0..0),
        b"origin" => (90..91, 0..0),
        b"purpose" => (91..92, 0..0),
        b"range" => (55..56, 0..0),
        b"referer" => (13..14, 0..0),
        b"server" => (92..93, 0..0),
        b"set-cookie" => (14..15, 0..0),
        b"strict-transport-security" => (56..59, 0..0),
        b"timing-allow-origin" => (93..94, 0..0),
        b"upgrade-insecure-requests" => (94..95, 0..0),
        b"user-agent" => (95..96, 0..0),
        b"vary" => (59..61, 0..0),
        b"x-content-type-options" => (61..62, 0..0),
        b"x-forwarded-for" => (96..97, 0..0),
        b"x-frame-options" => (97..99, 0..0),
        b"x-xss-protection" => (62..63, 0..0),
        _ => return None,
    };
    Some((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(entry: &Entry) -> &'static [u8] {
        &entry.line[..entry.name_len]
    }

    #[test]
    fn entries_are_as_the_decoder_would_check_them() {
        for entry in &ENTRIES {
            assert_eq!(entry.checked, Checked::name(entry.line, entry.name_len));
            assert!(entry.line.ends_with(b"\r\n"));
        }
    }

    #[test]
    fn every_entry_is_found_by_its_name() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            let (first, second) = with_name(name(entry)).unwrap();
            assert!(first.contains(&index) || second.contains(&index), "{index}");
            let same = first.chain(second).all(|other| name(&ENTRIES[other]) == name(entry));
            assert!(same, "{index}");
        }
        assert!(with_name(b"x-other").is_none() && with_name(b"").is_none());
    }
}
