//! Figures of the cache for reports.

use super::CacheResult;

/// Cache totals of the routes of an Ingress and a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTotals {
    /// Namespace of the Ingress.
    pub namespace: String,
    /// Name of the Ingress.
    pub ingress: String,
    /// The Service behind the routes.
    pub service: String,
    /// Requests by [`CacheResult`].
    pub counts: [u64; CacheResult::ALL.len()],
}

/// Figures of a cache on disk. Counters grow until the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Bytes of all files.
    pub bytes: u64,
    /// The limit on their size.
    pub bytes_max: u64,
    /// URLs with stored responses.
    pub objects: u64,
    /// Records that were read.
    pub hits: u64,
    /// Records that were written.
    pub writes: u64,
    /// Records that were not written.
    pub dropped: u64,
    /// Records that were evicted.
    pub evictions: u64,
    /// Writes that the system refused.
    pub write_errors: u64,
    /// Records whose content differed from the written one.
    pub read_errors: u64,
    /// The file system has no room.
    pub full: bool,
    /// The index is still being read.
    pub loading: bool,
}
