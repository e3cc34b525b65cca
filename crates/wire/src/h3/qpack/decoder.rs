//! Header blocks decoded to lines of HTTP/1, and the dynamic table that they refer to.

use super::BLOCKED_STREAMS_MAX;
use super::static_table::ENTRIES;
use crate::compression::checked::{Checked, is_value};
use crate::compression::primitive::{Reader, integer};
use crate::compression::table::{DynamicTable, ENTRY_OVERHEAD, Entry};
use crate::compression::{BrokenBlock, Decoded, FieldDecoder, ListTooLarge};
use crate::h3::code::{Code, Fault};

/// The size of a field beside its name and value (RFC 9114 section 4.2.2).
const FIELD_OVERHEAD: usize = 32;

const INDEXED: u8 = 0x80;
const INDEXED_STATIC: u8 = 0x40;
const NAMED: u8 = 0x40;
const NAMED_NEVER_INDEXED: u8 = 0x20;
const NAMED_STATIC: u8 = 0x10;
const LITERAL: u8 = 0x20;
const LITERAL_NEVER_INDEXED: u8 = 0x10;
const INDEXED_POST_BASE: u8 = 0x10;
const NAMED_POST_BASE_NEVER_INDEXED: u8 = 0x08;
/// The sign of a block's base.
const SIGN: u8 = 0x80;

/// Instructions for the peer's encoder (RFC 9204 section 4.4).
const ACKNOWLEDGMENT: u8 = 0x80;
const CANCELLATION: u8 = 0x40;
const INCREMENT: u8 = 0x00;

/// Decodes the header blocks of a peer, which may refer to the table that its encoder fills.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The capacity in our SETTINGS, which the peer may use or not.
    table_bytes_max: usize,
    /// Made when the peer sets a capacity. Each entry's bytes are its whole line.
    table: Option<Box<DynamicTable<Checked>>>,
    /// Number of entries that were ever inserted.
    inserted: u64,
    /// Of these, how many the peer knows to have come.
    reported: u64,
    /// Streams whose blocks wait for entries, and the number of insertions that each needs.
    blocked: Vec<Blocked>,
    /// Instructions for the peer's encoder that are not sent.
    out: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Blocked {
    stream: u64,
    required: u64,
}

/// The front of a header block (RFC 9204 section 4.5.1).
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    /// Insertions without which the block cannot be decoded.
    required: u64,
    /// The number of insertions from which indices count.
    base: u64,
}

/// A decoder, and the stream whose block it decodes.
pub(in crate::h3) struct Section<'d> {
    pub(in crate::h3) decoder: &'d mut Decoder,
    pub(in crate::h3) stream: u64,
}

/// The name of a field as a table has it.
struct Named<'t> {
    line: &'t [u8],
    len: usize,
    checked: Checked,
}

const TABLE_BROKEN: Fault = Fault::of_connection(Code::QPACK_ENCODER_STREAM_ERROR);

impl Decoder {
    /// A decoder whose table the peer may give `table_bytes_max` bytes; 0 for no table.
    pub fn new(table_bytes_max: usize) -> Self {
        Self { table_bytes_max, ..Self::default() }
    }

    /// Whether a block waits for entries that have not come. Its stream is noted, and
    /// [`unblocked`](Self::unblocked) returns it once they have.
    ///
    /// # Errors
    /// The block is broken, or more streams wait than our SETTINGS allow.
    pub(in crate::h3) fn blocks(&mut self, stream: u64, block: &[u8]) -> Result<bool, Fault> {
        const BROKEN: Fault = Fault::of_connection(Code::QPACK_DECOMPRESSION_FAILED);
        let required = self.prefix(&mut Reader::new(block)).map_err(|_| BROKEN)?.required;
        if required <= self.inserted {
            return Ok(false);
        }
        if self.blocked.len() == BLOCKED_STREAMS_MAX {
            return Err(BROKEN);
        }
        self.blocked.push(Blocked { stream, required });
        Ok(true)
    }

    /// The next stream whose block waits no more.
    pub fn unblocked(&mut self) -> Option<u64> {
        let at = self.blocked.iter().position(|blocked| blocked.required <= self.inserted)?;
        Some(self.blocked.swap_remove(at).stream)
    }

