//! The thread that writes: records, removals and purges one after the other, in the sequence of the orders.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use bytes::Bytes;

use crate::Record;
use crate::folder::Folder;
use crate::index::RecordLocation;
use crate::limits::{KEPT_SHARE, REFUSED_PAUSE, SEGMENTS_MAX, SYNCED_TOGETHER_MAX};
use crate::purge::{Purge, write_labels};
use crate::record::{HEADER_BYTES, Header, Kind, View};
use crate::segment::{Entry, read_record, write_table};
use crate::shared::{Shared, Size};

/// An order to the writer.
#[derive(Debug)]
pub(crate) enum Order {
    Put {
        sequence: u64,
        key: Bytes,
        record: Record,
        bytes: u64,
    },
    Remove {
        sequence: u64,
        hash: u64,
    },
    Purge {
        sequence: u64,
        purge: Purge,
    },
    /// All with a lower sequence is forgotten.
    Floor {
        floor: u64,
    },
    Flush(Sender<()>),
    Stop,
}

pub(crate) struct Writer {
    folder: Folder,
    shared: Arc<Shared>,
    size: Size,
    active: Option<Active>,
    /// End of the pause after the disk refused a write.
    paused: Option<Instant>,
    /// Removals and purges that the disk may not have yet, and the last of them.
    unsynced: u32,
    last_sequence: u64,
}

/// The segment that is written.
struct Active {
    id: u64,
    file: Arc<File>,
    end: u64,
    entries: Vec<Entry>,
}

/// A record that is about to be written.
struct Draft<'a> {
    kind: Kind,
    sequence: u64,
    hash: u64,
    key: &'a [u8],
    labels: &'a [u8],
    meta: &'a [u8],
    body: &'a [Bytes],
}

