//! Fields encoded to header blocks.
//!
//! Two goals compete: few instructions and few bytes. Fields that are stored are written once and then cost
//! one byte each time, so they are Huffman-coded. The Huffman code of a value that is not stored would cost
//! about five instructions per byte, each time, to save a fifth of its bytes: such values are written raw
//! up to a length of [`RAW_BYTES_MAX`], which costs some thirty bytes at most.

use super::TABLE_BYTES_DEFAULT;
use super::policy::{self, Indexing};
use super::static_table::{NameId, STATIC_LAST};
use crate::compression::primitive;
use crate::compression::table::{DynamicTable, ENTRY_OVERHEAD, Entry};
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
    /// Each entry's bytes are its value, and its name if it has no number.
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
    /// An encoder that uses at most `table_bytes_max` of the peer's table, which is taken to be of the
    /// default size until [`set_peer_table_bytes`](Self::set_peer_table_bytes) says otherwise.
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

    /// Sets the size of the table to the value of the peer's `SETTINGS_HEADER_TABLE_SIZE`, or to our own
    /// bound if that is less. The next block begins with the change.
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

    /// Appends `:method`, from the static table where it is there.
    #[inline]
    pub fn method(&mut self, method: &[u8], out: &mut Vec<u8>) {
        match method {
            b"GET" => out.push(INDEXED | 2),
            b"POST" => out.push(INDEXED | 3),
            _ => self.other_method(method, out),
        }
    }

    #[inline(never)]
    fn other_method(&mut self, method: &[u8], out: &mut Vec<u8>) {
        self.write(NameId::METHOD, b":method", method, Indexing::Stored, out);
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

    /// Appends `:authority`, which is stored: most requests of a session have the same.
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

    #[inline]
    fn write(&mut self, id: NameId, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        match indexing {
            Indexing::Stored => self.stored(id, name, value, out),
            Indexing::Once => unstored(id, name, value, 0, out),
            Indexing::Never => unstored(id, name, value, NEVER_INDEXED, out),
        }
    }

    /// Appends the index of a field, or stores the field if the table does not have it.
    #[inline(never)]
    fn stored(&mut self, id: NameId, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let slot = field_slot(id, name, value);
        match self.find(id, name, value, slot) {
            Some(age) => primitive::integer(7, INDEXED, STATIC_LAST + 1 + age, out),
            None => self.store(id, name, value, slot, out),
        }
    }

    /// The age of the entry with this name and value.
    #[inline]
    fn find(&mut self, id: NameId, name: &[u8], value: &[u8], slot: usize) -> Option<usize> {
        let [first, second] = self.slots.as_ref()?.fields[slot % SLOTS];
        let age = self.age(first);
        if self.has_value(age, id, value) && (id != NameId::OTHER || self.has_name(age, name)) {
            return Some(age);
        }
        self.find_second(id, name, value, second).inspect(|_| self.promote(slot))
    }

    #[inline(never)]
    fn find_second(&self, id: NameId, name: &[u8], value: &[u8], number: u32) -> Option<usize> {
        let age = self.age(number);
        let is_it = self.has_value(age, id, value) && (id != NameId::OTHER || self.has_name(age, name));
        is_it.then_some(age)
    }

    /// Makes the second entry of a slot the first, so that entries which are sent again displace others.
    fn promote(&mut self, slot: usize) {
        if let Some(slots) = &mut self.slots {
            slots.fields[slot % SLOTS].swap(0, 1);
        }
    }

    #[inline]
    fn age(&self, number: u32) -> usize {
        self.table.newest().wrapping_sub(number) as usize
    }

    /// Whether the entry of an age has this value, and a name with this number.
    #[inline]
    fn has_value(&self, age: usize, id: NameId, value: &[u8]) -> bool {
        self.table.get(age).is_some_and(|entry| {
            entry.meta == id
                && entry.value_len as usize == value.len()
                && starts_with(self.table.bytes_from(entry), value)
        })
    }

    /// Whether the entry of an age has this name, which has no number.
    #[inline(never)]
    fn has_name(&self, age: usize, name: &[u8]) -> bool {
        let Some(entry) = self.table.get(age) else { return false };
        let bytes = &self.table.bytes_from(entry)[entry.value_len as usize..];
        entry.meta == NameId::OTHER
            && entry.name_len as usize == name.len()
            && (bytes.starts_with(name) || bytes[..name.len()].eq_ignore_ascii_case(name))
    }

    #[cold]
    fn store(&mut self, id: NameId, name: &[u8], value: &[u8], slot: usize, out: &mut Vec<u8>) {
        if name.len() + value.len() + ENTRY_OVERHEAD > self.table.size_max() {
            // Such an entry would only empty the table.
            return unstored(id, name, value, 0, out);
        }
        if let Some(index) = id.static_index().or_else(|| self.index_of_name(id, name)) {
            primitive::integer(6, STORED, index, out);
        } else {
            out.push(STORED);
            lower_name(name, true, out);
        }
        primitive::shorter(value, out);
        let stored_name = if id == NameId::OTHER { name } else { b"" };
        self.table.insert(Entry::new(name.len(), value.len(), id), [value, stored_name]);
        self.table.last_bytes(stored_name.len()).make_ascii_lowercase();
        let newest = self.table.newest();
        let slots = self.slots.get_or_insert_default();
        let [first, second] = &mut slots.fields[slot % SLOTS];
        *second = std::mem::replace(first, newest);
        if id.static_index().is_none() {
            slots.names[name_slot(id, name)] = newest;
        }
    }

    /// Size of the table's entries (RFC 7541 section 4.1).
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// The index of an entry of the dynamic table with this name.
    fn index_of_name(&self, id: NameId, name: &[u8]) -> Option<usize> {
        let age = self.age(self.slots.as_ref()?.names[name_slot(id, name)]);
        let is_it = if id == NameId::OTHER {
            self.has_name(age, name)
        } else {
            self.table.get(age).is_some_and(|entry| entry.meta == id)
        };
        is_it.then_some(STATIC_LAST + 1 + age)
    }
}

