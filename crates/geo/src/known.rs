//! The positions of values that were looked up before, by record.
//!
//! The way from a record to a value leads over maps and pointers, each of which the processor may have to
//! fetch from memory. A database is asked for few fields, but often: so the position at the end of the way is
//! kept for each of these. Records share slots, and the last one has it.
//!
//! Must not be in here: how a value is found, and what it is.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::field::{FIELDS, Field};

/// Slots that are made at once: a page of memory.
const CHUNK: usize = 512;

/// The least and the most bits of the number of a slot, and the bytes of a database for each slot.
const BITS_MIN: u32 = CHUNK.ilog2();
const BITS_MAX: u32 = 19;
const BYTES_EACH: usize = 32;

/// Positions that stand for a slot without a record, and for a record without the value.
const EMPTY: u64 = 0;
const LACKING: u64 = 1;
const FIRST: u64 = 2;

/// Known positions, for each field. All threads share them.
pub(crate) struct Known {
    bits: u32,
    fields: [OnceLock<Box<[Chunk]>>; FIELDS.len()],
}

/// Slots, each with the position of a record in its upper half and that of the value in its lower one.
type Chunk = OnceLock<Box<[AtomicU64; CHUNK]>>;

impl Known {
    /// Nothing is known of a database of this size.
    pub(crate) fn of(database: usize) -> Self {
        let bits = (database / BYTES_EACH).checked_ilog2().unwrap_or_default().clamp(BITS_MIN, BITS_MAX);
        Self { bits, fields: array::from_fn(|_| OnceLock::new()) }
    }

    /// The position of a record's value; `Some(None)` if it is known that the record lacks it.
    #[expect(clippy::option_option, reason = "it may be known that there is no value")]
    pub(crate) fn get(&self, field: Field, record: u32) -> Option<Option<usize>> {
        let (chunk, slot) = self.place(record);
        let slot = self.fields[field as usize].get()?[chunk].get()?[slot].load(Ordering::Relaxed);
        match slot & u64::from(u32::MAX) {
            _ if slot >> u32::BITS != u64::from(record) => None,
            EMPTY => None,
            LACKING => Some(None),
            position => Some(Some((position - FIRST) as usize)),
        }
    }

    /// Keeps the position of a record's value.
    pub(crate) fn keep(&self, field: Field, record: u32, position: Option<usize>) {
        let position = position.map_or(LACKING, |position| position as u64 + FIRST);
        if position > u64::from(u32::MAX) {
            return;
        }
        let (chunk, slot) = self.place(record);
        let chunks = self.fields[field as usize].get_or_init(|| self.chunks());
        let slots = chunks[chunk].get_or_init(|| Box::new([const { AtomicU64::new(EMPTY) }; CHUNK]));
        slots[slot].store(u64::from(record) << u32::BITS | position, Ordering::Relaxed);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let of = |chunk: &Chunk| size_of::<Chunk>() + chunk.get().map_or(0, |slots| size_of_val(&**slots));
        self.fields.iter().filter_map(OnceLock::get).flat_map(|chunks| chunks.iter().map(of)).sum()
    }

    fn chunks(&self) -> Box<[Chunk]> {
        (0..1_usize << (self.bits - BITS_MIN)).map(|_| OnceLock::new()).collect()
    }

    /// The chunk and the slot in it for a record.
    fn place(&self, record: u32) -> (usize, usize) {
        // The upper bits of the product depend on all bits of the position.
        let slot = (record.wrapping_mul(0x9e37_79b1) >> (u32::BITS - self.bits)) as usize;
        (slot / CHUNK, slot % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_known_for_its_record_and_field_alone() {
        let known = Known::of(1 << 30);
        assert_eq!(known.get(Field::City, 7), None);
        known.keep(Field::City, 7, Some(0));
        known.keep(Field::City, 0, None);
        known.keep(Field::Org, 0, Some(u32::MAX as usize - 2));
        assert_eq!(known.get(Field::City, 7), Some(Some(0)));
        assert_eq!((known.get(Field::Org, 7), known.get(Field::City, 8)), (None, None));
        assert_eq!(known.get(Field::City, 0), Some(None));
        assert_eq!(known.get(Field::Org, 0), Some(Some(u32::MAX as usize - 2)));
        known.keep(Field::Org, 1, Some(u32::MAX as usize));
        assert_eq!(known.get(Field::Org, 1), None, "it has no room");
    }

    #[test]
    fn memory_is_taken_for_fields_that_are_used_and_has_a_bound() {
        let known = Known::of(1 << 40);
        assert_eq!(known.bytes(), 0);
        let all = 1_u32 << (BITS_MAX + 2);
        (0..all).for_each(|record| known.keep(Field::City, record, Some(record as usize)));
        let chunks = 1 << (BITS_MAX - BITS_MIN);
        assert_eq!(known.bytes(), chunks * (size_of::<Chunk>() + CHUNK * size_of::<u64>()));
        let found = (0..all).filter(|&record| match known.get(Field::City, record) {
            Some(position) => position == Some(record as usize),
            None => false,
        });
        assert!(found.count() > 1 << (BITS_MAX - 1), "the last record of each slot is known");
        let small = Known::of(100);
        small.keep(Field::City, u32::MAX, None);
        assert_eq!(small.get(Field::City, u32::MAX), Some(None));
    }
}
