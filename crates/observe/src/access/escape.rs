//! Escaping of values, as nginx does it (`ngx_http_log_escape`, `ngx_escape_json`).

use model::log::Escape;
use wide::u8x16;

/// Bytes of a block, which are compared at once.
const BLOCK_BYTES: usize = 16;

/// Appends a value with its escapes.
pub(super) fn push(out: &mut Vec<u8>, escape: Escape, value: &[u8]) {
    match escape {
        Escape::Default => push_escaped(out, value, are_plain, push_default),
        Escape::Json => push_escaped(out, value, are_plain_in_json, push_json),
        Escape::None => out.extend_from_slice(value),
    }
}

/// `are_plain` marks bytes of a block that need no escape with ones; `push` appends one byte, with an escape
/// if it needs one.
#[inline]
fn push_escaped(
    out: &mut Vec<u8>,
    value: &[u8],
    are_plain: impl Fn(u8x16) -> u8x16,
    push: impl Fn(&mut Vec<u8>, u8),
) {
    if all_blocks(value, |block| are_plain(block).to_bitmask() == 0xffff) {
        return out.extend_from_slice(value);
    }
    for &byte in value {
        push(out, byte);
    }
}

/// Whether a condition holds for all bytes of a value. The order of bytes in a block is not theirs in the
/// value, and a byte may be in more than one block.
#[inline]
fn all_blocks(value: &[u8], is_true: impl Fn(u8x16) -> bool) -> bool {
    let Some(last) = value.last_chunk() else { return is_true(u8x16::new(short_block(value))) };
    let (blocks, _) = value.as_chunks();
    blocks.iter().all(|&block| is_true(u8x16::new(block))) && is_true(u8x16::new(*last))
}

/// A block of the bytes of a value that is shorter than a block, without a copy of variable length, which
/// would be a call.
#[inline]
fn short_block(value: &[u8]) -> [u8; BLOCK_BYTES] {
    if let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        return block_of(u64::from_ne_bytes(*first), u64::from_ne_bytes(*last));
    }
    let four_and_four = if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last))
    } else {
        // Up to three bytes are the first one, the one in the middle and the last one.
        let at = |index: usize| value.get(index).copied().unwrap_or(b' ');
        let four = u32::from_ne_bytes([at(0), at(value.len() / 2), at(value.len().saturating_sub(1)), b' ']);
        u64::from(four) << 32 | u64::from(four)
    };
    block_of(four_and_four, four_and_four)
}

/// A block of two halves.
#[inline]
fn block_of(low: u64, high: u64) -> [u8; BLOCK_BYTES] {
    (u128::from(high) << 64 | u128::from(low)).to_ne_bytes()
}

fn are_plain(bytes: u8x16) -> u8x16 {
    let above = bytes - u8x16::splat(b' ');
    above.min(u8x16::splat(b'~' - b' ')).simd_eq(above) & are_no_quotes(bytes)
}

fn are_plain_in_json(bytes: u8x16) -> u8x16 {
    bytes.max(u8x16::splat(b' ')).simd_eq(bytes) & are_no_quotes(bytes)
}

/// Marks bytes other than `"` and `\`.
fn are_no_quotes(bytes: u8x16) -> u8x16 {
    !(bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\')))
}

fn push_default(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' | ..b' ' | 0x7f.. => {
            out.extend_from_slice(b"\\x");
            out.extend_from_slice(&hex(byte));
        }
        plain => out.push(plain),
    }
}

fn push_json(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        b'"' | b'\\' => byte,
        b' '.. => return out.push(byte),
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

    #[test]
    fn a_byte_is_escaped_wherever_it_stands() {
        for len in 0..40 {
            let plain = vec![b'a'; len];
            for (at, byte) in (0..len).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut value = plain.clone();
                value[at] = byte;
                let (mut default, mut json) = (plain.clone(), plain.clone());
                let is_special = byte == b'"' || byte == b'\\';
                let (mut in_default, mut in_json) = (vec![byte], vec![byte]);
                if is_special || !(b' '..=b'~').contains(&byte) {
                    in_default = format!("\\x{byte:02X}").into_bytes();
                }
                if is_special || byte < b' ' {
                    in_json.clear();
                    push_json(&mut in_json, byte);
                    assert_eq!(in_json[0], b'\\');
                }
                default.splice(at..=at, in_default);
                json.splice(at..=at, in_json);
                for (escape, expected) in [(Escape::Default, default), (Escape::Json, json)] {
                    let mut out = b"before".to_vec();
                    push(&mut out, escape, &value);
                    assert_eq!(out.strip_prefix(b"before"), Some(&*expected));
                }
            }
        }
    }
}
