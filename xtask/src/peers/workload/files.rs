//! Files without a backend.
//!
//! Must not be in here: how anything is measured.

use super::{Goal, Workload, cpu_ratio};
use crate::peers::feature;
use crate::peers::proxy::Peer::{self, Apache, Caddy, Forebay, Nginx};

const PEERS: &[Peer] = &[Nginx, Apache, Caddy, Forebay];

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "file-1k",
        what: "20,000 requests/s for a file of 1 KB, on 64 connections that stay; nginx with sendfile and open_file_cache",
        peers: PEERS,
        tools: &[],
        measure: |bench, peer| bench.feature(peer, &feature::file("/files/1k", 1 << 10, 20_000.0)?),
        goals: &[Goal {
            what: "CPU per request at most 0.75 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.75),
        }],
    },
    Workload {
        name: "file-1m",
        what: "300 requests/s for a file of 1 MB; nginx with sendfile and open_file_cache",
        peers: PEERS,
        tools: &[],
        measure: |bench, peer| bench.cache_hits_large(peer, &feature::file("/files/1m", 1 << 20, 300.0)?),
        goals: &[Goal {
            what: "CPU per request at most 0.95 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.95),
        }],
    },
];
