//! Where a word of a head ends, sixteen bytes at a time. The compiler makes vector instructions of these loops: they are short,
//! of a fixed length, and without branches.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "a short cut is a branch, and keeps the compiler from vector instructions"
)]

const LEN: usize = 16;

/// Where the first byte from `from` on is that `ends`; the end of all bytes where there is none.
#[inline]
pub(super) fn position(bytes: &[u8], from: usize, ends: impl Fn(u8) -> bool + Copy) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let found = found(block, ends);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += LEN;
    }
    last_position(bytes, at, ends)
}

/// A byte of ones for each byte that `ends`, the first byte lowest. A function of its own, in which the compiler sees nothing that
/// could keep it from vector instructions.
#[inline(never)]
fn found(block: &[u8; LEN], ends: impl Fn(u8) -> bool + Copy) -> u128 {
    let mut found = [0; LEN];
    for at in 0..LEN {
        found[at] = if ends(block[at]) { 0xff } else { 0 };
    }
    u128::from_le_bytes(found)
}

/// Among fewer bytes than a block has, which are the last ones.
#[inline(never)]
fn last_position(bytes: &[u8], from: usize, ends: impl Fn(u8) -> bool + Copy) -> usize {
    let Some(block) = bytes.last_chunk() else {
        let rest = bytes.get(from..).unwrap_or_default();
        return rest.iter().position(|&byte| ends(byte)).map_or(bytes.len(), |at| from + at);
    };
    let before = from - (bytes.len() - LEN);
    let found = found(block, ends).checked_shr(8 * before as u32).unwrap_or(0);
    if found == 0 { bytes.len() } else { from + found.trailing_zeros() as usize / 8 }
}

/// What ends a name: anything but a letter, a digit and a dash.
pub(super) fn is_no_plain_name(byte: u8) -> bool {
    let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    let is_digit = byte.wrapping_sub(b'0') < 10;
    !(is_letter | is_digit | (byte == b'-'))
}

/// What ends a field value or a reason phrase (RFC 9110 section 5.5): a control character other than the tab.
pub(super) fn is_control(byte: u8) -> bool {
    ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f)
}

/// Bytes that end a target: a space, a control character, or a fragment.
pub(super) fn ends_target(byte: u8) -> bool {
    is_not_visible(byte) | (byte == b'#')
}

/// A space or a control character.
pub(super) fn is_not_visible(byte: u8) -> bool {
    (byte <= b' ') | (byte == 0x7f)
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
        }
    }
}
