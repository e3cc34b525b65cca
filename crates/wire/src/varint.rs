//! Integers of a variable length (RFC 9000 section 16).

/// The largest integer.
pub(crate) const MAX: u64 = (1 << 62) - 1;
/// The longest integer in bytes.
pub(crate) const BYTES_MAX: usize = 8;

/// Reads the integer at the front of `bytes`, and how many bytes it takes; none where it is incomplete.
pub(crate) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = 1 << (first >> 6);
    let (first, rest) = bytes.get(..len)?.split_first()?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, len))
}

/// Appends an integer in its shortest form; one above [`MAX`] is written as that.
pub(crate) fn write(value: u64, out: &mut Vec<u8>) {
    let bytes = value.min(MAX).to_be_bytes();
    let len_code = match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        _ => 3,
    };
    let start = out.len();
    out.extend_from_slice(&bytes[BYTES_MAX - (1 << len_code)..]);
    out[start] |= len_code << 6;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn the_examples_of_the_standard_are_read() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x40, 0x25], 37),
            (&[0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((value, bytes.len())));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn what_is_written_is_read_again_in_its_shortest_form() {
        for (value, len) in [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            (MAX, 8),
        ] {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!((read(&out), out.len()), (Some((value, len)), len));
        }
    }
}
