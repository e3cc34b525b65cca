//! Contents that follow from a key, so that both ends know them without telling each other, and digests.
//!
//! Must not be in here: HTTP.

use aws_lc_rs::digest::{SHA256, digest};

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The content of a key (Steele, Lea, Flood: splitmix64).
pub(crate) fn bytes(key: u64, len: usize) -> Vec<u8> {
    let mut state = key.wrapping_mul(STEP);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state = state.wrapping_add(STEP);
        out.extend_from_slice(&mixed(state).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A number that follows from another one.
pub(crate) fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The SHA-256 of a content in hexadecimal digits, and its length.
pub(crate) fn sum(content: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(80);
    for byte in digest(&SHA256, content).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    let _ = write!(text, " {}", content.len());
    text
}

/// Says where a content differs from that of its key. None where it does not.
pub(crate) fn difference(content: &[u8], key: u64, len: usize) -> Option<String> {
    let wanted = bytes(key, len);
    if sum(content) == sum(&wanted) {
        return None;
    }
    let at = content.iter().zip(&wanted).position(|(one, other)| one != other);
    let at = at.unwrap_or(content.len().min(len));
    Some(format!("content of key {key} has {} of {len} bytes, and differs from byte {at} on", content.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_follow_from_their_key_and_a_difference_is_found() {
        assert_eq!(bytes(7, 20), bytes(7, 100)[..20]);
        assert_ne!(bytes(7, 20), bytes(8, 20));
        let mut content = bytes(7, 20);
        assert_eq!(difference(&content, 7, 20), None);
        content[13] ^= 1;
        let told = difference(&content, 7, 20).expect("it differs");
        assert!(told.contains("from byte 13 on"), "{told}");
        assert!(difference(&bytes(7, 19), 7, 20).is_some_and(|told| told.contains("19 of 20")));
        assert!(sum(b"").starts_with("e3b0c442") && sum(b"").ends_with(" 0"));
    }
}
