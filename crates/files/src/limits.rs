//! Every bound, with name and unit.

use std::time::Duration;

/// Time for which a cached lookup is valid. The kernel's events would report changes at once, but not those
/// of a network file system or of a symbolic link on the way, and they are limited in number.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest file that is cached in memory, in bytes; a longer one is sent from its descriptor.
pub const MEMORY_FILE_BYTES_MAX: u64 = 64 << 10;
/// Bytes that a cache entry costs beside its name and content.
pub const MEMORY_ENTRY_BYTES: u64 = 512;
/// Files that are kept open, by all workers together.
pub const OPEN_FILES_MAX: usize = 256;
/// Bytes of the longest name that is looked for, the folder's included.
pub const PATH_BYTES_MAX: usize = 4000;
/// Bytes of the longest element of a name, as of most file systems.
pub const ELEMENT_BYTES_MAX: usize = 255;
/// Entries of a folder that are listed.
pub const LISTED_ENTRIES_MAX: usize = 10_000;
/// Times that a name is looked up whose folders are being renamed.
pub const LOOKUPS_MAX: usize = 8;
/// Times that a file which changes while it is read is read again.
pub const READS_MAX: usize = 3;
