//! The fields of a head, which requests and responses share.

use super::malformed::Malformed;
use super::scan::{Scanner, Stop};
use super::version::Version;
use crate::field::{Field, Known, list};
use crate::hop_by_hop::ends_here;

/// The most fields of a head; a head with more is refused. nginx bounds bytes only, but a table of positions
/// needs a bound too.
pub const FIELDS_MAX: usize = 256;
const _: () = assert!(FIELDS_MAX - 1 <= u8::MAX as usize, "places of fields are kept as bytes");
/// The most names that `Connection` may list beside its usual options. They have a bound because each is
/// compared with every field.
const LISTED_NAMES_MAX: u16 = 64;

/// The fields of a head, and their statements about framing and the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    entries: Vec<Field>,
    /// A bit for each known field that the head has; see [`bit`].
    kinds: u32,
    /// Index into `entries` of the first field of each known kind; 0 where its bit is not set.
    first: [u8; Known::COUNT],
    /// `Connection` has `close`.
    pub close: bool,
    /// `Connection` has `keep-alive`.
    pub keep_alive: bool,
    /// `Connection` has `upgrade`.
    pub upgrade: bool,
    /// Number of names that `Connection` lists beside the three options above and `te`.
    listed: u16,
    /// The value of `Content-Length`; a head with two is refused.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding` is `chunked`.
    pub chunked: bool,
    /// The head has more than one `Host`.
    pub(super) has_duplicate_host: bool,
}

