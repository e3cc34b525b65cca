use std::num::NonZeroU32;
use std::sync::Arc;

use crate::AddressSet;
use crate::template::Template;

/// How many requests of a route those may send who have one value in common, in windows of time that slide. All routes with the same zone
/// share what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestQuota {
    /// What tells those who count together from others; the same in every process.
    pub zone: u64,
    /// How many in how much time, each of which counts.
    pub windows: Vec<QuotaWindow>,
    /// What tells those apart who are counted; none for the client's address. Who comes to nothing is not limited.
    pub key: Option<Template>,
    /// Clients that are not limited.
    pub exempt: Option<Arc<AddressSet>>,
    /// All replicas count together.
    pub is_shared: bool,
}

/// So many requests in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaWindow {
    /// Requests.
    pub requests: NonZeroU32,
    /// Length of the window in seconds.
    pub seconds: NonZeroU32,
}
