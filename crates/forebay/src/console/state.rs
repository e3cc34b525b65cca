//! The answer of `/console/state` and the events of `/console/events`: the overview of a running Forebay, as
//! JSON. These structs are the contract with its readers, the console's page and other programs. Fields may
//! be added; none is renamed, and none changes its meaning.
//!
//! Names end with the unit. Rates are those of the last [`State::window_seconds`]; an unknown value is
//! `null`.

use doctor::Translated;
use serde::Serialize;

use crate::canaries::CanaryStatus;

/// The overview of a Forebay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// Version of the release.
    pub(crate) version: &'static str,
    /// Name of the Pod, or of the machine where it runs in none.
    pub(crate) name: String,
    /// When this was measured, in seconds since 1970.
    pub(crate) at_seconds: f64,
    /// Time that the process has run.
    pub(crate) uptime_seconds: f64,
    /// Period of all rates; null in the first state after a time without watchers, which has no rates.
    pub(crate) window_seconds: Option<f64>,
    /// Grows with everything that may change the lists of `/console/objects`, `/console/problems` and
    /// `/console/changes`: a client fetches the lists again when it has grown.
    pub(crate) revision: u64,
    pub(crate) configuration: Configuration,
    pub(crate) requests: Requests,
    pub(crate) connections: Connections,
    pub(crate) upstream: Upstream,
    pub(crate) tls: Tls,
    pub(crate) process: Process,
    /// Resources that the process may be short of.
    pub(crate) shortages: Vec<Shortage>,
    pub(crate) findings: Findings,
    pub(crate) problems: Problems,
    pub(crate) certificates: Certificates,
    /// Canaries with steps.
    pub(crate) canaries: Vec<CanaryStatus>,
    /// Routes with responses with 5xx within the last half minute, those with most of them first; at most
    /// ten.
    pub(crate) failing: Vec<Failing>,
}

/// A route that fails. Host, path, namespace, object, rule, service and service port are the labels of
/// `/console/objects`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failing {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) namespace: String,
    pub(crate) object: String,
    pub(crate) rule: String,
    pub(crate) service: String,
    pub(crate) service_port: String,
    /// The cluster of the route's Service, or of the canary that failed last.
    pub(crate) cluster: String,
    pub(crate) server_errors_per_second: f64,
    /// The share of these in all requests of the route: 0 to 1.
    pub(crate) error_ratio: f64,
    /// The most frequent reasons, at most three.
    pub(crate) causes: Vec<Cause>,
}

/// Why requests of a route fail.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cause {
    /// As in `forebay_faults_total`; null where the endpoint returned the status itself.
    pub(crate) reason: Option<&'static str>,
    /// Meaning of the reason.
    pub(crate) meaning: &'static str,
    pub(crate) per_second: f64,
}

/// The configuration in force.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Configuration {
    /// Counts the configurations of this process, from 1; 0 before there is one.
    pub(crate) generation: u64,
    /// The generation that every worker serves.
    pub(crate) acknowledged: u64,
    pub(crate) hosts: usize,
    pub(crate) routes: usize,
    pub(crate) clusters: usize,
    pub(crate) endpoints: usize,
    /// TCP and UDP services.
    pub(crate) services: usize,
    /// Watches on the cluster that fail, each with its error.
    pub(crate) troubles: Vec<String>,
    /// Kinds of which the first list is not complete.
    pub(crate) waiting: Vec<String>,
    /// The objects are the copy on disk, since the API server has not been reached.
    pub(crate) is_from_disk: bool,
}

/// Requests of clients. Requests without a route count only in `per_second` and in `faults`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Requests {
    /// Since the start.
    pub(crate) total: u64,
    pub(crate) per_second: Option<f64>,
    /// Requests that were answered, by the class of the status.
    pub(crate) by_class: Option<Classes>,
    /// Time from the first byte of the request to the end of the response.
    pub(crate) latency: Latency,
    /// The same for the part that the endpoint took.
    pub(crate) upstream_latency: Latency,
    /// Faults since the start, by reason; reasons that have not occurred are left out.
    pub(crate) faults: Vec<Fault>,
}

/// Rates by the class of the status, a second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Classes {
    /// Responses with status 1xx.
    pub(crate) informational: f64,
    /// Responses with status 2xx.
    pub(crate) success: f64,
    /// Responses with status 3xx.
    pub(crate) redirection: f64,
    /// Responses with status 4xx.
    pub(crate) client_error: f64,
    /// Responses with status 5xx.
    pub(crate) server_error: f64,
}

/// Times of requests, from histograms; null where there was no request.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: Option<Quantile>,
    pub(crate) p99: Option<Quantile>,
}

