//! The host that a request is for (RFC 9110 section 7.2).

/// Whether bytes can be the value of a `Host` field: `uri-host [ ":" port ]` of RFC 3986 section 3.2.2.
pub fn is_valid(value: &[u8]) -> bool {
    let name_len = if value.first() == Some(&b'[') {
        value.iter().position(|&b| b == b']').filter(|&end| is_ip_literal(&value[1..end])).map(|end| end + 1)
    } else {
        Some(value.iter().position(|&b| !NAME[b as usize]).unwrap_or(value.len()))
    };
    name_len.is_some_and(|len| match &value[len..] {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}

/// Splits a port off, if there is one.
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

/// Bytes of a `reg-name`: unreserved, sub-delims and the `%` of an escape.
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
