//! Writes a record, into a folder or into memory.
//!
//! Must not be in here: reading a record.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::folder::{self, Form};
use crate::frame::{Event, Frame};
use crate::limits::{EVENT_BYTES, FRAMES_WITHOUT_TRIAL, SEGMENTS, SIZE_MIN};
use crate::pack::{self, TailId};
use crate::packer::Packer;
use crate::reader::Record;

/// Records frames and events. Whoever uses it waits for the kernel to take the bytes, and at the end of a
/// block for its compression: it is not for a thread that serves requests.
pub struct Recorder(Mutex<Inner>);

struct Inner {
    limit: u64,
    run: u64,
    /// The number of the next tail.
    number: u64,
    packer: Packer,
    place: Place,
    /// Frames that are left out before the next trial, after an error.
    paused: u32,
    /// The last entry of processes that ended without [`Recorder::finish`].
    unfinished: Option<u64>,
    /// Whether the record has been finished.
    is_over: bool,
}

enum Place {
    Folder(Ring),
    /// Blocks with their heads, the oldest first, and the number of their bytes.
    Memory {
        blocks: VecDeque<Arc<[u8]>>,
        bytes: u64,
    },
}

/// The ring in a folder.
struct Ring {
    folder: PathBuf,
    tail: Option<Open>,
    segment: Option<Open>,
    /// The number of the next segment.
    segments: u64,
}

/// A file that is written.
struct Open {
    file: File,
    path: PathBuf,
    id: TailId,
}

impl Recorder {
    /// Records into a folder, which is made if it is not there. Its files never have more than `limit` bytes
    /// together. What a process before left there stays readable.
    ///
    /// # Errors
    ///
    /// When files cannot be made or read in the folder. The error names the path.
    pub fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        fs::create_dir_all(path).map_err(named)?;
        let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let ring = Ring { folder: path.to_owned(), tail: None, segment: None, segments: 0 };
        let mut inner = Inner::new(Place::Folder(ring), limit, run);
        inner.begin().map_err(named)?;
        Ok(Self(Mutex::new(inner)))
    }

    /// Records into memory, into `limit` bytes at most. The present block is beside them.
    pub fn in_memory(limit: u64) -> Self {
        let place = Place::Memory { blocks: VecDeque::new(), bytes: 0 };
        Self(Mutex::new(Inner::new(place, limit, 0)))
    }

    /// Records a frame.
    ///
    /// # Errors
    ///
    /// When the kernel does not take it. The frame is lost, and so are the next ones, until a trial succeeds.
    pub fn frame(&self, frame: &Frame) -> io::Result<()> {
        self.lock().frame(frame)
    }

    /// Records an event. Long texts are cut off.
    ///
    /// # Errors
    ///
    /// When the kernel does not take it. The event is lost.
    pub fn event(&self, event: &Event) -> io::Result<()> {
        self.lock().event(event)
    }

    /// Records an event if no other thread is recording: a thread that panics must not wait for itself.
    pub fn last_words(&self, event: &Event) {
        let inner = match self.0.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut inner) = inner {
            let _ = inner.event(event);
        }
    }

    /// Records a last event, and compresses what is not yet compressed. Nothing is recorded later, and a
    /// second last event is left out.
    ///
    /// # Errors
    ///
    /// When the kernel does not take it.
    pub fn finish(&self, event: &Event) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.is_over {
            return Ok(());
        }
        inner.event(event)?;
        inner.is_over = true;
        inner.seal()
    }

    /// The time of the last entry of a process that recorded into the folder before and did not
    /// [finish](Self::finish): it was killed. None if there was no such process.
    pub fn unfinished(&self) -> Option<u64> {
        self.lock().unfinished
    }

    /// Whether frames are left out after an error.
    pub fn is_paused(&self) -> bool {
        self.lock().paused > 0
    }

    /// All that is recorded so far.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn record(&self) -> io::Result<Record> {
        let inner = self.lock();
        match &inner.place {
            Place::Folder(ring) => {
                let folder = ring.folder.clone();
                drop(inner);
                Record::open(&folder)
            }
            Place::Memory { blocks, .. } => {
                let blocks = blocks.iter().cloned().collect();
                Ok(Record::of_memory(blocks, inner.packer.entries().to_vec()))
            }
        }
    }

    /// The folder that is written into; none if that is memory.
    pub fn folder(&self) -> Option<PathBuf> {
        match &self.lock().place {
            Place::Folder(ring) => Some(ring.folder.clone()),
            Place::Memory { .. } => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn new(place: Place, limit: u64, run: u64) -> Self {
        let limit = limit.max(SIZE_MIN);
        Self {
            limit,
            run,
            number: 0,
            packer: Packer::default(),
            place,
            paused: 0,
            unfinished: None,
            is_over: false,
        }
    }

    /// Compresses the tails of processes that have ended, and opens the first one of this process.
    fn begin(&mut self) -> io::Result<()> {
        let Place::Folder(ring) = &mut self.place else { return Ok(()) };
        // Another process that began in the same millisecond has these names.
        while ring.folder.join(format!("{:012x}-00000000.tail", self.run)).exists() {
            self.run += 1;
        }
        let files = folder::list(&ring.folder)?;
        let tails = files.into_iter().filter(|file| file.form == Form::Tail);
        for found in tails {
            let Some((_lock, bytes)) = folder::adopt(&found.path)? else { continue };
            let body = bytes.strip_prefix(pack::TAIL.as_slice()).unwrap_or_default();
            let (entries, _) = pack::entries_of_tail(body);
            if let Some((head, block)) = pack::block(found.id, &entries)? {
                ring.append(self.run, self.limit, &block)?;
                self.unfinished = self.unfinished.max(Some(head.last));
            }
            fs::remove_file(&found.path)?;
        }
        ring.new_tail(TailId { run: self.run, number: 0 })?;
        self.number = 1;
        ring.make_room(self.limit)
    }

    fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        if self.paused > 0 {
            self.paused -= 1;
            return Ok(());
        }
        let sealed = if self.packer.is_full() { self.finish_block() } else { Ok(()) };
        self.push(|packer| packer.frame(frame))?;
        sealed
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut event = event.clone();
        for text in [&mut event.kind, &mut event.object, &mut event.text] {
            text.truncate(text.floor_char_boundary(EVENT_BYTES));
        }
        if self.paused > 0 || self.is_over {
            return Ok(());
        }
        self.push(|packer| packer.event(&event))
    }

    fn push(&mut self, put: impl Fn(&mut Packer) -> &[u8]) -> io::Result<()> {
        let written = self.try_push(put);
        if written.is_err() {
            // The coder knows a frame that the file has not: the next one has to be complete.
            self.paused = FRAMES_WITHOUT_TRIAL;
            let _ = self.finish_block();
        }
        written
    }

    fn try_push(&mut self, put: impl Fn(&mut Packer) -> &[u8]) -> io::Result<()> {
        let Place::Folder(ring) = &mut self.place else {
            put(&mut self.packer);
            return Ok(());
        };
        let tail = if let Some(tail) = &mut ring.tail {
            tail
        } else {
            self.packer = Packer::default();
            self.number += 1;
            ring.new_tail(TailId { run: self.run, number: self.number - 1 })?
        };
        let bytes = pack::with_checksum(put(&mut self.packer));
        let written = folder::append(&mut tail.file, &bytes);
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            let _ = ring.remove_oldest();
        }
        written
    }

    /// Compresses what the tail holds, and begins another one.
    fn finish_block(&mut self) -> io::Result<()> {
        let sealed = self.seal();
        if let Place::Folder(ring) = &mut self.place {
            ring.make_room(self.limit)?;
            ring.new_tail(TailId { run: self.run, number: self.number })?;
            self.number += 1;
        }
        sealed
    }

    /// Compresses what the tail holds. There is no tail then.
    fn seal(&mut self) -> io::Result<()> {
        let packer = std::mem::take(&mut self.packer);
        match &mut self.place {
            Place::Memory { blocks, bytes } => {
                let Some((_, block)) = pack::block(TailId::default(), packer.entries())? else {
                    return Ok(());
                };
                *bytes += block.len() as u64;
                blocks.push_back(block.into());
                while *bytes > self.limit {
                    let Some(oldest) = blocks.pop_front() else { break };
                    *bytes -= oldest.len() as u64;
                }
                Ok(())
            }
            Place::Folder(ring) => match ring.tail.take() {
                Some(tail) => ring.seal(&tail, packer.entries(), self.run, self.limit),
                None => Ok(()),
            },
        }
    }
}

