//! Percent-encoding (RFC 3986 section 2.1), forms' `+`, and the `%uHHHH` of Microsoft's IIS.

use memchr::memchr2;

use super::hex::digits;
use super::outcome::{Outcome, full_width, hex_pair, low_byte};
use super::unicode::UnicodeMap;

/// Decodes percent-encoding and `+`; none if nothing changes. An invalid escape stays as it is.
pub(crate) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    decode_with(text, |_| None)
}

/// Decodes; `unicode` returns the byte of a `%uHHHH`, given its position.
fn decode_with(text: &[u8], unicode: impl Fn(usize) -> Option<u8>) -> Option<Vec<u8>> {
    let first = memchr2(b'%', b'+', text)?;
    let mut new = Vec::with_capacity(text.len());
    let (mut from, mut next) = (0, Some(first));
    let mut is_changed = false;
    while let Some(at) = next {
        new.extend_from_slice(&text[from..at]);
        let (byte, len) = if text[at] == b'+' {
            (b' ', 1)
        } else if let Some(byte) = hex_pair(text, at + 1) {
            (byte, 3)
        } else if let Some(byte) = unicode(at) {
            (byte, 6)
        } else {
            (b'%', 1)
        };
        is_changed |= len > 1 || text[at] == b'+';
        new.push(byte);
        from = at + len;
        next = memchr2(b'%', b'+', &text[from..]).map(|after| from + after);
    }
    new.extend_from_slice(&text[from..]);
    is_changed.then_some(new)
}

pub(super) fn decode(text: &[u8]) -> Outcome {
    decoded(text).map_or(Outcome::Same, Outcome::New)
}

pub(super) fn decode_uni(text: &[u8], map: Option<&UnicodeMap>) -> Outcome {
    let unicode = |at: usize| {
        if !matches!(text.get(at + 1), Some(b'u' | b'U')) {
            return None;
        }
        let (high, low) = (hex_pair(text, at + 2)?, hex_pair(text, at + 4)?);
        let mapped = map.and_then(|map| map.byte(u16::from_be_bytes([high, low])));
        mapped.or(if high == 0xff { Some(full_width(low)) } else { low_byte(text, at + 2) })
    };
    decode_with(text, unicode).map_or(Outcome::Same, Outcome::New)
}

pub(super) fn encode(text: &[u8]) -> Outcome {
    if text.iter().all(|&byte| is_plain(byte)) {
        return Outcome::Same;
    }
    let mut new = Vec::with_capacity(text.len() * 2);
    for &byte in text {
        match byte {
            b' ' => new.push(b'+'),
            _ if is_plain(byte) => new.push(byte),
            _ => {
                new.push(b'%');
                new.extend_from_slice(&digits(byte));
            }
        }
    }
    Outcome::New(new)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'*'
}
