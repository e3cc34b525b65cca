//! Tracing: which requests become spans, and the collector that gets them.

use std::time::Duration;

use serde::Serialize;

use crate::template::Template;

/// How requests are traced (OpenTelemetry).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tracing {
    /// Name of the spans; none for the route's path.
    pub operation: Option<Template>,
    /// The client's span becomes the parent (`traceparent` of W3C Trace Context). Otherwise each request
    /// begins a trace.
    pub trusts_client: bool,
    /// Selects the spans that are sent.
    pub sampler: Sampler,
}

/// Selects the spans that are sent, by trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sampler {
    /// How many of the traces.
    pub share: TraceShare,
    /// Follow the sampling decision of the parent span, if there is one.
    pub follows_parent: bool,
}

/// A share of all traces, from none to all. The decision depends only on the share and the trace's id, so
/// that several proxies decide alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TraceShare(u64);

/// Where spans are sent (OTLP over gRPC, in clear), and how many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanExport {
    /// Name or address of the collector.
    pub host: String,
    /// Port of the collector.
    pub port: u16,
    /// Name of this service in spans.
    pub service: String,
    /// Spans that may wait to be sent; further ones are dropped.
    pub queue_max: usize,
    /// Spans that are sent at once.
    pub batch_max: usize,
    /// Longest time that a span waits before it is sent.
    pub delay: Duration,
}

impl TraceShare {
    /// Samples every trace.
    pub const ALL: Self = Self(1 << 63);
    /// Samples no trace.
    pub const NONE: Self = Self(0);

    /// A ratio from 0 to 1; none for other numbers.
    pub fn of(ratio: f64) -> Option<Self> {
        let is_share = (0.0..=1.0).contains(&ratio);
        #[expect(clippy::cast_sign_loss, reason = "it is not below 0")]
        is_share.then_some(Self((ratio * Self::ALL.0 as f64) as u64))
    }

    /// The ratio, from 0 to 1.
    pub fn ratio(self) -> f64 {
        self.0 as f64 / Self::ALL.0 as f64
    }

    /// Whether a trace is part of it: the last eight bytes of its id are random, and compared with as large a
    /// part of their range, as in the SDKs of OpenTelemetry.
    pub fn contains(self, trace_id: [u8; 16]) -> bool {
        (u128::from_be_bytes(trace_id) as u64) >> 1 < self.0
    }
}

impl Default for Tracing {
    fn default() -> Self {
        Self { operation: None, trusts_client: true, sampler: Sampler::default() }
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self { share: TraceShare::ALL, follows_parent: true }
    }
}

impl Default for SpanExport {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: 4317,
            service: "nginx".to_owned(),
            queue_max: 2048,
            batch_max: 512,
            delay: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A larger share samples all traces of a smaller one.
        #[test]
        fn a_larger_share_holds_a_smaller_one(ratio in 0.0..=1.0, other in 0.0..=1.0, id: [u8; 16]) {
            let (smaller, larger) = (f64::min(ratio, other), f64::max(ratio, other));
            let contains = |ratio| TraceShare::of(ratio).unwrap().contains(id);
            prop_assert!(!contains(smaller) || contains(larger));
            prop_assert!(contains(1.0) && !contains(0.0));
        }
    }

    #[test]
    fn a_share_has_as_many_traces() {
        let ids = (0..1000_u64).map(|number| {
            let mut id = [0xff; 16];
            id[8..].copy_from_slice(&(number * (u64::MAX / 1000)).to_be_bytes());
            id
        });
        for (ratio, count) in [(0.0, 0), (0.01, 10), (0.5, 500), (1.0, 1000)] {
            let share = TraceShare::of(ratio).unwrap();
            let contained = ids.clone().filter(|&id| share.contains(id)).count();
            assert!(contained.abs_diff(count) <= 1, "{ratio}: {contained}");
        }
        assert_eq!(
            (TraceShare::of(0.0), TraceShare::of(1.0)),
            (Some(TraceShare::NONE), Some(TraceShare::ALL))
        );
        assert!(TraceShare::ALL.contains([0xff; 16]) && !TraceShare::NONE.contains([0; 16]));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(TraceShare::of(ratio), None);
        }
    }
}
