//! Reads a record: a folder, also while it is written, or an exported file. It never changes what it reads.
//!
//! Files that are broken are read as far as they are whole; what is left out is said. Must not be in here:
//! the meaning of frames.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::Cursor;
use crate::decoder::Decoder;
use crate::folder::{self, Form};
use crate::frame::{Event, Frame, Item};
use crate::limits::BLOCK_FRAMES_READ;
use crate::pack::{self, BLOCK_HEAD, Entry, Head, SEGMENT, TAIL, TailId};
use crate::packer::Packer;

/// Frames and events that were recorded.
#[derive(Debug, Default)]
pub struct Record {
    /// In the order of their first entries.
    blocks: Vec<Block>,
    damage: Vec<String>,
}

#[derive(Debug)]
struct Block {
    first: u64,
    last: u64,
    frames: u32,
    place: Place,
}

/// Where the entries of a block are.
#[derive(Clone, Debug)]
enum Place {
    /// In a file, compressed, after the head.
    File { path: PathBuf, at: u64, head: Head },
    /// In memory, with the head.
    Memory { block: Arc<[u8]> },
    /// In memory, not compressed: those of a tail.
    Entries(Arc<[u8]>),
}

impl Record {
    /// Opens a folder, or a file that was exported.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or the file is not a record. The error names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut record = Self::default();
        if path.is_dir() {
            record.read_folder(path).map_err(named)?;
        } else {
            let bytes = fs::read(path).map_err(named)?;
            if !bytes.starts_with(SEGMENT) {
                return Err(named(io::Error::new(io::ErrorKind::InvalidData, NO_RECORD)));
            }
            record.read_segment(path, &bytes, &mut HashSet::new());
        }
        record.sort();
        Ok(record)
    }

    /// Reads what [`write_range`](Self::write_range) wrote.
    ///
    /// # Errors
    ///
    /// When the bytes are not a record.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        if !bytes.starts_with(SEGMENT) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, NO_RECORD));
        }
        let mut record = Self::default();
        let (blocks, lost) = blocks_of(bytes);
        for (at, head) in blocks {
            let block = bytes[at..at + BLOCK_HEAD + head.packed as usize].into();
            record.add(head, Place::Memory { block });
        }
        record.lose("the record", lost);
        record.sort();
        Ok(record)
    }

    /// Reads entries as a block has them when it is decompressed, without any checksum: for tests of what is
    /// read of bytes that may be anything.
    pub fn from_entries(entries: &[u8]) -> Self {
        let mut record = Self::default();
        record.add_entries(entries.to_vec());
        record
    }

    /// A record in memory: its blocks with their heads, and the entries that no block has yet.
    pub(crate) fn of_memory(blocks: Vec<Arc<[u8]>>, entries: Vec<u8>) -> Self {
        let mut record = Self::default();
        for block in blocks {
            if let Ok(head) = Head::read(&block) {
                record.add(head, Place::Memory { block });
            }
        }
        record.add_entries(entries);
        record.sort();
        record
    }

    fn read_folder(&mut self, folder: &Path) -> io::Result<()> {
        let files = folder::list(folder)?;
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no record in this folder"));
        }
        // Tails are read first: one that is compressed meanwhile is then read twice, and never missed.
        let mut tails = Vec::new();
        for found in files.iter().filter(|found| found.form == Form::Tail) {
            if let Some(bytes) = read_if_there(&found.path)? {
                tails.push((found, bytes));
            }
        }
        let mut sealed = HashSet::new();
        // A segment may have been begun meanwhile.
        for found in folder::list(folder)?.iter().filter(|found| found.form == Form::Segment) {
            if let Some(bytes) = read_if_there(&found.path)? {
                self.read_segment(&found.path, &bytes, &mut sealed);
            }
        }
        for (found, bytes) in tails.into_iter().filter(|(found, _)| !sealed.contains(&found.id)) {
            let Some(body) = bytes.strip_prefix(TAIL.as_slice()) else {
                self.lose(&found.path.display().to_string(), bytes.len());
                continue;
            };
            let (entries, is_whole) = pack::entries_of_tail(body);
            if !is_whole {
                self.damage.push(format!("{}: the last frame is torn and left out", found.path.display()));
            }
            self.add_entries(entries);
        }
        Ok(())
    }

    fn read_segment(&mut self, path: &Path, bytes: &[u8], sealed: &mut HashSet<TailId>) {
        let (blocks, lost) = blocks_of(bytes);
        for (at, head) in blocks {
            sealed.insert(head.tail);
            self.add(head, Place::File { path: path.to_owned(), at: (at + BLOCK_HEAD) as u64, head });
        }
        self.lose(&path.display().to_string(), lost);
    }

    fn add(&mut self, head: Head, place: Place) {
        self.blocks.push(Block { first: head.first, last: head.last, frames: head.frames, place });
    }

    fn add_entries(&mut self, entries: Vec<u8>) {
        if let Some((first, last, frames)) = pack::times(&entries) {
            self.blocks.push(Block { first, last, frames, place: Place::Entries(entries.into()) });
        }
    }

    fn lose(&mut self, name: &str, bytes: usize) {
        if bytes > 0 {
            self.damage.push(format!("{name}: {bytes} bytes are broken and left out"));
        }
    }

    fn sort(&mut self) {
        self.blocks.sort_by_key(|block| block.first);
    }

    /// The times of the first and the last entry, in milliseconds since the epoch; none if there are none.
    pub fn span(&self) -> Option<(u64, u64)> {
        let first = self.blocks.first()?.first;
        Some((first, self.blocks.iter().map(|block| block.last).max()?))
    }

    /// How many frames there are.
    pub fn count(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.frames)).sum()
    }

    /// Sentences about what was left out, because it is broken.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// All that was recorded in a range of milliseconds since the epoch, in the order in which it was
    /// recorded. Blocks are read one by one: one that is removed meanwhile is left out.
    pub fn items(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = Item> + Send + '_ {
        self.blocks_in(range.clone()).flat_map(move |block| block.items(range.clone()))
    }

    /// The frames in a range.
    pub fn frames(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = Frame> + Send + '_ {
        self.items(range).filter_map(|item| match item {
            Item::Frame(frame) => Some(frame),
            Item::Event(_) => None,
        })
    }

    /// The events in a range. Frames are not decoded for it.
    pub fn events(&self, range: RangeInclusive<u64>) -> Vec<Event> {
        let mut events = Vec::new();
        for block in self.blocks_in(range.clone()) {
            let entries = block.entries().unwrap_or_default();
            let mut cursor = Cursor(&entries);
            while let Ok(entry) = pack::entry(&mut cursor) {
                match entry {
                    Entry::Event(event) if range.contains(&event.at) => events.push(event),
                    Entry::Event(_) | Entry::Frame(_) => {}
                }
            }
        }
        events.sort_by_key(|event| event.at);
        events
    }

    /// Writes a range as one file, which [`open`](Self::open) reads on any machine. Returns how many frames
    /// it has.
    ///
    /// # Errors
    ///
    /// When the bytes are not taken.
    pub fn write_range(&self, range: RangeInclusive<u64>, out: &mut impl Write) -> io::Result<u64> {
        out.write_all(SEGMENT)?;
        let mut packer = Packer::default();
        let mut frames = 0;
        let mut number = 0;
        let mut finish = |packer: &mut Packer, out: &mut dyn Write| -> io::Result<()> {
            let id = TailId { run: 0, number };
            number += 1;
            match pack::block(id, std::mem::take(packer).entries())? {
                Some((_, block)) => out.write_all(&block),
                None => Ok(()),
            }
        };
        for item in self.items(range) {
            match &item {
                Item::Frame(frame) => {
                    frames += 1;
                    packer.frame(frame);
                }
                Item::Event(event) => drop(packer.event(event)),
            }
            if packer.is_full() {
                finish(&mut packer, out)?;
            }
        }
        finish(&mut packer, out)?;
        Ok(frames)
    }

    fn blocks_in(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = &Block> + Send {
        self.blocks.iter().filter(move |block| block.last >= *range.start() && block.first <= *range.end())
    }
}

