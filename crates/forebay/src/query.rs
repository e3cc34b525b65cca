//! Parameters in the query of a URL of the admin server.

use std::fmt::Write;

/// A text as the value of a parameter.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text that a value stands for. None if it is not one.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["", "a b+c", "https://a.test/x?y=1&z=%20#\u{e4}"] {
            let encoded = encode(text);
            assert!(!encoded.contains(['&', '=', '+', '#']), "{encoded}");
            assert_eq!(decode(&encoded).as_deref(), Some(text));
        }
        assert_eq!(decode("a+b").as_deref(), Some("a b"));
        for wrong in ["%", "%4", "%xx", "%ff"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
