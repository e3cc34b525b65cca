use std::time::Duration;

use serde::Serialize;

use crate::log::{Output, StreamFormat};
use crate::{Backends, Labels};

/// The backend that the bytes or datagrams of a listener are passed on to (ingress-nginx: `tcp-services`,
/// `udp-services`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// Backends, one of which is chosen for each connection or session. By convention no canary.
    pub backends: Backends,
    /// Whether connections begin with a PROXY header with the client's address.
    pub accepts_proxy_header: bool,
    /// Endpoints are sent a PROXY header.
    pub sends_proxy_header: bool,
    /// A session of datagrams is over once the answers have come that [`StreamSettings::responses`] expects.
    pub counts_responses: bool,
    /// Labels of the stream in metrics and logs.
    pub labels: Labels,
}

/// The backend for TLS connections to a [`Host`](crate::Host) that does not serve HTTP: the bytes are passed
/// on (Gateway API: `TLSRoute`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlsStream {
    /// Whether TLS ends here, with the host's certificate. Otherwise the encrypted bytes are passed on.
    pub is_terminated: bool,
    /// Backends, one of which is chosen for each connection. By convention no canary.
    pub backends: Backends,
    /// Labels of the stream in metrics and logs.
    pub labels: Labels,
}

/// The transport protocols of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Transport {
    /// Transmission Control Protocol, connections.
    Tcp,
    /// User Datagram Protocol, sessions by address.
    Udp,
}

/// Settings of all streams. The defaults are ingress-nginx's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamSettings {
    /// Time without a byte in either direction after which a stream is closed (`proxy-stream-timeout`).
    pub idle_timeout: Duration,
    /// Datagrams that answer one of a client's (`proxy-stream-responses`): after so many the session ends;
    /// none for no such number.
    pub responses: Option<u32>,
    /// Try another endpoint where one cannot be connected to (`proxy-stream-next-upstream`).
    pub next_upstream: bool,
    /// Endpoints that are tried; none for all (`proxy-stream-next-upstream-tries`).
    pub tries: Option<u32>,
    /// To connect, over all tries (`proxy-stream-next-upstream-timeout`).
    pub connect_timeout: Duration,
    /// An answer that takes longer than this after the message counts as over the threshold.
    pub response_threshold: Duration,
    /// Whether connections and sessions are written to the access log (`disable-stream-access-log`).
    pub access_log: bool,
    /// The template of a log line (`log-format-stream`).
    pub log_format: StreamFormat,
    /// Where its lines go (`access-log-path`, `stream-access-log-path`).
    pub log_output: Output,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(600),
            responses: Some(1),
            next_upstream: true,
            tries: Some(3),
            connect_timeout: Duration::from_secs(600),
            response_threshold: Duration::from_millis(10),
            access_log: true,
            log_format: StreamFormat::default(),
            log_output: Output::default(),
        }
    }
}