const NO_RECORD: &str = "this is not a record";

/// The content of a file; none if it has been removed.
fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Where the blocks of a segment begin, with their heads, and how many bytes are not part of one.
fn blocks_of(bytes: &[u8]) -> (Vec<(usize, Head)>, usize) {
    let mut blocks = Vec::new();
    let mut whole = if bytes.starts_with(SEGMENT) { SEGMENT.len() } else { 0 };
    let mut from = whole;
    while let Some(at) = pack::next_block(bytes, from) {
        let head = Head::read(&bytes[at..]);
        let packed = |head: &Head| bytes[at + BLOCK_HEAD..].get(..head.packed as usize);
        match head {
            Ok(head) if packed(&head).is_some_and(|packed| head.is_of(packed)) => {
                let len = BLOCK_HEAD + head.packed as usize;
                blocks.push((at, head));
                whole += len;
                from = at + len;
            }
            // No block begins here, or it is broken.
            _ => from = at + 1,
        }
    }
    (blocks, bytes.len() - whole)
}

impl Block {
    fn entries(&self) -> Option<Arc<[u8]>> {
        match &self.place {
            Place::Entries(entries) => Some(Arc::clone(entries)),
            Place::Memory { block } => {
                let head = Head::read(block).ok()?;
                head.entries(block.get(BLOCK_HEAD..)?).ok().map(Into::into)
            }
            Place::File { path, at, head } => {
                let mut file = File::open(path).ok()?;
                file.seek(SeekFrom::Start(*at)).ok()?;
                let mut packed = Vec::new();
                file.take(u64::from(head.packed)).read_to_end(&mut packed).ok()?;
                head.entries(&packed).ok().map(Into::into)
            }
        }
    }

    fn items(&self, range: RangeInclusive<u64>) -> Items {
        let entries = self.entries().unwrap_or_default();
        Items { entries, at: 0, range, decoder: Decoder::default(), frames: 0 }
    }
}

/// The items of one block.
struct Items {
    entries: Arc<[u8]>,
    at: usize,
    range: RangeInclusive<u64>,
    decoder: Decoder,
    frames: u32,
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let entries = Arc::clone(&self.entries);
        loop {
            let mut cursor = Cursor(&entries[self.at..]);
            // An entry that is broken in spite of its checksum ends the block.
            let entry = pack::entry(&mut cursor).ok()?;
            self.at = entries.len() - cursor.0.len();
            let at = entry.at().ok()?;
            match entry {
                Entry::Event(event) if self.range.contains(&at) => return Some(Item::Event(event)),
                Entry::Event(_) => {}
                Entry::Frame(_) if self.frames == BLOCK_FRAMES_READ => return None,
                Entry::Frame(bytes) => {
                    self.frames += 1;
                    self.decoder.apply(bytes).ok()?;
                    if self.range.contains(&at) {
                        return self.decoder.frame().ok().map(Item::Frame);
                    }
                }
            }
        }
    }
}
