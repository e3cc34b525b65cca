//! Bounds of the disk tier.

/// Bytes of a segment in a big folder. A segment is what goes at once when there is no room.
pub(crate) const SEGMENT_BYTES_MAX: u32 = 64 << 20;
/// Bytes of a segment in a small folder, and so of a record there.
pub(crate) const SEGMENT_BYTES_MIN: u32 = 1 << 20;
/// Segments that a folder should have at least, so that little goes at once.
pub(crate) const SEGMENTS_WANTED: u64 = 32;
/// Segments that a folder may have, each an open file. Starts that soon end leave short ones behind.
pub(crate) const SEGMENTS_MAX: usize = 4096;
/// Bytes of records that may wait to be written.
pub(crate) const QUEUED_BYTES_MAX: u64 = 64 << 20;
/// Records that may wait to be read; one more is a miss.
pub(crate) const READS_WAITING_MAX: usize = 256;
/// Entries of a segment that are added to the index at once after a start, while callers wait for its lock.
pub(crate) const LOADED_TOGETHER_MAX: usize = 1000;
/// Threads that read.
pub(crate) const READERS: usize = 4;
/// Purges of whole labels, such as URLs and tags, that are remembered until what they are about is gone. Each record that is read costs a look at a table.
/// One more, and all that is older than half of them goes.
pub(crate) const PURGED_LABELS_MAX: usize = 20_000;
/// The same of beginnings of labels: each is compared with each record that is read.
pub(crate) const PURGED_PREFIXES_MAX: usize = 1000;
/// The part of a new segment that may be filled with what is kept of an old one: one in so many bytes.
pub(crate) const KEPT_SHARE: u64 = 2;
/// How long nothing is written after the disk refused.
pub(crate) const REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);
/// Bytes of a record's labels, each with two bytes of length.
pub(crate) const LABELS_BYTES_MAX: usize = 64 << 10;
/// Removals and purges that are brought to the disk at once while orders keep coming.
pub(crate) const SYNCED_TOGETHER_MAX: u32 = 256;
