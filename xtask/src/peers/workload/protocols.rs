//! TLS, HTTP/2, gRPC and TCP.
//!
//! Must not be in here: how anything is measured.

use bench::tls::Version;

use super::{Goal, Workload, cpu_ratio};
use crate::peers::certificate::Key;
use crate::peers::figures::{Figure, Results};
use crate::peers::measure::{Handshakes, Protocol};
use crate::peers::proxy::Peer::{
    self, Caddy, Direct, Envoy, Forebay, Haproxy, Nginx, Pingora, Relay, Signing,
};

/// In the clear.
const PROXIES: &[Peer] = &[Nginx, Haproxy, Envoy, Caddy, Pingora, Forebay];
/// Over TLS, without which our proxy on Pingora is built.
const PROXIES_TLS: &[Peer] = &[Nginx, Haproxy, Envoy, Caddy, Forebay];
/// With the signature alone beside them.
const PROXIES_SIGNING: &[Peer] = &[Signing, Nginx, Haproxy, Envoy, Caddy, Forebay];
/// Caddy as it ships relays no TCP.
const RELAYS: &[Peer] = &[Direct, Relay, Haproxy, Envoy, Forebay];

/// What field case C's clients negotiate.
const SUITE_RSA: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
const SUITE_ECDSA: &str = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
const SUITE_1_3: &str = "TLS13_AES_256_GCM_SHA384";

const FULL_RSA: Handshakes = Handshakes {
    key: Key::Rsa2048,
    version: Version::V1_2,
    suite: SUITE_RSA,
    resume: false,
    rate_per_second: 800.0,
};
const FULL_ECDSA: Handshakes =
    Handshakes { key: Key::EcdsaP256, suite: SUITE_ECDSA, rate_per_second: 2000.0, ..FULL_RSA };
const RESUMED: Handshakes = Handshakes { resume: true, ..FULL_ECDSA };
const FULL_RSA_1_3: Handshakes = Handshakes { version: Version::V1_3, suite: SUITE_1_3, ..FULL_RSA };
const RESUMED_1_3: Handshakes = Handshakes { version: Version::V1_3, suite: SUITE_1_3, ..RESUMED };

const THIRD_OF_NGINX: Goal = Goal {
    what: "CPU per connection at most 0.33 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.33),
};
const CONNECTION_LEANER: Goal = Goal {
    what: "CPU per connection at most 0.80 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.80),
};
const RESUMED_LEANER: Goal = Goal {
    what: "CPU per connection at most 0.78 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.78),
};
const THREE_QUARTERS_OF_NGINX: Goal = Goal {
    what: "CPU per request at most 0.75 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.75),
};

/// A relay is measured in a closed loop: redis-benchmark knows no other.
const REDIS: &[Goal] = &[
    Goal {
        what: "CPU per request at most 0.90 of HAProxy's",
        met: |results| Some(results.ratio(Forebay, Haproxy, Figure::Cpu)? <= 0.90),
    },
    Goal {
        what: "at least 0.9 of the requests/s of direct access",
        met: |results: &Results| Some(results.ratio(Forebay, Direct, Figure::Rate)? >= 0.9),
    },
];

