//! ingress-nginx's old summary of the time that connections to upstreams take: its dashboard for requests and
//! the canary analysis of other tools read its sum and its count.
//!
//! Never in here: quantiles. They would need a record for each request, and cannot be combined across
//! replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::local_counter::LocalCounter;
use super::super::names;
use super::super::registry::Registry;
use super::super::series::Identity;
use super::super::worker_cells::WorkerCells;
use super::{Page, push_label};

/// Nanoseconds, and the number of connections in the sum.
type SumAndCount = (u64, u64);

impl Registry {
    pub(super) fn encode_latency(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        let histogram = &self.layout.connect_duration;
        let mut merged = BTreeMap::<String, SumAndCount>::new();
        for series in workers.iter().flat_map(|worker| worker.series()) {
            let Some(identity) = series.identity() else { continue };
            let cells: Vec<u64> = series.cells.iter().map(LocalCounter::get).collect();
            let count: u64 = histogram.buckets(&cells).iter().sum();
            if count > 0 {
                let total = merged.entry(self.latency_labels(&identity)).or_default();
                *total = (total.0.wrapping_add(histogram.sum(&cells)), total.1.wrapping_add(count));
            }
        }
        let metric = &names::UPSTREAM_LATENCY;
        page.family(metric);
        for (labels, (nanoseconds, count)) in &merged {
            page.sample(&format!("{}_sum", metric.name), labels, *nanoseconds as f64 / 1e9);
            page.sample(&format!("{}_count", metric.name), labels, count);
        }
    }

    fn latency_labels(&self, identity: &Identity) -> String {
        let labels = &identity.labels;
        let mut text = self.controller_labels();
        push_label(&mut text, "namespace", labels.namespace());
        push_label(&mut text, "ingress", labels.object());
        push_label(&mut text, "service", labels.service());
        push_label(&mut text, "canary", identity.canary.as_deref().unwrap_or_default());
        text
    }
}
