//! The host that a request is for (RFC 9110 section 7.2).

use std::ops::Range;

use crate::block::{is_no_plain_host, position};

/// Whether bytes can be the value of a `Host` field: `uri-host [ ":" port ]` of RFC 3986 section 3.2.2.
pub fn is_valid(value: &[u8]) -> bool {
    let name_len = if value.first() == Some(&b'[') {
        value.iter().position(|&b| b == b']').filter(|&end| is_ip_literal(&value[1..end])).map(|end| end + 1)
    } else {
        Some(value.iter().position(|&b| !NAME[b as usize]).unwrap_or(value.len()))
    };
    name_len.is_some_and(|len| is_end(&value[len..]))
}

/// Checks the value at a position in a head as [`is_valid`] does. Most host names consist of letters, digits,
/// dashes and dots. The scan for those runs over the head instead of the value, because a value shorter than
/// a block cannot be loaded as one.
pub(crate) fn is_valid_at(head: &[u8], place: Range<usize>) -> bool {
    let plain_end = position(head, place.start, is_no_plain_host).min(place.end);
    is_end(&head[plain_end..place.end]) || is_valid(&head[place])
}

/// Whether a host name may end here: nothing follows, or a port does.
fn is_end(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Splits a host value into the name and the port, if it has one.
pub fn split_port(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after_bracket = value.iter().rposition(|&b| b == b']').map_or(0, |at| at + 1);
    match value[after_bracket..].iter().position(|&b| b == b':') {
        Some(at) => (&value[..after_bracket + at], Some(&value[after_bracket + at + 1..])),
        None => (value, None),
    }
}

fn is_ip_literal(inner: &[u8]) -> bool {
    inner.len() >= 2 && inner.iter().all(|&b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
}

/// Whether a byte is allowed in a `reg-name`: unreserved, sub-delims, and the `%` of an escape.
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"-._~%!$&'()*+,;=";
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_a_host() {
        for host in ["a.b", "a.b:80", "[::1]", "[::1]:80", "127.0.0.1:8080", "a_b", "", "a.b."] {
            assert!(is_valid(host.as_bytes()), "{host}");
        }
        for host in ["a.b:80", "web-1.test", "a_b", "[::1]:80", "a b", ":80", "web.test:", ""] {
            for (before, after) in
                [("", ""), ("Host: ", "\r\n\r\n"), ("http://", "/path/to/page HTTP/1.1\r\n")]
            {
                let head = [before, host, after].concat();
                let place = before.len()..before.len() + host.len();
                assert_eq!(is_valid_at(head.as_bytes(), place), is_valid(host.as_bytes()), "{head:?}");
            }
        }
        for host in ["a b", "a/b", "a@b", "a:b", "[::1", "::1", "a:80:80", "[]", "a\u{7f}", "a:123456"] {
            assert!(!is_valid(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn ports_are_split_off() {
        assert_eq!(split_port(b"a:80"), (&b"a"[..], Some(&b"80"[..])));
        assert_eq!(split_port(b"[::1]"), (&b"[::1]"[..], None));
        assert_eq!(split_port(b"[::1]:8"), (&b"[::1]"[..], Some(&b"8"[..])));
    }
}
