//! The disk tier of a cache: a bounded folder of records that survives restarts, and a crash at any moment.
//!
//! Records are appended to segments, files of up to 64 MiB. If there is no room, the oldest segment is
//! removed as a whole, and its records that were read since they were written are written again. The index is
//! in memory, about 50 bytes for each record, and is loaded in the background after a start. Each record is
//! checked when it is read, so that a torn write, a flipped bit or a foreign change is a miss and never a
//! wrong answer.
//!
//! Never in here: HTTP, the freshness of responses, a worker's thread. Callers query the index and wait for a
//! channel; files are read and written by threads of this crate. Callers never wait for a write: what cannot
//! be written in time is dropped and counted.

mod folder;
mod index;
mod limits;
mod load;
mod purge;
mod purges;
mod reader;
mod record;
mod segment;
mod shared;
mod standby;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use folder::OpenError;
pub use purge::{Purge, read_labels, write_labels};
pub use shared::Size;

use folder::Folder;
use reader::Job;
use shared::{Counters, Shared};
use standby::Standby;
use writer::{Order, Writer};

/// Bytes of the smallest folder of use.
pub const BYTES_MIN: u64 = limits::SEGMENT_BYTES_MIN as u64 * 8;

/// Name of the thread that writes.
const WRITER: &str = "cache-write";

/// The disk tier. Dropping it writes the pending records and ends its threads.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    /// None while it is dropped.
    jobs: Option<SyncSender<Job>>,
    /// Jobs that no reader has taken. Kept here, so that a disk without readers hangs instead of refusing
    /// jobs.
    _waiting: Arc<Mutex<Receiver<Job>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A record to be cached.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Labels by which the record can be purged.
    pub labels: Vec<Vec<u8>>,
    /// Data of the caller beside the body.
    pub meta: Bytes,
    /// The body, in pieces.
    pub body: Vec<Bytes>,
}

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// As it was in the [`Record`].
    pub meta: Bytes,
    /// The body, in one piece.
    pub body: Bytes,
}

/// Figures for metrics; counters are from the time when the disk was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that can be found.
    pub records: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that all files may take together.
    pub bytes_max: u64,
    /// The file system had no room when it was last written to, or no more than others need.
    pub full: bool,
    /// Whether the index is still being loaded, so that earlier records may be missed.
    pub loading: bool,
    /// Records that were written.
    pub written: u64,
    /// Records that were not, since the disk was too slow, full or gone.
    pub dropped: u64,
    /// Records that were found and read.
    pub hits: u64,
    /// Times that the system refused to write, for want of room or for another reason.
    pub refused: u64,
    /// Records that went with their segment, for want of room.
    pub evicted: u64,
    /// Records whose content was damaged, and which were removed from the index.
    pub corrupt: u64,
}

impl Disk {
    /// Opens a folder, and creates it if it does not exist. Returns at once: earlier records are found as the
    /// index is loaded, the latest first.
    ///
    /// # Errors
    ///
    /// The folder is not one for a cache, is used by another process, or cannot be used.
    pub fn open(path: &Path, size: Size) -> Result<Self, OpenError> {
        Self::open_with_readers(path, size, limits::READERS)
    }

    /// Opens the folder of a process that this one replaces. If that still has it, nothing is found and
    /// nothing is cached until it ends; then its records are taken over.
    ///
    /// # Errors
    ///
    /// The folder is not one for a cache, or cannot be used.
    pub fn open_after_predecessor(path: &Path, size: Size) -> Result<Self, OpenError> {
        match Self::open(path, size) {
            Err(OpenError::InUse(_)) => {}
            opened => return opened,
        }
        // Sequences begin above those that the predecessor gives out once its folder is free.
        let shared = Arc::new(Shared::new(Folder::hash_in_use(path)?, Vec::new(), 1 << 32, size));
        let standby = Standby { path: path.to_owned(), shared: Arc::clone(&shared), size };
        Self::start(shared, limits::READERS, |orders| {
            let thread = std::thread::Builder::new().name(WRITER.into());
            Ok(vec![thread.spawn(move || standby.run(&orders)).map_err(OpenError::Thread)?])
        })
    }

