//! State that the threads of a disk and its callers share, and how big it may become.
//!
//! Must not be in here: files, threads.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::folder::KeyHash;
use crate::index::Index;
use crate::limits;

/// How big it may become.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of a segment, and so of the longest record.
    pub segment_bytes: u32,
}

/// State that the threads and the callers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) index: Mutex<Index>,
    pub(crate) hash: KeyHash,
    pub(crate) sequence: AtomicU64,
    /// Bytes of records that wait to be written.
    pub(crate) queued: AtomicU64,
    pub(crate) stop: AtomicBool,
    pub(crate) bytes_max: u64,
    pub(crate) is_full: AtomicBool,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) corrupt: AtomicU64,
}

impl Shared {
    /// State of a folder with these segments, whose records have sequences below this one.
    pub(crate) fn new(hash: KeyHash, segments: Vec<(u64, Arc<File>)>, sequence: u64, size: Size) -> Self {
        Self {
            hash,
            index: Mutex::new(Index::new(segments, sequence)),
            sequence: AtomicU64::new(sequence),
            queued: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            bytes_max: size.bytes,
            is_full: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Later orders have higher numbers.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::SeqCst)
    }
}

impl Size {
    /// The usual segments for so many bytes.
    pub fn of(bytes: u64) -> Self {
        let least = u64::from(limits::SEGMENT_BYTES_MIN);
        let segment = (bytes / limits::SEGMENTS_WANTED).clamp(least, u64::from(limits::SEGMENT_BYTES_MAX));
        Self { bytes, segment_bytes: segment as u32 }
    }

    /// Files that are open at a time where segments are full: these, the one that is being written, and the
    /// folder with its lock.
    #[must_use]
    pub fn open_files_max(self) -> u64 {
        (self.bytes / u64::from(self.segment_bytes)).min(limits::SEGMENTS_MAX as u64) + 3
    }
}
