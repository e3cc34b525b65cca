//! Responses that are compressed.
//!
//! Must not be in here: how anything is measured.

use super::{Goal, Workload, cpu_ratio};
use crate::peers::feature;
use crate::peers::figures::Figure;
use crate::peers::proxy::Peer::{self, Apache, Caddy, Envoy, Forebay, Nginx};

const PEERS: &[Peer] = &[Nginx, Apache, Envoy, Caddy, Forebay];

const GOALS: &[Goal] = &[
    Goal {
        what: "CPU per request at most 0.70 of nginx's",
        met: |results| Some(cpu_ratio(results, Nginx)? <= 0.70),
    },
    Goal {
        what: "size within 5 % of nginx's, or smaller",
        met: |results| Some(results.ratio(Forebay, Nginx, Figure::LeftPercent)? <= 1.05),
    },
];

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "gzip-1",
        what: "40 requests/s for HTML, JSON and JavaScript of 10 and 500 KB in turn, compressed by gzip at level 1",
        peers: PEERS,
        tools: &[],
        measure: |bench, peer| bench.compressed(peer, &feature::compressed("gzip", 1)),
        goals: GOALS,
    },
    Workload {
        name: "gzip-6",
        what: "the same at level 6",
        peers: PEERS,
        tools: &[],
        measure: |bench, peer| bench.compressed(peer, &feature::compressed("gzip", 6)),
        goals: GOALS,
    },
    Workload {
        name: "brotli-4",
        what: "the same by brotli at level 4",
        // Caddy as it ships has no brotli, and Apache no zstd.
        peers: &[Nginx, Apache, Envoy, Forebay],
        tools: &[],
        measure: |bench, peer| bench.compressed(peer, &feature::compressed("br", 4)),
        goals: GOALS,
    },
    Workload {
        name: "zstd-3",
        what: "the same by zstd at level 3",
        peers: &[Nginx, Envoy, Caddy, Forebay],
        tools: &[],
        measure: |bench, peer| bench.compressed(peer, &feature::compressed("zstd", 3)),
        goals: GOALS,
    },
];
