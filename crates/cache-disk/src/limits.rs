//! Bounds of the disk tier.

/// Bytes of a segment in a big folder. A segment is the unit that is removed if there is no room.
pub(crate) const SEGMENT_BYTES_MAX: u32 = 64 << 20;
/// Bytes of a segment in a small folder, and so of a record there.
pub(crate) const SEGMENT_BYTES_MIN: u32 = 1 << 20;
/// Least number of segments of a folder, so that only a small part is removed at once.
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
/// Purges of whole labels, such as URLs and tags, that are kept until the records they match are gone. Each
/// read costs a look into a table. Beyond this number, all records older than half of the purges are dropped.
pub(crate) const PURGED_LABELS_MAX: usize = 20_000;
/// The same of beginnings of labels: each is compared with each record that is read.
pub(crate) const PURGED_PREFIXES_MAX: usize = 1000;
/// The part of a new segment that may be filled with hot records of the old one: one byte in so many.
pub(crate) const KEPT_SHARE: u64 = 2;
/// Pause of all writes after the disk refused one.
pub(crate) const REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);
/// Bytes of a record's labels, each with two bytes of length.
pub(crate) const LABELS_BYTES_MAX: usize = 64 << 10;
/// Removals and purges that are brought to the disk at once while orders keep coming.
pub(crate) const SYNCED_TOGETHER_MAX: u32 = 256;
/// Time between two looks whether the predecessor has given its folder up.
pub(crate) const STANDBY_LOOK: std::time::Duration = std::time::Duration::from_millis(50);
