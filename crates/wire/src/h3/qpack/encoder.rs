//! Fields encoded to header blocks, by the static table, a dynamic table and literals.
//!
//! A field is inserted when it is sent for the second time, and is referred to once the peer has acknowledged
//! the insertion: until then it is sent as a literal. So no block ever waits for the encoder stream, and
//! values that never come again cost no room.

use std::collections::VecDeque;

use super::TABLE_BYTES_MAX;
use super::static_table::{ENTRIES, with_name};
use crate::compression::table::{DynamicTable, ENTRY_OVERHEAD, Entry};
use crate::compression::{huffman, primitive};

/// The longest value that is written raw: the Huffman code costs about five instructions per byte to save a
/// fifth of the bytes.
const RAW_BYTES_MAX: usize = 160;
/// Room for a name in lower case; a longer one takes an allocation.
const NAME_BYTES: usize = 64;
/// The shortest cookie that may be stored. RFC 9204 section 7.1.3 advises against storing shorter ones.
const COOKIE_BYTES_MIN: usize = 20;
/// The longest value that is inserted.
const STORED_BYTES_MAX: usize = TABLE_BYTES_MAX / 8;

const INDEXED_STATIC: u8 = 0xc0;
const INDEXED_DYNAMIC: u8 = 0x80;
const NAMED_STATIC: u8 = 0x50;
const NAMED_NEVER_INDEXED: u8 = 0x20;
const LITERAL: u8 = 0x20;
const LITERAL_CODED: u8 = 0x08;

/// Instructions for the peer's table (RFC 9204 section 4.3).
const SET_CAPACITY: u8 = 0x20;
const INSERT_NAMED_STATIC: u8 = 0xc0;
const INSERT_LITERAL: u8 = 0x40;
const INSERT_LITERAL_CODED: u8 = 0x20;

/// Blocks with references that the peer has not acknowledged. While there are more, none has references.
const SECTIONS_MAX: usize = 256;
/// Instructions that wait to be sent, in bytes. While there are more, nothing is inserted.
const OUT_BYTES_MAX: usize = 4096;
/// Fields that are remembered as sent once.
const SEEN: usize = 64;

/// Encodes the header blocks for a peer, whose table it fills.
#[derive(Debug, Default)]
pub struct Encoder {
    /// None while the peer allows no table.
    table: Option<Box<Table>>,
    /// Instructions for the peer's decoder that are not sent.
    out: Vec<u8>,
}

/// The state of a peer's table. Numbers of entries count from 0.
#[derive(Debug)]
struct Table {
    /// The capacity that the peer allows, in entries, by which the numbers in its blocks wrap around.
    entries_max: u64,
    /// Each entry's bytes are name and value; its number is their hash.
    entries: DynamicTable<u32>,
    inserted: u64,
    /// Of these, how many the peer is known to have received.
    known: u64,
    /// Blocks that refer to entries and are not acknowledged, oldest first.
    sections: VecDeque<SentSection>,
    /// Parts of the hashes of fields that were sent once and are not in the table.
    seen: [u16; SEEN],
}

/// A block that refers to entries.
#[derive(Clone, Copy, Debug)]
struct SentSection {
    stream: u64,
    /// Insertions that it needs.
    required: u64,
    /// The oldest entry that it refers to.
    oldest: u64,
}

/// Writes a header block.
pub(in crate::h3) struct SectionWriter<'e> {
    encoder: &'e mut Encoder,
    stream: u64,
    /// The number of insertions from which indices count: those that are there when the block begins.
    base: u64,
    required: u64,
    oldest: u64,
    /// The fields, without the front of the block.
    fields: Vec<u8>,
}

/// Room for most header blocks.
const BLOCK_BYTES: usize = 512;

impl Encoder {
    /// Uses a table of the peer, if its SETTINGS allow one of this many bytes.
    pub(in crate::h3) fn set_peer_table_bytes(&mut self, bytes: u64) {
        let capacity = usize::try_from(bytes).unwrap_or(usize::MAX).min(TABLE_BYTES_MAX);
        if capacity <= ENTRY_OVERHEAD || self.table.is_some() {
            return;
        }
        self.table = Some(Box::new(Table {
            entries_max: bytes / ENTRY_OVERHEAD as u64,
            entries: DynamicTable::new(capacity),
            inserted: 0,
            known: 0,
            sections: VecDeque::new(),
            seen: [0; SEEN],
        }));
    }

