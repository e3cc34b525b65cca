//! What Ingresses ask for beyond a backend.
//!
//! Must not be in here: how anything is measured, and what each feature is.

use super::{Goal, Workload, cpu_ratio};
use crate::peers::feature;
use crate::peers::figures::{Figure, Results};
use crate::peers::proxy::Peer::{self, Forebay, Nginx};

const PROXIES: &[Peer] = &[Nginx, Forebay];

const LEANER: Goal = Goal {
    what: "CPU per request at most 0.80 of nginx's",
    met: |results| Some(cpu_ratio(results, Nginx)? <= 0.80),
};

/// The most that "no effect" may be: what the ratios of two measurements of the same thing hold to.
const NOISE: f64 = 1.1;

/// In the order of the report.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "regex-50",
        what: "8,000 requests/s of 1 KB on 64 connections that stay, as in the following; a host with 50 paths that are \
               regular expressions, all asked for in turn, whose captures make the new path",
        measure: |bench, peer| bench.feature(peer, &feature::regex_50()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "networks-1000",
        what: "a list of 1,000 networks whose clients are let in; the client's is in the middle",
        measure: |bench, peer| bench.feature(peer, &feature::networks_1000()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "headers-10",
        what: "5 headers for every request and 5 for every response (proxy-set-headers and add-headers); nginx adds the \
               latter and replaces none of the backend's",
        measure: |bench, peer| bench.feature(peer, &feature::headers_10()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "cors",
        what: "CORS for two origins of which one is asked for; nginx has maps, which are cheaper than the conditions \
               that ingress-nginx gives it",
        measure: |bench, peer| bench.feature(peer, &feature::cors()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "canary",
        what: "a tenth of the requests for another Service, by weight; nginx has split_clients by $request_id",
        measure: |bench, peer| bench.feature(peer, &feature::canary()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "affinity",
        what: "5 endpoints and 64 clients that have their cookies; nginx without its commercial part cannot set them, \
               and has hash $cookie_route consistent",
        measure: |bench, peer| bench.feature(peer, &feature::affinity()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "limit-rps",
        what: "a limit of requests per second for each of 100,000 clients, told apart by X-Forwarded-For; none is \
               refused",
        measure: |bench, peer| bench.feature(peer, &feature::limit_rps()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "auth-kept-alive",
        what: "a service that is asked about every request, on connections that stay (auth-url)",
        measure: |bench, peer| bench.feature(peer, &feature::auth_kept_alive()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "auth-cached",
        what: "the same with answers that are kept, of 100 clients (auth-cache-key)",
        measure: |bench, peer| bench.feature(peer, &feature::auth_cached()),
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "basic-bcrypt",
        what: "5 requests/s of one user whose password has a hash by bcrypt with cost 10",
        measure: |bench, peer| bench.feature(peer, &feature::basic_bcrypt()),
        goals: &[Goal {
            what: "CPU per request at most 0.05 of nginx's",
            met: |results| Some(cpu_ratio(results, Nginx)? <= 0.05),
        }],
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "wrong-passwords",
        what: "1,000 requests/s to a host without passwords, alone and beside 200 wrong passwords/s from 128 clients to \
               another (bcrypt with cost 10); no two are alike",
        peers: &[Nginx, Forebay],
        measure: |bench, peer| bench.wrong_passwords(peer, &feature::basic_bcrypt()),
        goals: &[Goal {
            what: "p99 beside wrong passwords at most 1.5 of quiet",
            met: |results| Some(ratio(results, Figure::P99Flooded, Figure::P99Quiet)? <= 1.5),
        }],
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "conditions-16",
        what: "an HTTPRoute that asks for 8 headers and 8 parameters, and one that asks for none; the same requests for \
               both",
        peers: &[Forebay],
        measure: |bench, peer| bench.conditions(peer, &feature::conditions_16()),
        goals: &[Goal {
            what: "CPU per request at most 1.03 of that without conditions",
            met: |results| Some(ratio(results, Figure::CpuConditional, Figure::CpuUnconditional)? <= 1.03),
        }],
        ..LEANER_THAN_NGINX
    },
    Workload {
        name: "mirror-hanging",
        what: "10,000 requests/s, each copied to a target that takes connections and never answers (mirror-target); \
               nginx is not here: a client's connection waits there until its copy was answered",
        peers: &[Forebay],
        measure: |bench, peer| bench.mirror_hanging(peer, &feature::mirror_hanging()),
        goals: &[
            Goal {
                what: "no effect on p99: at most 1.1 of that of a host whose requests are not copied",
                met: |results| Some(ratio(results, Figure::P99Mirrored, Figure::P99Quiet)? <= NOISE),
            },
            Goal {
                what: "at most 16 MiB more resident",
                met: |results| Some(results.median(Forebay, Figure::GrownMib)? <= 16.0),
            },
            Goal {
                what: "dropped copies are counted",
                met: |results| Some(results.median(Forebay, Figure::Dropped)? > 0.0),
            },
        ],
        ..LEANER_THAN_NGINX
    },
];

/// What most of them have in common.
const LEANER_THAN_NGINX: Workload = Workload {
    name: "",
    what: "",
    peers: PROXIES,
    tools: &[],
    measure: |_, _| anyhow::bail!("nothing to measure"),
    goals: &[LEANER],
};

/// One of Forebay's figures over another.
fn ratio(results: &Results, figure: Figure, other: Figure) -> Option<f64> {
    Some(results.median(Forebay, figure)? / results.median(Forebay, other)?)
}
