//! What request and response heads have in common.

use super::malformed::Malformed;
use super::scan::{Scanner, Stop};
use super::version::Version;
use crate::field::{Field, Known, list};

/// Fields in one head; more are refused. nginx bounds bytes only; a table of positions needs a number too.
pub const FIELDS_MAX: usize = 256;

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
    /// `Connection` names fields that end here, other than the three options above.
    pub has_listed: bool,
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

    /// Whether a `Connection` field names this field, so that it ends here (RFC 9110 section 7.6.1).
    #[inline]
    pub fn is_listed(&self, head: &[u8], name: &[u8]) -> bool {
        self.has_listed
            && self
                .entries
                .iter()
                .filter(|field| field.known == Known::Connection)
                .any(|field| list(field.value(head)).any(|listed| listed.eq_ignore_ascii_case(name)))
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
            Known::Connection => self.note_connection(value),
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

    fn note_connection(&mut self, value: &[u8]) {
        for option in list(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.has_listed = true;
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
