//! Every bound of this crate.

/// Request series that one worker keeps: combinations of route, method, status and canary. Requests of further ones are
/// counted in `forebay_metrics_series_dropped_total`. A series takes about 700 bytes with the default buckets.
pub const SERIES_PER_WORKER_MAX: usize = 16_384;

/// Series of a worker up to which it does not matter whose they are. Those beyond are for namespaces with few: whoever fills the
/// table, others are still seen.
pub const SERIES_SHARED_MAX: usize = SERIES_PER_WORKER_MAX / 4 * 3;

/// Series that a namespace has to itself once the shared ones are in use.
pub const SERIES_PER_NAMESPACE: usize = 512;

/// Series that a worker has allocated ahead after [`Recorder::make_room`](crate::Recorder::make_room): how many it can see
/// for the first time until it makes room again.
pub const SERIES_AHEAD: usize = 256;

/// Bytes of access log that a worker collects before it hands them to the writer thread.
pub const LOG_BUFFER_BYTES: usize = 32 << 10;

/// Full access-log buffers that may wait for the writer thread. What comes in addition is dropped and counted.
pub const LOG_BUFFERS_WAITING_MAX: usize = 64;

/// Endpoints that have counters before those of endpoints that are gone are looked for outside of a scrape.
pub const ENDPOINTS_UNTIL_SWEEP: usize = 1024;
