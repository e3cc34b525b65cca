//! Header fields as positions in the buffer that they arrived in.

use std::ops::Range;

/// A header field: positions of its line, name and value in the head's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte of the line, which is the first of the name.
    pub start: u32,
    /// Byte after the line's CRLF.
    pub end: u32,
    /// Length of the name in bytes. The name begins at `start`.
    pub name_len: u16,
    /// The field that the name stands for, if the proxy knows it.
    pub known: Known,
    /// Whether the name consists of letters, digits and dashes only.
    pub plain_name: bool,
    /// First byte of the value, white space around it left out.
    pub value_start: u32,
    /// Byte after the value.
    pub value_end: u32,
}

impl Field {
    /// The name as it was sent.
    pub fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.start as usize..self.start as usize + usize::from(self.name_len)]
    }

    /// The value, without the white space around it.
    pub fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.value_start as usize..self.value_end as usize]
    }

    /// The whole line with its CRLF.
    pub fn line(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether the value is a number in its one canonical form: one space before it, no leading zeros,
    /// nothing after it. Two parsers may read any other form differently.
    pub fn is_plain_number(&self, head: &[u8]) -> bool {
        let before = self.start as usize + usize::from(self.name_len)..self.value_start as usize;
        let is_short = self.value_end + 2 == self.end;
        is_short && &head[before] == b": " && matches!(self.value(head), [b'0'] | [b'1'..=b'9', ..])
    }
}

/// The bytes of a text, as an array of its length.
const fn array_of<const LEN: usize>(text: &str) -> [u8; LEN] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("the text is shorter"),
    }
}

/// Whether a token equals `lower`, which has lower-case letters and dashes only, in any letter case. Both are
/// compared in words, of which the last two may overlap. Setting the case bit of every byte (0x20) folds
/// letters; it maps no other byte of a token to a letter or a dash.
#[inline]
fn is_in_any_case<const LEN: usize>(token: &[u8], lower: &[u8; LEN]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let Ok(token) = <&[u8; LEN]>::try_from(token) else { return false };
    let eight = |at: usize| match (token[at..].first_chunk(), lower[at..].first_chunk()) {
        (Some(token), Some(lower)) => (u64::from_le_bytes(*token) | CASE) ^ u64::from_le_bytes(*lower),
        _ => 1,
    };
    let four = |at: usize| match (token[at..].first_chunk(), lower[at..].first_chunk()) {
        (Some(token), Some(lower)) => (u32::from_le_bytes(*token) | CASE as u32) ^ u32::from_le_bytes(*lower),
        _ => 1,
    };
    match LEN {
        0..4 => token.eq_ignore_ascii_case(lower),
        4..8 => four(0) | four(LEN - 4) == 0,
        _ => (0..LEN - 8).step_by(8).fold(eight(LEN - 8), |differ, at| differ | eight(at)) == 0,
    }
}

/// Bits of a hash of [`NAMES`]. A multiplier without collisions is found soon with four times as many slots
/// as names.
const SLOT_BITS: u32 = 7;

/// Hashes a name by its length, its first byte and its last two bytes, regardless of letter case.
#[inline]
const fn slot(len: usize, first: u8, last: [u8; 2], multiplier: u32) -> usize {
    let letters = u32::from_le_bytes([first, last[0], last[1], 0]) | 0x0020_2020;
    let key = letters | (len as u32) << 24;
    (key.wrapping_mul(multiplier) >> (u32::BITS - SLOT_BITS)) as usize
}

/// A perfect hash table of the known names. The compiler builds it: it tries multipliers until no two names
/// collide.
struct Names {
    multiplier: u32,
    slots: [Known; 1 << SLOT_BITS],
}

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

    const fn without_collision(multiplier: u32) -> Option<[Known; 1 << SLOT_BITS]> {
        let mut slots = [Known::Other; 1 << SLOT_BITS];
        let mut at = 0;
        while at < Known::COUNT {
            let (known, name) = Known::ALL[at];
            let name = name.as_bytes();
            let (Some(&first), Some(&last)) = (name.first(), name.last_chunk()) else {
                panic!("a known name has two bytes at least")
            };
            let slot = slot(name.len(), first, last, multiplier);
            if !matches!(slots[slot], Known::Other) {
                return None;
            }
            slots[slot] = known;
            at += 1;
        }
        Some(slots)
    }
}

static NAMES: Names = Names::new();