impl Writer {
    pub(crate) fn new(folder: Folder, shared: Arc<Shared>, size: Size) -> Self {
        Self { folder, shared, size, active: None, paused: None, unsynced: 0, last_sequence: 0 }
    }

    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        while let Some(order) = self.next(orders) {
            match order {
                Order::Put { sequence, key, record, bytes } => {
                    self.put(sequence, &key, &record);
                    self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
                }
                Order::Remove { sequence, hash } => self.remove(sequence, hash),
                Order::Purge { sequence, purge } => self.purge(sequence, &purge),
                Order::Floor { floor } => self.forget_up_to(floor),
                Order::Flush(done) => drop(done.send(())),
                Order::Stop => break,
            }
        }
        self.seal();
    }

    /// The next order. Before the wait for it, and now and then, removals and purges are synced to the disk.
    fn next(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        if self.unsynced < SYNCED_TOGETHER_MAX
            && let Ok(order) = orders.try_recv()
        {
            return Some(order);
        }
        if self.unsynced > 0 {
            self.unsynced = 0;
            let failed = self.active.as_ref().is_some_and(|active| active.file.sync_data().is_err());
            if failed {
                self.clear(self.last_sequence);
            }
        }
        orders.recv().ok()
    }

    fn put(&mut self, sequence: u64, key: &[u8], record: &Record) {
        let hash = self.shared.hash.of(key);
        let Some(labels) = write_labels(&record.labels) else { return self.drop_record() };
        let draft = Draft {
            kind: Kind::Put,
            sequence,
            hash,
            key,
            labels: &labels,
            meta: &record.meta,
            body: &record.body,
        };
        if self.is_paused() {
            return self.drop_record();
        }
        match self.append(&draft) {
            Ok(place) => {
                self.shared.index.lock().put(hash, place);
                self.shared.counters.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.drop_record(),
        }
    }

    fn drop_record(&self) {
        self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&mut self, sequence: u64, hash: u64) {
        let needs_record = self.shared.index.lock().needs_removal(hash);
        let draft =
            Draft { kind: Kind::Removal, sequence, hash, key: b"", labels: b"", meta: b"", body: &[] };
        if needs_record {
            self.unsynced += 1;
            self.last_sequence = sequence;
            if self.append(&draft).is_err() {
                self.clear(sequence);
            }
        }
        self.shared.index.lock().end_removal(hash, sequence);
    }

    fn purge(&mut self, sequence: u64, purge: &Purge) {
        if *purge == Purge::All {
            return self.clear(sequence);
        }
        if let Some(place) = self.append_purge(sequence, purge) {
            self.shared.index.lock().end_purge(sequence, purge, place.segment);
        }
    }

    /// Writes that all records below this sequence are dropped, and removes the segments that have no others.
    fn forget_up_to(&mut self, floor: u64) {
        let Some(place) = self.append_purge(floor, &Purge::All) else { return };
        let gone = self.shared.index.lock().take_up_to(floor);
        for old in gone.into_iter().filter(|old| old.id != place.segment) {
            self.shared.counters.evicted.fetch_add(old.records, Ordering::Relaxed);
            self.folder.remove_segment(old.id);
        }
    }

    /// None where it cannot be written, and everything is gone.
    fn append_purge(&mut self, sequence: u64, purge: &Purge) -> Option<RecordLocation> {
        let meta = purge.encode();
        let draft =
            Draft { kind: Kind::Purge, sequence, hash: 0, key: b"", labels: b"", meta: &meta, body: &[] };
        self.unsynced += 1;
        self.last_sequence = self.last_sequence.max(sequence);
        let place = self.append(&draft);
        if place.is_err() {
            self.clear(self.last_sequence);
        }
        place.ok()
    }

    /// Removes everything; also where it could not be written that something has to go, since it would be
    /// back after a restart.
    fn clear(&mut self, sequence: u64) {
        self.drop_all();
        self.shared.index.lock().drop_purges_before(sequence);
        self.paused = None;
    }

    fn drop_all(&mut self) {
        self.active = None;
        loop {
            let oldest = self.shared.index.lock().take_oldest();
            let Some(oldest) = oldest else { return };
            self.shared.index.lock().end_purges_of(oldest.id);
            self.folder.remove_segment(oldest.id);
        }
    }

    // === Segments ===

    fn append(&mut self, draft: &Draft<'_>) -> io::Result<RecordLocation> {
        let header = draft.header()?;
        let len = header.record_len();
        if len > u64::from(self.size.segment_bytes) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let has_room = |active: &Active| active.end + len <= u64::from(self.size.segment_bytes);
        if !self.active.as_ref().is_some_and(has_room) {
            self.begin_segment()?;
        }
        let result = self.write(&header, draft);
        if let Err(error) = &result {
            self.refuse(error);
        }
        result
    }

    fn write(&mut self, header: &Header, draft: &Draft<'_>) -> io::Result<RecordLocation> {
        let active = self.active.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let (start, len) = (active.end, header.record_len());
        let head = [&header.encode(active.id)[..], draft.key, draft.labels, draft.meta].concat();
        let mut at = start;
        for piece in std::iter::once(&head[..]).chain(draft.body.iter().map(|piece| &piece[..])) {
            if let Err(error) = active.file.write_all_at(piece, at) {
                // A scan would find the header without its record; the checksum would not match, and the
                // records behind it would be lost.
                let _ = active.file.set_len(start);
                return Err(error);
            }
            at += piece.len() as u64;
        }
        self.shared.is_full.store(false, Ordering::Relaxed);
        active.end = at;
        active.entries.push(Entry {
            kind: draft.kind,
            hash: draft.hash,
            offset: start as u32,
            len: len as u32,
        });
        let mut index = self.shared.index.lock();
        index.set_segment_bytes(active.id, at);
        index.note_sequence(active.id, draft.sequence);
        Ok(RecordLocation { segment: active.id, offset: start as u32, len: len as u32 })
    }

    /// Ends the segment that is written.
    fn seal(&mut self) {
        let Some(active) = self.active.take() else { return };
        // Without its table the segment is scanned at the next start.
        if write_table(&active.file, active.id, active.end, &active.entries).is_ok() {
            let bytes = active.file.metadata().map_or(active.end, |metadata| metadata.len());
            self.shared.index.lock().set_segment_bytes(active.id, bytes);
        }
    }

    /// Makes room, and begins a segment with the hot records of those that were removed.
    fn begin_segment(&mut self) -> io::Result<()> {
        self.seal();
        if self.paused.is_some()
            && let Some(folder) = self.folder.reopen()
        {
            // Whoever removed the old one wants its room back.
            self.drop_all();
            self.folder = folder;
        }
        let oldest = self.shared.index.lock().segment_ids().first().copied();
        let kept = self.make_room();
        let begun = self.begin_with(kept);
        let mut index = self.shared.index.lock();
        let gone = index.segment_ids().first().copied();
        if let Some(gone) = gone.filter(|first| oldest.is_some_and(|oldest| oldest < *first)) {
            index.end_purges_of(gone - 1);
        }
        begun
    }

    /// Begins a segment with these records.
    fn begin_with(&mut self, kept: Vec<(RecordLocation, Vec<u8>)>) -> io::Result<()> {
        // Of a sequence up to now, and above all numbers that were there.
        let last = self.shared.index.lock().segment_ids().last().copied().unwrap_or(0);
        let id = (last + 1).max(self.shared.sequence.load(Ordering::SeqCst) >> 32);
        let file = self.folder.create_segment(id).inspect_err(|error| self.refuse(error))?;
        self.shared.index.lock().add_segment(id, Arc::clone(&file));
        self.active = Some(Active { id, file, end: 0, entries: Vec::new() });
        self.paused = None;
        for (place, bytes) in kept {
            self.keep(place, &bytes)?;
        }
        Ok(())
    }

    /// Removes the oldest segments until there is room for another one. Returns their hot records.
    fn make_room(&mut self) -> Vec<(RecordLocation, Vec<u8>)> {
        let mut kept = Vec::new();
        let mut budget = u64::from(self.size.segment_bytes) / KEPT_SHARE;
        loop {
            let mut index = self.shared.index.lock();
            let has_room = index.bytes() + u64::from(self.size.segment_bytes) <= self.size.bytes;
            if has_room && index.segment_count() < SEGMENTS_MAX {
                return kept;
            }
            let Some(mut oldest) = index.take_oldest() else { return kept };
            drop(index);
            for place in &oldest.hot {
                let Some(left) = budget.checked_sub(u64::from(place.len)) else { continue };
                if let Ok(bytes) = read_record(&oldest.file, place.offset, place.len) {
                    budget = left;
                    oldest.records -= 1;
                    kept.push((*place, bytes));
                }
            }
            self.shared.counters.evicted.fetch_add(oldest.records, Ordering::Relaxed);
            self.folder.remove_segment(oldest.id);
        }
    }

    /// Writes a record of a segment that went once more, under a new sequence, if it has not been purged.
    fn keep(&mut self, place: RecordLocation, bytes: &[u8]) -> io::Result<()> {
        let Some(view) = View::decode(bytes, place.segment) else { return Ok(()) };
        let hash = view.header.hash;
        let index = self.shared.index.lock();
        if !index.may_return(&view) {
            return Ok(());
        }
        // With the index locked: a purge with a lower number has been seen.
        let sequence = self.shared.next_sequence();
        drop(index);
        let body = [Bytes::copy_from_slice(view.body)];
        let draft = Draft {
            kind: Kind::Put,
            sequence,
            hash,
            key: view.key,
            labels: view.labels,
            meta: view.meta,
            body: &body,
        };
        let header = draft.header()?;
        let place = self.write(&header, &draft)?;
        self.shared.index.lock().put(hash, place);
        Ok(())
    }

    // === A disk that refuses ===

    /// Pauses all writes. If the disk is full, the oldest segment is removed, since others need the room too.
    fn refuse(&mut self, error: &io::Error) {
        tracing::warn!(%error, pause = ?REFUSED_PAUSE, "the cache on disk cannot be written");
        self.paused = Some(Instant::now() + REFUSED_PAUSE);
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.shared.is_full.store(is_full, Ordering::Relaxed);
        let mut index = self.shared.index.lock();
        if let Some(empty) = self.active.take().filter(|active| active.end == 0) {
            index.drop_segment(empty.id);
            self.folder.remove_segment(empty.id);
        }
        if is_full {
            let oldest = index.take_oldest();
            drop(index);
            if let Some(oldest) = oldest {
                self.shared.index.lock().end_purges_of(oldest.id);
                self.shared.counters.evicted.fetch_add(oldest.records, Ordering::Relaxed);
                self.folder.remove_segment(oldest.id);
            }
        }
    }

    fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| Instant::now() < until)
    }
}

impl Draft<'_> {
    fn header(&self) -> io::Result<Header> {
        let len = |len: usize| u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        let mut crc = crc32fast::Hasher::new();
        for part in
            [self.key, self.labels, self.meta].into_iter().chain(self.body.iter().map(|piece| &piece[..]))
        {
            crc.update(part);
        }
        Ok(Header {
            kind: self.kind,
            sequence: self.sequence,
            hash: self.hash,
            key_len: len(self.key.len())?,
            labels_len: len(self.labels.len())?,
            meta_len: len(self.meta.len())?,
            body_len: len(self.body.iter().map(Bytes::len).sum())?,
            payload_crc: crc.finalize(),
        })
    }
}

const _: () = assert!(HEADER_BYTES < crate::limits::SEGMENT_BYTES_MIN as usize);