    /// Opens a folder with this number of reading threads; with none it acts as a disk that hangs.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_with_readers(path: &Path, size: Size, readers: usize) -> Result<Self, OpenError> {
        let folder = Folder::open(path, None)?;
        let segments = folder.segments()?;
        // Above all that any record in these segments has.
        let sequence = (segments.last().map_or(0, |(id, _)| *id) + 1) << 32;
        let shared = Arc::new(Shared::new(folder.hash(), segments, sequence, size));
        let writer = Writer::new(folder, Arc::clone(&shared), size);
        let loaded = Arc::clone(&shared);
        Self::start(shared, readers, |orders| {
            let loading = load::start(loaded).map_err(OpenError::Thread)?;
            let thread = std::thread::Builder::new().name(WRITER.into());
            let writing = thread.spawn(move || writer.run(&orders)).map_err(OpenError::Thread)?;
            Ok(vec![loading, writing])
        })
    }

    /// Starts the threads: those of `begin`, which gets the orders, and the readers.
    fn start(
        shared: Arc<Shared>,
        readers: usize,
        begin: impl FnOnce(Receiver<Order>) -> Result<Vec<JoinHandle<()>>, OpenError>,
    ) -> Result<Self, OpenError> {
        let (orders, incoming) = channel();
        let (jobs, waiting) = sync_channel(limits::READS_WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = begin(incoming)?;
        for _ in 0..readers {
            let reader = reader::start(Arc::clone(&shared), Arc::clone(&waiting));
            threads.push(reader.map_err(OpenError::Thread)?);
        }
        Ok(Self { shared, orders, jobs: Some(jobs), _waiting: waiting, threads })
    }

    /// Inserts a record in place of the one with the same key. It is written later; if too many writes are
    /// pending it is dropped.
    pub fn insert(&self, key: Bytes, record: Record) {
        let body: usize = record.body.iter().map(Bytes::len).sum();
        let labels: usize = record.labels.iter().map(Vec::len).sum();
        let bytes = (key.len() + labels + record.meta.len() + body) as u64;
        let queued = self.shared.queued.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if queued > limits::QUEUED_BYTES_MAX {
            self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // With the index locked, as all orders, so that they come in their sequence.
        let _index = self.shared.index.lock();
        let sequence = self.shared.next_sequence();
        self.order(Order::Put { sequence, key, record, bytes });
    }

    /// Finds a record and reads it. No thread is involved if there is no such record or too many reads are
    /// pending. If the disk hangs this never returns: the caller has to bound the wait.
    pub async fn get(&self, key: &[u8]) -> Option<StoredRecord> {
        let hash = self.shared.hash.of(key);
        let (place, file) = self.shared.index.lock().find(hash)?;
        let (reply, answer) = oneshot::channel();
        let job = Job { key: Bytes::copy_from_slice(key), hash, place, file, reply };
        self.jobs.as_ref()?.try_send(job).ok()?;
        answer.await.ok().flatten()
    }

    /// Forgets a record: no `get` that begins from now on finds it.
    pub fn remove(&self, key: &[u8]) {
        let hash = self.shared.hash.of(key);
        let mut index = self.shared.index.lock();
        let sequence = self.shared.next_sequence();
        index.begin_removal(hash, sequence);
        self.order(Order::Remove { sequence, hash });
    }

    /// Forgets all records that match: no `get` that begins from now on finds them.
    pub fn purge(&self, purge: Purge) {
        // With the index locked, so that a record of a later sequence has seen the purge.
        let mut index = self.shared.index.lock();
        let sequence = self.shared.next_sequence();
        let floor = index.begin_purge(sequence, purge.clone());
        self.order(Order::Purge { sequence, purge });
        if let Some(floor) = floor {
            self.order(Order::Floor { floor });
        }
    }

    /// Drops all records.
    pub fn clear(&self) {
        self.purge(Purge::All);
    }

    /// Waits until all orders so far are carried out, for at most this long.
    pub fn flush(&self, time: std::time::Duration) {
        let (done, wait) = channel();
        if self.orders.send(Order::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(time);
        }
    }

    /// The numbers of this moment.
    pub fn figures(&self) -> Figures {
        let Counters { written, dropped, hits, refused, evicted, corrupt } = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let index = self.shared.index.lock();
        Figures {
            records: index.records(),
            bytes: index.bytes(),
            bytes_max: self.shared.bytes_max,
            full: self.shared.is_full.load(Ordering::Relaxed),
            loading: index.is_loading(),
            written: count(written),
            dropped: count(dropped),
            hits: count(hits),
            refused: count(refused),
            evicted: count(evicted),
            corrupt: count(corrupt),
        }
    }

    fn order(&self, order: Order) {
        // The writer ends with this value only.
        let _ = self.orders.send(order);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        let _ = self.orders.send(Order::Stop);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A disk whose readers hang holds no more callers than it has places for.
    #[test]
    fn what_cannot_be_read_soon_is_a_miss() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open_with_readers(folder.path(), Size::of(BYTES_MIN), 0).unwrap();
        disk.insert(Bytes::from_static(b"key"), Record::default());
        disk.flush(std::time::Duration::from_secs(60));
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> =
            (0..limits::READS_WAITING_MAX).map(|_| Box::pin(disk.get(b"key"))).collect();
        assert!(waiting.iter_mut().all(|get| get.as_mut().poll(&mut cx).is_pending()));
        assert_eq!(pin!(disk.get(b"key")).poll(&mut cx), Poll::Ready(None));
    }
}
