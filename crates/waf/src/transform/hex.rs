//! Hexadecimal digits and bytes.

use super::outcome::{Outcome, hex_pair};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of a byte, in lower case.
pub(super) fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

pub(super) fn encode(text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Outcome::Same;
    }
    Outcome::New(text.iter().flat_map(|&byte| digits(byte)).collect())
}

/// Decodes pairs without a look at whether they are digits, as ModSecurity does. A single character at the
/// end is dropped.
pub(super) fn decode(text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Outcome::Same;
    }
    let digit = |byte: u8| {
        if byte >= b'A' { (byte & 0xdf).wrapping_sub(b'A').wrapping_add(10) } else { byte.wrapping_sub(b'0') }
    };
    Outcome::New(
        text.chunks_exact(2).map(|pair| (digit(pair[0]) << 4).wrapping_add(digit(pair[1]))).collect(),
    )
}

/// Decodes `0x` with at least one pair of digits, anywhere in the text.
pub(super) fn sql_decode(text: &[u8]) -> Outcome {
    let begins = |at: usize| {
        text[at] == b'0' && matches!(text.get(at + 1), Some(b'x' | b'X')) && hex_pair(text, at + 2).is_some()
    };
    let Some(first) = (0..text.len()).find(|&at| begins(at)) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    new.extend_from_slice(&text[..first]);
    let mut at = first;
    while at < text.len() {
        if !begins(at) {
            new.push(text[at]);
            at += 1;
            continue;
        }
        at += 2;
        while let Some(byte) = hex_pair(text, at) {
            new.push(byte);
            at += 2;
        }
    }
    Outcome::New(new)
}
