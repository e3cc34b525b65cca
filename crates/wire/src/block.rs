//! Searches for kinds of bytes, sixteen bytes at a time.

use wide::u8x16;

/// Length of a block in bytes: a vector of SSE2, which every x86-64 has.
pub(crate) const LEN: usize = 16;

/// Splits `bytes` into blocks; the last one is padded with zeros.
#[inline]
pub(crate) fn all(bytes: &[u8]) -> impl Iterator<Item = u8x16> {
    let (blocks, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| filled_up(rest));
    blocks.iter().copied().chain(last).map(u8x16::new)
}

/// A bit mask of the bytes of a block that equal `byte`; bit 0 is the first byte.
#[inline]
pub(crate) fn bits(bytes: u8x16, byte: u8) -> u32 {
    is(bytes, byte).to_bitmask()
}

/// Pads fewer bytes than a block has with zeros. The bytes are loaded as two words that may overlap: copying
/// a number of bytes that the compiler does not know would be a call of `memcpy`.
#[inline]
fn filled_up(rest: &[u8]) -> [u8; LEN] {
    let bits = |from_start: usize| 8 * from_start as u32;
    let word = if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        u128::from(first) | u128::from(last) << bits(rest.len() - 8)
    } else if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u128::from(u64::from(first) | u64::from(last) << bits(rest.len() - 4))
    } else {
        rest.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte))
    };
    word.to_le_bytes()
}

/// Index of the first byte from `from` on for which `ends` holds; the length of `bytes` if there is none.
/// `ends` sets the bits of such bytes of a block. The first block is searched inline, because nearly every
/// search ends in it.
#[inline]
pub(crate) fn position(bytes: &[u8], from: usize, ends: impl Fn(u8x16) -> u8x16 + Copy) -> usize {
    let Some(block) = bytes.get(from..).and_then(<[u8]>::first_chunk) else {
        return last_position(bytes, from, ends);
    };
    match ends(u8x16::new(*block)).to_bitmask() {
        0 => further_position(bytes, from + LEN, ends),
        found => from + found.trailing_zeros() as usize,
    }
}

/// Continues [`position`] after the first block.
#[inline(never)]
fn further_position(bytes: &[u8], from: usize, ends: impl Fn(u8x16) -> u8x16 + Copy) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let found = ends(u8x16::new(*block)).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += LEN;
    }
    last_position(bytes, at, ends)
}

/// Continues [`position`] in the last bytes, which are fewer than a block has.
#[inline(never)]
fn last_position(bytes: &[u8], from: usize, ends: impl Fn(u8x16) -> u8x16) -> usize {
    let found = |block: [u8; LEN]| ends(u8x16::new(block)).to_bitmask();
    let found = if let Some(block) = bytes.last_chunk() {
        let before = from - (bytes.len() - LEN);
        found(*block).checked_shr(before as u32).unwrap_or(0)
    } else {
        let rest = bytes.get(from..).unwrap_or_default();
        found(filled_up(rest)) & ((1 << rest.len()) - 1)
    };
    if found == 0 { bytes.len() } else { from + found.trailing_zeros() as usize }
}

/// Bytes that end a plain name: all but letters, digits and dashes.
#[inline]
pub(crate) fn is_no_plain_name(bytes: u8x16) -> u8x16 {
    let is_no_letter = is_beyond(bytes | u8x16::splat(0x20), b'a', 26);
    let is_no_digit = is_beyond(bytes, b'0', 10);
    is_no_letter & is_no_digit & !is(bytes, b'-')
}

/// Bytes that end a name in a line that has been written here: a colon, a space, and the line's end.
#[inline]
pub(crate) fn ends_name(bytes: u8x16) -> u8x16 {
    is(bytes, b':') | is(bytes, b' ') | is(bytes, b'\n')
}

/// The byte that ends a line.
#[inline]
pub(crate) fn ends_line(bytes: u8x16) -> u8x16 {
    is(bytes, b'\n')
}

