//! Checks of names and values. Their results are stored with entries of the dynamic table.

use wide::u8x16;

use super::Token;
use crate::block::{is_control, is_no_plain_name, is_no_plain_text, position};
use crate::field::Known;

/// The number of a field's name, and the results of the checks of name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) token: Token,
    pub(crate) is_plain_name: bool,
    pub(crate) name_is_valid: bool,
    pub(crate) value_is_valid: bool,
}

impl Checked {
    /// Checks a name, which `line` begins with, and leaves the value to the caller.
    pub(crate) fn name(line: &[u8], len: usize) -> Self {
        let plain_end = position(line, 0, ends_plain_name).min(len);
        if plain_end == len && len > 0 {
            let name = &line[..len];
            let token = if name == b"cookie" { Token::Cookie } else { Token::Field(Known::of(name)) };
            return Self { token, is_plain_name: true, name_is_valid: true, value_is_valid: true };
        }
        Self::special_name(&line[..len])
    }

    /// Checks a name with bytes other than lower-case letters, digits and dashes.
    #[inline(never)]
    fn special_name(name: &[u8]) -> Self {
        let token = match name {
            b":method" => Token::Method,
            b":path" => Token::Path,
            b":scheme" => Token::Scheme,
            b":authority" => Token::Authority,
            b":status" => Token::Status,
            b":protocol" => Token::Protocol,
            [b':', ..] => Token::UnknownPseudo,
            _ => Token::Field(Known::Other),
        };
        let text = name.strip_prefix(b":").unwrap_or(name);
        Self {
            token,
            is_plain_name: !name.is_empty() && position(name, 0, is_no_plain_name) == name.len(),
            name_is_valid: !text.is_empty() && text.iter().all(|byte| is_lower_token(*byte)),
            value_is_valid: true,
        }
    }
}

/// Whether the bytes of `line` up to `end` are a value that RFC 9113 section 8.2.1 allows and that an HTTP/1
/// parser reads as it is. `line` continues with CRLF, where most searches end.
#[inline]
pub(crate) fn is_value(line: &[u8], start: usize, end: usize) -> bool {
    let plain_end = position(line, start, is_no_plain_text);
    let is_space_free = start == end || (line[start] != b' ' && line[end - 1] != b' ');
    if plain_end == end && is_space_free { true } else { is_special_value(&line[start..end]) }
}

/// As [`is_value`], for values with white space at an end, tabs, or bytes beyond ASCII.
#[inline(never)]
fn is_special_value(value: &[u8]) -> bool {
    value.trim_ascii().len() == value.len() && position(value, 0, is_control) == value.len()
}

/// Bytes that end a name of lower-case letters, digits and dashes.
#[inline]
fn ends_plain_name(bytes: u8x16) -> u8x16 {
    let from_upper_a = bytes - u8x16::splat(b'A');
    let is_upper = from_upper_a.min(u8x16::splat(25)).simd_eq(from_upper_a);
    is_no_plain_name(bytes) | is_upper
}

/// Whether a byte may be part of a name in HTTP/2: bytes of tokens (RFC 9110 section 5.6.2) but upper-case
/// letters.
fn is_lower_token(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
