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
const VALUE_BYTES_MAX: u16 = super::TABLE_BYTES_DEFAULT as u16 / 8;

/// The shortest cookie that is stored. RFC 7541 section 7.1.3 advises against storing shorter ones, which can
/// be guessed by probing the table.
const COOKIE_BYTES_MIN: u16 = 20;

/// A rule for the fields of one name: values are stored from one length to another.
#[derive(Clone, Copy)]
struct Rule {
    stored_from: u16,
    stored_to: u16,
    /// The representation of shorter values.
    below: Indexing,
    /// The representation of longer values.
    above: Indexing,
}

impl Rule {
    const SHORT: Self =
        Self { stored_from: 0, stored_to: VALUE_BYTES_MAX, below: Indexing::Once, above: Indexing::Once };
    const COOKIE: Self = Self { stored_from: COOKIE_BYTES_MIN, below: Indexing::Never, ..Self::SHORT };
    const ONCE: Self = Self { stored_from: u16::MAX, stored_to: 0, ..Self::SHORT };
    const NEVER: Self = Self { below: Indexing::Never, above: Indexing::Never, ..Self::ONCE };
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
        | b"referer" => Rule::ONCE,
        b"authorization" | b"proxy-authorization" | b"set-cookie" => Rule::NEVER,
        b"cookie" => Rule::COOKIE,
        _ => Rule::SHORT,
    }
}

/// Rules of the names of the static table; 0 is for names that are not in it.
static RULES: [Rule; STATIC_LAST + 1] = {
    let mut rules = [Rule::SHORT; STATIC_LAST + 1];
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
        Some(index) => &RULES[index],
        None => rule_of_unlisted(known, name),
    };
    if value_len < usize::from(rule.stored_from) {
        rule.below
    } else if value_len > usize::from(rule.stored_to) {
        rule.above
    } else {
        Indexing::Stored
    }
}

/// The rule for a name that is not in the static table. Identifiers of requests and traces never come again.
#[inline]
fn rule_of_unlisted(known: Known, name: &[u8]) -> &'static Rule {
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
    if is_once { &Rule::ONCE } else { &Rule::SHORT }
}
