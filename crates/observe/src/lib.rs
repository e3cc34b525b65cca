//! What a worker tells about its requests: counters and histograms, upstream counters, reasons, the access log.
//!
//! Each worker writes cells of its own with plain loads and stores; a scrape reads the cells of all workers and adds them
//! up. Where memory is needed, it is allocated ahead, between requests: [`Recorder::make_room`].
//!
//! Never in here: a lock or an allocation while a request is recorded; reading a clock; IO, but for the access log's
//! writer thread, which writes to what it is given.

#[macro_use]
mod table;

pub mod access;
pub mod limits;
pub mod log;
mod metrics;
mod reason;

pub use metrics::names::{Kind, METRICS, Metric};
pub use metrics::{
    BuildInfo, CONTENT_TYPE, Controller, Counter, EndpointCells, Failure, Gauge, Handshake, LocalCounter,
    Method, MetricsOptions, PortCells, Process, Recorder, Registry, Sample, StreamCells, StreamCounter,
    StreamName, UpstreamSample,
};
pub use reason::{Reason, Side};
