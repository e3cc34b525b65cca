//! Choices that are the same for the same seed, and the tokens that programs make.
//!
//! Must not be in here: requests.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// `SplitMix64`: a seed, and the same request ever again.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(super) fn one<'a, T: AsRef<str>>(&mut self, of: &'a [T]) -> &'a str {
        of[self.below(of.len())].as_ref()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    /// One of some texts, with tokens.
    pub(super) fn filled_one<T: AsRef<str>>(&mut self, of: &[T]) -> String {
        let text = self.one(of).to_owned();
        self.filled(&text)
    }

    /// A text with tokens in place of `{hex:8}` and its like; other braces stay.
    pub(super) fn filled(&mut self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled += before;
            let token = after.split_once('}').and_then(|(name, after)| Some((self.token(name)?, after)));
            if let Some((token, after)) = token {
                filled += &token;
                rest = after;
            } else {
                filled.push('{');
                rest = after;
            }
        }
        filled + rest
    }

    fn token(&mut self, name: &str) -> Option<String> {
        let (kind, count) = name.split_once(':').unwrap_or((name, "0"));
        let count = count.parse().ok()?;
        Some(match kind {
            "hex" => self.letters(b"0123456789abcdef", count),
            "digits" => self.letters(b"123456789", count),
            "word" => self.letters(b"abcdefghijkmnopqrstuvwxyz0123456789", count),
            // In cookies and queries, as frameworks encode it.
            "base64" => self.base64(count).replace('+', "%2B").replace('/', "%2F"),
            "base64url" => {
                let bytes = self.bytes(count);
                URL_SAFE_NO_PAD.encode(bytes)[..count].to_owned()
            }
            "uuid" => self.filled("{hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}"),
            "jwt" => {
                let claims = self.filled(
                    r#"{"sub":"{digits:10}","name":"Anna Schmidt","iat":1{digits:9},"iss":"https://id.example.com/","roles":["user"]}"#,
                );
                let [header, claims] =
                    [r#"{"alg":"RS256","typ":"JWT"}"#, &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
                format!("{header}.{claims}.{}", self.filled("{base64url:86}"))
            }
            _ => return None,
        })
    }

    /// Base64 of random bytes.
    pub(super) fn base64(&mut self, count: usize) -> String {
        let bytes = self.bytes(count);
        STANDARD_NO_PAD.encode(bytes)[..count].to_owned()
    }

    fn letters(&mut self, alphabet: &[u8], count: usize) -> String {
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    /// A text as a value of JSON; some programs escape what is not ASCII.
    pub(super) fn json_string(&mut self, text: &str) -> String {
        let quoted = serde_json::Value::from(text).to_string();
        if self.below(4) > 0 {
            return quoted;
        }
        let mut escaped = String::new();
        for unit in quoted.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => escaped.push(char::from(byte)),
                _ => {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_length_and_other_braces_stay() {
        let mut random = Random::new(1);
        let filled = random.filled("a{hex:4}b{digits:3}{ x }{base64url:5}");
        assert_eq!((filled.len(), filled.contains("{ x }")), (1 + 4 + 1 + 3 + 5 + 5, true), "{filled}");
        assert_eq!(random.filled("{jwt}").split('.').count(), 3);
        assert_eq!(Random::new(2).filled("{uuid}"), Random::new(2).filled("{uuid}"));
    }
}
