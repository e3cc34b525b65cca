use serde::Serialize;

use crate::ClusterId;

/// Handling of a route's errors (ingress-nginx: `custom-http-errors` and `default-backend`).
///
/// Routes with equal settings share one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ErrorPages {
    statuses: Box<[u16]>,
    /// Backends that replace a response with one of the statuses: the first that has an endpoint. If none
    /// has, the answer is a plain 404, as that of ingress-nginx's own default backend.
    pub backends: Vec<ClusterId>,
    /// Passes the errors of endpoints on unchanged; only errors of the proxy itself are replaced.
    pub spares_endpoints: bool,
    /// The cluster that gets the route's requests while its own cluster has no endpoint; none to answer them
    /// with 503.
    pub fallback: Option<ClusterId>,
}

impl ErrorPages {
    /// Replaces responses with these statuses.
    pub fn new(mut statuses: Vec<u16>) -> Self {
        statuses.sort_unstable();
        statuses.dedup();
        Self { statuses: statuses.into(), ..Self::default() }
    }

    /// The statuses, in ascending order.
    pub fn statuses(&self) -> &[u16] {
        &self.statuses
    }

    /// Whether a response with this status is replaced.
    pub fn replaces(&self, status: u16) -> bool {
        self.statuses.binary_search(&status).is_ok()
    }
}
