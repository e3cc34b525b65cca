//! Text as pieces, and a piece as its shape and its numbers: `eth0: 12 3.50` has the shape `eth#: # #.#`.
//!
//! Must not be in here: differences between two texts.

use crate::bytes::Broken;

/// A number without leading zeros.
const INTEGER: u8 = 1;
/// Such a number, a point and further digits: three numbers, of which the second says how many digits.
const DECIMAL: u8 = 2;
/// Eight hexadecimal digits of lower case.
const HEX: u8 = 3;
/// Digits that begin with a zero; the next byte says how many.
const WIDE: u8 = 4;
/// The next byte stands for itself.
const ESCAPE: u8 = 5;

/// Digits that surely fit a number.
const DIGITS_MAX: usize = 18;

/// The first piece of a text that is not empty: a line, or in a line of JSON an object of a list.
pub(crate) fn first_piece(text: &str) -> &str {
    let bytes = text.as_bytes();
    let end = (0..bytes.len()).find(|&at| ends_piece(bytes, at)).map_or(bytes.len(), |at| at + 1);
    &text[..end]
}

/// Whether the first piece of a text is this one, which is not empty. A piece without an end of its own is
/// the last one of its text.
pub(crate) fn begins_with_piece(text: &str, piece: &str) -> bool {
    let is_whole = piece.len() == text.len() || ends_piece(piece.as_bytes(), piece.len() - 1);
    is_whole && text.starts_with(piece)
}

fn ends_piece(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'\n' || (bytes[at] == b',' && at > 0 && bytes[at - 1] == b'}')
}

/// Appends the shape and the numbers of a piece.
pub(crate) fn split(piece: &str, shape: &mut Vec<u8>, numbers: &mut Vec<i64>) {
    let bytes = piece.as_bytes();
    let mut at = 0;
    let mut is_in_word = false;
    while at < bytes.len() {
        let byte = bytes[at];
        let taken = match byte {
            b'0'..=b'9' | b'a'..=b'f' if !is_in_word => {
                hex(&bytes[at..], shape, numbers).or_else(|| digits(&bytes[at..], shape, numbers))
            }
            b'0'..=b'9' => digits(&bytes[at..], shape, numbers),
            _ => None,
        };
        at += match taken {
            Some(taken) => taken,
            None if byte <= ESCAPE => {
                shape.extend([ESCAPE, byte]);
                1
            }
            None => {
                shape.push(byte);
                1
            }
        };
        is_in_word = bytes[at - 1].is_ascii_alphanumeric();
    }
}

/// A word of eight hexadecimal digits that is not a decimal number.
fn hex(bytes: &[u8], shape: &mut Vec<u8>, numbers: &mut Vec<i64>) -> Option<usize> {
    let word = bytes.get(..8)?;
    let ends = !bytes.get(8).is_some_and(u8::is_ascii_alphanumeric);
    let is_hex = word.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_decimal = word[0] != b'0' && word.iter().all(u8::is_ascii_digit);
    if !ends || !is_hex || is_decimal {
        return None;
    }
    let value = word.iter().fold(0, |value, byte| {
        let digit = if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
        value << 4 | i64::from(digit)
    });
    shape.push(HEX);
    numbers.push(value);
    Some(8)
}

/// Digits, and what follows a point after them; none if they are too many, or there are none.
fn digits(bytes: &[u8], shape: &mut Vec<u8>, numbers: &mut Vec<i64>) -> Option<usize> {
    let (len, value) = run(bytes)?;
    if len > 1 && bytes[0] == b'0' {
        shape.extend([WIDE, len as u8]);
        numbers.push(value);
        return Some(len);
    }
    let fraction = if bytes.get(len) == Some(&b'.') { run(&bytes[len + 1..]) } else { None };
    if let Some((digits, fraction)) = fraction {
        shape.push(DECIMAL);
        numbers.extend([value, i64::try_from(digits).unwrap_or(0), fraction]);
        Some(len + 1 + digits)
    } else {
        shape.push(INTEGER);
        numbers.push(value);
        Some(len)
    }
}

