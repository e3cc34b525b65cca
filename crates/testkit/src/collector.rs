//! A collector of spans (OTLP over gRPC), whose batches the test takes one by one.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message;

use crate::{H2Peer, H2Upstream};

/// A server. It ends with this value.
#[derive(Debug)]
pub struct Collector(H2Upstream);

/// Spans that were sent together.
#[derive(Debug)]
pub struct Batch {
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Spans in the order of their arrival.
    pub spans: Vec<Span>,
    peer: H2Peer,
}

/// A span, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the span.
    pub name: String,
    /// In hexadecimal digits.
    pub trace_id: String,
    /// In hexadecimal digits.
    pub span_id: String,
    /// In hexadecimal digits; empty for one that begins a trace.
    pub parent: String,
    /// As `tracestate` has it.
    pub trace_state: String,
    /// Whether its kind is that of a server.
    pub is_server: bool,
    /// Whether it failed.
    pub is_error: bool,
    /// When it began and ended, in nanoseconds since 1970.
    pub time: (u64, u64),
    /// Attributes, sorted by name.
    pub attributes: Vec<(String, String)>,
}

impl Collector {
    /// Listens at a free port.
    pub fn start() -> Self {
        Self(H2Upstream::clear())
    }

    /// Address of the collector.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Waits for the next batch and takes it. It is not answered yet.
    pub fn accept(&self) -> Batch {
        let mut peer = self.0.accept_request();
        assert_eq!(peer.request.uri().path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        let (body, _) = peer.body.read_to_end();
        // A message of gRPC begins with a flag for compression and its length.
        let request = ExportTraceServiceRequest::decode(&body[5..]).expect("it is one");
        let resource = request.resource_spans.iter().flat_map(|one| &one.resource);
        let resource = resource.flat_map(|resource| texts(&resource.attributes)).collect();
        let scopes = request.resource_spans.iter().flat_map(|one| &one.scope_spans);
        let spans = scopes.flat_map(|scope| &scope.spans).map(Span::of).collect();
        Batch { resource, spans, peer }
    }

    /// Takes the next batch, and answers that it has been taken.
    pub fn take(&self) -> Vec<Span> {
        let mut batch = self.accept();
        batch.confirm();
        batch.spans
    }

    /// Whether no batch is waiting.
    pub fn is_left_alone(&self) -> bool {
        self.0.is_left_alone()
    }
}

impl Batch {
    /// Answers that it has been taken.
    pub fn confirm(&mut self) {
        let mut sender = self.peer.respond(200, &[("content-type", "application/grpc")], false);
        sender.send(&[0_u8; 5][..], false);
        sender.send_trailers(&[("grpc-status", "0")]);
    }
}

impl Span {
    fn of(span: &otlp::Span) -> Self {
        let mut attributes = texts(&span.attributes);
        attributes.sort();
        Self {
            name: span.name.clone(),
            trace_id: hex(&span.trace_id),
            span_id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            trace_state: span.trace_state.clone(),
            is_server: span.kind() == otlp::span::SpanKind::Server,
            is_error: span
                .status
                .as_ref()
                .is_some_and(|status| status.code() == otlp::status::StatusCode::Error),
            time: (span.start_time_unix_nano, span.end_time_unix_nano),
            attributes,
        }
    }

    /// An attribute of the span.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |value: &AnyValue| match value.value.as_ref() {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pair = |one: &KeyValue| (one.key.clone(), one.value.as_ref().map(text).unwrap_or_default());
    attributes.iter().map(pair).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
