//! Writes the metrics about the load of clusters, and about requests that go to other clusters.

use std::sync::Arc;

use super::super::Counter;
use super::super::names;
use super::super::overload::{ClusterOverload, PRIORITIES, Wait};
use super::super::registry::Registry;
use super::super::worker_cells::WorkerCells;
use super::{Page, labels, sum};

/// A figure of a cluster.
type Sum = fn(&ClusterOverload) -> u64;

impl Registry {
    pub(super) fn encode_overloads(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        let overloads = self.overloads();
        let sums: [(_, Sum); 4] = [
            (&names::OVERLOAD_LIMIT, |one| one.endpoints.iter().filter_map(|it| it.limit).sum()),
            (&names::OVERLOAD_IN_FLIGHT, |one| one.endpoints.iter().map(|it| it.in_flight).sum()),
            (&names::OVERLOAD_QUEUED, |one| one.queued),
            (&names::OVERLOAD_RETRIES_DENIED, |one| one.totals.retries_denied),
        ];
        for (metric, sum) in sums {
            page.family(metric);
            for (cluster, overload) in &overloads {
                page.sample(metric.name, &labels(&[("cluster", cluster)]), sum(overload));
            }
        }
        page.family(&names::OVERLOAD_WAITS);
        for (cluster, overload) in &overloads {
            for (wait, counts) in Wait::ALL.iter().zip(overload.totals.waits) {
                for ((_, priority), count) in PRIORITIES.iter().zip(counts).filter(|(_, count)| *count > 0) {
                    let labels =
                        labels(&[("cluster", cluster), ("result", wait.name()), ("priority", priority)]);
                    page.sample(names::OVERLOAD_WAITS.name, &labels, count);
                }
            }
        }
        page.family(&names::FALLBACKS);
        let fallbacks = sum(workers, |worker| worker.counter(Counter::Fallbacks));
        page.sample(names::FALLBACKS.name, "", fallbacks);
    }
}
