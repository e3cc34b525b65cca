//! What request and response heads have in common.

use super::malformed::Malformed;
use super::scan::{Scanner, Stop};
use super::version::Version;
use crate::field::{Field, Known, list};
use crate::hop_by_hop::ends_here;

/// Fields in one head; more are refused. nginx bounds bytes only; a table of positions needs a number too.
pub const FIELDS_MAX: usize = 256;
/// Names that `Connection` may list, beside its usual options; more are refused. Each is compared with every field.
const LISTED_NAMES_MAX: u16 = 64;

/// The fields of a head and what the framing rules say of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    entries: Vec<Field>,
    /// Where the first field of each kind stands, counted from 1; 0 where there is none.
    first: [u16; Known::COUNT],
    /// `Connection` has `close`.
    pub close: bool,
    /// `Connection` has `keep-alive`.
    pub keep_alive: bool,
    /// `Connection` has `upgrade`.
    pub upgrade: bool,
    /// Number of names that `Connection` lists, other than the three options above and `te`.
    listed: u16,
    /// The only `Content-Length`.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// There is more than one `Host`.
    pub(super) has_duplicate_host: bool,
}

impl Fields {
    /// Gives memory back that is not needed, where they are kept for long.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Every field in the order in which it came.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.entries.iter()
    }

    /// First field of a kind, which must not be `Other`.
    pub fn find(&self, known: Known) -> Option<&Field> {
        let place = *self.first.get(known as usize)?;
        self.entries.get(usize::from(place).checked_sub(1)?)
    }

    /// First field of a name, whatever its letter case.
    pub fn find_name(&self, head: &[u8], name: &[u8]) -> Option<&Field> {
        self.entries.iter().find(|field| field.name(head).eq_ignore_ascii_case(name))
    }

    /// Whether a `Connection` field lists this name (RFC 9110 section 7.6.1). The head has no such field any more; a trailer may have it.
    pub fn is_listed(&self, head: &[u8], name: &[u8]) -> bool {
        self.listed > 0 && self.listed_names(head).any(|listed| listed.eq_ignore_ascii_case(name))
    }

    fn listed_names<'a>(&self, head: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let connection = self.entries.iter().filter(|field| field.known == Known::Connection);
        connection.flat_map(|field| list(field.value(head)))
    }

    /// The protocols that `Upgrade` names (RFC 9110 section 7.8), as they were sent.
    pub fn upgrades<'a>(&self, head: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.entries
            .iter()
            .filter(|field| field.known == Known::Upgrade)
            .flat_map(|field| list(field.value(head)))
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        *self = Self { entries: std::mem::take(&mut self.entries), ..Self::default() };
        self.entries.clear();
    }

    /// Reads all fields of a head, up to the empty line that ends it.
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<(), Stop> {
        while let Some(field) = scanner.field()? {
            if self.entries.len() == FIELDS_MAX {
                return Err(Malformed::TooManyFields.into());
            }
            self.entries.push(field);
            if let Some(first) = self.first.get_mut(field.known as usize) {
                if *first == 0 {
                    *first = self.entries.len() as u16;
                } else if field.known == Known::Host {
                    self.has_duplicate_host = true;
                }
                self.note_framing(field.known, field.value(bytes))?;
            }
        }
        Ok(())
    }

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
            _ => {}
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

    /// Removes the fields that `Connection` lists (RFC 9110 section 7.6.1), so that all readers of the head have one view of it. Fields that
    /// frame or route the message stay whatever `Connection` says, and so do those of the connection itself.
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

    /// Removes a length that frames nothing.
    pub(super) fn drop_length(&mut self) {
        if self.content_length.take().is_some() {
            self.drop_fields(|field| field.known == Known::ContentLength);
        }
    }

    #[cold]
    fn drop_fields(&mut self, is_dropped: impl Fn(&Field) -> bool) {
        self.entries.retain(|field| !is_dropped(field));
        self.first = [0; Known::COUNT];
        for (at, field) in self.entries.iter().enumerate().rev() {
            if let Some(first) = self.first.get_mut(field.known as usize) {
                *first = at as u16 + 1;
            }
        }
    }

    /// RFC 9112 section 6.1: such a message "ought to be handled as an error".
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

/// RFC 9110 section 8.6: digits only; no sign, no list.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
