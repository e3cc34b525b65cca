use std::time::Duration;

use crate::log::{Output, StreamFormat};
use crate::{Backends, Labels};

/// Where the bytes or datagrams of a listener are passed on to as they are (ingress-nginx: `tcp-services`, `udp-services`).
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// To whom: for each connection or session one of them. By convention no canary.
    pub backends: Backends,
    /// Connections begin with a PROXY header that says who the client is.
    pub accepts_proxy_header: bool,
    /// Endpoints are sent a PROXY header.
    pub sends_proxy_header: bool,
    /// A session of datagrams is over once the answers have come that [`StreamSettings::responses`] expects.
    pub counts_responses: bool,
    /// What it is called in metrics and logs.
    pub labels: Labels,
}

/// What becomes of the connections of a [`Host`](crate::Host) over TLS that do not speak HTTP with us: the bytes are passed on (Gateway API:
/// `TLSRoute`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStream {
    /// The bytes are decrypted here, with the certificate of the host. Otherwise they are passed on as they come.
    pub is_terminated: bool,
    /// To whom: for each connection one of them. By convention no canary.
    pub backends: Backends,
    /// What it is called in metrics and logs.
    pub labels: Labels,
}

/// Transport protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

/// What holds for all streams. The defaults are ingress-nginx's.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSettings {
    /// Time without a byte either way after which a stream is closed (`proxy-stream-timeout`).
    pub idle_timeout: Duration,
    /// Datagrams that answer one of a client's (`proxy-stream-responses`): after so many the session ends; none for no such
    /// number.
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
    /// Of what a line consists (`log-format-stream`).
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