/// Defines [`Known`]: one entry for each field that the proxy reads or writes.
macro_rules! known {
    ($($variant:ident = $name:literal,)*) => {
        /// A field that the proxy knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Known {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// Any other field.
            Other,
        }

        impl Known {
            /// Number of known fields; [`Other`](Self::Other) is not counted.
            pub const COUNT: usize = Self::Other as usize;

            const ALL: [(Self, &'static str); Self::COUNT] = [$((Self::$variant, $name),)*];

            /// Looks up a name in any letter case. It must be a token (RFC 9110 section 5.6.2).
            pub fn of(name: &[u8]) -> Self {
                let (Some(&first), Some(&last)) = (name.first(), name.last_chunk()) else { return Self::Other };
                // The hash leaves at most one candidate to compare the name with.
                match NAMES.slots[slot(name.len(), first, last, NAMES.multiplier)] {
                    $(Self::$variant if is_in_any_case(name, &const { array_of::<{ $name.len() }>($name) }) => {
                        Self::$variant
                    })*
                    _ => Self::Other,
                }
            }

            /// Looks up a name that may have other characters in place of dashes: the field that some
            /// programs would mistake it for; see [`is_alike`].
            #[cold]
            pub fn alike(name: &[u8]) -> Self {
                let mut all = Self::ALL.into_iter();
                all.find(|(_, known)| is_alike(name, known.as_bytes())).map_or(Self::Other, |(known, _)| known)
            }
        }
    };
}

known! {
    Host = "host",
    Connection = "connection",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    Proxy = "proxy",
    Te = "te",
    Trailer = "trailer",
    TransferEncoding = "transfer-encoding",
    ContentLength = "content-length",
    Upgrade = "upgrade",
    Expect = "expect",
    Date = "date",
    Server = "server",
    XRequestId = "x-request-id",
    XRealIp = "x-real-ip",
    XForwardedFor = "x-forwarded-for",
    XForwardedHost = "x-forwarded-host",
    XForwardedPort = "x-forwarded-port",
    XForwardedProto = "x-forwarded-proto",
    XForwardedScheme = "x-forwarded-scheme",
    XScheme = "x-scheme",
    XOriginalUri = "x-original-uri",
    XOriginalForwardedFor = "x-original-forwarded-for",
    XOriginalForwardedHost = "x-original-forwarded-host",
    SslClientVerify = "ssl-client-verify",
    SslClientSubjectDn = "ssl-client-subject-dn",
    SslClientIssuerDn = "ssl-client-issuer-dn",
    SslClientCert = "ssl-client-cert",
    StrictTransportSecurity = "strict-transport-security",
}

/// Whether programs may mistake one name for the other. CGI (RFC 3875 section 4.1.18), WSGI and Rack pass a
/// header to an application as a variable of its environment: letter case is lost, and a dash becomes an
/// underscore or another character.
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    one.len() == other.len() && one.iter().zip(other).all(|(&one, &other)| plain(one) == plain(other))
}

/// The elements of a comma-separated list (RFC 9110 section 5.6.1), without empty ones.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_recognised_in_any_case() {
        assert_eq!(Known::of(b"HOST"), Known::Host);
        assert_eq!(Known::of(b"Transfer-Encoding"), Known::TransferEncoding);
        assert_eq!(Known::of(b"x-other"), Known::Other);
        assert_eq!(Known::of(b""), Known::Other);
    }

    #[test]
    fn every_name_is_found_and_nothing_near_it() {
        for (known, name) in Known::ALL {
            assert_eq!(Known::of(name.to_ascii_uppercase().as_bytes()), known);
            assert_eq!(Known::alike(name.to_ascii_uppercase().replace('-', "_").as_bytes()), known);
            for other in [name[1..].to_owned(), format!("{name}x"), format!("_{name}")] {
                assert_eq!(Known::of(other.as_bytes()), Known::Other, "{other}");
                assert_eq!(Known::alike(other.as_bytes()), Known::Other, "{other}");
            }
        }
    }

    proptest! {
        /// Compares the perfect hash with a linear search, for known names with random letter case and one
        /// changed byte.
        #[test]
        fn names_are_found_as_a_search_finds_them(
            known in prop::sample::select(&Known::ALL[..]),
            at in any::<prop::sample::Index>(),
            other in prop_oneof![Just(None), "[!-9;-~]".prop_map(Some)],
            upper in any::<u32>(),
        ) {
            let case = |(at, byte): (usize, u8)| if upper >> at & 1 == 1 { byte.to_ascii_uppercase() } else { byte };
            let mut name: Vec<u8> = known.1.bytes().enumerate().map(case).collect();
            if let Some(other) = other {
                let at = at.index(name.len());
                name[at] = other.as_bytes()[0];
            }
            let found = Known::ALL.into_iter().find(|(_, known)| name.eq_ignore_ascii_case(known.as_bytes()));
            prop_assert_eq!(Known::of(&name), found.map_or(Known::Other, |(known, _)| known));
        }
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        let elements: Vec<&[u8]> = list(b" close , ,x-a,").collect();
        assert_eq!(elements, [&b"close"[..], b"x-a"]);
    }
}
