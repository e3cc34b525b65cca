//! Escapes that begin with a backslash: ANSI C, JavaScript, CSS.

use memchr::memchr;

use super::outcome::{Outcome, full_width, hex_digit, hex_pair, is_space, low_byte};

/// The byte that an escape stands for, if any.
struct Escape {
    byte: Option<u8>,
    /// The length, with the backslash.
    len: usize,
}

/// Decodes all escapes; `escape` is given the text from a backslash on.
fn decode(text: &[u8], escape: impl Fn(&[u8]) -> Escape) -> Outcome {
    let Some(first) = memchr(b'\\', text) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    let (mut from, mut next) = (0, Some(first));
    while let Some(at) = next {
        new.extend_from_slice(&text[from..at]);
        let escape = escape(&text[at..]);
        new.extend(escape.byte);
        from = (at + escape.len).min(text.len());
        next = memchr(b'\\', &text[from..]).map(|after| from + after);
    }
    new.extend_from_slice(&text[from..]);
    if new == text { Outcome::Same } else { Outcome::New(new) }
}

/// The control character of a letter after a backslash.
fn control(letter: u8) -> Option<u8> {
    Some(match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        _ => return None,
    })
}

/// An octal number of at most `max` digits after the backslash; its low eight bits.
fn octal(text: &[u8], max: usize) -> Option<Escape> {
    let digits = text[1..].iter().take(max).take_while(|byte| matches!(byte, b'0'..=b'7'));
    let (value, count) =
        digits.fold((0u32, 0), |(value, count), byte| (value << 3 | u32::from(byte - b'0'), count + 1));
    (count > 0).then_some(Escape { byte: Some(value as u8), len: 1 + count })
}

pub(super) fn ansi_c(text: &[u8]) -> Outcome {
    decode(text, |text| {
        let Some(&letter) = text.get(1) else { return Escape { byte: Some(b'\\'), len: 1 } };
        if let (b'x', Some(byte)) = (letter, hex_pair(text, 2)) {
            return Escape { byte: Some(byte), len: 4 };
        }
        octal(text, 3).unwrap_or(Escape { byte: control(letter).or(Some(letter)), len: 2 })
    })
}

pub(super) fn javascript(text: &[u8]) -> Outcome {
    decode(text, |text| {
        let Some(&letter) = text.get(1) else { return Escape { byte: Some(b'\\'), len: 1 } };
        match letter {
            b'u' => {
                if let Some(byte) = low_byte(text, 2) {
                    return Escape { byte: Some(byte), len: 6 };
                }
            }
            b'x' => {
                if let Some(byte) = hex_pair(text, 2) {
                    return Escape { byte: Some(byte), len: 4 };
                }
            }
            b'0'..=b'7' => {
                // JavaScript has no octal escape above \377: a third digit is then text.
                let is_long = octal(text, 3).is_some_and(|escape| escape.len == 4);
                let max = if is_long && letter > b'3' { 2 } else { 3 };
                return octal(text, max).unwrap_or(Escape { byte: Some(letter), len: 2 });
            }
            _ => {}
        }
        Escape { byte: control(letter).or(Some(letter)), len: 2 }
    })
}

/// At most six digits count, and of the number only the low byte; one white space after them belongs to the
/// escape. A backslash before the end of a line continues it.
pub(super) fn css(text: &[u8]) -> Outcome {
    decode(text, |text| {
        let count = text[1..].iter().take(6).take_while(|&&byte| hex_digit(byte).is_some()).count();
        if count == 0 {
            return match text.get(1) {
                Some(b'\n') => Escape { byte: None, len: 2 },
                other => Escape { byte: other.copied(), len: 2 },
            };
        }
        let digits = &text[1..=count];
        let nibble = |back: usize| count.checked_sub(back).and_then(|at| hex_digit(digits[at])).unwrap_or(0);
        let low = nibble(2) << 4 | nibble(1);
        let is_full = count >= 4
            && nibble(3) == 15
            && nibble(4) == 15
            && digits[..count - 4].iter().all(|&digit| digit == b'0');
        let space = usize::from(text.get(1 + count).is_some_and(|&byte| is_space(byte)));
        Escape { byte: Some(if is_full { full_width(low) } else { low }), len: 1 + count + space }
    })
}
