//! The dynamic table (RFC 7541 section 2.3.2): a queue of entries and the bytes that they refer to.

use std::collections::VecDeque;

/// What an entry counts for beside its name and value (RFC 7541 section 4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// Bytes of the first allocation, which comes with the first entry.
const BYTES_MIN: usize = 256;

/// An entry: where its bytes begin, and what its owner knows about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<M> {
    /// Number of bytes that the table had stored before, from its beginning on and modulo 2^32. It stays
    /// right when bytes are moved.
    start: u32,
    pub(super) name_len: u32,
    pub(super) value_len: u32,
    pub(super) meta: M,
}

/// A dynamic table. Its owner decides which bytes it stores for an entry; they are contiguous.
#[derive(Debug)]
pub(super) struct DynamicTable<M> {
    bytes: Vec<u8>,
    /// `Entry::start` of the first of `bytes`.
    origin: u32,
    /// The entries, the oldest one first.
    entries: VecDeque<Entry<M>>,
    /// Number of entries that were inserted so far, modulo 2^32.
    inserted: u32,
    /// Sum of the entries' sizes, as RFC 7541 section 4.1 counts them.
    size: usize,
    size_max: usize,
}

impl<M: Copy> DynamicTable<M> {
    pub(super) fn new(size_max: usize) -> Self {
        Self { bytes: Vec::new(), origin: 0, entries: VecDeque::new(), inserted: 0, size: 0, size_max }
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Changes the bound, and evicts what exceeds it.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    /// Number of the newest entry. The first one has number 1, and numbers wrap around.
    pub(super) fn newest(&self) -> u32 {
        self.inserted
    }

    /// The entry before which `age` others were evicted last: 0 is the newest one.
    #[inline]
    pub(super) fn get(&self, age: usize) -> Option<&Entry<M>> {
        let last = self.entries.len().checked_sub(1)?;
        self.entries.get(last.checked_sub(age)?)
    }

    /// The bytes from an entry's first one on; they continue with those of newer entries.
    #[inline]
    pub(super) fn bytes_from(&self, entry: &Entry<M>) -> &[u8] {
        self.bytes.get(entry.start.wrapping_sub(self.origin) as usize..).unwrap_or_default()
    }

    /// Inserts an entry with the bytes of all `pieces`, after it has evicted as many as necessary. An entry
    /// that is larger than the table only empties it (RFC 7541 section 4.4).
    pub(super) fn insert<const N: usize>(&mut self, mut entry: Entry<M>, pieces: [&[u8]; N]) {
        let size = entry.size();
        if self.size + size > self.size_max {
            self.evict(self.size_max.saturating_sub(size));
            if size > self.size_max {
                return;
            }
        }
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.bytes.capacity() - self.bytes.len() < len {
            self.make_room(len);
        }
        entry.start = self.origin.wrapping_add(self.bytes.len() as u32);
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.entries.push_back(entry);
        self.inserted = self.inserted.wrapping_add(1);
        self.size += size;
    }

    /// The last `len` bytes, which belong to the newest entry.
    pub(super) fn last_bytes(&mut self, len: usize) -> &mut [u8] {
        let start = self.bytes.len().saturating_sub(len);
        &mut self.bytes[start..]
    }

    #[inline(never)]
    fn evict(&mut self, size_max: usize) {
        while self.size > size_max {
            // The size is the sum of all entries': there is one as long as it is above zero.
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= oldest.size();
        }
    }

    /// Makes room for `len` bytes more. Bytes of evicted entries are dropped once they are the larger part, so
    /// that each byte is moved about once; the buffer grows to twice the table's bound at most, in which there
    /// is always room after that.
    #[cold]
    fn make_room(&mut self, len: usize) {
        let full_grown = 2 * self.size_max;
        let live_start =
            self.entries.front().map_or(self.bytes.len(), |e| e.start.wrapping_sub(self.origin) as usize);
        let is_mostly_dead = live_start > self.bytes.len() / 2;
        if is_mostly_dead || self.bytes.capacity() >= full_grown {
            self.bytes.copy_within(live_start.., 0);
            self.bytes.truncate(self.bytes.len() - live_start);
            self.origin = self.origin.wrapping_add(live_start as u32);
        }
        let capacity = self.bytes.capacity();
        if capacity - self.bytes.len() < len {
            let wanted = (2 * capacity).max(BYTES_MIN).min(full_grown).max(self.bytes.len() + len);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }
}

impl<M> Entry<M> {
    pub(super) fn new(name_len: usize, value_len: usize, meta: M) -> Self {
        Self { start: 0, name_len: name_len as u32, value_len: value_len as u32, meta }
    }

    fn size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + ENTRY_OVERHEAD
    }
}
