//! What the metrics flags say, and what tells this process from others.

/// What the metrics flags say. The defaults are ingress-nginx's.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsOptions {
    /// Upper bounds in seconds (`--time-buckets`).
    pub time_buckets: Vec<f64>,
    /// Upper bounds in bytes of `request_size` and `response_size` (`--length-buckets`).
    pub length_buckets: Vec<f64>,
    /// Upper bounds in bytes of `bytes_sent` (`--size-buckets`).
    pub size_buckets: Vec<f64>,
    /// Label requests with their host (`--metrics-per-host`).
    pub per_host: bool,
    /// Count requests for hosts that none is configured for (`--metrics-per-undefined-host`).
    pub per_undefined_host: bool,
    /// Label requests with `2xx` instead of `200` (`--report-status-classes`).
    pub status_classes: bool,
    /// Labels of all of ingress-nginx's metrics.
    pub controller: Controller,
    /// Labels of `build_info`.
    pub build: BuildInfo,
}

/// Who this controller is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// `controller_namespace`.
    pub namespace: String,
    /// `controller_class`.
    pub class: String,
    /// `controller_pod`.
    pub pod: String,
}

/// What was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version.
    pub release: String,
    /// Commit.
    pub build: String,
    /// Where the source is.
    pub repository: String,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            time_buckets: vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            length_buckets: (1..=10).map(|n| f64::from(10 * n)).collect(),
            size_buckets: (1..=7).map(|n| 10_f64.powi(n)).collect(),
            per_host: true,
            per_undefined_host: false,
            status_classes: false,
            controller: Controller::default(),
            build: BuildInfo::default(),
        }
    }
}
