//! The static table (RFC 7541 appendix A).

use super::Token;
use crate::compression::checked::Checked;
use crate::compression::table::{Entry, SLACK};
use crate::field::Known;

/// Number of entries, which is the index of the last one.
pub(super) const STATIC_LAST: usize = 61;

/// Defines `LINES` and `ENTRIES`.
macro_rules! entries {
    ($($name:literal $value:literal $token:expr,)*) => {
        /// The lines of all entries one after another, and [`SLACK`] bytes more.
        pub(super) static LINES: &[u8] = TEXT;

        const TEXT: &[u8] = concat!(
            $($name, ": ", $value, "\r\n",)*
            "                                                                ",
            "                                                                "
        ).as_bytes();

        /// The entries; the first one has index 1.
        pub(super) static ENTRIES: [Entry<Checked>; STATIC_LAST] = TABLE;

        const TABLE: [Entry<Checked>; STATIC_LAST] = with_starts([$(Entry {
            start: 0,
            name_len: $name.len() as u32,
            value_len: $value.len() as u32,
            meta: Checked {
                token: $token,
                is_plain_name: $name.as_bytes()[0] != b':',
                name_is_valid: true,
                value_is_valid: true,
            },
        },)*]);
    };
}

/// Sets where each line begins: after colon, space and CRLF of the one before.
const fn with_starts(mut table: [Entry<Checked>; STATIC_LAST]) -> [Entry<Checked>; STATIC_LAST] {
    let (mut at, mut start) = (0, 0);
    while at < table.len() {
        table[at].start = start;
        start += table[at].name_len + table[at].value_len + 4;
        at += 1;
    }
    assert!(start as usize + SLACK == TEXT.len());
    table
}

const OTHER: Token = Token::Field(Known::Other);

entries! {
    ":authority" "" Token::Authority,
    ":method" "GET" Token::Method,
    ":method" "POST" Token::Method,
    ":path" "/" Token::Path,
    ":path" "/index.html" Token::Path,
    ":scheme" "http" Token::Scheme,
    ":scheme" "https" Token::Scheme,
    ":status" "200" Token::Status,
    ":status" "204" Token::Status,
    ":status" "206" Token::Status,
    ":status" "304" Token::Status,
    ":status" "400" Token::Status,
    ":status" "404" Token::Status,
    ":status" "500" Token::Status,
    "accept-charset" "" OTHER,
    "accept-encoding" "gzip, deflate" OTHER,
    "accept-language" "" OTHER,
    "accept-ranges" "" OTHER,
    "accept" "" OTHER,
    "access-control-allow-origin" "" OTHER,
    "age" "" OTHER,
    "allow" "" OTHER,
    "authorization" "" OTHER,
    "cache-control" "" OTHER,
    "content-disposition" "" OTHER,
    "content-encoding" "" OTHER,
    "content-language" "" OTHER,
    "content-length" "" Token::Field(Known::ContentLength),
    "content-location" "" OTHER,
    "content-range" "" OTHER,
    "content-type" "" OTHER,
    "cookie" "" Token::Cookie,
    "date" "" Token::Field(Known::Date),
    "etag" "" OTHER,
    "expect" "" Token::Field(Known::Expect),
    "expires" "" OTHER,
    "from" "" OTHER,
    "host" "" Token::Field(Known::Host),
    "if-match" "" OTHER,
    "if-modified-since" "" OTHER,
    "if-none-match" "" OTHER,
    "if-range" "" OTHER,
    "if-unmodified-since" "" OTHER,
    "last-modified" "" OTHER,
    "link" "" OTHER,
    "location" "" OTHER,
    "max-forwards" "" OTHER,
    "proxy-authenticate" "" OTHER,
    "proxy-authorization" "" OTHER,
    "range" "" OTHER,
    "referer" "" OTHER,
    "refresh" "" OTHER,
    "retry-after" "" OTHER,
    "server" "" Token::Field(Known::Server),
    "set-cookie" "" OTHER,
    "strict-transport-security" "" Token::Field(Known::StrictTransportSecurity),
    "transfer-encoding" "" Token::Field(Known::TransferEncoding),
    "user-agent" "" OTHER,
    "vary" "" OTHER,
    "via" "" OTHER,
    "www-authenticate" "" OTHER,
}

/// The name of the entry with an index from 1 on.
pub(super) const fn name_at(index: usize) -> &'static [u8] {
    let entry = TABLE[index - 1];
    TEXT.split_at(entry.start as usize).1.split_at(entry.name_len as usize).0
}

/// The number of a name: its index in the static table, or a number beyond the table for a known field that
/// is not in it; 0 for any other name, which has to be compared byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(u8);

impl NameId {
    pub(super) const OTHER: Self = Self(0);
    pub(super) const AUTHORITY: Self = Self(1);
    pub(super) const METHOD: Self = Self(2);
    pub(super) const PATH: Self = Self(4);
    pub(super) const STATUS: Self = Self(8);
    /// `:protocol` is not in the table: RFC 8441 is younger.
    pub(super) const PROTOCOL: Self = Self(STATIC_LAST as u8 + 1);

    /// Looks up a name, which has to be a token, in any letter case.
    #[inline]
    pub(super) fn of(known: Known, name: &[u8]) -> Self {
        if matches!(known, Known::Other) { NAMES.find(name) } else { Self::of_known(known) }
    }

    #[inline]
    pub(super) fn of_known(known: Known) -> Self {
        KNOWN_IDS.get(known as usize).copied().unwrap_or(Self::OTHER)
    }

    /// The lowest index of the name in the static table.
    #[inline]
    pub(super) fn static_index(self) -> Option<usize> {
        (1..=STATIC_LAST).contains(&usize::from(self.0)).then_some(usize::from(self.0))
    }