/// A quantile as a histogram knows it: the bucket that it is in, and an estimate within (as Prometheus'
/// `histogram_quantile` makes it). Times of requests have two buckets for each power of two, from 24 us to 51
/// s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "names end with their unit")]
pub(crate) struct Quantile {
    /// It is above this; 0 in the first bucket.
    pub(crate) above_seconds: f64,
    /// It is not above this; null in the last bucket.
    pub(crate) at_most_seconds: Option<f64>,
    /// By linear interpolation; in the last bucket its lower bound.
    pub(crate) estimate_seconds: f64,
}

/// Faults with one reason.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fault {
    /// As in `forebay_faults_total` and the access log.
    pub(crate) reason: &'static str,
    /// Whose fault it is: `client`, `proxy` or `upstream`.
    pub(crate) side: &'static str,
    /// Meaning of the reason.
    pub(crate) meaning: &'static str,
    pub(crate) total: u64,
    pub(crate) per_second: Option<f64>,
}

/// Connections of clients.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connections {
    /// Number of open ones.
    pub(crate) active: u64,
    /// Of these: a request's head is being read.
    pub(crate) reading: u64,
    /// Of these: a request is being served.
    pub(crate) writing: u64,
    /// Of these: between two requests.
    pub(crate) waiting: u64,
    /// Accepted a second.
    pub(crate) accepted_per_second: Option<f64>,
}

/// Connections to endpoints.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upstream {
    /// Open, in use or idle.
    pub(crate) open: u64,
    pub(crate) idle: u64,
    /// Requests to endpoints a second, retries included.
    pub(crate) requests_per_second: Option<f64>,
    /// Requests that failed.
    pub(crate) failures_per_second: Option<f64>,
    /// Connections opened a second.
    pub(crate) opened_per_second: Option<f64>,
    /// Share of requests that reused a connection, from 0 to 1; null without requests.
    pub(crate) reuse_ratio: Option<f64>,
    /// Idle connections closed because of the cap, a second.
    pub(crate) evicted_per_second: Option<f64>,
    /// Such evictions that a new connection soon followed: the cap is too small.
    pub(crate) regretted_per_second: Option<f64>,
    /// Endpoints that some worker leaves out, since they fail or are slow.
    pub(crate) ejected: u64,
    /// Endpoints that fail their health checks.
    pub(crate) failing_checks: u64,
    /// Local ports that connections from one address to one endpoint hold, where that is most.
    pub(crate) ports_in_use_max: u64,
    /// Local ports that there are for each such pair (`net.ipv4.ip_local_port_range`).
    pub(crate) ports_available: Option<u64>,
    /// Connections that failed because no port was left, since the start.
    pub(crate) ports_exhausted: u64,
    /// Requests that wait for a place at an endpoint.
    pub(crate) queued: u64,
}

/// Handshakes with clients.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tls {
    pub(crate) handshakes_per_second: Option<f64>,
    /// Handshakes that resumed a session, of all: 0 to 1; null where there was none.
    pub(crate) resumed_ratio: Option<f64>,
}

/// Resources that the process uses.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// Threads that serve; null before they do.
    pub(crate) workers: Option<usize>,
    /// CPUs in use.
    pub(crate) cpu_used: Option<f64>,
    /// CPUs that the quota of its cgroups allows; null without a quota.
    pub(crate) cpu_quota: Option<f64>,
    /// CPUs that the process may run on.
    pub(crate) cpus: usize,
    pub(crate) resident_bytes: u64,
}

/// Something that the process may be short of, as `forebay_guard_pressure_ratio` has it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shortage {
    /// `cpu_throttled`, `memory` and so on.
    pub(crate) of: &'static str,
    /// Meaning of the resource.
    pub(crate) meaning: &'static str,
    /// Share that is used, 0 to 1; of `loop_lag` seconds. Null where nothing is measured.
    pub(crate) ratio: Option<f64>,
    /// 0 no shortage, 1 work is eased, 2 and 3 requests are refused.
    pub(crate) level: u64,
}

/// How many of the doctor's checks came to which verdict; `/doctor` has them in full. All are 0 before it has
/// looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Findings {
    pub(crate) ok: usize,
    pub(crate) unknown: usize,
    pub(crate) warning: usize,
    pub(crate) failure: usize,
    /// Warnings and failures, the worst first.
    pub(crate) worst: Vec<WorstFinding>,
}

/// A finding in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WorstFinding {
    pub(crate) id: &'static str,
    /// `warning` or `failure`.
    pub(crate) verdict: &'static str,
    pub(crate) message: String,
    /// The same in Chinese, and what to do.
    pub(crate) zh: Translated,
}

/// How many problems objects have; `/console/problems` has them in full.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Problems {
    pub(crate) error: usize,
    pub(crate) warning: usize,
    pub(crate) notice: usize,
}

/// Certificates of hosts.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Certificates {
    pub(crate) total: usize,
    pub(crate) expired: usize,
    /// Certificates that expire within 14 days.
    pub(crate) ending_soon: usize,
    /// End of the one that ends first, in seconds since 1970.
    pub(crate) first_end_seconds: Option<i64>,
}
