//! Spans in the form of OTLP.
//!
//! The attributes are those of `otel_ngx_module` (opentelemetry-cpp-contrib), which ingress-nginx loads: the
//! names of OpenTelemetry's semantic conventions for HTTP before version 1.21. These conventions also define
//! that a response of 5xx is an error.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::Span;

/// The instrumentation's name in the spans.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("forebay").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// A span to be sent.
pub(super) fn span_data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let attributes = attributes(&span);
    let trace_state = text(span.trace_state).parse::<TraceState>().unwrap_or_default();
    let status = if span.status >= 500 { Status::error("") } else { Status::Unset };
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(span.trace_id),
            SpanId::from_bytes(span.span_id),
            TraceFlags::new(span.flags),
            false,
            trace_state,
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: span.parent.is_some(),
        span_kind: SpanKind::Server,
        name: Cow::Owned(text(span.name)),
        start_time: UNIX_EPOCH + span.begin,
        end_time: UNIX_EPOCH + span.end,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: scope.clone(),
    }
}

fn attributes(span: &Span) -> Vec<KeyValue> {
    let server_name = span.labels.as_ref().map_or("_", |labels| labels.host());
    let mut attributes = vec![
        KeyValue::new("http.method", lossy(&span.method)),
        KeyValue::new("http.flavor", span.flavor),
        KeyValue::new("http.target", lossy(&span.target)),
        KeyValue::new("http.server_name", server_name.to_owned()),
        KeyValue::new("http.host", lossy(&span.host)),
        KeyValue::new("http.status_code", i64::from(span.status)),
        KeyValue::new("http.scheme", span.scheme),
        KeyValue::new("net.host.port", i64::from(span.server_port)),
        KeyValue::new("net.peer.ip", span.client.to_string()),
        KeyValue::new("net.peer.port", i64::from(span.client_port)),
    ];
    attributes.extend(span.user_agent.as_ref().map(|agent| KeyValue::new("http.user_agent", lossy(agent))));
    attributes
}

/// Converts to UTF-8, which OTLP requires of texts and clients do not guarantee.
fn lossy(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes).into_owned())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