impl Ring {
    fn new_tail(&mut self, id: TailId) -> io::Result<&mut Open> {
        let (file, path) = folder::create(&self.folder, id, Form::Tail)?;
        Ok(self.tail.insert(Open { file, path, id }))
    }

    /// Appends a tail's entries as a block, and removes the tail when the block is on the disk.
    fn seal(&mut self, tail: &Open, entries: &[u8], run: u64, limit: u64) -> io::Result<()> {
        if let Some((_, block)) = pack::block(tail.id, entries)? {
            self.append(run, limit, &block)?;
        }
        fs::remove_file(&tail.path)
    }

    /// Appends a block to the present segment, or to a new one.
    fn append(&mut self, run: u64, limit: u64, block: &[u8]) -> io::Result<()> {
        let segment = if let Some(segment) = &mut self.segment {
            segment
        } else {
            let id = TailId { run, number: self.segments };
            let (file, path) = folder::create(&self.folder, id, Form::Segment)?;
            self.segments += 1;
            self.segment.insert(Open { file, path, id })
        };
        let written = folder::append(&mut segment.file, block).and_then(|()| segment.file.sync_data());
        let is_full = segment.file.metadata().map_or(true, |about| about.len() >= limit / SEGMENTS);
        if is_full || written.is_err() {
            self.segment = None;
        }
        written
    }

    /// Removes the oldest files until there is room for a tail that is full.
    fn make_room(&mut self, limit: u64) -> io::Result<()> {
        let room = limit - (crate::limits::BLOCK_BYTES as u64).min(limit / 2);
        let mut total: u64 = folder::list(&self.folder)?.iter().map(|file| file.len).sum();
        while total > room {
            match self.remove_oldest()? {
                Some(len) => total -= len,
                None => break,
            }
        }
        Ok(())
    }

    /// Removes the oldest file that no process writes. Returns its length.
    fn remove_oldest(&mut self) -> io::Result<Option<u64>> {
        let own = [&self.segment, &self.tail].map(|open| open.as_ref().map(|open| open.path.clone()));
        for found in folder::list(&self.folder)? {
            let is_own = own.iter().flatten().any(|path| *path == found.path);
            let is_written = found.form == Form::Tail && folder::is_written(&found.path);
            if is_own || is_written {
                continue;
            }
            return match fs::remove_file(&found.path) {
                Ok(()) => Ok(Some(found.len)),
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(found.len)),
                Err(error) => Err(error),
            };
        }
        Ok(None)
    }
}
