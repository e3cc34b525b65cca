//! Header blocks decoded to lines of HTTP/1.

use super::static_table::{ENTRIES, Entry};
use crate::compression::checked::{Checked, is_value};
use crate::compression::primitive::Reader;
use crate::compression::{BrokenBlock, Decoded, FieldDecoder, ListTooLarge};

/// The size of a field beside its name and value (RFC 9114 section 4.2.2).
const FIELD_OVERHEAD: usize = 32;

const INDEXED: u8 = 0x80;
const INDEXED_STATIC: u8 = 0x40;
const NAMED: u8 = 0x40;
const NAMED_NEVER_INDEXED: u8 = 0x20;
const NAMED_STATIC: u8 = 0x10;
const LITERAL: u8 = 0x20;
const LITERAL_NEVER_INDEXED: u8 = 0x10;
/// The sign of a block's base.
const SIGN: u8 = 0x80;

/// Decodes header blocks of a peer that was given no dynamic table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder;

impl Decoder {
    /// Decodes a whole header block. Appends each field to `out` as a line `name: value\r\n`, and passes its
    /// position to `on_field`, which may truncate `out` again. The first error of `on_field`, or that the
    /// fields (name, value and 32) are larger than `list_bytes_max`, is returned inside `Ok`, and the rest of
    /// the block is not looked at.
    ///
    /// # Errors
    ///
    /// [`BrokenBlock`] if the block is not valid: a reference to a dynamic table, an index without an entry,
    /// a broken Huffman code, an integer of more than 32 bits.
    pub fn decode<E: From<ListTooLarge>>(
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        mut on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        let mut reader = Reader::new(block);
        prefix(&mut reader)?;
        let mut list_bytes_left = list_bytes_max;
        while let Some(first) = reader.peek() {
            let start = out.len();
            let decoded = line(first, &mut reader, out)?;
            let size = decoded.name.len() + decoded.value.len() + FIELD_OVERHEAD;
            let Some(left) = list_bytes_left.checked_sub(size) else {
                out.truncate(start);
                return Ok(Err(ListTooLarge.into()));
            };
            list_bytes_left = left;
            if let Err(error) = on_field(out, decoded) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

impl FieldDecoder for Decoder {
    fn decode<E: From<ListTooLarge>>(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock> {
        Self::decode(block, list_bytes_max, out, on_field)
    }
}

/// Reads the front of a block (RFC 9204 section 4.5.1). Without a table, the block needs no entry of it; a
/// base below that is not valid.
fn prefix(reader: &mut Reader) -> Result<(), BrokenBlock> {
    let required = reader.integer(8)?;
    let is_negative = reader.peek().is_some_and(|first| first & SIGN != 0);
    reader.integer(7)?;
    if required > 0 || is_negative { Err(BrokenBlock) } else { Ok(()) }
}

/// Appends the field whose representation begins with `first`.
fn line(first: u8, reader: &mut Reader, out: &mut Vec<u8>) -> Result<Decoded, BrokenBlock> {
    let start = out.len();
    if first & INDEXED != 0 {
        let entry = entry(first & INDEXED_STATIC != 0, reader.integer(6)?)?;
        out.extend_from_slice(entry.line);
        return Ok(decoded(start, entry.name_len, out.len() - 2, entry.checked, false));
    }
    if first & NAMED != 0 {
        let entry = entry(first & NAMED_STATIC != 0, reader.integer(4)?)?;
        out.extend_from_slice(&entry.line[..entry.name_len + 2]);
        let is_never_indexed = first & NAMED_NEVER_INDEXED != 0;
        return value(start, entry.name_len, Some(entry.checked), is_never_indexed, reader, out);
    }
    if first & LITERAL != 0 {
        reader.string_after(3, out)?;
        let name_len = out.len() - start;
        out.extend_from_slice(b": ");
        return value(start, name_len, None, first & LITERAL_NEVER_INDEXED != 0, reader, out);
    }
    // All other forms refer to entries of a dynamic table.
    Err(BrokenBlock)
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

fn entry(is_static: bool, index: usize) -> Result<&'static Entry, BrokenBlock> {
    if is_static { ENTRIES.get(index).ok_or(BrokenBlock) } else { Err(BrokenBlock) }
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
