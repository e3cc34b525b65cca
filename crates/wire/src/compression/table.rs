//! The dynamic table (RFC 7541 section 2.3.2, RFC 9204 section 3.2): a ring of entries, and the bytes that
//! they refer to.

/// The size of an entry beside its name and value (RFC 7541 section 4.1).
pub(crate) const ENTRY_OVERHEAD: usize = 32;

/// Bytes after the last entry's. A reader may therefore copy this many bytes from the beginning of any entry,
/// which is a copy of a known length for most entries.
pub(crate) const SLACK: usize = 128;

/// Bytes and entries of the first allocations, which come with the first entry.
const BYTES_MIN: usize = 512;
const ENTRIES_MIN: usize = 8;

/// An entry: where its bytes begin, and what its owner knows about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<M> {
    /// Number of bytes that the table had stored before, from its beginning on and modulo 2^32. It stays
    /// right when bytes are moved.
    pub(crate) start: u32,
    pub(crate) name_len: u32,
    pub(crate) value_len: u32,
    pub(crate) meta: M,
}

impl<M> Entry<M> {
    /// An entry that has not been inserted.
    pub(crate) fn new(name_len: usize, value_len: usize, meta: M) -> Self {
        Self { start: 0, name_len: name_len as u32, value_len: value_len as u32, meta }
    }

    /// The size that RFC 7541 section 4.1 gives an entry.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + ENTRY_OVERHEAD
    }
}

/// A dynamic table. Its owner decides which bytes it stores for an entry; they are contiguous.
#[derive(Debug)]
pub(crate) struct DynamicTable<M> {
    /// The bytes of all entries, those of evicted ones before them, and free room.
    bytes: Vec<u8>,
    /// Length of all but the free room.
    used: usize,
    /// `Entry::start` of the first of `bytes`.
    origin: u32,
    /// A ring, whose length is a power of two: entry number n is at n modulo the length.
    entries: Vec<Entry<M>>,
    /// Number of the newest entry, modulo 2^32. The first one has number 1.
    newest: u32,
    /// Number of entries.
    count: usize,
    /// Sum of the entries' sizes, as RFC 7541 section 4.1 counts them.
    size: usize,
    size_max: usize,
}

impl<M: Copy> DynamicTable<M> {
    pub(crate) fn new(size_max: usize) -> Self {
        let (bytes, entries) = (Vec::new(), Vec::new());
        Self { bytes, used: 0, origin: 0, entries, newest: 0, count: 0, size: 0, size_max }
    }

    pub(crate) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Sum of the entries' sizes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Changes the bound, and evicts what exceeds it.
    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    /// Number of the newest entry. Numbers wrap around.
    #[inline]
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// The entry after which `age` others were inserted: 0 is the newest one.
    #[inline]
    pub(crate) fn get(&self, age: usize) -> Option<&Entry<M>> {
        if age < self.count { self.entries.get(self.place(age)) } else { None }
    }

    #[inline]
    fn place(&self, age: usize) -> usize {
        self.newest.wrapping_sub(age as u32) as usize & self.entries.len().wrapping_sub(1)
    }

    /// The bytes from an entry's first one on; those of newer entries and [`SLACK`] bytes follow.
    #[inline]
    pub(crate) fn bytes_from(&self, entry: &Entry<M>) -> &[u8] {
        &self.bytes[self.position(entry)..]
    }

    #[inline]
    fn position(&self, entry: &Entry<M>) -> usize {
        entry.start.wrapping_sub(self.origin) as usize
    }

    /// Inserts an entry with the bytes of all `pieces`, after it has evicted as many as necessary. An entry
    /// that is larger than the table only empties it (RFC 7541 section 4.4).
    pub(crate) fn insert<const N: usize>(&mut self, mut entry: Entry<M>, pieces: [&[u8]; N]) {
        let size = entry.size();
        if self.size + size > self.size_max {
            self.evict(self.size_max.saturating_sub(size));
            if size > self.size_max {
                return;
            }
        }
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.bytes.len() - self.used < len + SLACK {
            self.make_room(len);
        }
        entry.start = self.origin.wrapping_add(self.used as u32);
        for piece in pieces {
            self.bytes[self.used..][..piece.len()].copy_from_slice(piece);
            self.used += piece.len();
        }
        if self.count == self.entries.len() {
            self.make_places(entry);
        }
        self.newest = self.newest.wrapping_add(1);
        let place = self.place(0);
        self.entries[place] = entry;
        self.count += 1;
        self.size += size;
    }

    /// The last `len` bytes, which belong to the newest entry.
    pub(crate) fn last_bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.used.saturating_sub(len)..self.used]
    }

    #[inline(never)]
    fn evict(&mut self, size_max: usize) {
        while self.size > size_max {
            // The size is the sum of all entries': there is one as long as it is above zero.
            let Some(oldest) = self.get(self.count.wrapping_sub(1)) else { break };
            self.size -= oldest.size();
            self.count -= 1;
        }
    }

    /// Makes room for `len` bytes more. Bytes of evicted entries are dropped once they are the larger part,
    /// so that each byte is moved about once; the buffer grows to twice the table's bound at most, in which
    /// there is always room after that.
    #[cold]
    fn make_room(&mut self, len: usize) {
        let full_grown = 2 * self.size_max + SLACK;
        let live_start = match self.get(self.count.wrapping_sub(1)) {
            Some(oldest) => self.position(oldest),
            None => self.used,
        };
        if live_start > self.used / 2 || self.bytes.len() >= full_grown {
            self.bytes.copy_within(live_start..self.used, 0);
            self.used -= live_start;
            self.origin = self.origin.wrapping_add(live_start as u32);
        }
        let needed = self.used + len + SLACK;
        if self.bytes.len() < needed {
            let wanted = (2 * self.bytes.len()).max(BYTES_MIN).min(full_grown).max(needed);
            self.bytes.reserve_exact(wanted - self.bytes.len());
            self.bytes.resize(wanted, 0);
        }
    }

    /// Doubles the ring of entries; the new places have any entry, `filler`.
    #[cold]
    fn make_places(&mut self, filler: Entry<M>) {
        let places = (2 * self.entries.len()).max(ENTRIES_MIN);
        let mut entries = vec![filler; places];
        for age in 0..self.count {
            let number = self.newest.wrapping_sub(age as u32) as usize;
            entries[number & (places - 1)] = self.entries[self.place(age)];
        }
        self.entries = entries;
    }
}