/// Whether `bytes`, which are those of an entry and more, begin with `value`. Most values have 8 to 32 bytes
/// and are compared in two words or vectors; the compiler makes a call of any other comparison.
#[inline]
fn starts_with(bytes: &[u8], value: &[u8]) -> bool {
    match value.len() {
        8..=16 => ends_equal::<8>(bytes, value),
        17..=32 => ends_equal::<16>(bytes, value),
        _ => bytes.starts_with(value),
    }
}

/// Compares the first and the last bytes of `value` with those at the same places in `bytes`.
#[inline]
fn ends_equal<const LEN: usize>(bytes: &[u8], value: &[u8]) -> bool {
    let Some(last_start) = value.len().checked_sub(LEN) else { return false };
    let first = (bytes.first_chunk::<LEN>(), value.first_chunk::<LEN>());
    let last = (bytes.get(last_start..).and_then(<[u8]>::first_chunk::<LEN>), value.last_chunk::<LEN>());
    matches!(first, (Some(one), Some(other)) if one == other)
        && matches!(last, (Some(one), Some(other)) if one == other)
}

/// Appends a field that is not stored.
fn unstored(id: NameId, name: &[u8], value: &[u8], flags: u8, out: &mut Vec<u8>) {
    if let Some(index) = id.static_index() {
        primitive::integer(4, flags, index, out);
    } else {
        out.push(flags);
        lower_name(name, false, out);
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
const SLOTS: usize = 1 << SLOT_BITS;

/// Where to look for an entry: the numbers of the newest ones for each hash. A number may belong to another
/// entry, or to one that was evicted, so entries are compared. An entry that others have displaced is
/// not found, and is stored again.
#[derive(Debug)]
struct Slots {
    /// By name and value. A table of the default size has about as many entries as there are slots.
    fields: [[u32; 2]; SLOTS],
    /// By name, for names that are not in the static table.
    names: [u32; SLOTS],
}

impl Default for Slots {
    fn default() -> Self {
        Self { fields: [[0; 2]; SLOTS], names: [0; SLOTS] }
    }
}

/// The slot of a name and a value.
#[inline]
fn field_slot(id: NameId, name: &[u8], value: &[u8]) -> usize {
    slot(name_key(id, name) ^ value_key(value))
}

fn name_slot(id: NameId, name: &[u8]) -> usize {
    slot(name_key(id, name))
}

#[inline]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (u64::BITS - SLOT_BITS)) as usize
}

#[inline]
fn name_key(id: NameId, name: &[u8]) -> u64 {
    if id == NameId::OTHER { other_name_key(name) } else { (id.number() as u64) << 40 }
}

/// A number from a name's length, first and last bytes, regardless of letter case.
#[inline(never)]
fn other_name_key(name: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) else { return name.len() as u64 };
    let [first, last] = [first, last].map(|four: &[u8; 4]| u64::from(u32::from_le_bytes(*four)));
    ((first << 32 | last) | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 56
}

/// A number from a value's length, first and last bytes.
#[inline]
fn value_key(value: &[u8]) -> u64 {
    let ends = if let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        // The middle of one is the end of the other in values of about ten bytes: they must not cancel out.
        u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).wrapping_mul(0xff51_afd7_ed55_8ccd)
    } else if let (Some(first), Some(last)) = (value.first_chunk::<4>(), value.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else {
        value.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    ends ^ (value.len() as u64) << 48
}
