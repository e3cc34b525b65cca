//! Hashes as text.

use std::fmt::Write;

use aws_lc_rs::digest;

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes what is written");
        text
    })
}

/// The hash (SHA-256) in hexadecimal digits.
pub(crate) fn sha256(content: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, content).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_64_digits() {
        // FIPS 180-4, example of one block.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
