//! Base64, decoded as far as it can be (RFC 4648 section 4).

use super::outcome::Outcome;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of a character; none for one outside of the alphabet.
fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes values. One that is alone at the end stands for no byte.
fn decoded(values: impl Iterator<Item = u32>, capacity: usize) -> Vec<u8> {
    let mut new = Vec::with_capacity(capacity / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for value in values {
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            new.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    new
}

pub(super) fn decode(text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Outcome::Same;
    }
    Outcome::New(decoded(text.iter().map_while(|&byte| value(byte)), text.len()))
}

pub(super) fn decode_ext(text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Outcome::Same;
    }
    Outcome::New(decoded(text.iter().filter_map(|&byte| value(byte)), text.len()))
}

pub(super) fn encode(text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Outcome::Same;
    }
    let mut new = Vec::with_capacity(text.len().div_ceil(3) * 4);
    for chunk in text.chunks(3) {
        let mut bits = 0u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
        }
        for index in 0..4 {
            let character = ALPHABET[(bits >> (18 - 6 * index) & 63) as usize];
            new.push(if index <= chunk.len() { character } else { b'=' });
        }
    }
    Outcome::New(new)
}
