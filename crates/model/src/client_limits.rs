use std::sync::Arc;

use crate::AddressSet;
use crate::template::Template;

/// How much one client may ask for, by its address or another value. All routes with the same zone share what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// What tells those who count together from others.
    pub zone: u64,
    /// Rates of requests, each of which counts (nginx: `limit_req ... burst=N nodelay`).
    pub rates: Vec<Rate>,
    /// Requests at work at a time (nginx: `limit_conn`); none for no such limit.
    pub connections: Option<u32>,
    /// What tells those apart who are counted; none for the client's address. Who comes to nothing is not limited.
    pub key: Option<Template>,
    /// Clients that are not limited.
    pub exempt: Option<Arc<AddressSet>>,
    /// Status of the answer to a request over a rate.
    pub rate_status: u16,
    /// Status of the answer to a request too many at a time.
    pub connections_status: u16,
}

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in a minute.
    pub per_minute: u64,
    /// Requests that may come at once beside one.
    pub burst: u64,
}
