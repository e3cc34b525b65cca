//! Transformations: what `t:` of a rule does to a value before the operator sees it.
//!
//! Results are those of ModSecurity 3, byte for byte, but for the few places that say otherwise. Never in
//! here: variables, rules, state between two values.

mod base64;
mod bytes;
mod comments;
mod digest;
mod entities;
mod escapes;
mod hex;
mod outcome;
mod parity;
mod path;
mod table;
mod unicode;
mod url;

use std::borrow::Cow;

use outcome::Outcome;

pub use table::{Entry, TRANSFORMATIONS, Transformation, named};
pub use unicode::UnicodeMap;

/// Applies one transformation. The text is returned as it came, borrowed, where nothing changes.
///
/// `map` is the code page of `SecUnicodeMapFile`, which only `urlDecodeUni` asks.
pub fn apply<'a>(
    transformation: Transformation,
    text: Cow<'a, [u8]>,
    map: Option<&UnicodeMap>,
) -> Cow<'a, [u8]> {
    match outcome(transformation, &text, map) {
        Outcome::Same => text,
        Outcome::Part(range) => match text {
            Cow::Borrowed(all) => Cow::Borrowed(all.get(range).unwrap_or_default()),
            Cow::Owned(mut all) => {
                all.truncate(range.end);
                all.drain(..range.start.min(all.len()));
                Cow::Owned(all)
            }
        },
        Outcome::New(text) => Cow::Owned(text),
    }
}

fn outcome(transformation: Transformation, text: &[u8], map: Option<&UnicodeMap>) -> Outcome {
    match transformation {
        Transformation::UrlDecodeUni => url::decode_uni(text, map),
        Transformation::Base64Decode => base64::decode(text),
        Transformation::Base64DecodeExt => base64::decode_ext(text),
        Transformation::Base64Encode => base64::encode(text),
        Transformation::CmdLine => bytes::cmd_line(text),
        Transformation::CompressWhitespace => bytes::compress_whitespace(text),
        Transformation::CssDecode => escapes::css(text),
        Transformation::EscapeSeqDecode => escapes::ansi_c(text),
        Transformation::HexDecode => hex::decode(text),
        Transformation::HexEncode => hex::encode(text),
        Transformation::HtmlEntityDecode => entities::decode(text),
        Transformation::JsDecode => escapes::javascript(text),
        Transformation::Length => bytes::length(text),
        Transformation::Lowercase => bytes::lowercase(text),
        Transformation::Uppercase => bytes::uppercase(text),
        Transformation::Md5 => digest::md5(text),
        Transformation::Sha1 => digest::sha1(text),
        Transformation::NormalizePath => path::normalize(text),
        Transformation::NormalizePathWin => path::normalize_win(text),
        Transformation::ParityEven7bit => parity::even(text),
        Transformation::ParityOdd7bit => parity::odd(text),
        Transformation::ParityZero7bit => parity::zero(text),
        Transformation::RemoveComments => comments::remove(text),
        Transformation::RemoveCommentsChar => comments::remove_marks(text),
        Transformation::ReplaceComments => comments::replace(text),
        Transformation::RemoveNulls => bytes::remove_nulls(text),
        Transformation::ReplaceNulls => bytes::replace_nulls(text),
        Transformation::RemoveWhitespace => bytes::remove_whitespace(text),
        Transformation::SqlHexDecode => hex::sql_decode(text),
        Transformation::Trim => bytes::trim(text),
        Transformation::TrimLeft => bytes::trim_left(text),
        Transformation::TrimRight => bytes::trim_right(text),
        Transformation::UrlDecode => url::decode(text),
        Transformation::UrlEncode => url::encode(text),
        Transformation::Utf8ToUnicode => unicode::utf8_to_unicode(text),
    }
}

#[cfg(test)]
mod tests;
