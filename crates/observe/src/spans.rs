//! Spans of traced requests, on their way from the workers to a collector (OpenTelemetry).
//!
//! A worker leaves the values of a request in a bounded queue and goes on; what cannot be left there is dropped and counted. A thread of
//! its own makes spans of them and sends them, and waits for the collector alone.

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
    /// The trace that it is part of.
    pub trace_id: [u8; 16],
    /// The span itself.
    pub span_id: [u8; 8],
    /// The client's span, where it is part of the client's trace.
    pub parent: Option<[u8; 8]>,
    /// Flags of `traceparent`.
    pub flags: u8,
    /// `tracestate` of the client's trace; empty where there is none.
    pub trace_state: Vec<u8>,
    /// When the request began, since 1970.
    pub begin: Duration,
    /// When its response ended, since 1970.
    pub end: Duration,
    /// Method.
    pub method: Vec<u8>,
    /// Request target with its query.
    pub target: Vec<u8>,
    /// The host asked for.
    pub host: Vec<u8>,
    /// `User-Agent`.
    pub user_agent: Option<Vec<u8>>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Version of HTTP, such as `1.1`.
    pub flavor: &'static str,
    /// The labels of the route; none where no route took the request.
    pub labels: Option<Arc<Labels>>,
    /// Status sent.
    pub status: u16,
    /// The client's address.
    pub client: IpAddr,
    /// Port of the peer.
    pub client_port: u16,
    /// Port that the client connected to.
    pub server_port: u16,
}