    /// Notes that a stream was reset, or is read no further. The peer need not keep entries for it.
    pub fn abandon(&mut self, stream: u64) {
        self.blocked.retain(|blocked| blocked.stream != stream);
        if self.table_bytes_max > 0 {
            integer(6, CANCELLATION, stream as usize, &mut self.out);
        }
    }

    /// Instructions for the peer's encoder, for our decoder stream. The owner removes what it has sent.
    pub(in crate::h3) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    // === The table ===

    /// The bound in our SETTINGS.
    pub(super) fn table_bytes_max(&self) -> usize {
        self.table_bytes_max
    }

    pub(super) fn set_capacity(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.table_bytes_max {
            return Err(TABLE_BROKEN);
        }
        match &mut self.table {
            Some(table) => table.set_size_max(bytes),
            None if bytes > 0 => self.table = Some(Box::new(DynamicTable::new(bytes))),
            None => {}
        }
        Ok(())
    }

    /// Inserts a field whose name a table has. Strings of instructions are whole.
    pub(super) fn insert_named(
        &mut self,
        is_static: bool,
        index: usize,
        value: &mut Reader,
    ) -> Result<(), Fault> {
        let mut line = Vec::new();
        let named = self.name_by_age(is_static, index).ok_or(TABLE_BROKEN)?;
        line.extend_from_slice(&named.line[..named.len + 2]);
        let (len, checked) = (named.len, named.checked);
        self.insert(line, len, checked, value)
    }

    /// Inserts a field with a name of its own.
    pub(super) fn insert_literal(&mut self, field: &mut Reader) -> Result<(), Fault> {
        let mut line = Vec::new();
        field.string_after(5, &mut line).map_err(|_| TABLE_BROKEN)?;
        let name_len = line.len();
        line.extend_from_slice(b": ");
        let checked = Checked::name(&line, name_len);
        self.insert(line, name_len, checked, field)
    }

    /// Inserts an entry again, so that it becomes the newest.
    pub(super) fn duplicate(&mut self, age: usize) -> Result<(), Fault> {
        let table = self.table.as_ref().ok_or(TABLE_BROKEN)?;
        let entry = *table.get(age).ok_or(TABLE_BROKEN)?;
        let line = table.bytes_from(&entry)[..line_len(&entry)].to_vec();
        self.store(entry, &line)
    }

    fn insert(
        &mut self,
        mut line: Vec<u8>,
        name_len: usize,
        mut checked: Checked,
        value: &mut Reader,
    ) -> Result<(), Fault> {
        let value_start = line.len();
        value.string(&mut line).map_err(|_| TABLE_BROKEN)?;
        let value_end = line.len();
        line.extend_from_slice(b"\r\n");
        checked.value_is_valid = is_value(&line, value_start, value_end);
        self.store(Entry::new(name_len, value_end - value_start, checked), &line)
    }

    fn store(&mut self, entry: Entry<Checked>, line: &[u8]) -> Result<(), Fault> {
        let table = self.table.as_mut().ok_or(TABLE_BROKEN)?;
        // RFC 9204 section 3.2.2: an entry that has no room is an error.
        if entry.name_len as usize + entry.value_len as usize + ENTRY_OVERHEAD > table.size_max() {
            return Err(TABLE_BROKEN);
        }
        table.insert(entry, [line]);
        self.inserted += 1;
        Ok(())
    }

    /// Tells the peer of insertions that it does not know to have come.
    pub(super) fn report(&mut self) {
        let new = self.inserted - self.reported;
        if new > 0 {
            integer(6, INCREMENT, new as usize, &mut self.out);
            self.reported = self.inserted;
        }
    }

