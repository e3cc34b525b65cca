//! The bytes without which a transformation changes nothing: most values pass without being looked at again.
//!
//! Never in here: transformations.

use crate::prefilter::ByteSet;
use crate::transform::Transformation;

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
const PATH: ByteSet = set(b"/.\\");
const HEX: ByteSet = set(b"0");

/// The bytes of which a text needs one, or the transformation changes nothing; `None` if that is not known.
pub(crate) fn of(transformation: Transformation) -> Option<&'static ByteSet> {
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

/// The bytes of which a text needs one, or none of the transformations changes anything.
pub(crate) fn of_all(transformations: &[Transformation]) -> Option<ByteSet> {
    let mut sets = transformations.iter().map(|&transformation| of(transformation));
    sets.try_fold(ByteSet::default(), |all, set| set.map(|set| all.union(set)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{TRANSFORMATIONS, apply};
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn check(text: &[u8]) -> Result<(), TestCaseError> {
        let bytes = ByteSet::of(text);
        for entry in TRANSFORMATIONS {
            if of(entry.transformation).is_some_and(|set| !set.meets(&bytes)) {
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
