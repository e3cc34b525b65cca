//! The span of a request that is traced, and what others are told of it (W3C Trace Context).
//!
//! Never in here: what becomes of the span when the request is over, which is `record`'s.

use std::borrow::Cow;

use clock::Random;
use model::{TraceShare, Tracing};
use wire::h1::Request;
use wire::trace_context::{LEN, TraceContext};

use crate::request::head::HeadEdits;
use crate::request::lookup;

/// A span on its way. On the heap, since most requests have none.
pub(crate) struct Trace<'a> {
    /// How it is traced.
    pub(crate) tracing: &'a Tracing,
    /// The span and its trace.
    pub(crate) context: TraceContext,
    /// The client's span, where it is believed.
    pub(crate) parent: Option<[u8; 8]>,
    /// `traceparent` as endpoints are told.
    pub(crate) traceparent: [u8; LEN],
}

impl<'a> Trace<'a> {
    /// Begins the span of a request: as a part of the client's trace where there is one that counts, or as
    /// the first of a trace.
    pub(crate) fn begin(tracing: &'a Tracing, head: &[u8], request: &Request, random: &Random) -> Self {
        let incoming = if tracing.trusts_client { incoming(head, request) } else { None };
        let trace_id = incoming.map_or_else(|| random.id(), |parent| parent.trace_id);
        let sampler = tracing.sampler;
        let is_sampled = match incoming {
            Some(parent) if sampler.follows_parent => parent.is_sampled(),
            _ => sampler.share.contains(trace_id),
        };
        let [span_id @ .., _, _, _, _, _, _, _, _] = random.id();
        let flags = incoming.map_or(u8::from(is_sampled), |parent| parent.flags_of_child(is_sampled));
        let context = TraceContext { trace_id, span_id, flags };
        let parent = incoming.map(|parent| parent.span_id);
        Self { tracing, context, parent, traceparent: context.write() }
    }

    /// Whether the span is sent, where that is the same for every such request; none where it is a matter of
    /// the trace's number, which is made up.
    pub(crate) fn is_sent(&self) -> Option<bool> {
        let share = self.tracing.sampler.share;
        let is_settled = self.parent.is_some() || share == TraceShare::ALL || share == TraceShare::NONE;
        is_settled.then(|| self.context.is_sampled())
    }

    /// `traceparent` with what is the same for every such request.
    pub(crate) fn known(&self) -> String {
        const MADE: &str = "(made for each request)";
        let text = String::from_utf8_lossy(&self.traceparent);
        let parts: Vec<_> = text.split('-').collect();
        let [version, trace, _, flags] = *parts.as_slice() else { return MADE.to_owned() };
        let trace = if self.parent.is_some() { trace } else { MADE };
        let flags = if self.is_sent().is_some() { flags } else { "(by chance 00 or 01)" };
        format!("{version}-{trace}-{MADE}-{flags}")
    }

    /// Tells an endpoint. What the client says of another trace does not pass.
    pub(crate) fn tell<'e>(&'e self, edits: &mut HeadEdits<'e>) {
        edits.set("traceparent", &self.traceparent[..]);
        if self.parent.is_none() {
            edits.remove("tracestate");
        }
    }

    /// The client's `tracestate`, in which vendors describe its trace; it is passed on as it came.
    pub(crate) fn state<'h>(&self, head: &'h [u8], request: &Request) -> Option<Cow<'h, [u8]>> {
        self.parent.and_then(|_| lookup::header(head, request, b"tracestate"))
    }
}

/// The client's span. More than one is none: their values, joined, are malformed.
fn incoming(head: &[u8], request: &Request) -> Option<TraceContext> {
    TraceContext::parse(&lookup::header(head, request, b"traceparent")?)
}
