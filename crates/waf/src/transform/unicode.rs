//! Code pages of `SecUnicodeMapFile`, and UTF-8 as `%uHHHH`.

use super::hex::digits;
use super::outcome::Outcome;

/// The code page of `SecUnicodeMapFile`: what a code point above 255 becomes in one byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnicodeMap {
    /// Code points in their order, each with its byte.
    bytes: Vec<(u16, u8)>,
}

// === impl UnicodeMap ===

impl UnicodeMap {
    /// US-ASCII, code page 20127: the one that the usual configuration names.
    pub fn ascii() -> Self {
        let mut map = Self::default();
        for line in include_str!("best-fit-ascii.txt").lines().filter(|line| !line.starts_with('#')) {
            map.bytes.extend(line.split_whitespace().filter_map(entry));
        }
        map.bytes.sort_unstable();
        map
    }

    /// Reads one code page of a file in the form of ModSecurity's `unicode.mapping`: a line that begins with
    /// the number of the code page, and a line of entries such as `00a1:21`.
    ///
    /// # Errors
    ///
    /// The file has no such code page, or an entry of it is malformed.
    pub fn parse(text: &str, code_page: u32) -> Result<Self, String> {
        let mut lines = text.lines();
        let is_wanted =
            |line: &str| line.split_whitespace().next().and_then(|word| word.parse().ok()) == Some(code_page);
        if !lines.by_ref().any(is_wanted) {
            return Err(format!("no code page {code_page} in the file"));
        }
        let entries = lines.next().unwrap_or_default().split_whitespace();
        let bytes: Result<Vec<_>, _> = entries
            .map(|word| entry(word).ok_or_else(|| format!("`{word}` is no entry such as 00a1:21")))
            .collect();
        let mut map = Self { bytes: bytes? };
        map.bytes.sort_unstable();
        Ok(map)
    }

    /// The byte that the code page has for a code point.
    pub fn byte(&self, point: u16) -> Option<u8> {
        let index = self.bytes.binary_search_by_key(&point, |entry| entry.0).ok()?;
        self.bytes.get(index).map(|entry| entry.1)
    }
}

fn entry(word: &str) -> Option<(u16, u8)> {
    let (point, byte) = word.split_once(':')?;
    Some((u16::from_str_radix(point, 16).ok()?, u8::from_str_radix(byte, 16).ok()?))
}

/// Bytes that are no UTF-8 stay as they are.
pub(super) fn utf8_to_unicode(text: &[u8]) -> Outcome {
    if text.is_ascii() {
        return Outcome::Same;
    }
    let mut new = Vec::with_capacity(text.len() * 2);
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_ascii() {
                new.push(character as u8);
            } else {
                write(&mut new, u32::from(character));
            }
        }
        new.extend_from_slice(chunk.invalid());
    }
    if new == text { Outcome::Same } else { Outcome::New(new) }
}

/// Writes a code point with at least four digits.
fn write(new: &mut Vec<u8>, point: u32) {
    new.extend_from_slice(b"%u");
    let all: [[u8; 2]; 4] = point.to_be_bytes().map(digits);
    let all = all.as_flattened();
    let zeros = all.iter().take(4).take_while(|&&digit| digit == b'0').count();
    new.extend_from_slice(&all[zeros..]);
}
