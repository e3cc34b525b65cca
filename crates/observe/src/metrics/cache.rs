//! Figures of the cache as they are told.

use super::CacheResult;

/// What a cache did for the requests to the routes of an Ingress and a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTotals {
    /// Of the Ingress.
    pub namespace: String,
    /// Of the Ingress.
    pub ingress: String,
    /// What the routes lead to.
    pub service: String,
    /// Requests by [`CacheResult`].
    pub counts: [u64; CacheResult::ALL.len()],
}

/// Figures of a cache on disk; those that count go on until the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Of all files.
    pub bytes: u64,
    /// What they may take.
    pub bytes_max: u64,
    /// URLs of which responses are found.
    pub objects: u64,
    /// Records that were read.
    pub hits: u64,
    /// Records that were written.
    pub writes: u64,
    /// Records that were not written.
    pub dropped: u64,
    /// Records that had to go.
    pub evictions: u64,
    /// Times that the system refused to write.
    pub write_errors: u64,
    /// Records that were not what had been written.
    pub read_errors: u64,
    /// The file system has no room.
    pub full: bool,
    /// The index is still read back.
    pub loading: bool,
}
