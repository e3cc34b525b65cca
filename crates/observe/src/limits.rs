//! Every bound of this crate.

use std::time::Duration;

/// Most request series of one worker: combinations of route, method, status and canary. A request of a
/// further combination is counted in `forebay_metrics_series_dropped_total` instead. A series takes about
/// 1,100 bytes with the default buckets.
pub const SERIES_PER_WORKER_MAX: usize = 16_384;

/// Series of a worker that all namespaces share. The rest is reserved for namespaces with few series, so that
/// one namespace which fills the table does not hide the others.
pub const SERIES_SHARED_MAX: usize = SERIES_PER_WORKER_MAX / 4 * 3;

/// Series that each namespace may have once the shared ones are used up.
pub const SERIES_PER_NAMESPACE: usize = 512;

/// Series that a worker has allocated in advance after [`Recorder::make_room`](crate::Recorder::make_room):
/// the number of new combinations that it can record until it makes room again.
pub const SERIES_AHEAD: usize = 256;

/// Bytes of access log that a worker collects before it passes them to the writer thread.
pub const LOG_BUFFER_BYTES: usize = 32 << 10;

/// Most bytes of a text with the values of a request; the rest is cut off. Each value is part of a head,
/// which is shorter.
pub const TEXT_BYTES_MAX: usize = 256 << 10;

/// Full access-log buffers that may wait for the writer thread. Further ones are dropped and counted.
pub const LOG_BUFFERS_WAITING_MAX: usize = 64;

/// Number of endpoints with counters above which those of removed endpoints are also cleared outside of a
/// scrape.
pub const ENDPOINTS_UNTIL_SWEEP: usize = 1024;

/// Timeout of sending a batch of spans to a collector; OpenTelemetry's default. A batch that the collector
/// has not accepted by then is dropped.
pub const SPAN_EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for sending the waiting spans when the proxy ends.
pub const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Most bytes of a text in a span, such as the request's target; the rest is cut off. So the memory of
/// waiting spans depends only on their number, whatever clients send.
pub const SPAN_TEXT_BYTES_MAX: usize = 4096;

/// The most concurrent viewers of the live tail: each request is compared with the filter of each viewer.
pub const TAIL_WATCHERS_MAX: usize = 8;

/// The most requests that are stored for a viewer until it takes them. Further ones are only counted.
pub const TAIL_KEPT_MAX: usize = 100;

/// The most words of a filter.
pub const TAIL_WORDS_MAX: usize = 16;

/// The most refused requests of firewalls that are kept for the console.
pub const REFUSALS_MAX: usize = 200;

/// The most matches of a refused request that are kept.
pub const REFUSAL_MATCHES_MAX: usize = 16;

/// The most bytes of a host or path that are shown.
pub const TAIL_TEXT_BYTES_MAX: usize = 512;
