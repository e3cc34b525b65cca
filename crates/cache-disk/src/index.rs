//! The index: the position of each record. It is in memory; its lock is held for a few steps only, never
//! while a file is read or written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;

use crate::limits::LOADED_TOGETHER_MAX;
use crate::purge::{Purge, read_labels};
use crate::purges::Purges;
use crate::record::{Header, Kind, View};
use crate::segment::Entry;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    places: HashMap<u64, Slot>,
    segments: BTreeMap<u64, Segment>,
    /// Removals that are not written yet, by hash: the sequence of the last one.
    removals: HashMap<u64, u64>,
    purges: Purges,
    /// While older segments are read: hashes that must not come back with them.
    forgotten: Option<HashSet<u64>>,
}

#[derive(Debug)]
struct Slot {
    place: RecordLocation,
    /// The record was read since it was written.
    is_hot: bool,
}

#[derive(Debug)]
struct Segment {
    file: Arc<File>,
    bytes: u64,
    /// All that is in it has this one or a lower one.
    last_sequence: u64,
    /// Of the records in it.
    hashes: Vec<u64>,
}

/// A segment to be removed.
#[derive(Debug)]
pub(crate) struct Oldest {
    pub(crate) id: u64,
    pub(crate) file: Arc<File>,
    /// How many could be found in it.
    pub(crate) records: u64,
    /// Records that were read since they were written.
    pub(crate) hot: Vec<RecordLocation>,
}

impl Index {
    /// An index of segments that are not loaded yet; all of their records have sequences below this one.
    pub(crate) fn new(segments: Vec<(u64, Arc<File>)>, sequence: u64) -> Self {
        let mut index = Self { forgotten: Some(HashSet::new()), ..Self::default() };
        for (id, file) in segments {
            index.add_segment(id, file);
            index.note_sequence(id, sequence - 1);
        }
        index
    }

    /// Where a record is that a caller wants.
    pub(crate) fn find(&mut self, hash: u64) -> Option<(RecordLocation, Arc<File>)> {
        if self.removals.contains_key(&hash) {
            return None;
        }
        let slot = self.places.get_mut(&hash)?;
        slot.is_hot = true;
        let file = &self.segments.get(&slot.place.segment)?.file;
        Some((slot.place, Arc::clone(file)))
    }

    /// Whether a record is still valid: neither purged nor replaced.
    pub(crate) fn confirms(&self, record: &View<'_>, place: RecordLocation) -> bool {
        self.is_at(record.header.hash, place) && self.may_return(record)
    }

    /// Whether a record was neither purged nor removed since it was written.
    pub(crate) fn may_return(&self, record: &View<'_>) -> bool {
        let Header { hash, sequence, .. } = record.header;
        !self.removals.contains_key(&hash) && !self.purges.have_met(sequence, read_labels(record.labels))
    }

    fn is_at(&self, hash: u64, place: RecordLocation) -> bool {
        self.places.get(&hash).is_some_and(|slot| slot.place == place)
    }

    /// Removes a record with wrong content from the index.
    pub(crate) fn forget(&mut self, hash: u64, place: RecordLocation) {
        if self.is_at(hash, place) {
            self.places.remove(&hash);
            self.forgotten.as_mut().map(|forgotten| forgotten.insert(hash));
        }
    }

    // === Segments ===

    pub(crate) fn add_segment(&mut self, id: u64, file: Arc<File>) {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        self.segments.insert(id, Segment { file, bytes, last_sequence: 0, hashes: Vec::new() });
    }

    /// Removes an empty segment.
    pub(crate) fn drop_segment(&mut self, id: u64) {
        self.segments.remove(&id);
    }

