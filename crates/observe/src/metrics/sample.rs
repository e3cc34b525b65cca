//! The values that metrics record of one request.

use std::sync::Arc;
use std::time::Duration;

use super::{CacheResult, Method};
use crate::Reason;

/// A request whose response has ended.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// Method.
    pub method: Method,
    /// Status of the response to the client.
    pub status: u16,
    /// Bytes received: request line, headers and body.
    pub request_bytes: u64,
    /// Bytes sent: status line, headers and body.
    pub response_bytes: u64,
    /// Time from the first byte of the request to the last of the response.
    pub request_time: Duration,
    /// The last try; none if no endpoint was asked.
    pub upstream: Option<UpstreamSample>,
    /// Name of the canary that served the request; none if none did. It is the configuration's own pointer, by which the series is
    /// found.
    pub canary: Option<&'a Arc<str>>,
    /// Why Forebay responded itself or broke the response off; none where it did not.
    pub reason: Option<Reason>,
    /// What a cache did for it; none if its route has none.
    pub cache: Option<CacheResult>,
}

/// Times of a try, counted from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamSample {
    /// Time until the connection was established; none if it was not.
    pub connect: Option<Duration>,
    /// Time until the response head had arrived; none if it did not.
    pub header: Option<Duration>,
    /// Time until the response had ended; none if it did not.
    pub response: Option<Duration>,
}
