//! Fields encoded to header blocks.
//!
//! Two goals compete: few instructions and few bytes. Fields that are stored are written once and then cost
//! one byte each time, so they are Huffman-coded. The Huffman code of a value that is not stored would cost
//! about five instructions per byte, each time, to save a fifth of its bytes: such values are written raw
//! up to a length of [`RAW_BYTES_MAX`], which costs some thirty bytes at most.

use super::policy::{self, Indexing};
use super::static_table::{NameId, STATIC_LAST};
use super::table::{DynamicTable, ENTRY_OVERHEAD, Entry};
use super::{TABLE_BYTES_DEFAULT, primitive};
use crate::field::Known;

/// The longest string that is written raw where it is not stored.
const RAW_BYTES_MAX: usize = 160;

const INDEXED: u8 = 0x80;
const STORED: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;

/// Encodes the header blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    /// Each entry's bytes are its value; its name precedes it if `NameId` does not tell it.
    table: DynamicTable<NameId>,
    /// Allocated with the first entry.
    slots: Option<Box<Slots>>,
    /// Our own bound.
    table_bytes_max: usize,
    pending: Option<SizeChange>,
}

/// A change of the table's size that the peer does not know yet.
#[derive(Clone, Copy, Debug)]
struct SizeChange {
    /// The smallest size since the last block.
    least: usize,
    /// The size from now on.
    last: usize,
}

