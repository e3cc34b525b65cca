//! Metrics of TCP and UDP services.

use std::sync::Arc;

use super::super::lock;
use super::super::names;
use super::super::registry::Registry;
use super::super::stream::{StreamCounter, StreamName};
use super::{Page, labels, push_label};

impl Registry {
    /// Writes the first so many streams by name.
    pub(super) fn encode_streams(&self, page: &mut Page<'_>, max: usize) {
        let (streams, responses) = {
            let mut streams = lock(&self.streams);
            streams.sweep();
            (streams.totals(), Arc::clone(&streams.responses))
        };
        let streams: Vec<(String, Vec<u64>)> =
            streams.iter().take(max).map(|(name, totals)| (stream_labels(name), totals.clone())).collect();
        for (metric, counter) in [
            (&names::STREAM_OPENED, StreamCounter::Opened),
            (&names::STREAM_ACTIVE, StreamCounter::Active),
            (&names::STREAM_EVICTED, StreamCounter::Evicted),
            (&names::STREAM_LISTEN_FAILURES, StreamCounter::ListenFailures),
        ] {
            page.family(metric);
            for (labels, totals) in &streams {
                page.sample(metric.name, labels, totals[counter as usize]);
            }
        }
        page.family(&names::STREAM_BYTES);
        for (labels, totals) in &streams {
            for direction in [StreamCounter::BytesReceived, StreamCounter::BytesSent] {
                let mut labels = labels.clone();
                push_label(&mut labels, "direction", direction.name());
                page.sample(names::STREAM_BYTES.name, &labels, totals[direction as usize]);
            }
        }
        page.family(responses.metric);
        for (labels, totals) in &streams {
            page.histogram(&responses, labels, totals);
        }
        page.family(&names::STREAM_OVER_THRESHOLD);
        for (labels, totals) in &streams {
            let answers: u64 = responses.buckets(totals).iter().sum();
            let over = totals[StreamCounter::OverThreshold as usize] as f64;
            let share = if answers == 0 { 0.0 } else { over / answers as f64 };
            page.sample(names::STREAM_OVER_THRESHOLD.name, labels, share);
        }
    }
}

fn stream_labels(name: &StreamName) -> String {
    let port = name.port.to_string();
    labels(&[
        ("protocol", name.protocol),
        ("port", &port),
        ("namespace", &name.namespace),
        ("service", &name.service),
    ])
}
