//! HTTP/1 in the clear, field cases A and D among it.
//!
//! Must not be in here: how anything is measured.

use super::{Goal, Workload, cpu_ratio};
use crate::peers::figures::Figure;
use crate::peers::proxy::Peer::{self, Caddy, Direct, Envoy, Forebay, Haproxy, Nginx, Pingora, Relay};

const PROXIES: &[Peer] = &[Relay, Nginx, Haproxy, Envoy, Caddy, Pingora, Forebay];
/// Pingora has no access log of its own.
const LOGGING: &[Peer] = &[Nginx, Haproxy, Envoy, Caddy, Forebay];
const PROXIES_CASE_A: &[Peer] = &[Direct, Relay, Nginx, Haproxy, Envoy, Caddy, Pingora, Forebay];
const PROXIES_CASE_D: &[Peer] = &[Nginx, Haproxy, Envoy, Caddy, Pingora, Forebay];
/// Who can hold idle upstream connections to a number.
const CAPPED: &[Peer] = &[Nginx, Caddy, Pingora, Forebay];
/// `HAProxy` takes so many clients only where it may have twice as many descriptors.
const IDLE: &[Peer] = &[Nginx, Envoy, Caddy, Pingora, Forebay];

const LEANER_THAN_NGINX: Goal = Goal {
    what: "CPU per request at most 0.82 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.82),
};

const AS_PROMPT_AS_NGINX: Goal = Goal {
    what: "p99 at most nginx's",
    met: |results| Some(results.ratio(Forebay, Nginx, Figure::P99)? <= 1.0),
};

/// With 64 connections, and with 512. The goals are Intel's: on AMD the relay is dearer, and they are 1.00 and 1.05.
const NEAR_THE_FLOOR: [Goal; 2] = [
    Goal {
        what: "CPU per request at most 1.10 of the byte relay's",
        met: |results| Some(cpu_ratio(results, Relay)? <= 1.10),
    },
    Goal {
        what: "CPU per request at most 1.08 of the byte relay's",
        met: |results| Some(cpu_ratio(results, Relay)? <= 1.08),
    },
];

const FASTER_THAN_NGINX: [Goal; 2] = [
    Goal {
        what: "at least 1.3 times nginx's requests/s with wrk",
        met: |results| Some(results.ratio(Forebay, Nginx, Figure::RateMax)? >= 1.3),
    },
    Goal {
        what: "at least 1.4 times nginx's requests/s with wrk",
        met: |results| Some(results.ratio(Forebay, Nginx, Figure::RateMax)? >= 1.4),
    },
];

/// What case A's backend has of a CPU, in percent: what the proxies are compared with, and `cpu: 60m`.
const FIFTH: u32 = 20;
const LIMIT_OF_THE_CASE: u32 = 6;

const CASE_A: &[Goal] = &[
    Goal {
        what: "at least 1.5 times the requests/s of direct access",
        met: |results| Some(results.ratio(Forebay, Direct, Figure::Rate)? >= 1.5),
    },
    Goal {
        what: "at least nginx's requests/s",
        met: |results| Some(results.ratio(Forebay, Nginx, Figure::Rate)? >= 1.0),
    },
    Goal {
        what: "upstream connections opened at most 1 % of requests",
        met: |results| Some(results.median(Forebay, Figure::OpenedPercent)? <= 1.0),
    },
];