    pub(super) fn number(self) -> usize {
        usize::from(self.0)
    }
}

/// The numbers of the known fields.
static KNOWN_IDS: [NameId; Known::COUNT] = {
    let mut ids = [NameId::OTHER; Known::COUNT];
    let mut known = 0;
    while known < ids.len() {
        ids[known] = NameId((STATIC_LAST + 2 + known) as u8);
        known += 1;
    }
    let mut at = STATIC_LAST;
    while at > 0 {
        if let Token::Field(known) = TABLE[at - 1].meta.token
            && !matches!(known, Known::Other)
        {
            ids[known as usize] = NameId(at as u8);
        }
        at -= 1;
    }
    ids
};

const SLOT_BITS: u32 = 8;

/// A perfect hash table of the names without a colon.
struct Names {
    multiplier: u32,
    slots: [u8; 1 << SLOT_BITS],
}

static NAMES: Names = Names::new();

impl Names {
    const fn new() -> Self {
        let mut multiplier = 0x9e37_79b1;
        loop {
            if let Some(slots) = Self::without_collision(multiplier) {
                return Self { multiplier, slots };
            }
            multiplier = multiplier.wrapping_mul(5).wrapping_add(2);
        }
    }

    const fn without_collision(multiplier: u32) -> Option<[u8; 1 << SLOT_BITS]> {
        let mut slots = [0; 1 << SLOT_BITS];
        let mut at = 0;
        while at < STATIC_LAST {
            at += 1;
            let name = name_at(at);
            if name[0] == b':' {
                continue;
            }
            let Some(slot) = slot(name, multiplier) else { panic!("every name has two bytes at least") };
            if slots[slot] != 0 {
                return None;
            }
            slots[slot] = at as u8;
        }
        Some(slots)
    }

    #[inline]
    fn find(&self, name: &[u8]) -> NameId {
        let Some(slot) = slot(name, self.multiplier) else { return NameId::OTHER };
        let index = self.slots[slot];
        if index != 0 && is_in_any_case(name, STATIC_NAMES[usize::from(index)]) {
            NameId(index)
        } else {
            NameId::OTHER
        }
    }
}

/// The name of each index. 0 has none.
static STATIC_NAMES: [&[u8]; STATIC_LAST + 1] = {
    let mut names: [&[u8]; STATIC_LAST + 1] = [b""; STATIC_LAST + 1];
    let mut index = 1;
    while index <= STATIC_LAST {
        names[index] = name_at(index);
        index += 1;
    }
    names
};

/// Hashes a name by its length, its first byte and its last two bytes, regardless of letter case.
#[inline]
const fn slot(name: &[u8], multiplier: u32) -> Option<usize> {
    let (Some(first), Some([next, last])) = (name.first(), name.last_chunk()) else { return None };
    let letters = u32::from_le_bytes([*first, *next, *last, 0]) | 0x0020_2020;
    let key = letters | (name.len() as u32) << 24;
    Some((key.wrapping_mul(multiplier) >> (u32::BITS - SLOT_BITS)) as usize)
}

/// Whether a token equals `lower`, which has lower-case letters and dashes only, in any letter case: both in
/// words, which may overlap. To set the case bit of every byte maps no other byte of a token to a letter or a
/// dash.
#[inline]
fn is_in_any_case(token: &[u8], lower: &[u8]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    if token.len() != lower.len() {
        return false;
    }
    let eight =
        |token: [u8; 8], lower: [u8; 8]| (u64::from_le_bytes(token) | CASE) ^ u64::from_le_bytes(lower);
    let four = |token: [u8; 4], lower: [u8; 4]| {
        (u32::from_le_bytes(token) | CASE as u32) ^ u32::from_le_bytes(lower)
    };
    let (first, last) = (token.first_chunk(), token.last_chunk());
    if let (Some(first), Some(last), Some(lower_first), Some(lower_last)) =
        (first, last, lower.first_chunk(), lower.last_chunk())
    {
        let ends = eight(*first, *lower_first) | eight(*last, *lower_last);
        return ends == 0 && (token.len() <= 16 || has_middle_in_any_case(token, lower));
    }
    let (first, last) = (token.first_chunk(), token.last_chunk());
    if let (Some(first), Some(last), Some(lower_first), Some(lower_last)) =
        (first, last, lower.first_chunk(), lower.last_chunk())
    {
        return four(*first, *lower_first) | four(*last, *lower_last) == 0;
    }
    token.eq_ignore_ascii_case(lower)
}

/// Compares what [`is_in_any_case`] leaves out of long names.
#[inline(never)]
fn has_middle_in_any_case(token: &[u8], lower: &[u8]) -> bool {
    token.eq_ignore_ascii_case(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_the_decoder_would_check_them() {
        for entry in &ENTRIES {
            let line = &LINES[entry.start as usize..];
            assert_eq!(entry.meta, Checked::name(line, entry.name_len as usize));
            assert!(line[entry.name_len as usize + entry.value_len as usize + 2..].starts_with(b"\r\n"));
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        for index in 15..=STATIC_LAST {
            let name = name_at(index);
            assert_eq!(NameId::of(Known::of(name), name).static_index(), Some(index));
            let upper = name.to_ascii_uppercase();
            assert_eq!(NameId::of(Known::Other, &upper).static_index(), Some(index));
            for other in [&upper[1..], &[&upper[..], b"x"].concat()] {
                assert_eq!(NameId::of(Known::Other, other), NameId::OTHER);
            }
        }
        assert_eq!(NameId::of(Known::XRequestId, b"").static_index(), None);
        assert_ne!(NameId::of(Known::XRequestId, b""), NameId::of(Known::XRealIp, b""));
    }
}
