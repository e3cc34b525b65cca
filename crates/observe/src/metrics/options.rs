//! The options of metrics, and the identity of this process.

/// The options of metrics. The defaults are those of ingress-nginx.
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
    /// Count requests for hosts without an Ingress (`--metrics-per-undefined-host`).
    pub per_undefined_host: bool,
    /// Label requests with `2xx` instead of `200` (`--report-status-classes`).
    pub status_classes: bool,
    /// The labels of all of ingress-nginx's metrics.
    pub controller: Controller,
    /// The labels of `build_info`.
    pub build: BuildInfo,
}

/// The labels that identify this controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// The label `controller_namespace`.
    pub namespace: String,
    /// The label `controller_class`.
    pub class: String,
    /// The label `controller_pod`.
    pub pod: String,
}

/// The build of this binary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version of the release.
    pub release: String,
    /// Commit of the build.
    pub build: String,
    /// URL of the source repository.
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
