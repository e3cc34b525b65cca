//! Records of workers about requests: counters and histograms, counters of upstreams, reasons of faults, the
//! access log.
//!
//! Each worker writes its own cells with plain loads and stores; a scrape reads the cells of all workers and
//! adds them up. Memory is allocated in advance, between requests: [`Recorder::make_room`].
//!
//! Never in here: a lock or an allocation while a request is recorded, but for the spans of traced ones, for
//! those that a firewall refuses ([`refusals`]), and while a client watches requests ([`tail`]); reading a
//! clock; IO, except for the threads that write the access log and send spans.

#[macro_use]
mod table;

pub mod access;
pub mod limits;
pub mod log;
mod metrics;
mod reason;
pub mod refusals;
pub mod spans;
pub mod tail;

pub use metrics::names::{Kind, METRICS, Metric};
pub use metrics::{
    AuthzResult, BriefReader, BuildInfo, CONTENT_TYPE, CacheResult, CacheTotals, CanaryFigures, CheckFault,
    ClusterOverload, CodingCells, Controller, Counter, DiskFigures, EndpointCells, EndpointOverload,
    EndpointSums, EndpointTotals, Failure, FirewallResult, Gauge, GuardFigure, Handshake, HeapPages, Judged,
    LocalCounter, Method, MetricsOptions, Orphan, OverloadCells, PRIORITIES, PortCells, PortTotals, Process,
    ProcessorResult, Recoding, Recorder, Registry, RelayFigures, Sample, SeriesChange, SeriesReader, Served,
    Shortage, SignIns, StreamCells, StreamCounter, StreamName, StreamTotals, UpstreamSample, Wait, Waits,
    latency_bounds,
};
pub use reason::{Reason, Side};
