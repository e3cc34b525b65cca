//! The metrics of the cache, here and between replicas.
//!
//! Never in here: the use of the figures for anything but a scrape.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Page, labels, push_label, sum};
use crate::metrics::registry::Registry;
use crate::metrics::series::Identity;
use crate::metrics::worker_cells::WorkerCells;
use crate::metrics::{CacheResult, CacheTotals, Counter, lock, names};

impl Registry {
    pub(super) fn encode_cache(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::CACHE_REQUESTS);
        for totals in self.cache_totals_of(workers) {
            let CacheTotals { namespace, ingress, service, counts } = &totals;
            let of = labels(&[("namespace", namespace), ("ingress", ingress), ("service", service)]);
            for (result, count) in CacheResult::ALL.iter().zip(counts) {
                let mut labels = of.clone();
                push_label(&mut labels, "result", result.name());
                page.sample(names::CACHE_REQUESTS.name, &labels, count);
            }
        }
        encode_replicas(workers, page);
        self.encode_cache_size(page);
    }

    /// The size of the cache, in memory and on disk.
    pub(super) fn encode_cache_size(&self, page: &mut Page<'_>) {
        let [objects, bytes, evictions] = &self.cache;
        for (metric, figure) in [
            (&names::CACHE_OBJECTS, objects),
            (&names::CACHE_BYTES, bytes),
            (&names::CACHE_EVICTIONS, evictions),
        ] {
            page.family(metric);
            page.sample(metric.name, "", figure.load(Ordering::Relaxed));
        }
        self.encode_cache_disk(page);
    }

    fn encode_cache_disk(&self, page: &mut Page<'_>) {
        let disk = *lock(&self.cache_disk);
        let mut family = |metric, samples: &[(&str, u64)]| {
            page.family(metric);
            for (labels, figure) in samples.iter().filter(|_| disk.is_some()) {
                page.sample(metric.name, labels, figure);
            }
        };
        let of = disk.unwrap_or_default();
        for (metric, figure) in [
            (&names::CACHE_DISK_BYTES, of.bytes),
            (&names::CACHE_DISK_BYTES_MAX, of.bytes_max),
            (&names::CACHE_DISK_OBJECTS, of.objects),
            (&names::CACHE_DISK_HITS, of.hits),
            (&names::CACHE_DISK_WRITES, of.writes),
            (&names::CACHE_DISK_DROPPED, of.dropped),
            (&names::CACHE_DISK_EVICTIONS, of.evictions),
        ] {
            family(metric, &[("", figure)]);
        }
        let errors = [("kind=\"write\"", of.write_errors), ("kind=\"read\"", of.read_errors)];
        family(&names::CACHE_DISK_ERRORS, &errors);
        family(&names::CACHE_DISK_FULL, &[("", of.full.into())]);
        family(&names::CACHE_DISK_LOADING, &[("", of.loading.into())]);
    }

    /// Cache totals by the Ingresses and Services of the routes.
    pub fn cache_totals(&self) -> Vec<CacheTotals> {
        let workers = lock(&self.workers).clone();
        self.cache_totals_of(&workers)
    }

    fn cache_totals_of(&self, workers: &[Arc<WorkerCells>]) -> Vec<CacheTotals> {
        let mut merged = BTreeMap::new();
        for series in workers.iter().flat_map(|worker| worker.series()) {
            let cells = &series.cells[self.layout.cache..][..CacheResult::ALL.len()];
            if cells.iter().all(|cell| cell.get() == 0) {
                continue;
            }
            let Some(Identity { labels: of, .. }) = series.identity() else { continue };
            let name = [of.namespace(), of.object(), of.service()].map(str::to_owned);
            let totals = merged.entry(name).or_insert([0; CacheResult::ALL.len()]);
            totals.iter_mut().zip(cells).for_each(|(total, cell)| *total += cell.get());
        }
        let total = |([namespace, ingress, service], counts): ([String; 3], _)| CacheTotals {
            namespace,
            ingress,
            service,
            counts,
        };
        merged.into_iter().map(total).collect()
    }
}

/// Packets of HTTP/3 that came to another worker or replica than their connection's.
const FORWARDED: [Counter; 6] = [
    Counter::QuicToWorker,
    Counter::QuicToProcess,
    Counter::QuicToReplica,
    Counter::QuicToClient,
    Counter::QuicForwardFull,
    Counter::QuicForwardRefused,
];

/// Stateless resets by the reason for which a connection is gone.
const RESETS: [Counter; 3] = [Counter::QuicResetEnded, Counter::QuicResetProcess, Counter::QuicResetReplica];

/// Datagrams with counts.
const COUNTS: [Counter; 8] = [
    Counter::CountsSent,
    Counter::CountsUnsent,
    Counter::CountsTaken,
    Counter::CountsGarbage,
    Counter::CountsForged,
    Counter::CountsStale,
    Counter::CountsReplayed,
    Counter::CountsStrange,
];

const EXCHANGES: [Counter; 6] = [
    Counter::LimitRedisInTime,
    Counter::LimitRedisSlow,
    Counter::LimitRedisUnreachable,
    Counter::LimitRedisSilent,
    Counter::LimitRedisRefused,
    Counter::LimitRedisGarbage,
];
const STORED: [Counter; 3] = [Counter::LimitRedisWaited, Counter::LimitRedisAlone, Counter::LimitRedisClosed];

/// The results of messages between replicas.
pub(super) fn encode_replicas(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
    let families: [(_, &str, &[Counter]); 7] = [
        (&names::CACHE_HOME_REQUESTS, "result", &[Counter::CacheHomeAnswered, Counter::CacheHomeFailed]),
        (&names::CACHE_FORGETS, "result", &[Counter::CacheForgetTold, Counter::CacheForgetUnreached]),
        (&names::HTTP3_FORWARDED, "result", &FORWARDED),
        (&names::HTTP3_RESETS, "reason", &RESETS),
        (&names::LIMIT_SHARED_DATAGRAMS, "result", &COUNTS),
        (&names::LIMIT_REDIS_EXCHANGES, "result", &EXCHANGES),
        (&names::LIMIT_REDIS_REQUESTS, "result", &STORED),
    ];
    for (metric, label, results) in families {
        page.family(metric);
        for &result in results {
            let count = sum(workers, |worker| worker.counter(result));
            page.sample(metric.name, &labels(&[(label, result.name())]), count);
        }
    }
}