    /// The name of an entry. An index of the dynamic table counts from its newest entry.
    fn name_by_age(&self, is_static: bool, index: usize) -> Option<Named<'_>> {
        if is_static {
            let entry = ENTRIES.get(index)?;
            return Some(Named { line: entry.line, len: entry.name_len, checked: entry.checked });
        }
        let table = self.table.as_ref()?;
        let entry = table.get(index)?;
        let line = table.bytes_from(entry);
        Some(Named { line, len: entry.name_len as usize, checked: entry.meta })
    }

    /// The age of the entry with a number, the first of which is 0.
    fn age(&self, number: u64, prefix: Prefix) -> Result<usize, BrokenBlock> {
        if number >= prefix.required {
            return Err(BrokenBlock);
        }
        let age = self.inserted.checked_sub(number + 1).ok_or(BrokenBlock)?;
        usize::try_from(age).map_err(|_| BrokenBlock)
    }

    // === Blocks ===

    /// Decodes a whole header block. Appends each field to `out` as a line `name: value\r\n`, and passes its
    /// position to `on_field`, which may truncate `out` again. The first error of `on_field`, or that the
    /// fields (name, value and 32) are larger than `list_bytes_max`, is returned inside `Ok`, and the rest of
    /// the block is not looked at.
    ///
    /// # Errors
    ///
    /// [`BrokenBlock`] if the block is not valid: an index without an entry, an entry that has not come or is
    /// above what the block declares, a broken Huffman code, an integer of more than 32 bits.
    pub(super) fn decode<E: From<ListTooLarge>>(
        &mut self,
        stream: u64,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        mut on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        let mut reader = Reader::new(block);
        let prefix = self.prefix(&mut reader)?;
        if prefix.required > self.inserted {
            return Err(BrokenBlock);
        }
        let mut list_bytes_left = list_bytes_max;
        let mut outcome = Ok(());
        while let Some(first) = reader.peek() {
            let start = out.len();
            let decoded = self.line(first, prefix, &mut reader, out)?;
            let size = decoded.name.len() + decoded.value.len() + FIELD_OVERHEAD;
            let Some(left) = list_bytes_left.checked_sub(size) else {
                out.truncate(start);
                outcome = Err(ListTooLarge.into());
                break;
            };
            list_bytes_left = left;
            if let Err(error) = on_field(out, decoded) {
                outcome = Err(error);
                break;
            }
        }
        if prefix.required > 0 {
            integer(7, ACKNOWLEDGMENT, stream as usize, &mut self.out);
            self.reported = self.reported.max(prefix.required);
        }
        Ok(outcome)
    }

    /// Reads the front of a block.
    fn prefix(&self, reader: &mut Reader) -> Result<Prefix, BrokenBlock> {
        let wrapped = reader.integer(8)?;
        let is_negative = reader.peek().is_some_and(|first| first & SIGN != 0);
        let delta = reader.integer(7)? as u64;
        let required = if wrapped == 0 { 0 } else { self.unwrap(wrapped as u64)? };
        let base = if is_negative { required.checked_sub(delta + 1) } else { required.checked_add(delta) };
        Ok(Prefix { required, base: base.ok_or(BrokenBlock)? })
    }

    /// The number of insertions that a block needs, of which it has the remainder (RFC 9204 section 4.5.1.1).
    fn unwrap(&self, wrapped: u64) -> Result<u64, BrokenBlock> {
        let entries_max = (self.table_bytes_max / ENTRY_OVERHEAD) as u64;
        let range = 2 * entries_max;
        if wrapped > range {
            return Err(BrokenBlock);
        }
        let largest = self.inserted + entries_max;
        let mut required = largest / range * range + wrapped - 1;
        if required > largest {
            required = required.checked_sub(range).ok_or(BrokenBlock)?;
        }
        if required == 0 { Err(BrokenBlock) } else { Ok(required) }
    }

    /// Appends the field whose representation begins with `first`.
    fn line(
        &self,
        first: u8,
        prefix: Prefix,
        reader: &mut Reader,
        out: &mut Vec<u8>,
    ) -> Result<Decoded, BrokenBlock> {
        let start = out.len();
        if first & INDEXED != 0 {
            let (is_static, index) = (first & INDEXED_STATIC != 0, reader.integer(6)?);
            if !is_static {
                return self.copy(self.age(below(prefix.base, index)?, prefix)?, out);
            }
            let entry = ENTRIES.get(index).ok_or(BrokenBlock)?;
            out.extend_from_slice(entry.line);
            return Ok(decoded(start, entry.name_len, out.len() - 2, entry.checked, false));
        }
        if first & NAMED != 0 {
            let (is_static, index) = (first & NAMED_STATIC != 0, reader.integer(4)?);
            let index = if is_static { index } else { self.age(below(prefix.base, index)?, prefix)? };
            return self.named(is_static, index, first & NAMED_NEVER_INDEXED != 0, reader, out);
        }
        if first & LITERAL != 0 {
            reader.string_after(3, out)?;
            let name_len = out.len() - start;
            out.extend_from_slice(b": ");
            return value(start, name_len, None, first & LITERAL_NEVER_INDEXED != 0, reader, out);
        }
        if first & INDEXED_POST_BASE != 0 {
            let number = prefix.base.checked_add(reader.integer(4)? as u64).ok_or(BrokenBlock)?;
            return self.copy(self.age(number, prefix)?, out);
        }
        let number = prefix.base.checked_add(reader.integer(3)? as u64).ok_or(BrokenBlock)?;
        let age = self.age(number, prefix)?;
        self.named(false, age, first & NAMED_POST_BASE_NEVER_INDEXED != 0, reader, out)
    }

    /// Appends the field of an entry of the dynamic table.
    fn copy(&self, age: usize, out: &mut Vec<u8>) -> Result<Decoded, BrokenBlock> {
        let table = self.table.as_ref().ok_or(BrokenBlock)?;
        let entry = table.get(age).ok_or(BrokenBlock)?;
        let start = out.len();
        out.extend_from_slice(&table.bytes_from(entry)[..line_len(entry)]);
        Ok(decoded(start, entry.name_len as usize, out.len() - 2, entry.meta, false))
    }

    /// Appends a field with the name of an entry, and a value of its own.
    fn named(
        &self,
        is_static: bool,
        index: usize,
        is_never_indexed: bool,
        reader: &mut Reader,
        out: &mut Vec<u8>,
    ) -> Result<Decoded, BrokenBlock> {
        let start = out.len();
        let named = self.name_by_age(is_static, index).ok_or(BrokenBlock)?;
        out.extend_from_slice(&named.line[..named.len + 2]);
        value(start, named.len, Some(named.checked), is_never_indexed, reader, out)
    }
}

