use crate::ClusterId;

/// What becomes of a route's errors (ingress-nginx: `custom-http-errors` and `default-backend`).
///
/// The same allocation for all routes that agree in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorPages {
    statuses: Box<[u16]>,
    /// Who answers in place of a response with one of the statuses: the first of these with an endpoint. Where there is none, the answer
    /// is a plain 404, as that of ingress-nginx' own default backend.
    pub backends: Vec<ClusterId>,
    /// Responses of endpoints stay as they are; those that the proxy makes itself are replaced.
    pub spares_endpoints: bool,
    /// Who is sent the route's requests while its own cluster has no endpoint; none where they are answered with 503.
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
