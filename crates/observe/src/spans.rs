//! Spans of traced requests, on their way from the workers to a collector (OpenTelemetry).
//!
//! A worker puts the values of a request into a bounded queue and goes on; values without room are dropped
//! and counted. A thread of its own turns them into spans and sends them, and only this thread waits for the
//! collector.

mod exporter;
mod otlp;
mod queue;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use model::Labels;

pub use exporter::SpanExporter;
pub use queue::SpanSink;

/// The values of a traced request. Texts are as the client sent them.
#[derive(Clone, Debug)]
pub struct Span {
    /// Name of the span.
    pub name: Vec<u8>,
    /// The trace that contains the span.
    pub trace_id: [u8; 16],
    /// The id of the span itself.
    pub span_id: [u8; 8],
    /// The client's span, if the trace is the client's.
    pub parent: Option<[u8; 8]>,
    /// Flags of `traceparent`.
    pub flags: u8,
    /// `tracestate` of the client's trace; empty if the client sent none.
    pub trace_state: Vec<u8>,
    /// The time at which the request began, since 1970.
    pub begin: Duration,
    /// The time at which its response ended, since 1970.
    pub end: Duration,
    /// Method of the request.
    pub method: Vec<u8>,
    /// Request target with its query.
    pub target: Vec<u8>,
    /// The requested host.
    pub host: Vec<u8>,
    /// The client's `User-Agent`.
    pub user_agent: Option<Vec<u8>>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Version of HTTP, such as `1.1`.
    pub flavor: &'static str,
    /// The labels of the route; none if no route matched the request.
    pub labels: Option<Arc<Labels>>,
    /// Status sent to the client.
    pub status: u16,
    /// The client's address.
    pub client: IpAddr,
    /// Port of the peer.
    pub client_port: u16,
    /// Port that the client connected to.
    pub server_port: u16,
}
