//! What is recorded of one request.

use std::sync::Arc;
use std::time::Duration;

use super::Method;

/// A request, when its response has ended.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// Method.
    pub method: Method,
    /// Status that the client was sent.
    pub status: u16,
    /// Bytes received: line, headers and body.
    pub request_bytes: u64,
    /// Bytes sent: line, headers and body.
    pub response_bytes: u64,
    /// From the first byte of the request to the last of the response.
    pub request_time: Duration,
    /// The last try, if an endpoint was asked.
    pub upstream: Option<UpstreamSample>,
    /// Name of the canary that served it, if one did; the configuration's own copy, as with the labels.
    pub canary: Option<&'a Arc<str>>,
}

/// Times of an endpoint, all from the start of the try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamSample {
    /// Until the connection stood.
    pub connect: Option<Duration>,
    /// Until the head of the response was there.
    pub header: Option<Duration>,
    /// Until the response had ended.
    pub response: Option<Duration>,
}