impl Encoder {
    /// An encoder that uses at most `table_bytes_max` of the peer's table, which is taken to be of the default
    /// size until [`set_peer_table_bytes`](Self::set_peer_table_bytes) says otherwise.
    pub fn new(table_bytes_max: usize) -> Self {
        let mut encoder = Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            slots: None,
            table_bytes_max,
            pending: None,
        };
        if table_bytes_max < TABLE_BYTES_DEFAULT {
            encoder.set_peer_table_bytes(table_bytes_max);
        }
        encoder
    }

    /// Sets the size of the table to the value of the peer's `SETTINGS_HEADER_TABLE_SIZE`, or to our own bound
    /// if that is less. The next block begins with the change.
    pub fn set_peer_table_bytes(&mut self, bytes: usize) {
        let last = bytes.min(self.table_bytes_max);
        let least = self.pending.map_or(last, |pending| pending.least.min(last));
        self.pending = Some(SizeChange { least, last });
    }

    /// Begins a block. It has to be called before the first field of each block.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(change) = self.pending.take() {
            self.change_size(change, out);
        }
    }

    #[cold]
    fn change_size(&mut self, SizeChange { least, last }: SizeChange, out: &mut Vec<u8>) {
        for size_max in [least.min(self.table.size_max()), last] {
            if size_max != self.table.size_max() {
                self.table.set_size_max(size_max);
                primitive::integer(5, SIZE_UPDATE, size_max, out);
            }
        }
    }

    /// Appends `:status`. Values above 999 are written as 999.
    #[inline]
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.other_status(status.min(999), out),
        };
        out.push(INDEXED | index);
    }

    #[inline(never)]
    fn other_status(&mut self, status: u16, out: &mut Vec<u8>) {
        let digit = |ten: u16| b'0' + (status / ten % 10) as u8;
        self.write(NameId::STATUS, b":status", &[digit(100), digit(10), digit(1)], Indexing::Stored, out);
    }

    /// Appends `:method`.
    #[inline]
    pub fn method(&mut self, method: &[u8], out: &mut Vec<u8>) {
        match method {
            b"GET" => out.push(INDEXED | 2),
            b"POST" => out.push(INDEXED | 3),
            _ => self.write(NameId::METHOD, b":method", method, Indexing::Stored, out),
        }
    }

    /// Appends `:path`, which is not stored: paths differ from request to request.
    #[inline]
    pub fn path(&mut self, path: &[u8], out: &mut Vec<u8>) {
        match path {
            b"/" => out.push(INDEXED | 4),
            b"/index.html" => out.push(INDEXED | 5),
            _ => unstored(NameId::PATH, b":path", path, 0, out),
        }
    }

    /// Appends `:scheme`, `http` or `https`.
    #[inline]
    pub fn scheme(&mut self, is_https: bool, out: &mut Vec<u8>) {
        out.push(INDEXED | if is_https { 7 } else { 6 });
    }

    /// Appends `:authority`.
    #[inline]
    pub fn authority(&mut self, authority: &[u8], out: &mut Vec<u8>) {
        self.write(NameId::AUTHORITY, b":authority", authority, Indexing::Stored, out);
    }

    /// Appends `:protocol` (RFC 8441).
    pub fn protocol(&mut self, protocol: &[u8], out: &mut Vec<u8>) {
        self.write(NameId::PROTOCOL, b":protocol", protocol, Indexing::Stored, out);
    }

    /// Appends a field. `name` has to be a token (RFC 9110 section 5.6.2), and is written in lower case;
    /// `known` is `Known::of(name)`.
    #[inline]
    pub fn field(&mut self, known: Known, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        self.write(NameId::of(known, name), name, value, indexing, out);
    }

    /// Appends a field as [`field`](Self::field) does, with the representation that
    /// [`indexing_of`](Self::indexing_of) returns. Takes fewer instructions than both calls.
    #[inline]
    pub fn usual_field(&mut self, known: Known, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let id = NameId::of(known, name);
        let indexing = policy::indexing_of(id, known, name, value.len());
        self.write(id, name, value, indexing, out);
    }

    /// The representation that suits a field, by its name and the length of its value: secrets are never
    /// indexed; values that change each time, and long ones, are not stored; all others are.
    pub fn indexing_of(known: Known, name: &[u8], value_len: usize) -> Indexing {
        policy::indexing_of(NameId::of(known, name), known, name, value_len)
    }

    fn write(&mut self, id: NameId, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        match indexing {
            Indexing::Stored => self.stored(id, name, value, out),
            Indexing::Once => unstored(id, name, value, 0, out),
            Indexing::Never => unstored(id, name, value, NEVER_INDEXED, out),
        }
    }

    /// Appends the index of a field, or stores the field if the table does not have it.
    fn stored(&mut self, id: NameId, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let hashes = Hashes::of(id, name, value);
        if let Some(slots) = &self.slots {
            for number in slots.fields[hashes.field] {
                let age = self.table.newest().wrapping_sub(number) as usize;
                if self.has(age, id, name, Some(value)) {
                    return primitive::integer(7, INDEXED, STATIC_LAST + 1 + age, out);
                }
            }
        }
        self.store(id, name, value, hashes, out);
    }

    /// Whether the entry of an age has this name and, if it is given, this value.
    #[inline]
    fn has(&self, age: usize, id: NameId, name: &[u8], value: Option<&[u8]>) -> bool {
        let Some(entry) = self.table.get(age) else { return false };
        let value_len = entry.value_len as usize;
        if entry.meta != id || value.is_some_and(|value| value.len() != value_len) {
            return false;
        }
        let mut bytes = self.table.bytes_from(entry);
        if id == NameId::OTHER {
            let Some((its_name, rest)) = bytes.split_at_checked(entry.name_len as usize) else {
                return false;
            };
            if its_name != name && !its_name.eq_ignore_ascii_case(name) {
                return false;
            }
            bytes = rest;
        }
        value.is_none_or(|value| bytes.starts_with(value))
    }

    #[inline(never)]
    fn store(&mut self, id: NameId, name: &[u8], value: &[u8], hashes: Hashes, out: &mut Vec<u8>) {
        if name.len() + value.len() + ENTRY_OVERHEAD > self.table.size_max() {
            // Such an entry would only empty the table.
            return unstored(id, name, value, 0, out);
        }
        match id.static_index().or_else(|| self.index_of_name(id, name, &hashes)) {
            Some(index) => primitive::integer(6, STORED, index, out),
            None => {
                out.push(STORED);
                lower_name(name, true, out);
            }
        }
        primitive::shorter(value, out);
        let stored_name = if id == NameId::OTHER { name } else { b"" };
        self.table.insert(Entry::new(name.len(), value.len(), id), [stored_name, value]);
        let bytes = self.table.last_bytes(stored_name.len() + value.len());
        bytes[..stored_name.len()].make_ascii_lowercase();
        let newest = self.table.newest();
        let slots = self.slots.get_or_insert_default();
        let [first, second] = &mut slots.fields[hashes.field];
        *second = std::mem::replace(first, newest);
        slots.names[hashes.name] = newest;
    }

    /// The index of an entry of the dynamic table with this name.
    fn index_of_name(&self, id: NameId, name: &[u8], hashes: &Hashes) -> Option<usize> {
        let number = self.slots.as_ref()?.names[hashes.name];
        let age = self.table.newest().wrapping_sub(number) as usize;
        self.has(age, id, name, None).then_some(STATIC_LAST + 1 + age)
    }
}

