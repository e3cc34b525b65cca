//! The metrics of authorization services: answers by result, and the time that requests waited for them.

use std::sync::Arc;
use std::time::Duration;

use super::Counter;
use super::encode::{Page, labels, sum};
use super::names;
use super::recorder::Recorder;
use super::registry::Registry;
use super::worker_cells::WorkerCells;

/// The result of a question to an authorization service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthzResult {
    /// The service lets the request in.
    Allowed,
    /// The service refuses the request.
    Denied,
    /// There was no answer that could be obeyed.
    Error,
}

impl Recorder {
    /// Records a question to an authorization service, and the time until its result.
    #[cold]
    pub fn ext_authz(&self, result: AuthzResult, took: Duration) {
        self.count(match result {
            AuthzResult::Allowed => Counter::ExtAuthzAllowed,
            AuthzResult::Denied => Counter::ExtAuthzDenied,
            AuthzResult::Error => Counter::ExtAuthzErrors,
        });
        self.add(Counter::ExtAuthzMicros, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}

impl Registry {
    pub(super) fn encode_ext_authz(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::EXT_AUTHZ_REQUESTS);
        for (result, counter) in [
            ("allowed", Counter::ExtAuthzAllowed),
            ("denied", Counter::ExtAuthzDenied),
            ("error", Counter::ExtAuthzErrors),
        ] {
            let count = sum(workers, |worker| worker.counter(counter));
            page.sample(names::EXT_AUTHZ_REQUESTS.name, &labels(&[("result", result)]), count);
        }
        page.family(&names::EXT_AUTHZ_SECONDS);
        let micros = sum(workers, |worker| worker.counter(Counter::ExtAuthzMicros));
        page.sample(names::EXT_AUTHZ_SECONDS.name, "", micros as f64 / 1e6);
    }
}
