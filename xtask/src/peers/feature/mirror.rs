//! Copies of requests for a target that never answers.

use super::{Case, Feature, Manifests};

/// The longest that the server behind the target waits.
const TARGET: &str = "http://mirror.default.svc.cluster.local/delay/3600000";
const RATE_PER_SECOND: f64 = 10_000.0;

/// What gets to the target before it hangs is anything but nothing.
pub(crate) fn mirror_hanging() -> Case {
    let feature = Feature {
        manifests: Manifests { annotations: vec![("mirror-target", TARGET.into())], ..Manifests::default() },
        ..Feature::default()
    };
    Case {
        feature,
        services: &["mirror"],
        rate_per_second: RATE_PER_SECOND,
        asked_besides: 1e-6..=1.0,
        ..Case::default()
    }
}