fn run(bytes: &[u8]) -> Option<(usize, i64)> {
    let mut len = 0;
    let mut value = 0_i64;
    while let Some(digit) = bytes.get(len).filter(|byte| byte.is_ascii_digit()) {
        if len == DIGITS_MAX {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
        len += 1;
    }
    (len > 0).then_some((len, value))
}

/// How many numbers a piece of this shape has.
pub(crate) fn numbers_in(shape: &[u8]) -> usize {
    let mut count = 0;
    let mut bytes = shape.iter();
    while let Some(byte) = bytes.next() {
        match *byte {
            INTEGER | HEX => count += 1,
            DECIMAL => count += 3,
            WIDE => {
                count += 1;
                bytes.next();
            }
            ESCAPE => {
                bytes.next();
            }
            _ => {}
        }
    }
    count
}

/// Appends the text of a shape with these numbers, which are as many as the shape has.
pub(crate) fn join(shape: &[u8], numbers: &[i64], out: &mut Vec<u8>) -> Result<(), Broken> {
    let mut numbers = numbers.iter().copied();
    let mut next = || numbers.next().ok_or(Broken);
    let mut bytes = shape.iter();
    let mut decimal = itoa::Buffer::new();
    while let Some(byte) = bytes.next() {
        match *byte {
            INTEGER => out.extend_from_slice(decimal.format(next()?).as_bytes()),
            DECIMAL => {
                out.extend_from_slice(decimal.format(next()?).as_bytes());
                out.push(b'.');
                let digits = next()?;
                wide(digits, next()?, out)?;
            }
            HEX => {
                let value = next()?;
                out.extend(
                    (0..8).rev().map(|place| {
                        b"0123456789abcdef"[(value.cast_unsigned() >> (place * 4) & 15) as usize]
                    }),
                );
            }
            WIDE => wide(i64::from(*bytes.next().ok_or(Broken)?), next()?, out)?,
            ESCAPE => out.push(*bytes.next().ok_or(Broken)?),
            other => out.push(other),
        }
    }
    Ok(())
}

/// Appends a number with so many digits.
fn wide(digits: i64, value: i64, out: &mut Vec<u8>) -> Result<(), Broken> {
    let digits = usize::try_from(digits).ok().filter(|digits| *digits <= DIGITS_MAX).ok_or(Broken)?;
    let mut decimal = itoa::Buffer::new();
    let text = decimal.format(value);
    out.extend(std::iter::repeat_n(b'0', digits.saturating_sub(text.len())));
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All pieces of a text.
    fn pieces(text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let piece = first_piece(rest);
            rest = &rest[piece.len()..];
            (!piece.is_empty()).then_some(piece)
        })
    }

    fn both_ways(text: &str) -> String {
        let mut out = Vec::new();
        for piece in pieces(text) {
            let mut shape = Vec::new();
            let mut numbers = Vec::new();
            split(piece, &mut shape, &mut numbers);
            assert_eq!(numbers_in(&shape), numbers.len(), "{piece:?}");
            join(&shape, &numbers, &mut out).expect("as many numbers as the shape has");
        }
        String::from_utf8(out).expect("it was text")
    }

    #[test]
    fn numbers_leave_the_shape() {
        let of = |piece| {
            let mut shape = Vec::new();
            let mut numbers = Vec::new();
            split(piece, &mut shape, &mut numbers);
            (shape, numbers)
        };
        assert_eq!(of("cpu 12 0"), (b"cpu \x01 \x01".to_vec(), vec![12, 0]));
        assert_eq!(of("1.050"), (b"\x02".to_vec(), vec![1, 3, 50]));
        assert_eq!(of("0000ab10 007"), (b"\x03 \x04\x03".to_vec(), vec![0xab10, 7]));
        assert_eq!(of("12345678"), (b"\x01".to_vec(), vec![12_345_678]));
        assert_eq!(of("\x01"), (b"\x05\x01".to_vec(), vec![]));
    }

    #[test]
    fn pieces_are_lines_and_objects() {
        assert_eq!(pieces("a\nb").collect::<Vec<_>>(), ["a\n", "b"]);
        assert_eq!(pieces("[{},{}]\n").collect::<Vec<_>>(), ["[{},", "{}]\n"]);
    }

    #[test]
    fn a_piece_without_an_end_is_the_first_one_only_if_nothing_follows() {
        assert!(begins_with_piece("a 1\nb", "a 1\n") && begins_with_piece("a 1", "a 1"));
        assert!(!begins_with_piece("a 12", "a 1") && !begins_with_piece("a 1\n", "a 1"));
        assert!(begins_with_piece("{},{}", "{},") && !begins_with_piece("b 1\n", "a 1\n"));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "(\\PC|[0-9a-f.{},\n\t\x01-\x06]){0,200}") {
            prop_assert_eq!(both_ways(&text), text);
        }

        #[test]
        fn any_shape_is_joined_or_refused(
            shape in prop::collection::vec(0_u8..8, 0..30),
            numbers in prop::collection::vec(any::<i64>(), 0..30),
        ) {
            let mut out = Vec::new();
            let is_joined = join(&shape, &numbers, &mut out).is_ok();
            prop_assert!(!is_joined || numbers_in(&shape) <= numbers.len());
        }
    }
}
