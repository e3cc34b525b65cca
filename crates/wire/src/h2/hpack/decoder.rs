//! Header blocks decoded to lines of HTTP/1.

use super::static_table::{ENTRIES, LINES, STATIC_LAST};
use super::{BrokenBlock, Decoded, ListTooLarge, TABLE_BYTES_DEFAULT};
use crate::compression::FieldDecoder;
use crate::compression::checked::{Checked, is_value};
use crate::compression::primitive::Reader;
use crate::compression::table::{DynamicTable, Entry, SLACK};

/// Changes of the table's size that a block may begin with: the smallest bound since the last block, and the
/// one that holds now (RFC 7541 section 4.2).
const SIZE_UPDATES_MAX: usize = 2;

const INDEXED: u8 = 0x80;
/// The first byte of an index that continues in the next byte.
const LONG_INDEX: u8 = 0xff;
const STORED: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;

/// Decodes the header blocks of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    /// Each entry's bytes are its whole line, as the output has it.
    table: DynamicTable<Checked>,
    /// The largest size that the peer may choose.
    table_bytes_max: usize,
    /// The size in our SETTINGS, which may be less until the peer has acknowledged them.
    table_bytes_set: usize,
}

/// A field in a table: bytes that begin with its line, lengths and checks.
struct Found<'a> {
    bytes: &'a [u8],
    entry: &'a Entry<Checked>,
}