/// In the order of the report.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "tls-new-rsa",
        what: "800 new TLS 1.2 connections/s, each a full handshake (ECDHE-RSA-AES256-GCM-SHA384, RSA-2048) and one \
               request without a body; signing: one RSA-2048 signature by aws-lc-rs and nothing else",
        peers: PROXIES_SIGNING,
        tools: &[],
        measure: |bench, peer| bench.handshakes(peer, &FULL_RSA),
        goals: &[THIRD_OF_NGINX],
    },
    Workload {
        name: "tls-new-rsa-1.3",
        what: "the same with TLS 1.3",
        peers: PROXIES_SIGNING,
        tools: &[],
        measure: |bench, peer| bench.handshakes(peer, &FULL_RSA_1_3),
        goals: &[THIRD_OF_NGINX],
    },
    Workload {
        name: "tls-new-ecdsa",
        what: "2,000 new TLS 1.2 connections/s, each a full handshake (ECDHE-ECDSA-AES256-GCM-SHA384, P-256) and one \
               request without a body; signing: one P-256 signature by aws-lc-rs and nothing else",
        peers: PROXIES_SIGNING,
        tools: &[],
        measure: |bench, peer| bench.handshakes(peer, &FULL_ECDSA),
        goals: &[CONNECTION_LEANER],
    },
    Workload {
        name: "tls-resumed",
        what: "2,000 new TLS 1.2 connections/s from 16 clients, each of which resumes its last session (the client \
               checks that), for one request without a body",
        peers: PROXIES_TLS,
        tools: &[],
        measure: |bench, peer| bench.handshakes(peer, &RESUMED),
        goals: &[RESUMED_LEANER],
    },
    Workload {
        name: "tls-resumed-1.3",
        what: "the same with TLS 1.3",
        peers: PROXIES_TLS,
        tools: &[],
        measure: |bench, peer| bench.handshakes(peer, &RESUMED_1_3),
        goals: &[RESUMED_LEANER],
    },
    Workload {
        name: "https-keepalive",
        what: "1 KB over TLS 1.3 (AES-256-GCM), kept alive on both sides, 64 connections, 20,000 requests/s",
        peers: PROXIES_TLS,
        tools: &["wrk"],
        measure: |bench, peer| bench.https_keepalive(peer, 64),
        goals: &[
            Goal {
                what: "CPU per request at most 0.92 of nginx's",
                met: |results| Some(cpu_ratio(results, Nginx)? <= 0.92),
            },
            Goal {
                what: "at least 1.3 times nginx's requests/s with wrk",
                met: |results| Some(results.ratio(Forebay, Nginx, Figure::RateMax)? >= 1.3),
            },
        ],
    },
    Workload {
        name: "https-1m",
        what: "1 MB responses over TLS 1.3 (AES-256-GCM), 16 connections, 300 requests/s",
        peers: PROXIES_TLS,
        tools: &[],
        measure: |bench, peer| bench.https_large(peer),
        goals: &[Goal {
            what: "CPU per request at most 0.85 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.85),
        }],
    },
    Workload {
        name: "h2-1k",
        what: "1 KB over clear HTTP/2, 16 connections with up to 32 streams, HTTP/1 upstream, 16,000 requests/s, then a \
               closed loop",
        peers: PROXIES,
        tools: &["h2load"],
        measure: |bench, peer| bench.h2(peer, Protocol::Clear),
        goals: &[THREE_QUARTERS_OF_NGINX],
    },
    Workload {
        name: "h2-1k-tls",
        what: "the same over TLS 1.3 (AES-256-GCM)",
        peers: PROXIES_TLS,
        tools: &["h2load"],
        measure: |bench, peer| bench.h2(peer, Protocol::Tls),
        goals: &[THREE_QUARTERS_OF_NGINX],
    },
    Workload {
        name: "h2-1k-h2c",
        what: "h2-1k with an HTTP/1 upstream and with an h2c upstream; nginx is not here: it speaks \
               HTTP/2 to upstreams for gRPC only",
        peers: &[Haproxy, Envoy, Caddy, Pingora, Forebay],
        tools: &["h2load"],
        measure: |bench, peer| bench.h2_upstreams(peer),
        goals: &[
            Goal {
                what: "an h2c upstream costs less CPU per request than an HTTP/1 upstream, all streams in use",
                met: |results| {
                    let median = |figure| results.median(Forebay, figure);
                    Some(median(Figure::CpuH2cClosed)? < median(Figure::CpuHttp1Closed)?)
                },
            },
            Goal {
                what: "the same at 16,000 requests/s",
                met: |results| {
                    let median = |figure| results.median(Forebay, figure);
                    Some(median(Figure::CpuH2c)? < median(Figure::CpuHttp1)?)
                },
            },
        ],
    },
    Workload {
        name: "grpc-unary",
        what: "unary gRPC calls with messages of 100 bytes, clear HTTP/2 on both sides, 16 connections with up to 32 \
               streams, 16,000 calls/s, then a closed loop",
        peers: PROXIES,
        tools: &["h2load"],
        measure: |bench, peer| bench.h2(peer, Protocol::Grpc),
        goals: &[Goal {
            what: "CPU per call at most 0.60 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.60),
        }],
    },
    Workload {
        name: "redis-get",
        what: "GETs by redis-benchmark, 50 clients, in a closed loop; redis-server and redis-benchmark share one CPU, \
               the relays have the other; nginx is not here: nginx-light has no stream module",
        peers: RELAYS,
        tools: &["redis-server", "redis-benchmark"],
        measure: |bench, peer| bench.redis(peer, 1),
        goals: REDIS,
    },
    Workload {
        name: "redis-get-pipelined",
        what: "the same with 16 GETs in a row from each client",
        peers: RELAYS,
        tools: &["redis-server", "redis-benchmark"],
        measure: |bench, peer| bench.redis(peer, 16),
        goals: REDIS,
    },
    Workload {
        name: "idle-tls",
        what: "10,000 TLS 1.3 clients that made one request and stay",
        // As with clear clients, HAProxy would need twice as many descriptors.
        peers: &[Nginx, Envoy, Caddy, Forebay],
        tools: &[],
        measure: |bench, peer| bench.idle_tls(peer),
        goals: &[Goal {
            what: "at most 24 KB resident for each",
            met: |results| Some(results.median(Forebay, Figure::IdleBytes)? <= 24.0 * 1024.0),
        }],
    },
    Workload {
        name: "handshake-flood",
        what: "1,000 requests/s of 1 KB on 8 TLS connections that stay, alone and while 64 other clients make full \
               handshakes (RSA-2048) as fast as they can",
        peers: &[Nginx, Haproxy, Envoy, Caddy, Forebay],
        tools: &[],
        measure: |bench, peer| bench.handshake_flood(peer),
        goals: &[Goal {
            what: "p99 under the flood at most nginx's",
            met: |results| Some(results.ratio(Forebay, Nginx, Figure::P99Flooded)? <= 1.0),
        }],
    },
];
