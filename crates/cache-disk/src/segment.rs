//! A segment: a sequence of records, and behind the last one, once the segment is full, a table of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::record::{HEADER_BYTES, Header, Kind};

const TABLE_MAGIC: [u8; 4] = *b"FbCT";
/// Bytes of an entry of the table: hash, offset, length, kind.
const ENTRY_BYTES: usize = 20;
/// Bytes at the end of the table: magic, number of entries, checksum of the table, and both combined by XOR.
const TRAILER_BYTES: usize = 16;

/// Where a record is in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) hash: u64,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// The content of a segment.
#[derive(Debug)]
pub(crate) struct Content {
    /// Entries in the order in which they were written.
    pub(crate) entries: Vec<Entry>,
    /// A part cannot be read. It may have been a removal of records in older segments.
    pub(crate) is_damaged: bool,
}

/// Reads the table of a segment, or scans its records.
pub(crate) fn read_content(file: &File, id: u64) -> io::Result<Content> {
    let len = file.metadata()?.len().min(u64::from(u32::MAX));
    if let Some(entries) = read_table(file, id, len)? {
        return Ok(Content { entries, is_damaged: false });
    }
    let (content, end) = scan(file, id, len)?;
    if content.is_damaged {
        return Ok(content);
    }
    // The rest is an incomplete record from a crash. A table spares the next start the scan; without one the
    // scan is repeated.
    if file.set_len(end).is_ok() {
        let _ = write_table(file, id, end, &content.entries);
    }
    Ok(content)
}

/// Appends the table.
pub(crate) fn write_table(file: &File, id: u64, end: u64, entries: &[Entry]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(TABLE_MAGIC.len() + entries.len() * ENTRY_BYTES + TRAILER_BYTES);
    bytes.extend(TABLE_MAGIC);
    for entry in entries {
        bytes.extend(entry.hash.to_le_bytes());
        bytes.extend(entry.offset.to_le_bytes());
        bytes.extend(entry.len.to_le_bytes());
        bytes.extend(u32::from(entry.kind as u8).to_le_bytes());
    }
    let crc = table_crc(&bytes, id);
    bytes.extend(TABLE_MAGIC);
    bytes.extend((entries.len() as u32).to_le_bytes());
    bytes.extend(crc.to_le_bytes());
    bytes.extend((crc ^ entries.len() as u32).to_le_bytes());
    file.write_all_at(&bytes, end)
}

/// None if there is no whole table.
fn read_table(file: &File, id: u64, len: u64) -> io::Result<Option<Vec<Entry>>> {
    let Some(trailer_at) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at)?;
    let word =
        |at: usize| u32::from_le_bytes([trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]]);
    let (count, crc) = (word(4), word(8));
    let table_len = (TABLE_MAGIC.len() + count as usize * ENTRY_BYTES) as u64;
    if trailer[..4] != TABLE_MAGIC || word(12) != crc ^ count || table_len > trailer_at {
        return Ok(None);
    }
    let mut table = vec![0; table_len as usize];
    file.read_exact_at(&mut table, trailer_at - table_len)?;
    if table_crc(&table, id) != crc {
        return Ok(None);
    }
    let entries: Option<Vec<_>> =
        table[TABLE_MAGIC.len()..].chunks_exact(ENTRY_BYTES).map(decode_entry).collect();
    let is_inside = |entry: &Entry| u64::from(entry.offset) + u64::from(entry.len) <= trailer_at - table_len;
    Ok(entries.filter(|entries| entries.iter().all(is_inside)))
}

fn decode_entry(bytes: &[u8]) -> Option<Entry> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some(Entry {
        hash: u64::from(word(0)) | u64::from(word(4)) << 32,
        offset: word(8),
        len: word(12),
        kind: Kind::of(bytes[16])?,
    })
}

fn table_crc(table: &[u8], id: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(table);
    hasher.finalize()
}

/// Follows the headers up to the first that is none, or whose record is not all there.
fn scan(file: &File, id: u64, len: u64) -> io::Result<(Content, u64)> {
    let mut entries = Vec::new();
    let mut is_damaged = false;
    let mut at = 0;
    let mut bytes = [0; HEADER_BYTES];
    while at + HEADER_BYTES as u64 <= len {
        file.read_exact_at(&mut bytes, at)?;
        let Some(header) = Header::decode(&bytes, id) else {
            // After a power failure an unwritten record is zeros, and of an incomplete table its beginning is
            // left.
            is_damaged = bytes != [0; HEADER_BYTES] && !bytes.starts_with(&TABLE_MAGIC);
            break;
        };
        let record_len = header.record_len();
        if at + record_len > len {
            break;
        }
        entries.push(Entry {
            kind: header.kind,
            hash: header.hash,
            offset: at as u32,
            len: record_len as u32,
        });
        at += record_len;
    }
    Ok((Content { entries, is_damaged }, at))
}

/// Reads the bytes of a record.
pub(crate) fn read_record(file: &File, offset: u32, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, u64::from(offset))?;
    Ok(bytes)
}
