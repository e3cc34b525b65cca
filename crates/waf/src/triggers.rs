//! The bytes without which a transformation changes nothing: most values pass without being looked at again.
//!
//! Never in here: transformations.

use crate::prefilter::ByteSet;
use crate::transform::{TRANSFORMATIONS, Transformation};

const fn set(bytes: &[u8]) -> ByteSet {
    ByteSet::constant(bytes)
}

const SPACES: &[u8] = &[9, 10, 11, 12, 13, 32, 133, 160];
const NUL: ByteSet = set(&[0]);
const WHITE: ByteSet = set(SPACES);
const PERCENT: ByteSet = set(b"%+");
const UPPER: ByteSet = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ");
const LOWER: ByteSet = set(b"abcdefghijklmnopqrstuvwxyz");
const AMPERSAND: ByteSet = set(b"&");
const BACKSLASH: ByteSet = set(b"\\");
const COMMENT: ByteSet = set(b"/*-#<>!");
const COMMAND: ByteSet = set(b"\\\"'^/,; \t\r\n\x0b\x0c(ABCDEFGHIJKLMNOPQRSTUVWXYZ\x85\xa0");
const PATH: ByteSet = set(b"/\\");
const HEX: ByteSet = set(b"0");

/// The bytes of which a text needs one, or the transformation changes nothing; `None` if that is not known.
const fn of(transformation: Transformation) -> Option<&'static ByteSet> {
    use Transformation as T;
    Some(match transformation {
        T::Lowercase => &UPPER,
        T::Uppercase => &LOWER,
        T::UrlDecode | T::UrlDecodeUni => &PERCENT,
        T::HtmlEntityDecode => &AMPERSAND,
        T::JsDecode | T::CssDecode | T::EscapeSeqDecode => &BACKSLASH,
        T::RemoveNulls | T::ReplaceNulls => &NUL,
        T::RemoveWhitespace | T::CompressWhitespace | T::Trim | T::TrimLeft | T::TrimRight => &WHITE,
        T::ReplaceComments | T::RemoveComments | T::RemoveCommentsChar => &COMMENT,
        T::CmdLine => &COMMAND,
        T::NormalizePath | T::NormalizePathWin => &PATH,
        T::SqlHexDecode => &HEX,
        T::Utf8ToUnicode => &ByteSet::HIGH,
        _ => return None,
    })
}

/// The transformations that may change a text, a bit for each; those about which nothing is known have one
/// bit in common, which all texts have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(u64);

impl Changes {
    const UNKNOWN: Changes = Changes(1 << 63);

    const fn of_transformation(transformation: Transformation) -> Changes {
        if of(transformation).is_some() { Changes(1 << transformation as u64) } else { Changes::UNKNOWN }
    }

    /// The bits of some transformations.
    pub(crate) fn of(transformations: &[Transformation]) -> Changes {
        let changes = |sum: Changes, &transformation: &Transformation| {
            sum.union(Changes::of_transformation(transformation))
        };
        transformations.iter().fold(Changes::default(), changes)
    }

    /// The bits of a text.
    pub(crate) fn in_text(text: &[u8]) -> Changes {
        // A path that is the current folder, and nothing else, becomes empty.
        let path = if text == b"." { Changes::of(&PATHS) } else { Changes::default() };
        text.iter().fold(Changes::UNKNOWN.union(path), |sum, &byte| sum.union(BY_BYTE[usize::from(byte)]))
    }

    pub(crate) const fn union(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// True if a transformation is in both.
    pub(crate) fn meets(self, other: Changes) -> bool {
        self.0 & other.0 != 0
    }
}

const PATHS: [Transformation; 2] = [Transformation::NormalizePath, Transformation::NormalizePathWin];

/// The transformations that may change a text with a byte.
const BY_BYTE: [Changes; 256] = {
    let mut table = [Changes(0); 256];
    let mut entry = 0;
    while entry < TRANSFORMATIONS.len() {
        let transformation = TRANSFORMATIONS[entry].transformation;
        if let Some(set) = of(transformation) {
            let mut byte = 0;
            while byte < 256 {
                if set.contains(byte as u8) {
                    table[byte] = table[byte].union(Changes::of_transformation(transformation));
                }
                byte += 1;
            }
        }
        entry += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::apply;
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn check(text: &[u8]) -> Result<(), TestCaseError> {
        let changes = Changes::in_text(text);
        for entry in TRANSFORMATIONS {
            if !changes.meets(Changes::of(&[entry.transformation])) {
                let out = apply(entry.transformation, Cow::Borrowed(text), None);
                prop_assert_eq!(&out[..], text, "{}", entry.name);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_text_without_the_bytes_is_not_changed(text in proptest::collection::vec(any::<u8>(), 0..24)) {
            check(&text)?;
        }

        #[test]
        fn an_ordinary_text_without_the_bytes_is_not_changed(text in "[a-z0-9.=_-]{0,24}") {
            check(text.as_bytes())?;
        }
    }

    #[test]
    fn single_bytes_are_not_changed_without_being_in_the_set() {
        for byte in 0..=255u8 {
            for text in [vec![byte], vec![b'a', byte], vec![byte, b'a'], vec![byte, byte]] {
                assert!(check(&text).is_ok(), "{text:?}");
            }
        }
    }
}
