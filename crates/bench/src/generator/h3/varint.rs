//! Integers of QUIC with 1 to 8 bytes (RFC 9000 section 16).

/// Appends `value`, which must be less than 2^62.
pub(super) fn put(value: u64, bytes: &mut Vec<u8>) {
    match value {
        0..=0x3f => bytes.push(value as u8),
        0x40..=0x3fff => bytes.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => bytes.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => bytes.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes an integer from the front of `bytes`; `None` if it is not complete.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (integer, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = integer.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
    // The two highest bits of the first byte are the length.
    Some(value & (u64::MAX >> (66 - 8 * integer.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_each_length_are_written_and_read() {
        for (value, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            ((1 << 62) - 1, 8),
        ] {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            assert_eq!(bytes.len(), length, "{value}");
            assert_eq!(take(&mut &bytes[..length - 1]), None, "{value}");
            let mut rest = &*bytes;
            assert_eq!((take(&mut rest), rest), (Some(value), &[][..]));
        }
    }
}
