//! The parts of the answers of `/console/state` and `/console/traffic` that are shown here.
//!
//! The Forebay may have another version: a missing field counts as unknown, and an unknown field is ignored.

use serde::Deserialize;

/// The overview. `console::state::State` documents the fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    // An answer without these fields is no overview of a Forebay.
    pub(super) version: String,
    pub(super) name: String,
    pub(super) at_seconds: f64,
    pub(super) uptime_seconds: f64,
    #[serde(default)]
    pub(super) configuration: Configuration,
    #[serde(default)]
    pub(super) requests: Requests,
    #[serde(default)]
    pub(super) connections: Connections,
    #[serde(default)]
    pub(super) upstream: Upstream,
    #[serde(default)]
    pub(super) process: Process,
    #[serde(default)]
    pub(super) shortages: Vec<Shortage>,
    #[serde(default)]
    pub(super) findings: Findings,
    #[serde(default)]
    pub(super) problems: Problems,
    #[serde(default)]
    pub(super) certificates: Certificates,
    #[serde(default)]
    pub(super) failing: Vec<Failing>,
}

/// A route that fails.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Failing {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) server_errors_per_second: f64,
    pub(super) error_ratio: f64,
    pub(super) causes: Vec<Cause>,
}

/// Why it fails; the first cause is the most frequent one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    /// None where the endpoint returned the status itself.
    pub(super) reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Configuration {
    pub(super) generation: u64,
    pub(super) acknowledged: u64,
    pub(super) troubles: Vec<String>,
    pub(super) is_from_disk: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Requests {
    pub(super) per_second: Option<f64>,
    pub(super) by_class: Option<Classes>,
    pub(super) latency: Latency,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Classes {
    pub(super) client_error: f64,
    pub(super) server_error: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) p50: Option<Quantile>,
    pub(super) p99: Option<Quantile>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "names end with their unit")]
pub(super) struct Quantile {
    pub(super) above_seconds: f64,
    pub(super) at_most_seconds: Option<f64>,
    pub(super) estimate_seconds: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Connections {
    pub(super) active: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Upstream {
    pub(super) open: u64,
    pub(super) idle: u64,
    pub(super) reuse_ratio: Option<f64>,
    pub(super) ejected: u64,
    pub(super) failing_checks: u64,
    pub(super) ports_in_use_max: u64,
    pub(super) ports_available: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Process {
    pub(super) workers: Option<u64>,
    pub(super) cpu_used: Option<f64>,
    pub(super) cpu_quota: Option<f64>,
    pub(super) cpus: u64,
    pub(super) resident_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shortage {
    pub(super) of: String,
    pub(super) level: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Findings {
    pub(super) worst: Vec<WorstFinding>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorstFinding {
    pub(super) verdict: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problems {
    pub(super) error: u64,
    pub(super) warning: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Certificates {
    pub(super) expired: u64,
    pub(super) ending_soon: u64,
    pub(super) first_end_seconds: Option<i64>,
}

/// Traffic of routes and clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Traffic {
    pub(super) window_seconds: Option<f64>,
    #[serde(default)]
    pub(super) routes: Vec<RouteTraffic>,
    #[serde(default)]
    pub(super) clusters: Vec<ClusterTraffic>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteTraffic {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) namespace: String,
    pub(super) object: String,
    pub(super) service: String,
    pub(super) requests_per_second: f64,
    pub(super) client_errors_per_second: f64,
    pub(super) server_errors_per_second: f64,
    pub(super) latency: Latency,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterTraffic {
    pub(super) name: String,
    pub(super) requests_per_second: f64,
    pub(super) server_errors_per_second: f64,
    pub(super) latency: Latency,
    pub(super) queued: u64,
}
