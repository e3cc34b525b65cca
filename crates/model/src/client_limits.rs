use std::sync::Arc;

use serde::Serialize;

use crate::AddressSet;
use crate::template::Template;

/// Rate limits for each client, identified by its address or by another value. All routes with the same zone
/// share the counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientLimits {
    /// Identifies the counters: routes with the same zone count together.
    pub zone: u64,
    /// Limits on requests per time, all of which apply (nginx: `limit_req ... burst=N nodelay`).
    pub rates: Vec<Rate>,
    /// Requests at work at a time (nginx: `limit_conn`); none for no such limit.
    pub connections: Option<u32>,
    /// The value that identifies a client; none for its address. A client whose value is empty is not
    /// limited.
    pub key: Option<Template>,
    /// Clients that are not limited.
    pub exempt: Option<Arc<AddressSet>>,
    /// Status of the answer to a request over a rate.
    pub rate_status: u16,
    /// Status of the answer to a request too many at a time.
    pub connections_status: u16,
}

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Requests in a minute.
    pub per_minute: u64,
    /// Requests that may come at once beside one.
    pub burst: u64,
}