impl FieldDecoder for Section<'_> {
    fn decode<E: From<ListTooLarge>>(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        self.decoder.decode(self.stream, block, list_bytes_max, out, on_field)
    }
}

/// The number of the entry that is this far below a block's base.
fn below(base: u64, index: usize) -> Result<u64, BrokenBlock> {
    base.checked_sub(index as u64 + 1).ok_or(BrokenBlock)
}

/// Length of an entry's line: name, colon and space, value, CRLF.
fn line_len(entry: &Entry<Checked>) -> usize {
    (entry.name_len + entry.value_len) as usize + 4
}

/// Appends the value of a field, whose name has been appended, and the end of its line.
fn value(
    start: usize,
    name_len: usize,
    known_name: Option<Checked>,
    is_never_indexed: bool,
    reader: &mut Reader,
    out: &mut Vec<u8>,
) -> Result<Decoded, BrokenBlock> {
    let value_start = out.len();
    reader.string(out)?;
    let value_end = out.len();
    out.extend_from_slice(b"\r\n");
    let mut checked = known_name.unwrap_or_else(|| Checked::name(&out[start..], name_len));
    checked.value_is_valid = is_value(out, value_start, value_end);
    Ok(decoded(start, name_len, value_end, checked, is_never_indexed))
}

/// The positions of a field whose line begins at `start`.
fn decoded(
    start: usize,
    name_len: usize,
    value_end: usize,
    checked: Checked,
    is_never_indexed: bool,
) -> Decoded {
    let name_end = start + name_len;
    let Checked { token, is_plain_name, name_is_valid, value_is_valid } = checked;
    Decoded {
        token,
        name: start..name_end,
        value: name_end + 2..value_end,
        is_plain_name,
        name_is_valid,
        value_is_valid,
        is_never_indexed,
    }
}
