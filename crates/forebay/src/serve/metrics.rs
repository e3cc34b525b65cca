//! The metrics that the command line asks for.

use observe::{BuildInfo, Controller, MetricsOptions};

use crate::{cli, version};

pub(super) fn metrics_options(metrics: &cli::Metrics, reading: &cli::Reading) -> MetricsOptions {
    let defaults = MetricsOptions::default();
    let given = |list: &[f64], default: Vec<f64>| if list.is_empty() { default } else { list.to_vec() };
    let variable = |name| std::env::var(name).unwrap_or_default();
    MetricsOptions {
        time_buckets: given(&metrics.time_buckets, defaults.time_buckets),
        length_buckets: given(&metrics.length_buckets, defaults.length_buckets),
        size_buckets: given(&metrics.size_buckets, defaults.size_buckets),
        per_host: metrics.metrics_per_host,
        per_undefined_host: metrics.metrics_per_undefined_host,
        status_classes: metrics.report_status_classes,
        controller: Controller {
            namespace: variable("POD_NAMESPACE"),
            class: reading.controller_class.clone(),
            pod: variable("POD_NAME"),
        },
        build: BuildInfo {
            release: version::RELEASE.to_owned(),
            build: version::COMMIT.unwrap_or_default().to_owned(),
            repository: String::new(),
        },
    }
}
