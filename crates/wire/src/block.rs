//! Sixteen bytes at a time: which of them are of a kind.

use wide::u8x16;

/// Bytes of a block.
pub(crate) const LEN: usize = 16;

/// The blocks of `bytes`, of which the last one is filled up with zeros.
#[inline]
pub(crate) fn all(bytes: &[u8]) -> impl Iterator<Item = u8x16> {
    let (blocks, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| filled_up(rest));
    blocks.iter().copied().chain(last).map(u8x16::new)
}

/// A bit for each byte of a block that is `byte`, the first one lowest.
#[inline]
pub(crate) fn bits(bytes: u8x16, byte: u8) -> u32 {
    is(bytes, byte).to_bitmask()
}

fn filled_up(rest: &[u8]) -> [u8; LEN] {
    let mut block = [0; LEN];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// Where the first byte from `from` on is that `ends`, which marks such bytes of a block with ones; the end of all bytes where there
/// is none.
#[inline]
pub(crate) fn position(bytes: &[u8], from: usize, ends: impl Fn(u8x16) -> u8x16 + Copy) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let found = found(*block, ends);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += LEN;
    }
    last_position(bytes, at, ends)
}

/// A bit for each byte that `ends`, the first byte lowest.
#[inline]
fn found(block: [u8; LEN], ends: impl Fn(u8x16) -> u8x16) -> u32 {
    ends(u8x16::new(block)).to_bitmask()
}

/// Among fewer bytes than a block has, which are the last ones.
#[inline(never)]
fn last_position(bytes: &[u8], from: usize, ends: impl Fn(u8x16) -> u8x16) -> usize {
    let found = if let Some(block) = bytes.last_chunk() {
        let before = from - (bytes.len() - LEN);
        found(*block, ends).checked_shr(before as u32).unwrap_or(0)
    } else {
        let rest = bytes.get(from..).unwrap_or_default();
        found(filled_up(rest), ends) & ((1 << rest.len()) - 1)
    };
    if found == 0 { bytes.len() } else { from + found.trailing_zeros() as usize }
}

/// What ends a name: anything but a letter, a digit and a dash.
#[inline]
pub(crate) fn is_no_plain_name(bytes: u8x16) -> u8x16 {
    let is_letter = is_at_most(bytes | u8x16::splat(0x20), b'a', 25);
    let is_digit = is_at_most(bytes, b'0', 9);
    !(is_letter | is_digit | is(bytes, b'-'))
}

/// What ends a field value or a reason phrase (RFC 9110 section 5.5): a control character other than the tab.
#[inline]
pub(crate) fn is_control(bytes: u8x16) -> u8x16 {
    (is_at_most(bytes, 0, 0x1f) & !is(bytes, b'\t')) | is(bytes, 0x7f)
}

/// Bytes that end a target: a space, a control character, or a fragment.
#[inline]
pub(crate) fn ends_target(bytes: u8x16) -> u8x16 {
    is_not_visible(bytes) | is(bytes, b'#')
}

/// A space or a control character.
#[inline]
pub(crate) fn is_not_visible(bytes: u8x16) -> u8x16 {
    is_at_most(bytes, 0, b' ') | is(bytes, 0x7f)
}

#[inline]
fn is(bytes: u8x16, byte: u8) -> u8x16 {
    bytes.simd_eq(u8x16::splat(byte))
}

/// Bytes from `first` on, and `more` after it.
#[inline]
fn is_at_most(bytes: u8x16, first: u8, more: u8) -> u8x16 {
    let above = bytes - u8x16::splat(first);
    above.min(u8x16::splat(more)).simd_eq(above)
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
            prop_assert_eq!(position(&bytes, from, is_control), expected(|b| b.is_ascii_control() && b != b'\t'));
            prop_assert_eq!(position(&bytes, from, is_not_visible), expected(|b| b.is_ascii_control() || b == b' '));
            prop_assert_eq!(
                position(&bytes, from, ends_target),
                expected(|b| b.is_ascii_control() || b == b' ' || b == b'#')
            );
        }
    }
}