    /// Instructions for the peer's decoder, for our encoder stream. The owner removes what it has sent.
    pub(in crate::h3) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    // === Instructions of the peer's decoder ===

    /// Notes that the peer has decoded a block with references. False where there is none.
    pub(super) fn acknowledge(&mut self, stream: u64) -> bool {
        let Some(table) = &mut self.table else { return false };
        let at = table.sections.iter().position(|section| section.stream == stream);
        let Some(section) = at.and_then(|at| table.sections.remove(at)) else { return false };
        table.known = table.known.max(section.required);
        true
    }

    /// Notes that the peer will not decode the blocks of a stream.
    pub(super) fn cancel(&mut self, stream: u64) {
        if let Some(table) = &mut self.table {
            table.sections.retain(|section| section.stream != stream);
        }
    }

    /// Notes insertions that the peer has received. False where there are not so many.
    pub(super) fn increment(&mut self, count: u64) -> bool {
        let Some(table) = &mut self.table else { return false };
        match table.known.checked_add(count) {
            Some(known) if count > 0 && known <= table.inserted => {
                table.known = known;
                true
            }
            _ => false,
        }
    }

    /// Begins the block of a stream.
    pub(in crate::h3) fn begin(&mut self, stream: u64) -> SectionWriter<'_> {
        let base = self.table.as_ref().map_or(0, |table| table.inserted);
        let fields = Vec::with_capacity(BLOCK_BYTES);
        SectionWriter { encoder: self, stream, base, required: 0, oldest: u64::MAX, fields }
    }

    /// Size of the table's entries (RFC 9204 section 3.2.1).
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.entries.size())
    }
}

impl SectionWriter<'_> {
    /// Appends `:status`. Values above 999 are written as 999.
    pub(in crate::h3) fn status(&mut self, status: u16) {
        let status = status.min(999);
        let digit = |ten: u16| b'0' + (status / ten % 10) as u8;
        self.lower_field(b":status", &[digit(100), digit(10), digit(1)]);
    }

    /// Appends a field, whose name may be in any letter case.
    pub(in crate::h3) fn field(&mut self, name: &[u8], value: &[u8]) {
        let mut lower = [0; NAME_BYTES];
        match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                self.lower_field(lower, value);
            }
            None => self.lower_field(&name.to_ascii_lowercase(), value),
        }
    }

    fn lower_field(&mut self, name: &[u8], value: &[u8]) {
        let known = with_name(name);
        if let Some((first, second)) = known.clone()
            && let Some(index) = first.chain(second).find(|&index| ENTRIES[index].value() == value)
        {
            return primitive::integer(6, INDEXED_STATIC, index, &mut self.fields);
        }
        let static_name = known.map(|(first, _)| first.start);
        if is_stored(name, value)
            && let Some(table) = &mut self.encoder.table
            && let Some(number) = table.look(name, value, static_name, self.oldest, &mut self.encoder.out)
            && table.sections.len() < SECTIONS_MAX
        {
            self.required = self.required.max(number + 1);
            self.oldest = self.oldest.min(number);
            let index = (self.base - number - 1) as usize;
            return primitive::integer(6, INDEXED_DYNAMIC, index, &mut self.fields);
        }
        let out = &mut self.fields;
        match static_name {
            Some(index) => {
                let secrecy = if is_secret(name, value) { NAMED_NEVER_INDEXED } else { 0 };
                primitive::integer(4, NAMED_STATIC | secrecy, index, out);
            }
            None => short_name(3, LITERAL, LITERAL_CODED, name, out),
        }
        text(value, out);
    }

    /// Returns the front of the block, which has to be written before its fields, and the fields.
    pub(in crate::h3) fn finish(self) -> [Vec<u8>; 2] {
        let mut front = Vec::with_capacity(4);
        match &mut self.encoder.table {
            Some(table) if self.required > 0 => {
                let wrapped = self.required % (2 * table.entries_max) + 1;
                primitive::integer(8, 0, wrapped as usize, &mut front);
                primitive::integer(7, 0, (self.base - self.required) as usize, &mut front);
                let Self { stream, required, oldest, .. } = self;
                table.sections.push_back(SentSection { stream, required, oldest });
            }
            // A block that refers to no entry of a dynamic table (RFC 9204 section 4.5.1).
            _ => front.extend_from_slice(&[0, 0]),
        }
        [front, self.fields]
    }
}

