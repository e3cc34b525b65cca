//! What load to make.
//!
//! Must not be in here: defaults that depend on the machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::tls::Tls;

/// What to send, how often, and what to expect.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to connect to, by connection in turn. At least one.
    pub targets: Vec<SocketAddr>,
    /// What is spoken.
    pub protocol: Protocol,
    /// TLS on every connection; `None` for none.
    pub tls: Option<Tls>,
    /// The Host header.
    pub host: String,
    /// The request's target, with its query.
    pub path: String,
    /// The request's method.
    pub method: String,
    /// Headers besides Host, Content-Length and Connection.
    pub headers: Vec<(String, String)>,
    /// The request's body; empty for none.
    pub body: Vec<u8>,
    /// How many connections are used at once.
    pub connections: usize,
    /// How many requests a connection carries before it says `Connection: close`; `None` for as many as the server allows.
    ///
    /// The server is left to close first: the `TIME_WAIT` is then on its side, and the generator's port is free at once,
    /// so that a run of any length does not use up the ports. HTTP/2 has no such request: there the generator says GOAWAY
    /// and resets.
    pub requests_per_connection: Option<u64>,
    /// When requests are sent.
    pub pace: Pace,
    /// When to stop sending.
    pub duration: Duration,
    /// How many requests to send at most.
    pub requests: Option<u64>,
    /// What every answer must be.
    pub expect: Expect,
    /// How long outstanding answers are waited for after the end.
    pub patience: Duration,
    /// How many threads share the connections, each with its part of the rate and of the requests.
    pub threads: usize,
    /// The CPUs that the threads run on, in turn; `None` leaves that to the kernel.
    pub cpus: Option<Vec<usize>>,
    /// Never sleep, and let others run in between. Waking a CPU that sleeps costs whoever wakes it, on a virtual machine
    /// some microseconds, which would be booked on the proxy: a byte relay at 20,000 requests a second was measured at
    /// 23 us a request with a generator that slept, and at 16 us with one that did not.
    pub awake: bool,
    /// Let everybody else on these CPUs go first: for load that must not delay who measures latency beside it.
    pub yielding: bool,
}

/// Versions of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// One request after the other on each connection.
    #[default]
    Http1,
    /// By ALPN over TLS, with prior knowledge in the clear.
    Http2 {
        /// How many requests a connection carries at once.
        streams: usize,
    },
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection sends its next request when it has its answer, as wrk and ab do.
    Closed,
    /// Requests are due at fixed times, spread evenly. Latency counts from then, whether or not a connection was free: a
    /// server that stalls cannot slow down the clock that it is measured by.
    Open {
        /// Requests a second, over all connections.
        rate_per_second: f64,
    },
    /// All connections send at once, and all wait until each has its answer.
    Bursts {
        /// Time from the start of a burst to the next one's, which is later where answers take longer.
        every: Duration,
    },
}

/// What an answer must be; another is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Its status.
    pub status: Status,
    /// Its body's length; `None` for any that is whole.
    pub body_bytes: Option<u64>,
}

/// Which statuses are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// This one.
    Is(u16),
    /// Every 2xx and 3xx.
    Fine,
}

/// One of several equal parts of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) index: usize,
    pub(super) of: usize,
}

impl Plan {
    /// One connection that gets `path` for a second; the rest is set as needed.
    pub fn new(target: SocketAddr, path: &str) -> Plan {
        Plan { targets: vec![target], path: path.into(), ..Plan::default() }
    }

    /// The request's bytes.
    pub(super) fn request(&self, closing: bool) -> Vec<u8> {
        let Plan { method, path, host, body, .. } = self;
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), format!("Host: {host}")];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
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
    /// Whether it is good.
    pub(super) fn admits(self, status: u16) -> bool {
        match self {
            Status::Is(wanted) => status == wanted,
            Status::Fine => (200..400).contains(&status),
        }
    }
}

impl Share {
    /// This part of `total` things that cannot be divided.
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
            headers: vec![("X-A".into(), "1".into())],
            body: b"hi".into(),
            ..Plan::default()
        };
        let request = String::from_utf8(plan.request(true)).expect("text");
        assert_eq!(
            request,
            "POST / HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
        );
    }
}
