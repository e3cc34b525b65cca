//! A plan: the load to make.
//!
//! Must not be in here: defaults that depend on the machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::tls::Tls;

/// The place of a variant in the path and in the values of headers.
pub const VARIANT: &str = "{}";

/// The requests to send, their pace, and the responses to expect.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Addresses to connect to; the connections use them in turn. At least one.
    pub targets: Vec<SocketAddr>,
    /// The version of HTTP.
    pub protocol: Protocol,
    /// TLS on every connection; `None` for plain TCP.
    pub tls: Option<Tls>,
    /// The Host header.
    pub host: String,
    /// The request's target, with its query.
    pub path: String,
    /// The request's method.
    pub method: String,
    /// Headers besides Host, Content-Length and Connection.
    pub headers: Vec<(String, String)>,
    /// Texts that requests have in turn in place of [`VARIANT`]; none where all requests are alike. All
    /// requests are made before the start.
    pub variants: Arc<[String]>,
    /// The request's body; empty for none.
    pub body: Vec<u8>,
    /// Number of connections in use at once.
    pub connections: usize,
    /// Requests on one connection before it is closed with `Connection: close`; `None` for as many as the
    /// server allows.
    ///
    /// The server is left to close first, so that the `TIME_WAIT` is on its side and the generator's port is
    /// free at once: a long run does not use up the ports. HTTP/2 has no such request: there the generator
    /// sends GOAWAY and resets. Over QUIC it closes the connection.
    pub requests_per_connection: Option<u64>,
    /// When requests are sent.
    pub pace: Pace,
    /// Time after which no more requests are sent.
    pub duration: Duration,
    /// Most requests to send; `None` for no limit.
    pub requests: Option<u64>,
    /// The response that every request has to get.
    pub expect: Expect,
    /// Longest wait for outstanding responses after the end.
    pub patience: Duration,
    /// Number of threads; each has its part of the connections, the rate and the requests.
    pub threads: usize,
    /// The CPUs that the threads are pinned to, in turn; `None` for no pinning.
    pub cpus: Option<Vec<usize>>,
    /// Never sleep, and yield the CPU instead. To wake a sleeping CPU takes some microseconds on a virtual
    /// machine, which are counted for the one that wakes it, and so for the proxy: a byte relay at 20,000
    /// requests per second took 23 us per request with a generator that slept, and 16 us with one that did
    /// not.
    pub awake: bool,
    /// Run at the lowest priority: for background load that must not delay a latency measurement on the same
    /// CPUs.
    pub yielding: bool,
}

/// Versions of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: one request after the other on each connection.
    #[default]
    Http1,
    /// HTTP/2, agreed on by ALPN over TLS, with prior knowledge in clear.
    Http2 {
        /// Number of requests in flight on one connection.
        streams: usize,
    },
    /// HTTP/3 over QUIC; it needs TLS, of which it has version 1.3 whatever the plan says.
    Http3 {
        /// Number of requests in flight on one connection.
        streams: usize,
    },
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends its next request when it has the response, as wrk and ab do.
    Closed,
    /// Open loop: requests are due at fixed times, evenly spread. Latency is measured from the due time, even
    /// if no connection was free: otherwise a server that stalls would also stop the requests that measure
    /// the stall.
    Open {
        /// Requests per second, over all connections.
        rate_per_second: f64,
    },
    /// All connections send at once, and all wait until each has its answer.
    Bursts {
        /// Time from the start of a burst to that of the next, which is later if responses take longer.
        every: Duration,
    },
}

/// The expected response; another one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The expected status.
    pub status: Status,
    /// Length of the body; `None` for any complete body.
    pub body_bytes: Option<u64>,
}

/// The statuses that are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// This status only.
    Is(u16),
    /// Every 2xx and 3xx.
    Fine,
}

/// One of several equal parts of a plan, for one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) index: usize,
    pub(super) of: usize,
}

impl Plan {
    /// A plan with one connection that requests `path` for a second; change the fields as needed.
    pub fn new(target: SocketAddr, path: &str) -> Plan {
        Plan { targets: vec![target], path: path.into(), ..Plan::default() }
    }

    /// The variants of requests: one that changes nothing where all requests are alike.
    pub(super) fn variants(&self) -> impl Iterator<Item = &str> {
        let alike = self.variants.is_empty().then_some(VARIANT);
        alike.into_iter().chain(self.variants.iter().map(String::as_str))
    }

    /// The bytes of the request with this variant.
    pub(super) fn request(&self, variant: &str, closing: bool) -> Vec<u8> {
        let Plan { method, host, body, .. } = self;
        let path = self.path.replace(VARIANT, variant);
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), format!("Host: {host}")];
        let headers = self.headers.iter();
        lines.extend(headers.map(|(name, value)| format!("{name}: {}", value.replace(VARIANT, variant))));
        if !body.is_empty() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        if closing {
            lines.push("Connection: close".into());
        }
        [(lines.join("\r\n") + "\r\n\r\n").as_bytes(), body].concat()
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            targets: vec![(Ipv4Addr::LOCALHOST, 80).into()],
            protocol: Protocol::Http1,
            tls: None,
            host: "localhost".into(),
            path: "/".into(),
            method: "GET".into(),
            headers: Vec::new(),
            variants: Arc::default(),
            body: Vec::new(),
            connections: 1,
            requests_per_connection: None,
            pace: Pace::Closed,
            duration: Duration::from_secs(1),
            requests: None,
            expect: Expect { status: Status::Is(200), body_bytes: None },
            patience: Duration::from_secs(5),
            threads: 1,
            cpus: None,
            awake: false,
            yielding: false,
        }
    }
}

impl Status {
    /// Whether this status is expected.
    pub(super) fn admits(self, status: u16) -> bool {
        match self {
            Status::Is(wanted) => status == wanted,
            Status::Fine => (200..400).contains(&status),
        }
    }
}

impl Share {
    /// The part of `total` indivisible things.
    pub(super) fn part(self, total: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        total / of + u64::from(index < total % of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for total in 0..20 {
            let sum: u64 = (0..3).map(|index| Share { index, of: 3 }.part(total)).sum();
            assert_eq!(sum, total);
        }
    }

    #[test]
    fn a_request_is_what_the_plan_says() {
        let plan = Plan {
            method: "POST".into(),
            headers: vec![("X-A".into(), "a{}c".into())],
            body: b"hi".into(),
            ..Plan::default()
        };
        let request = String::from_utf8(plan.request("b", true)).expect("text");
        assert_eq!(
            request,
            "POST / HTTP/1.1\r\nHost: localhost\r\nX-A: abc\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
        );
    }
}