    pub(crate) fn set_segment_bytes(&mut self, id: u64, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.bytes = bytes;
        }
    }

    /// Something with this sequence is in a segment.
    pub(crate) fn note_sequence(&mut self, id: u64, sequence: u64) {
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.last_sequence = segment.last_sequence.max(sequence);
        }
    }

    pub(crate) fn segment(&self, id: u64) -> Option<Arc<File>> {
        self.segments.get(&id).map(|segment| Arc::clone(&segment.file))
    }

    /// The numbers of all segments, the oldest first.
    pub(crate) fn segment_ids(&self) -> Vec<u64> {
        self.segments.keys().copied().collect()
    }

    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Removes the oldest segment with its records. Its purges remain until
    /// [`end_purges_of`](Self::end_purges_of): records that are written again are still compared with them.
    pub(crate) fn take_oldest(&mut self) -> Option<Oldest> {
        let id = *self.segments.first_key_value()?.0;
        self.take(id)
    }

    /// Removes the segments whose records all have this sequence or a lower one.
    pub(crate) fn take_up_to(&mut self, sequence: u64) -> Vec<Oldest> {
        let old = self.segments.iter().filter(|(_, segment)| segment.last_sequence <= sequence);
        let ids: Vec<u64> = old.map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    fn take(&mut self, id: u64) -> Option<Oldest> {
        let segment = self.segments.remove(&id)?;
        let mut hot = Vec::new();
        let mut records = 0;
        for hash in segment.hashes {
            let Some(slot) = self.places.get(&hash).filter(|slot| slot.place.segment == id) else { continue };
            if slot.is_hot {
                hot.push(slot.place);
            }
            records += 1;
            self.places.remove(&hash);
        }
        Some(Oldest { id, file: segment.file, records, hot })
    }

    // === Records ===

    /// Notes a record that was written.
    pub(crate) fn put(&mut self, hash: u64, place: RecordLocation) {
        self.places.insert(hash, Slot { place, is_hot: false });
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.hashes.push(hash);
        }
    }

    /// From now on no record with this hash is found, until the removal is written.
    pub(crate) fn begin_removal(&mut self, hash: u64, sequence: u64) {
        let last = self.removals.entry(hash).or_insert(sequence);
        *last = (*last).max(sequence);
    }

    /// Whether a removal has to be written: there is, or may be, a record.
    pub(crate) fn needs_removal(&self, hash: u64) -> bool {
        self.forgotten.is_some() || self.places.contains_key(&hash)
    }

    /// The removal is written.
    pub(crate) fn end_removal(&mut self, hash: u64, sequence: u64) {
        self.places.remove(&hash);
        self.forgotten.as_mut().map(|forgotten| forgotten.insert(hash));
        if self.removals.get(&hash).is_some_and(|last| *last <= sequence) {
            self.removals.remove(&hash);
        }
    }

    // === Purges ===

    /// From now on no earlier record that matches the purge is found. If there are too many purges, all
    /// records older than half of them are dropped; returns the sequence below which they are, which has to
    /// be written too.
    pub(crate) fn begin_purge(&mut self, sequence: u64, purge: Purge) -> Option<u64> {
        self.purges.add(sequence, purge, None)
    }

    /// The purge is written.
    pub(crate) fn end_purge(&mut self, sequence: u64, purge: &Purge, segment: u64) {
        self.purges.note_written(sequence, purge, segment);
    }

    /// Segments up to this one were removed; their records were written again or dropped.
    pub(crate) fn end_purges_of(&mut self, id: u64) {
        self.purges.end_with_segment(id);
    }

    /// All records before this sequence were dropped, and the purges for them with them.
    pub(crate) fn drop_purges_before(&mut self, sequence: u64) {
        self.purges.raise_floor(sequence);
    }

    // === Loading ===

    /// Notes the purges in a segment that is read, with their sequences.
    pub(crate) fn load_purges(&mut self, id: u64, purges: Vec<(u64, Purge)>) {
        if !self.is_loading() || !self.segments.contains_key(&id) {
            return;
        }
        for (sequence, purge) in purges {
            // If there are too many, the next start drops the same ones.
            self.purges.add(sequence, purge, Some(id));
        }
    }

    /// Notes entries of a segment that is read; newer ones have been before.
    pub(crate) fn load(&mut self, id: u64, entries: &[Entry]) {
        debug_assert!(entries.len() <= LOADED_TOGETHER_MAX, "callers wait for the lock meanwhile");
        let Some(segment) = self.segments.get_mut(&id) else { return };
        let Some(forgotten) = self.forgotten.as_mut() else { return };
        for entry in entries.iter().rev() {
            match entry.kind {
                Kind::Put if forgotten.contains(&entry.hash) || self.places.contains_key(&entry.hash) => {}
                Kind::Put => {
                    let place = RecordLocation { segment: id, offset: entry.offset, len: entry.len };
                    self.places.insert(entry.hash, Slot { place, is_hot: false });
                    segment.hashes.push(entry.hash);
                }
                Kind::Removal => drop(forgotten.insert(entry.hash)),
                Kind::Purge => {}
            }
        }
    }

    pub(crate) fn end_loading(&mut self) {
        self.forgotten = None;
    }

    // === Figures ===

    pub(crate) fn is_loading(&self) -> bool {
        self.forgotten.is_some()
    }

    pub(crate) fn records(&self) -> u64 {
        self.places.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes).sum()
    }
}
