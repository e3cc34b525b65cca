//! The fields that are stored in the encoder's dynamic table.

use super::static_table::{NameId, STATIC_LAST, name_at};
use crate::field::Known;

/// How the encoder represents a field that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// The value will be sent again: it is stored in the table.
    Stored,
    /// The value changes each time: it is not stored (RFC 7541 section 6.2.2).
    Once,
    /// The value is a secret: no hop may store it (RFC 7541 section 6.2.3).
    Never,
}

/// The longest value that is stored: an eighth of the table that peers have unless they say otherwise.
const VALUE_BYTES_MAX: usize = super::TABLE_BYTES_DEFAULT / 8;

/// The shortest cookie that is stored. RFC 7541 section 7.1.3 advises against storing shorter ones, which can
/// be guessed by probing the table.
const COOKIE_BYTES_MIN: usize = 20;

/// A rule for the fields of one name.
#[derive(Clone, Copy)]
enum Rule {
    Short,
    Once,
    Never,
    Cookie,
}

const fn rule_of(name: &[u8]) -> Rule {
    match name {
        b"age"
        | b"content-length"
        | b"content-range"
        | b"etag"
        | b"expires"
        | b"if-match"
        | b"if-modified-since"
        | b"if-none-match"
        | b"if-range"
        | b"if-unmodified-since"
        | b"last-modified"
        | b"location"
        | b"content-location"
        | b"range"
        | b"referer" => Rule::Once,
        b"authorization" | b"proxy-authorization" | b"set-cookie" => Rule::Never,
        b"cookie" => Rule::Cookie,
        _ => Rule::Short,
    }
}

/// Rules of the names of the static table; 0 is for names that are not in it.
static RULES: [Rule; STATIC_LAST + 1] = {
    let mut rules = [Rule::Short; STATIC_LAST + 1];
    let mut index = 1;
    while index <= STATIC_LAST {
        rules[index] = rule_of(name_at(index));
        index += 1;
    }
    rules
};

/// The representation of a field by its name and the length of its value.
#[inline]
pub(super) fn indexing_of(id: NameId, known: Known, name: &[u8], value_len: usize) -> Indexing {
    let rule = match id.static_index() {
        Some(index) => RULES[index],
        None => rule_of_unlisted(known, name),
    };
    match rule {
        Rule::Never => Indexing::Never,
        Rule::Cookie if value_len < COOKIE_BYTES_MIN => Indexing::Never,
        Rule::Short | Rule::Cookie if value_len <= VALUE_BYTES_MAX => Indexing::Stored,
        _ => Indexing::Once,
    }
}

/// The rule for a name that is not in the static table. Identifiers of requests and traces never come again.
#[inline]
fn rule_of_unlisted(known: Known, name: &[u8]) -> Rule {
    let is_once = match known {
        Known::XRequestId | Known::XOriginalUri => true,
        Known::Other => {
            name.eq_ignore_ascii_case(b"traceparent")
                || name.eq_ignore_ascii_case(b"tracestate")
                || name.eq_ignore_ascii_case(b"x-b3-traceid")
                || name.eq_ignore_ascii_case(b"x-b3-spanid")
        }
        _ => false,
    };
    if is_once { Rule::Once } else { Rule::Short }
}
