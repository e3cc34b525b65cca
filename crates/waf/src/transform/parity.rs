//! The parity of bytes with seven bits.

use super::outcome::Outcome;

pub(super) fn even(text: &[u8]) -> Outcome {
    each(text, |byte| if byte.count_ones() % 2 == 1 { byte | 0x80 } else { byte & 0x7f })
}

pub(super) fn odd(text: &[u8]) -> Outcome {
    each(text, |byte| if byte.count_ones() % 2 == 1 { byte & 0x7f } else { byte | 0x80 })
}

pub(super) fn zero(text: &[u8]) -> Outcome {
    each(text, |byte| byte & 0x7f)
}

fn each(text: &[u8], change: impl Fn(u8) -> u8) -> Outcome {
    if text.iter().all(|&byte| change(byte) == byte) {
        return Outcome::Same;
    }
    Outcome::New(text.iter().map(|&byte| change(byte)).collect())
}
