//! The values that metrics record of one request.

use std::sync::Arc;
use std::time::Duration;

use super::{CacheResult, Method};
use crate::Reason;

/// A request whose response has ended.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// Method of the request.
    pub method: Method,
    /// Status of the response to the client.
    pub status: u16,
    /// Bytes received: request line, headers and body.
    pub request_bytes: u64,
    /// Bytes sent: status line, headers and body.
    pub response_bytes: u64,
    /// Time from the first byte of the request to the last byte of the response.
    pub request_time: Duration,
    /// The last try; none if no endpoint was tried.
    pub upstream: Option<UpstreamSample>,
    /// Name of the canary that served the request; none without a canary. It is the configuration's own
    /// pointer, which identifies the series.
    pub canary: Option<&'a Arc<str>>,
    /// The reason why Forebay responded itself or aborted the response; none otherwise.
    pub reason: Option<Reason>,
    /// Result of the cache; none if its route has none.
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
