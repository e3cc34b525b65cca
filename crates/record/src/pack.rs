//! The form of entries in a tail, and of blocks in a segment.
//!
//! A tail is its head and entries: checksum, length, kind, bytes. A segment is its head and blocks: a block
//! has a head with its own checksum, so that a reader can skip the block, and the compressed entries of one
//! tail, without checksums of their own. A reader that meets broken bytes looks for the next block.

use crate::bytes::{Broken, Cursor, put, put_text};
use crate::frame::Event;
use crate::limits::{BLOCK_BYTES_READ, LEVEL};

/// The first bytes of a tail; the last one is the version of the form.
pub(crate) const TAIL: &[u8; 8] = b"FBTAIL\n\x01";

/// The first bytes of a segment and of an exported file.
pub(crate) const SEGMENT: &[u8; 8] = b"FBRECO\n\x01";

/// The first bytes of a block.
const BLOCK: &[u8; 4] = b"FBBK";

/// Bytes of a block before the compressed ones.
pub(crate) const BLOCK_HEAD: usize = 4 + 8 * 4 + 4 * 4 + 4;

const FRAME: u8 = 1;
const EVENT: u8 = 2;

/// A tail, among all: when its process began to record, and the tail's number in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TailId {
    pub(crate) run: u64,
    pub(crate) number: u64,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The tail whose entries it holds.
    pub(crate) tail: TailId,
    /// Times of its first and its last entry.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Frames in it.
    pub(crate) frames: u32,
    /// Bytes of its entries.
    len: u32,
    /// Bytes of its entries when they are compressed, and their checksum.
    pub(crate) packed: u32,
    checksum: u32,
}

/// One entry: a frame's bytes for a decoder, or an event.
#[derive(Clone, Debug)]
pub(crate) enum Entry<'a> {
    Frame(Cursor<'a>),
    Event(Event),
}

/// Appends the entry of a frame, whose bytes a coder made.
pub(crate) fn put_frame(out: &mut Vec<u8>, frame: &[u8]) {
    put(out, frame.len() as u64 + 1);
    out.push(FRAME);
    out.extend_from_slice(frame);
}

/// Appends the entry of an event.
pub(crate) fn put_event(out: &mut Vec<u8>, event: &Event) {
    let mut bytes = vec![EVENT];
    put(&mut bytes, event.at);
    for text in [&event.kind, &event.object, &event.text] {
        put_text(&mut bytes, text.as_bytes());
    }
    put_text(out, &bytes);
}

/// The next of a block's entries, and where it ends.
pub(crate) fn entry<'a>(bytes: &mut Cursor<'a>) -> Result<Entry<'a>, Broken> {
    let mut entry = Cursor(bytes.text()?);
    match entry.byte()? {
        FRAME => Ok(Entry::Frame(entry)),
        EVENT => {
            let at = entry.number()?;
            let mut text = || entry.text().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            Ok(Entry::Event(Event { at, kind: text()?, object: text()?, text: text()? }))
        }
        _ => Err(Broken),
    }
}

impl Entry<'_> {
    /// The time of the entry.
    pub(crate) fn at(&self) -> Result<u64, Broken> {
        match self {
            Self::Frame(frame) => { *frame }.number(),
            Self::Event(event) => Ok(event.at),
        }
    }
}

/// An entry as a tail has it: its checksum before it.
pub(crate) fn with_checksum(entry: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entry.len() + 4);
    bytes.extend(crc32fast::hash(entry).to_le_bytes());
    bytes.extend_from_slice(entry);
    bytes
}

/// The entries of a tail, as a block has them, and whether all of its bytes are entries.
pub(crate) fn entries_of_tail(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut entries = Vec::new();
    let mut cursor = Cursor(bytes);
    while !cursor.is_empty() {
        let mut next = || -> Result<(), Broken> {
            let checksum = cursor.u32()?;
            let begin = cursor.0;
            cursor.text()?;
            let whole = &begin[..begin.len() - cursor.0.len()];
            if crc32fast::hash(whole) != checksum {
                return Err(Broken);
            }
            entries.extend_from_slice(whole);
            Ok(())
        };
        if next().is_err() {
            return (entries, false);
        }
    }
    (entries, true)
}

/// The entries of a tail as a block; none if there are none.
pub(crate) fn block(tail: TailId, entries: &[u8]) -> std::io::Result<Option<(Head, Vec<u8>)>> {
    let Some((first, last, frames)) = times(entries) else { return Ok(None) };
    let packed = zstd::bulk::compress(entries, LEVEL)?;
    let head = Head {
        tail,
        first,
        last,
        frames,
        len: entries.len() as u32,
        packed: packed.len() as u32,
        checksum: crc32fast::hash(&packed),
    };
    let mut bytes = head.bytes();
    bytes.extend_from_slice(&packed);
    Ok(Some((head, bytes)))
}

/// The first and the last time of entries, and how many are frames.
pub(crate) fn times(entries: &[u8]) -> Option<(u64, u64, u32)> {
    let mut cursor = Cursor(entries);
    let mut times: Option<(u64, u64, u32)> = None;
    while let Ok(entry) = entry(&mut cursor) {
        let Ok(at) = entry.at() else { break };
        let (first, last, frames) = times.unwrap_or((at, at, 0));
        let is_frame = matches!(entry, Entry::Frame(_));
        times = Some((first.min(at), last.max(at), frames + u32::from(is_frame)));
    }
    times
}

impl Head {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = BLOCK.to_vec();
        for number in [self.tail.run, self.tail.number, self.first, self.last] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.frames, self.len, self.packed, self.checksum] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a head.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let bytes = bytes.get(..BLOCK_HEAD).ok_or(Broken)?;
        let mut cursor = Cursor(bytes);
        if cursor.take(4)? != BLOCK {
            return Err(Broken);
        }
        let tail = TailId { run: cursor.u64()?, number: cursor.u64()? };
        let head = Self {
            tail,
            first: cursor.u64()?,
            last: cursor.u64()?,
            frames: cursor.u32()?,
            len: cursor.u32()?,
            packed: cursor.u32()?,
            checksum: cursor.u32()?,
        };
        let is_whole = cursor.u32()? == crc32fast::hash(&bytes[..BLOCK_HEAD - 4]);
        if is_whole { Ok(head) } else { Err(Broken) }
    }

    /// Whether these are the compressed bytes that the head is about.
    pub(crate) fn is_of(&self, packed: &[u8]) -> bool {
        packed.len() == self.packed as usize && crc32fast::hash(packed) == self.checksum
    }

    /// Decompresses the entries of the block.
    pub(crate) fn entries(&self, packed: &[u8]) -> Result<Vec<u8>, Broken> {
        let len = usize::try_from(self.len).ok().filter(|len| *len <= BLOCK_BYTES_READ).ok_or(Broken)?;
        if !self.is_of(packed) {
            return Err(Broken);
        }
        let entries = zstd::bulk::decompress(packed, len).map_err(|_| Broken)?;
        if entries.len() == len { Ok(entries) } else { Err(Broken) }
    }
}

/// Where the next block may begin, from here on.
pub(crate) fn next_block(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(BLOCK.len()).position(|window| window == BLOCK).map(|at| from + at)
}