/// In the order of the report.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "generator",
        what: "`forebay bench rps` and wrk in a closed loop, on one CPU each in turn, 1 KB, 64 connections, no proxy",
        peers: &[Direct],
        tools: &["wrk"],
        measure: |bench, _| bench.generator(),
        goals: &[Goal {
            what: "`forebay bench` reaches at least 0.8 of wrk's rate",
            met: |results| {
                Some(results.median(Direct, Figure::Rate)? / results.median(Direct, Figure::RateMax)? >= 0.8)
            },
        }],
    },
    Workload {
        name: "keepalive-64",
        what: "1 KB, kept alive on both sides, 64 connections, 20,000 requests/s",
        peers: PROXIES,
        tools: &["wrk"],
        measure: |bench, peer| bench.keepalive(peer, 64, false),
        goals: &[LEANER_THAN_NGINX, AS_PROMPT_AS_NGINX, NEAR_THE_FLOOR[0], FASTER_THAN_NGINX[0]],
    },
    Workload {
        name: "keepalive-512",
        what: "1 KB, kept alive on both sides, 512 connections, 20,000 requests/s",
        peers: PROXIES,
        tools: &["wrk"],
        measure: |bench, peer| bench.keepalive(peer, 512, false),
        goals: &[LEANER_THAN_NGINX, AS_PROMPT_AS_NGINX, NEAR_THE_FLOOR[1], FASTER_THAN_NGINX[1]],
    },
    Workload {
        name: "logged-64",
        what: "keepalive-64 with access logs written to files",
        peers: LOGGING,
        tools: &["wrk"],
        measure: |bench, peer| bench.keepalive(peer, 64, true),
        goals: &[Goal {
            what: "CPU per request at most 0.88 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.88),
        }],
    },
    Workload {
        name: "case-a-200",
        what: "200 clients, each request on a new client connection, a backend with a fifth of a CPU; \
               the keepalive of nginx, Caddy and Pingora tuned by hand",
        peers: PROXIES_CASE_A,
        tools: &[],
        measure: |bench, peer| bench.case_a(peer, 200, FIFTH),
        goals: CASE_A,
    },
    Workload {
        name: "case-a-1000",
        what: "the same with 1,000 clients",
        peers: PROXIES_CASE_A,
        tools: &[],
        measure: |bench, peer| bench.case_a(peer, 1000, FIFTH),
        goals: CASE_A,
    },
    Workload {
        name: "case-a-60m",
        what: "200 clients as before, and a backend with the 6 % of a CPU that the case's manifest gives it",
        peers: PROXIES_CASE_A,
        tools: &[],
        measure: |bench, peer| bench.case_a(peer, 200, LIMIT_OF_THE_CASE),
        goals: CASE_A,
    },
    Workload {
        name: "case-d",
        what: "bursts of 1,200 clients, 5 upstreams that answer after 250 ms; the keepalive of nginx, Caddy and Pingora tuned \
               by hand",
        peers: PROXIES_CASE_D,
        tools: &[],
        measure: |bench, peer| bench.case_d(peer, None),
        goals: &[
            Goal {
                what: "no new upstream connections after the first burst",
                met: |results| Some(results.median(Forebay, Figure::OpenedLater)? == 0.0),
            },
            Goal {
                what: "no TIME_WAIT towards upstreams",
                met: |results| Some(results.median(Forebay, Figure::TimeWait)? == 0.0),
            },
        ],
    },
    Workload {
        name: "case-d-8",
        what: "the same with at most 8 idle upstream connections, as in the case",
        peers: CAPPED,
        tools: &[],
        measure: |bench, peer| bench.case_d(peer, Some(8)),
        goals: &[
            Goal {
                what: "regretted evictions are counted",
                met: |results| Some(results.median(Forebay, Figure::Regretted)? > 0.0),
            },
            Goal {
                what: "no TIME_WAIT towards upstreams",
                met: |results| Some(results.median(Forebay, Figure::TimeWait)? == 0.0),
            },
        ],
    },
    Workload {
        name: "large-1m",
        what: "1 MB responses, 16 connections, 300 requests/s",
        peers: PROXIES,
        tools: &[],
        measure: |bench, peer| bench.large(peer),
        goals: &[Goal {
            what: "CPU per request at most 0.45 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.45),
        }],
    },
    Workload {
        name: "two-workers",
        what: "20 clients, 200 requests/s, 1 worker and 2",
        peers: PROXIES_CASE_D,
        tools: &[],
        measure: |bench, peer| bench.two_workers(peer),
        goals: &[Goal {
            what: "2 workers open at most one upstream connection more than 1, for each may be the first to need one",
            met: |results| {
                let [one, two] = [Figure::OpenedByOne, Figure::OpenedByTwo];
                Some(results.median(Forebay, two)? <= results.median(Forebay, one)? + 1.0)
            },
        }],
    },
    Workload {
        name: "idle-10000",
        what: "10,000 clients that made one request and stay",
        peers: IDLE,
        tools: &[],
        measure: |bench, peer| bench.idle(peer),
        goals: &[Goal {
            what: "at most 4 KB resident for each",
            met: |results| Some(results.median(Forebay, Figure::IdleBytes)? <= 4096.0),
        }],
    },
    Workload {
        name: "routing-5-5000",
        what: "keepalive-64 with 5 Ingresses and with 5,000",
        peers: &[Forebay],
        tools: &[],
        measure: |bench, peer| bench.routing(peer),
        goals: &[Goal {
            what: "5,000 Ingresses cost at most 3 % more CPU per request",
            met: |results| {
                let few = results.median(Forebay, Figure::CpuFew)?;
                Some(results.median(Forebay, Figure::CpuMany)? / few <= 1.03)
            },
        }],
    },
    Workload {
        name: "hosts-100000",
        what: "keepalive-64 with 5 Ingresses and with 100,000, each with a host of its own, in one file",
        peers: &[Forebay],
        tools: &[],
        measure: |bench, peer| bench.many_hosts(peer),
        goals: &[
            Goal {
                what: "ready at most 5 s after the start",
                met: |results| Some(results.median(Forebay, Figure::ReadyMillis)? <= 5000.0),
            },
            Goal {
                what: "100,000 hosts cost at most 5 % more CPU per request",
                met: |results| {
                    let few = results.median(Forebay, Figure::CpuFew)?;
                    Some(results.median(Forebay, Figure::CpuMost)? / few <= 1.05)
                },
            },
        ],
    },
];