impl Table {
    /// The number of an entry that the peer is known to have; without one, the field may be inserted for the
    /// next time. Entries from `pinned` on are needed by the block that is being written.
    fn look(
        &mut self,
        name: &[u8],
        value: &[u8],
        static_name: Option<usize>,
        pinned: u64,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let hash = hash(name, value);
        let found = (0..self.entries.count()).find(|&age| self.has(age, hash, name, value));
        if let Some(age) = found {
            return Some(self.inserted - 1 - age as u64).filter(|number| *number < self.known);
        }
        let seen = &mut self.seen[hash as usize % SEEN];
        let entry = Entry::new(name.len(), value.len(), hash);
        // A tag of 0 is none.
        let tag = (hash >> 16) as u16 | 1;
        let comes_again = std::mem::replace(seen, tag) == tag;
        if comes_again && out.len() < OUT_BYTES_MAX && self.has_room(entry.size(), pinned) {
            if self.inserted == 0 {
                primitive::integer(5, SET_CAPACITY, self.entries.size_max(), out);
            }
            match static_name {
                Some(index) => primitive::integer(6, INSERT_NAMED_STATIC, index, out),
                None => short_name(5, INSERT_LITERAL, INSERT_LITERAL_CODED, name, out),
            }
            primitive::shorter(value, out);
            self.entries.insert(entry, [name, value]);
            self.inserted += 1;
        }
        None
    }

    fn has(&self, age: usize, hash: u32, name: &[u8], value: &[u8]) -> bool {
        self.entries.get(age).is_some_and(|entry| {
            let bytes = self.entries.bytes_from(entry);
            entry.meta == hash
                && entry.name_len as usize == name.len()
                && entry.value_len as usize == value.len()
                && bytes.starts_with(name)
                && bytes[name.len()..].starts_with(value)
        })
    }

    /// Whether an entry has room, if those are evicted that may be: the peer has them, and no block that it
    /// has not acknowledged refers to them (RFC 9204 section 2.1.1).
    fn has_room(&self, size: usize, pinned: u64) -> bool {
        let Some(mut excess) = (self.entries.size() + size).checked_sub(self.entries.size_max()) else {
            return true;
        };
        let needed = self.sections.iter().map(|section| section.oldest).fold(pinned, u64::min);
        for age in (0..self.entries.count()).rev() {
            let number = self.inserted - 1 - age as u64;
            if excess == 0 || number >= self.known || number >= needed {
                break;
            }
            excess = excess.saturating_sub(self.entries.get(age).map_or(0, Entry::size));
        }
        excess == 0
    }
}

/// Whether no hop may store a field (RFC 9204 section 7.1.3).
fn is_secret(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"authorization" | b"proxy-authorization" | b"set-cookie" => true,
        b"cookie" => value.len() < COOKIE_BYTES_MIN,
        _ => false,
    }
}

/// Whether a field may be inserted: its value may come again, and is no secret.
fn is_stored(name: &[u8], value: &[u8]) -> bool {
    let comes_once = matches!(
        name,
        b":path"
            | b"age"
            | b"content-length"
            | b"content-location"
            | b"content-range"
            | b"date"
            | b"etag"
            | b"expires"
            | b"last-modified"
            | b"location"
            | b"x-request-id"
    );
    !comes_once && value.len() <= STORED_BYTES_MAX && !is_secret(name, value)
}

/// Appends a name in the Huffman code, or raw where that is as short.
fn short_name(prefix_bits: u32, flags: u8, coded_flag: u8, name: &[u8], out: &mut Vec<u8>) {
    let mut coded = Vec::with_capacity(NAME_BYTES);
    huffman::encode(name.iter().copied(), &mut coded);
    if coded.len() < name.len() {
        primitive::integer(prefix_bits, flags | coded_flag, coded.len(), out);
        out.extend_from_slice(&coded);
    } else {
        primitive::integer(prefix_bits, flags, name.len(), out);
        out.extend_from_slice(name);
    }
}

fn text(value: &[u8], out: &mut Vec<u8>) {
    if value.len() <= RAW_BYTES_MAX { primitive::raw(value, out) } else { primitive::shorter(value, out) }
}

/// A hash of a field, in which names and values of any length differ. Fields are compared where it is equal.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (name.len() as u64) << 32 | value.len() as u64;
    for part in [name, value] {
        for chunk in part.chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            state = (state ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
        }
    }
    (state >> 32) as u32
}
