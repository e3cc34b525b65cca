use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use crate::AddressSet;
use crate::template::Template;

/// Quotas of a route: limits on the requests that share a value, in sliding windows of time. All routes with
/// the same zone share the counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestQuota {
    /// Identifies the counters: routes with the same zone count together. The same in every process.
    pub zone: u64,
    /// The limits, all of which apply.
    pub windows: Vec<QuotaWindow>,
    /// The value that requests are counted by; none for the client's address. A request whose value is empty
    /// is not limited.
    pub key: Option<Template>,
    /// Clients that are not limited.
    pub exempt: Option<Arc<AddressSet>>,
    /// All replicas count together.
    pub is_shared: bool,
}

/// So many requests in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaWindow {
    /// Number of requests that the window admits.
    pub requests: NonZeroU32,
    /// Length of the window in seconds.
    pub seconds: NonZeroU32,
}