/// Appends a field that is not stored.
fn unstored(id: NameId, name: &[u8], value: &[u8], flags: u8, out: &mut Vec<u8>) {
    match id.static_index() {
        Some(index) => primitive::integer(4, flags, index, out),
        None => {
            out.push(flags);
            lower_name(name, false, out);
        }
    }
    if value.len() <= RAW_BYTES_MAX { primitive::raw(value, out) } else { primitive::shorter(value, out) }
}

/// Appends a name in lower case, in the Huffman code or raw.
fn lower_name(name: &[u8], is_coded: bool, out: &mut Vec<u8>) {
    if is_coded && name.iter().any(u8::is_ascii_uppercase) {
        return primitive::shorter(&name.to_ascii_lowercase(), out);
    }
    if is_coded {
        return primitive::shorter(name, out);
    }
    primitive::raw(name, out);
    let start = out.len() - name.len();
    out[start..].make_ascii_lowercase();
}

// === Slots ===

const SLOT_BITS: u32 = 6;

/// Where to look for an entry: the numbers of the newest ones for each hash. A number may belong to another
/// entry, or to one that was evicted, so entries are compared. An entry that two newer ones have taken the
/// place of is not found and is stored again.
#[derive(Debug)]
struct Slots {
    /// By name and value. A table of the default size has about as many entries as there are slots.
    fields: [[u32; 2]; 1 << SLOT_BITS],
    /// By name.
    names: [u32; 1 << SLOT_BITS],
}

impl Default for Slots {
    fn default() -> Self {
        Self { fields: [[0; 2]; 1 << SLOT_BITS], names: [0; 1 << SLOT_BITS] }
    }
}

/// The slots of a field.
struct Hashes {
    field: usize,
    name: usize,
}

impl Hashes {
    #[inline]
    fn of(id: NameId, name: &[u8], value: &[u8]) -> Self {
        let name = if id == NameId::OTHER { name_key(name) } else { id.number() as u64 };
        let name = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let field = (name ^ value_key(value)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let slot = |hash: u64| (hash >> (u64::BITS - SLOT_BITS)) as usize;
        Self { field: slot(field), name: slot(name) }
    }
}

/// A number from a name's length, first and last bytes, regardless of letter case.
fn name_key(name: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) else { return name.len() as u64 };
    let [first, last] = [first, last].map(|four: &[u8; 4]| u64::from(u32::from_le_bytes(*four)));
    ((first << 32 | last) | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 56
}

/// A number from a value's length, first and last bytes.
#[inline]
fn value_key(value: &[u8]) -> u64 {
    let ends = if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        // The middle of one is the end of the other in values of about ten bytes: they must not cancel out.
        u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).wrapping_mul(0xff51_afd7_ed55_8ccd)
    } else if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else {
        value.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    ends ^ (value.len() as u64) << 48
}
