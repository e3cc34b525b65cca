//! Header blocks decoded to lines of HTTP/1.

use super::checked::{Checked, is_value};
use super::primitive::Reader;
use super::static_table::{ENTRIES, STATIC_LAST, StaticEntry};
use super::table::{DynamicTable, ENTRY_OVERHEAD, Entry};
use super::{BrokenBlock, Decoded, ListTooLarge, TABLE_BYTES_DEFAULT};

/// Changes of the table's size that a block may begin with: the smallest bound since the last block, and the
/// one that holds now (RFC 7541 section 4.2).
const SIZE_UPDATES_MAX: usize = 2;

const INDEXED: u8 = 0x80;
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
    /// What our SETTINGS say, which may be less until the peer has acknowledged them.
    table_bytes_set: usize,
}

/// A field in a table.
struct Found<'a> {
    /// Bytes that begin with the field's line.
    bytes: &'a [u8],
    shape: Shape,
}

/// Lengths and checks of a field.
struct Shape {
    name_len: usize,
    value_len: usize,
    checked: Checked,
}

impl Shape {
    /// Length of the line: name, colon and space, value, CRLF.
    fn line_len(&self) -> usize {
        self.name_len + self.value_len + 4
    }

    #[inline]
    fn decoded(&self, start: usize, is_never_indexed: bool) -> Decoded {
        let name_end = start + self.name_len;
        let value_start = name_end + 2;
        let Checked { token, is_plain_name, name_is_valid, value_is_valid } = self.checked;
        Decoded {
            token,
            name: start..name_end,
            value: value_start..value_start + self.value_len,
            is_plain_name,
            name_is_valid,
            value_is_valid,
            is_never_indexed,
        }
    }
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
    /// even if ours is to be smaller; after that its next block has to reduce the table (RFC 7541 section 4.2).
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
    /// [`BrokenBlock`] if the block is not valid: an index without an entry, a broken Huffman code, an integer
    /// of more than 32 bits, a change of the table's size that is too large, missing or not at the beginning.
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
        let mut outcome = Ok(());
        while let Some(first) = reader.peek() {
            let start = out.len();
            let shape = if first & INDEXED != 0 {
                let found = self.find(reader.integer(7)?)?;
                if outcome.is_ok() {
                    copy_front(found.bytes, found.shape.line_len(), out);
                }
                found.shape
            } else {
                self.literal(first, &mut reader, out)?
            };
            if outcome.is_err() {
                out.truncate(start);
                continue;
            }
            outcome = match list_bytes_left.checked_sub(shape.name_len + shape.value_len + ENTRY_OVERHEAD) {
                Some(left) => {
                    list_bytes_left = left;
                    let is_never_indexed = first & (INDEXED | STORED | NEVER_INDEXED) == NEVER_INDEXED;
                    on_field(out, shape.decoded(start, is_never_indexed))
                }
                None => {
                    out.truncate(start);
                    Err(ListTooLarge.into())
                }
            };
        }
        Ok(outcome)
    }

    /// Applies the changes of the table's size at the beginning of a block.
    #[inline]
    fn size_updates(&mut self, reader: &mut Reader) -> Result<(), BrokenBlock> {
        for _ in 0..SIZE_UPDATES_MAX {
            if !reader.peek().is_some_and(|first| first & 0xe0 == SIZE_UPDATE) {
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
            let &StaticEntry { line, name_len, value_len, checked } = entry;
            return Ok(Found { bytes: line, shape: Shape { name_len, value_len, checked } });
        }
        let age = index.checked_sub(STATIC_LAST + 1).ok_or(BrokenBlock)?;
        let entry = self.table.get(age).ok_or(BrokenBlock)?;
        let (name_len, value_len) = (entry.name_len as usize, entry.value_len as usize);
        Ok(Found {
            bytes: self.table.bytes_from(entry),
            shape: Shape { name_len, value_len, checked: entry.meta },
        })
    }

    /// Appends a field that is not in a table, though its name may be.
    fn literal(&mut self, first: u8, reader: &mut Reader, out: &mut Vec<u8>) -> Result<Shape, BrokenBlock> {
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
            let Found { bytes, shape } = self.find(name_index)?;
            copy_front(bytes, shape.name_len + 2, out);
            Some(shape.checked)
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
        let value_len = value_end - value_start;
        if is_stored {
            self.table.insert(Entry::new(name_len, value_len, checked), [&out[start..]]);
        }
        Ok(Shape { name_len, value_len, checked })
    }
}

/// Appends the first `len` bytes. Most lines are short: they are copied with all that follows in two vectors,
/// because the compiler makes a call of a copy whose length it does not know.
#[inline]
fn copy_front(bytes: &[u8], len: usize, out: &mut Vec<u8>) {
    const SHORT: usize = 64;
    match bytes.first_chunk::<SHORT>() {
        Some(chunk) if len <= SHORT => {
            let end = out.len() + len;
            out.extend_from_slice(chunk);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&bytes[..len]),
    }
}
