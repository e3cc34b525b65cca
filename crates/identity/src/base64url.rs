//! Base64 with the alphabet of URLs and without padding (RFC 7515 section 2). An encoding is accepted only in
//! its canonical form, so that no signed token has a second spelling.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The bytes of an encoding; none if it is not canonical.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form() {
        assert_eq!(decode(b"AQ").as_deref(), Some(&[1][..]));
        assert_eq!(decode(b"-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!(decode(b"").as_deref(), Some(&[][..]));
        for bad in [&b"AR"[..], b"AQ==", b"AQ=", b"+/8", b"A", b"A Q", b"AQ\n", b"\xff"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
