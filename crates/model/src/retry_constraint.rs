//! The bound of a Service's retries, by its recent requests. Must not be in here: counts.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// How many of the requests to a Service may be retries (Gateway API: `RetryConstraint`). A retry is allowed
/// while either of the two bounds is not reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RetryConstraint {
    /// The Service as `namespace/name`. All of its ports share the bound.
    pub service: Arc<str>,
    /// Retries that are allowed for 100 requests.
    pub percent: u8,
    /// Time for which these requests and retries count.
    pub interval: Duration,
    /// Retries that are allowed in `min_interval`, however few requests there are.
    pub min_retries: u32,
    /// Time for which these retries count.
    pub min_interval: Duration,
}

impl RetryConstraint {
    /// The bound in words, for those who want to know what applies to a request.
    pub fn in_words(&self) -> String {
        let Self { service, percent, interval, min_retries, min_interval } = self;
        format!(
            "retries of Service {service} at most: {percent} % of its requests in {interval:?}, or \
             {min_retries} in {min_interval:?}; after that 503"
        )
    }
}