impl Fields {
    /// Releases unused memory, for fields that are kept for long.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Every field, in the order of arrival.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.entries.iter()
    }

    /// The first field of a known kind; none for `Other`.
    #[inline]
    pub fn find(&self, known: Known) -> Option<&Field> {
        if self.kinds & bit(known) == 0 {
            return None;
        }
        self.entries.get(usize::from(*self.first.get(known as usize)?))
    }

    /// The first field of a name, in any letter case.
    pub fn find_name(&self, head: &[u8], name: &[u8]) -> Option<&Field> {
        self.entries.iter().find(|field| field.name(head).eq_ignore_ascii_case(name))
    }

    /// Whether a `Connection` field lists this name (RFC 9110 section 7.6.1). Such fields have been removed
    /// from the head; a trailer may still have one.
    pub fn is_listed(&self, head: &[u8], name: &[u8]) -> bool {
        self.listed > 0 && self.listed_names(head).any(|listed| listed.eq_ignore_ascii_case(name))
    }

    fn listed_names<'a>(&self, head: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let connection = self.entries.iter().filter(|field| field.known == Known::Connection);
        connection.flat_map(|field| list(field.value(head)))
    }

    /// The unchanged protocol names in `Upgrade` (RFC 9110 section 7.8).
    pub fn upgrades<'a>(&self, head: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.entries
            .iter()
            .filter(|field| field.known == Known::Upgrade)
            .flat_map(|field| list(field.value(head)))
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        let Self {
            entries,
            kinds,
            first,
            close,
            keep_alive,
            upgrade,
            listed,
            content_length,
            chunked,
            has_duplicate_host,
        } = self;
        entries.clear();
        *kinds = 0;
        *first = [0; Known::COUNT];
        *close = false;
        *keep_alive = false;
        *upgrade = false;
        *listed = 0;
        *content_length = None;
        *chunked = false;
        *has_duplicate_host = false;
    }

    /// Reads all fields of a head, up to the empty line that ends it.
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<(), Stop> {
        scanner.fields(|field| self.push(field, bytes))
    }

    /// Adds the field after the others.
    #[inline]
    pub(crate) fn push(&mut self, field: Field, bytes: &[u8]) -> Result<(), Malformed> {
        if self.entries.len() == FIELDS_MAX {
            return Err(Malformed::TooManyFields);
        }
        if field.known != Known::Other {
            self.note_known(field.known, self.entries.len());
            if is_framing(field.known) {
                self.note_framing(field.known, field.value(bytes))?;
            }
        }
        self.entries.push(field);
        Ok(())
    }

    /// Registers the field at an index of `entries`, so that `find` returns the first of its kind.
    #[inline]
    fn note_known(&mut self, known: Known, place: usize) {
        let Some(first) = self.first.get_mut(known as usize) else { return };
        if self.kinds & bit(known) == 0 {
            self.kinds |= bit(known);
            *first = place as u8;
        } else if known == Known::Host {
            self.has_duplicate_host = true;
        }
    }

    /// Stores a field's statement about framing and the connection. If it were inlined, it would take
    /// registers from the loop over all fields.
    #[inline(never)]
    fn note_framing(&mut self, known: Known, value: &[u8]) -> Result<(), Malformed> {
        match known {
            Known::Connection => self.note_connection(value)?,
            Known::ContentLength => {
                if self.content_length.is_some() {
                    return Err(Malformed::ContentLength);
                }
                self.content_length = Some(parse_length(value).ok_or(Malformed::ContentLength)?);
            }
            Known::TransferEncoding => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed::TransferEncoding);
                }
                self.chunked = true;
            }
            _ => debug_assert!(!is_framing(known), "each of these fields has its own arm"),
        }
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) -> Result<(), Malformed> {
        for option in list(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else if !option.eq_ignore_ascii_case(b"te") {
                self.listed += 1;
                if self.listed > LISTED_NAMES_MAX {
                    return Err(Malformed::TooManyFields);
                }
            }
        }
        Ok(())
    }

    /// Removes the fields that `Connection` lists (RFC 9110 section 7.6.1), so that all code sees the same
    /// head. Fields that frame or route the message stay whatever `Connection` says, and so do those of the
    /// connection itself.
    #[inline]
    pub(super) fn drop_listed(&mut self, bytes: &[u8]) {
        if self.listed > 0 {
            let names: Vec<&[u8]> = self.listed_names(bytes).collect();
            self.drop_fields(|field| {
                let stays =
                    ends_here(field.known) || matches!(field.known, Known::ContentLength | Known::Host);
                !stays && names.iter().any(|listed| listed.eq_ignore_ascii_case(field.name(bytes)))
            });
        }
    }

    /// Removes `Content-Length` from a message that has no content.
    pub(super) fn drop_length(&mut self) {
        if self.content_length.take().is_some() {
            self.drop_fields(|field| field.known == Known::ContentLength);
        }
    }

    #[cold]
    fn drop_fields(&mut self, is_dropped: impl Fn(&Field) -> bool) {
        self.entries.retain(|field| !is_dropped(field));
        self.kinds = 0;
        self.first = [0; Known::COUNT];
        for place in 0..self.entries.len() {
            self.note_known(self.entries[place].known, place);
        }
    }

    /// Refuses ambiguous framing. RFC 9112 section 6.1: such a message "ought to be handled as an error".
    pub(super) fn check_framing(&self, version: Version) -> Result<(), Malformed> {
        if self.chunked && self.content_length.is_some() {
            return Err(Malformed::ConflictingFraming);
        }
        if self.chunked && version == Version::Http10 {
            return Err(Malformed::TransferEncoding);
        }
        Ok(())
    }
}

/// Whether [`Fields::note_framing`] reads a field.
#[inline]
fn is_framing(known: Known) -> bool {
    matches!(known, Known::Connection | Known::ContentLength | Known::TransferEncoding)
}

/// The bit of a known field in [`Fields::kinds`]; the bit of `Other` is never set.
#[inline]
fn bit(known: Known) -> u32 {
    const { assert!(Known::COUNT < u32::BITS as usize, "each kind has a bit") };
    1 << known as u32
}

/// Parses a `Content-Length` (RFC 9110 section 8.6): digits only, no sign and no list.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value.iter().try_fold(0, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| sum * 10 + u64::from(digit))
    })
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