/// Bytes that end a plain host name: all but letters, digits, dashes and dots.
#[inline]
pub(crate) fn is_no_plain_host(bytes: u8x16) -> u8x16 {
    is_no_plain_name(bytes) & !is(bytes, b'.')
}

/// Bytes that end a field value or a reason phrase (RFC 9110 section 5.5): control characters other than the
/// tab.
#[inline]
pub(crate) fn is_control(bytes: u8x16) -> u8x16 {
    (is_below(bytes, b' ') & !is(bytes, b'\t')) | is(bytes, 0x7f)
}

/// Bytes other than printable ASCII. Takes half the instructions of [`is_control`], and nearly every field
/// value is printable ASCII up to its CRLF.
#[inline]
pub(crate) fn is_no_plain_text(bytes: u8x16) -> u8x16 {
    is_beyond(bytes, b' ', 0x7f - b' ')
}

/// Bytes that end a target: a space, a control character, or the `#` of a fragment.
#[inline]
pub(crate) fn ends_target(bytes: u8x16) -> u8x16 {
    is_not_visible(bytes) | is(bytes, b'#')
}

/// Bytes that end a target, and bytes that are not ASCII.
#[inline]
pub(crate) fn ends_plain_target(bytes: u8x16) -> u8x16 {
    is_beyond(bytes, b'!', 0x7f - b'!') | is(bytes, b'#')
}

/// Marks spaces and control characters.
#[inline]
pub(crate) fn is_not_visible(bytes: u8x16) -> u8x16 {
    is_below(bytes, b'!') | is(bytes, 0x7f)
}

#[inline]
fn is(bytes: u8x16, byte: u8) -> u8x16 {
    bytes.simd_eq(u8x16::splat(byte))
}

/// Bytes outside the range of `count` values that starts at `first`.
#[inline]
fn is_beyond(bytes: u8x16, first: u8, count: u8) -> u8x16 {
    let above = bytes - u8x16::splat(first);
    above.max(u8x16::splat(count)).simd_eq(above)
}

#[inline]
fn is_below(bytes: u8x16, bound: u8) -> u8x16 {
    bytes.min(u8x16::splat(bound - 1)).simd_eq(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn kinds_are_found_wherever_they_stand(
            mut bytes in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..50),
            at in 0_usize..50,
            from in 0_usize..50,
            byte in any::<u8>(),
        ) {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let from = from.min(bytes.len());
            let expected = |ends: fn(u8) -> bool| {
                bytes[from..].iter().position(|&b| ends(b)).map_or(bytes.len(), |at| from + at)
            };
            prop_assert_eq!(
                position(&bytes, from, is_no_plain_name),
                expected(|b| !(b.is_ascii_alphanumeric() || b == b'-'))
            );
            prop_assert_eq!(
                position(&bytes, from, is_no_plain_host),
                expected(|b| !(b.is_ascii_alphanumeric() || b == b'-' || b == b'.'))
            );
            prop_assert_eq!(position(&bytes, from, is_control), expected(|b| b.is_ascii_control() && b != b'\t'));
            prop_assert_eq!(position(&bytes, from, is_not_visible), expected(|b| b.is_ascii_control() || b == b' '));
            prop_assert_eq!(position(&bytes, from, ends_name), expected(|b| b": \n".contains(&b)));
            prop_assert_eq!(position(&bytes, from, ends_line), expected(|b| b == b'\n'));
            prop_assert_eq!(
                position(&bytes, from, ends_target),
                expected(|b| b.is_ascii_control() || b == b' ' || b == b'#')
            );
            prop_assert_eq!(
                position(&bytes, from, ends_plain_target),
                expected(|b| !b.is_ascii_graphic() || b == b'#')
            );
            prop_assert_eq!(
                position(&bytes, from, is_no_plain_text),
                expected(|b| !(b.is_ascii_graphic() || b == b' '))
            );
        }
    }
}
