//! The form of all transformations, and the digits and spaces that several of them read.

use std::ops::Range;

/// The result of a transformation.
pub(super) enum Outcome {
    /// The text is not changed.
    Same,
    /// A part of the text is left.
    Part(Range<usize>),
    /// The text is a new one.
    New(Vec<u8>),
}

/// White space as C has it in the locale of ModSecurity.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A hexadecimal digit's value.
pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The byte that two hexadecimal digits at `at` stand for.
pub(super) fn hex_pair(text: &[u8], at: usize) -> Option<u8> {
    Some(hex_digit(*text.get(at)?)? << 4 | hex_digit(*text.get(at + 1)?)?)
}

/// The low byte of a code point of four digits at `at`. A full-width form of ASCII (U+FF01 to U+FF5E)
/// becomes ASCII.
pub(super) fn low_byte(text: &[u8], at: usize) -> Option<u8> {
    let (high, low) = (hex_pair(text, at)?, hex_pair(text, at + 2)?);
    Some(if high == 0xff { full_width(low) } else { low })
}

/// The ASCII character of a full-width form, by the low byte of its code point.
pub(super) fn full_width(low: u8) -> u8 {
    if low > 0 && low < 0x5f { low + 0x20 } else { low }
}
