//! Escaping of values, as nginx does it (`ngx_http_log_escape`, `ngx_escape_json`).

use model::log::Escape;

/// Appends a value with its escapes.
pub(super) fn push(out: &mut Vec<u8>, escape: Escape, value: &[u8]) {
    match escape {
        Escape::Default => push_escaped(out, value, is_plain, push_hex),
        Escape::Json => push_escaped(out, value, is_plain_json, push_json),
        Escape::None => out.extend_from_slice(value),
    }
}

fn push_escaped(
    out: &mut Vec<u8>,
    value: &[u8],
    is_plain: impl Fn(u8) -> bool,
    push: impl Fn(&mut Vec<u8>, u8),
) {
    // The loop has no early exit, so that it compares many bytes at once; hardly any value needs an escape.
    if value.iter().fold(true, |plain, &byte| plain & is_plain(byte)) {
        return out.extend_from_slice(value);
    }
    for &byte in value {
        if is_plain(byte) { out.push(byte) } else { push(out, byte) }
    }
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

fn is_plain_json(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

fn push_hex(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(b"\\x");
    out.extend_from_slice(&hex(byte));
}

fn push_json(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        b'"' | b'\\' => byte,
        _ => {
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&hex(byte));
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

pub(super) fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(escape: Escape, value: &[u8]) -> String {
        let mut out = Vec::new();
        push(&mut out, escape, value);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn values_are_escaped_as_in_nginx() {
        for (value, default, json) in [
            (&b"curl/8 (x)"[..], "curl/8 (x)", "curl/8 (x)"),
            (b"a\"b\\c", r"a\x22b\x5Cc", r#"a\"b\\c"#),
            (b"\n\r\t\x08\x0c\x01\x1f", r"\x0A\x0D\x09\x08\x0C\x01\x1F", r"\n\r\t\b\f\u0001\u001F"),
            ("\u{e9}".as_bytes(), r"\xC3\xA9", "\u{e9}"),
            (b"\x7f", r"\x7F", "\x7f"),
        ] {
            assert_eq!(escaped(Escape::Default, value), default);
            assert_eq!(escaped(Escape::Json, value), json);
            assert_eq!(escaped(Escape::None, value).as_bytes(), value);
        }
    }
}
