//! Responses that are kept.
//!
//! Must not be in here: how anything is measured.

use super::{Goal, Workload, cpu_ratio};
use crate::peers::feature;
use crate::peers::figures::{Figure, Results};
use crate::peers::proxy::Peer::{self, Apache, Forebay, Nginx, Varnish};

const CACHES: &[Peer] = &[Nginx, Varnish, Apache, Forebay];

/// Clients that ask for one object at once.
const CLIENTS: f64 = 1_000.0;

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "cache-hit-1k",
        what: "20,000 requests/s for one object of 1 KB that is in the cache, on 64 connections that stay; nginx has its \
               files open",
        peers: CACHES,
        tools: &[],
        measure: |bench, peer| bench.cache_hits(peer, &feature::cache("/1k", 20_000.0)),
        goals: &[
            Goal {
                what: "CPU per request at most 0.55 of nginx's",
                met: |results| Some(cpu_ratio(results, Nginx)? <= 0.55),
            },
            Goal {
                what: "CPU per request at most 0.55 of Varnish's",
                met: |results| Some(cpu_ratio(results, Varnish)? <= 0.55),
            },
            Goal {
                what: "CPU per request at most 0.60 of that of a request that is passed on",
                met: |results| Some(own(results, Figure::Cpu)? / own(results, Figure::CpuProxied)? <= 0.60),
            },
        ],
    },
    Workload {
        name: "cache-hit-1k-tls",
        what: "8,000 requests/s for the same over TLS",
        peers: &[Nginx, Forebay],
        tools: &[],
        measure: |bench, peer| bench.cache_hits_tls(peer, &feature::cache("/1k", 8_000.0)),
        goals: &[LEANER],
    },
    Workload {
        name: "cache-hit-1m",
        what: "300 requests/s for one object of 1 MB that is in the cache",
        peers: CACHES,
        tools: &[],
        measure: |bench, peer| bench.cache_hits_large(peer, &feature::cache("/1m", 300.0)),
        goals: &[LEANER],
    },
    Workload {
        name: "cache-collapse",
        what: "1,000 clients ask at once for an object that takes 1 s",
        // Apache's lock has no one wait for a response that is not kept yet.
        peers: &[Nginx, Varnish, Forebay],
        tools: &[],
        measure: |bench, peer| bench.cache_collapse(peer, &feature::cache("/delay/1000", CLIENTS)),
        goals: &[
            Goal {
                what: "one request to the backend",
                met: |results| Some(own(results, Figure::AskedBackend)? <= 1.0),
            },
            Goal {
                what: "all answered within 1.1 s",
                met: |results| Some(own(results, Figure::LastMillis)? <= 1100.0),
            },
        ],
    },
    Workload {
        name: "cache-zipf",
        what: "requests for objects of 1 to 100 KB by Zipf's law with exponent 0.9, after as many that have filled the cache, which holds a \
               tenth of their bytes; 1,000,000 objects, or as many as `--zipf-objects` says",
        peers: &[Forebay],
        tools: &[],
        measure: |bench, peer| bench.cache_zipf(peer),
        goals: &[
            Goal {
                what: "hit ratio at least that of LRU + 5 points",
                met: |results| {
                    Some(own(results, Figure::HitPercent)? >= own(results, Figure::LruPercent)? + 5.0)
                },
            },
            Goal {
                what: "resident at most 1.15 of the configured size",
                met: |results| Some(own(results, Figure::ResidentShare)? <= 1.15),
            },
        ],
    },
    RESTART,
];

const RESTART: Workload = Workload {
    name: "cache-restart",
    what: "a start with a full cache on disk; `--disk-gib` says how much, 10 GiB without it",
    peers: &[Forebay],
    tools: &[],
    measure: |bench, peer| bench.cache_restart(peer),
    goals: &[
        Goal {
            what: "serves within 0.5 s",
            met: |results| Some(own(results, Figure::ReadyMillis)? <= 500.0),
        },
        Goal {
            what: "a hit from the disk within 1 s",
            met: |results| Some(own(results, Figure::DiskHitMillis)? <= 1000.0),
        },
    ],
};

const LEANER: Goal = Goal {
    what: "CPU per request at most 0.60 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.60),
};

fn own(results: &Results, figure: Figure) -> Option<f64> {
    results.median(Forebay, figure)
}