impl Decoder {
    /// `table_bytes_max` is the value of our `SETTINGS_HEADER_TABLE_SIZE`. Nothing is allocated before the
    /// first entry.
    pub fn new(table_bytes_max: usize) -> Self {
        Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            table_bytes_max: table_bytes_max.max(TABLE_BYTES_DEFAULT),
            table_bytes_set: table_bytes_max,
        }
    }

    /// Notes that the peer has acknowledged our SETTINGS. Until then it may use a table of the default size,
    /// even if ours is to be smaller; after that its next block has to reduce the table (RFC 7541 section
    /// 4.2).
    pub fn settings_acknowledged(&mut self) {
        self.table_bytes_max = self.table_bytes_set;
    }

    /// Decodes a whole header block. Appends each field to `out` as a line `name: value\r\n`, and passes its
    /// position to `on_field`, which may truncate `out` again.
    ///
    /// After an error of `on_field`, or once the sizes of all fields (name, value and 32) exceed
    /// `list_bytes_max`, the rest of the block is decoded only to keep the table in step: `out` stays as it
    /// is, and the first such error is returned inside `Ok`.
    ///
    /// # Errors
    ///
    /// [`BrokenBlock`] if the block is not valid: an index without an entry, a broken Huffman code, an
    /// integer of more than 32 bits, a change of the table's size that is too large, missing or not at the
    /// beginning.
    pub fn decode<E: From<ListTooLarge>>(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        mut on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        let mut reader = Reader::new(block);
        self.size_updates(&mut reader)?;
        let mut list_bytes_left = list_bytes_max;
        let mut rest = reader.rest();
        while let [first, after_first @ ..] = rest {
            let start = out.len();
            let entry = if (INDEXED..LONG_INDEX).contains(first) {
                rest = after_first;
                self.copy(usize::from(first & !INDEXED), out)?
            } else {
                // A reader of its own, so that `rest` is in registers for the indexes of one byte.
                let mut reader = Reader::new(rest);
                let entry = self.long(*first, &mut reader, out)?;
                rest = reader.rest();
                entry
            };
            let Some(left) = list_bytes_left.checked_sub(entry.size()) else {
                out.truncate(start);
                return self.skip(Reader::new(rest), out).map(|()| Err(ListTooLarge.into()));
            };
            list_bytes_left = left;
            let is_never_indexed = first & (INDEXED | STORED | NEVER_INDEXED) == NEVER_INDEXED;
            if let Err(error) = on_field(out, decoded(start, &entry, is_never_indexed)) {
                return self.skip(Reader::new(rest), out).map(|()| Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Appends the field with an index.
    #[inline]
    fn copy(&self, index: usize, out: &mut Vec<u8>) -> Result<Entry<Checked>, BrokenBlock> {
        let Found { bytes, entry } = self.find(index)?;
        copy_front(bytes, line_len(entry), out);
        Ok(*entry)
    }

    /// Appends a field whose representation begins with `first` and is longer than a byte.
    fn long(
        &mut self,
        first: u8,
        reader: &mut Reader,
        out: &mut Vec<u8>,
    ) -> Result<Entry<Checked>, BrokenBlock> {
        if first & INDEXED == 0 {
            self.literal(first, reader, out)
        } else {
            self.copy(reader.integer(7)?, out)
        }
    }

    /// Decodes the rest of a block without output.
    #[cold]
    fn skip(&mut self, mut reader: Reader, out: &mut Vec<u8>) -> Result<(), BrokenBlock> {
        let end = out.len();
        while let Some(first) = reader.peek() {
            if first & INDEXED == 0 {
                self.literal(first, &mut reader, out)?;
                out.truncate(end);
            } else {
                self.find(reader.integer(7)?)?;
            }
        }
        Ok(())
    }

    /// Size of the table's entries (RFC 7541 section 4.1).
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// Applies the changes of the table's size at the beginning of a block.
    #[inline]
    fn size_updates(&mut self, reader: &mut Reader) -> Result<(), BrokenBlock> {
        for _ in 0..SIZE_UPDATES_MAX {
            if reader.peek().is_none_or(|first| first & (INDEXED | STORED | SIZE_UPDATE) != SIZE_UPDATE) {
                break;
            }
            let size_max = reader.integer(5)?;
            if size_max > self.table_bytes_max {
                return Err(BrokenBlock);
            }
            self.table.set_size_max(size_max);
        }
        if self.table.size_max() > self.table_bytes_max { Err(BrokenBlock) } else { Ok(()) }
    }

    /// The field with an index of both tables.
    #[inline]
    fn find(&self, index: usize) -> Result<Found<'_>, BrokenBlock> {
        if let Some(entry) = ENTRIES.get(index.wrapping_sub(1)) {
            return Ok(Found { bytes: &LINES[entry.start as usize..], entry });
        }
        // The index 0 becomes an age that no entry has.
        let age = index.wrapping_sub(STATIC_LAST + 1);
        let entry = self.table.get(age).ok_or(BrokenBlock)?;
        Ok(Found { bytes: self.table.bytes_from(entry), entry })
    }

    /// Appends a field that is not in a table, though its name may be.
    fn literal(
        &mut self,
        first: u8,
        reader: &mut Reader,
        out: &mut Vec<u8>,
    ) -> Result<Entry<Checked>, BrokenBlock> {
        let is_stored = first & STORED != 0;
        if !is_stored && first & SIZE_UPDATE != 0 {
            // After the first field, the size of the table may not change.
            return Err(BrokenBlock);
        }
        let start = out.len();
        let name_index = reader.integer(if is_stored { 6 } else { 4 })?;
        let known_name = if name_index == 0 {
            reader.string(out)?;
            out.extend_from_slice(b": ");
            None
        } else {
            let Found { bytes, entry } = self.find(name_index)?;
            copy_front(bytes, entry.name_len as usize + 2, out);
            Some(entry.meta)
        };
        let value_start = out.len();
        reader.string(out)?;
        let value_end = out.len();
        out.extend_from_slice(b"\r\n");
        let name_len = value_start - 2 - start;
        let mut checked = match known_name {
            Some(checked) => checked,
            None => Checked::name(&out[start..], name_len),
        };
        checked.value_is_valid = is_value(out, value_start, value_end);
        let entry = Entry::new(name_len, value_end - value_start, checked);
        if is_stored {
            self.table.insert(entry, [&out[start..]]);
        }
        Ok(entry)
    }
}

impl FieldDecoder for Decoder {
    #[inline]
    fn decode<E: From<ListTooLarge>>(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        Self::decode(self, block, list_bytes_max, out, on_field)
    }
}

/// Length of an entry's line: name, colon and space, value, CRLF.
#[inline]
fn line_len(entry: &Entry<Checked>) -> usize {
    (entry.name_len + entry.value_len) as usize + 4
}

/// The positions of a field whose line begins at `start`.
#[inline]
fn decoded(start: usize, entry: &Entry<Checked>, is_never_indexed: bool) -> Decoded {
    let name_end = start + entry.name_len as usize;
    let value_start = name_end + 2;
    let Checked { token, is_plain_name, name_is_valid, value_is_valid } = entry.meta;
    Decoded {
        token,
        name: start..name_end,
        value: value_start..value_start + entry.value_len as usize,
        is_plain_name,
        name_is_valid,
        value_is_valid,
        is_never_indexed,
    }
}

/// Appends the first `len` bytes. Nearly all lines are short: they are copied together with what follows,
/// because the compiler makes a call of a copy whose length it does not know.
#[inline]
fn copy_front(bytes: &[u8], len: usize, out: &mut Vec<u8>) {
    match bytes.first_chunk::<SLACK>() {
        Some(chunk) if len <= SLACK / 2 => {
            let end = out.len() + len;
            out.extend_from_slice(&chunk[..SLACK / 2]);
            out.truncate(end);
        }
        Some(chunk) if len <= SLACK => {
            let end = out.len() + len;
            out.extend_from_slice(chunk);
            out.truncate(end);
        }
        _ => out.extend_from_slice(bytes.get(..len).unwrap_or_default()),
    }
}
