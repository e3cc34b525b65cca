//! The values of a request, for a line of the access log in the configured format and for other texts with variables.

mod escape;
mod line;
mod stream;
mod time;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::template::{Template, Variable};
use model::{Captures, Labels, StepBudget, ValueMap};

use crate::Reason;

pub use line::{expand, write_line};
pub use stream::{StreamRecord, write_stream_line};
pub use time::{Time, TimeCache};

/// The values of a request after its response has ended. A missing value is logged as `-`.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The time at which it ended.
    pub time: Time<'a>,
    /// The client's address, determined by the settings of forwarded headers.
    pub remote_addr: IpAddr,
    /// The other end of the connection, which may be a proxy in front.
    pub peer: SocketAddr,
    /// The address at which the connection arrived.
    pub server: SocketAddr,
    /// User name of Basic authentication.
    pub remote_user: Option<&'a [u8]>,
    /// Request line.
    pub request: Option<&'a [u8]>,
    /// Method.
    pub method: Option<&'a [u8]>,
    /// Request target with its query, as it was sent.
    pub target: Option<&'a [u8]>,
    /// Normalised path.
    pub path: Option<&'a [u8]>,
    /// Query, without the question mark.
    pub query: Option<&'a [u8]>,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The TLS session; none for plain TCP.
    pub tls: Option<Tls<'a>>,
    /// Protocol version, such as `HTTP/1.1`.
    pub protocol: Option<&'a str>,
    /// The requested host, in lower case and without a port.
    pub host: Option<&'a [u8]>,
    /// Host and scheme that the endpoint is told: a trusted hop may say which were used.
    pub forwarded: Option<(&'a [u8], &'a [u8])>,
    /// Status sent.
    pub status: u16,
    /// Bytes of the response body sent.
    pub body_bytes_sent: u64,
    /// Bytes sent, head included.
    pub bytes_sent: u64,
    /// Bytes received: request line, headers and body.
    pub request_length: u64,
    /// Time from the first byte of the request to the last of the response.
    pub request_time: Duration,
    /// Serial number of the client connection.
    pub connection: u64,
    /// Number of requests on that connection so far, this one included.
    pub connection_requests: u64,
    /// `namespace-service-port` of the upstream.
    pub upstream_name: Option<&'a str>,
    /// The canary that served the request; empty if none did.
    pub alternative_upstream_name: &'a str,
    /// What the cache did, where the route has one.
    pub cache_status: Option<&'a str>,
    /// Why Forebay responded itself or broke the response off; none where the response is an endpoint's or a rule's.
    pub reason: Option<Reason>,
    /// The tries, in order.
    pub tries: &'a [Try],
    /// The request's id.
    pub request_id: Option<&'a [u8]>,
    /// `traceparent` as endpoints are told, of a request that is traced.
    pub traceparent: Option<&'a [u8; 55]>,
    /// The labels of the route.
    pub labels: Option<&'a Labels>,
    /// What the name of a `FastCGI` script has at its end where the path ends in a slash.
    pub index: &'a str,
    /// Name of the machine.
    pub hostname: &'a str,
    /// Process id.
    pub pid: u32,
    /// Values that have names of their own.
    pub named: &'a dyn Named,
}

/// A TLS session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls<'a> {
    /// Protocol version, such as `TLSv1.3`.
    pub version: &'a str,
    /// Cipher suite, by OpenSSL's name.
    pub cipher: &'a str,
    /// Server name from the handshake (SNI).
    pub server_name: Option<&'a str>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

/// A try: one request to one endpoint. Times count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// The endpoint's address.
    pub address: SocketAddr,
    /// Status of the response; none if there was none.
    pub status: Option<u16>,
    /// Bytes of the response body received.
    pub response_bytes: u64,
    /// Time until the connection was established; none if it was not.
    pub connect_time: Option<Duration>,
    /// Time until the response head had arrived; none if it did not.
    pub header_time: Option<Duration>,
    /// Time until the response, or the try, had ended.
    pub response_time: Option<Duration>,
}

/// Looks up the values whose variables contain a name. Names of headers are in lower case.
pub trait Named {
    /// A header of the request; of one that comes more than once, all values.
    fn request(&self, name: &str) -> Option<Cow<'_, [u8]>>;
    /// A header of the response to the client.
    fn response(&self, name: &str) -> Option<&[u8]>;
    /// A cookie that the client sent.
    fn cookie(&self, name: &str) -> Option<&[u8]>;
    /// A parameter of the query, as sent.
    fn argument(&self, name: &str) -> Option<&[u8]>;
    /// The text that a group of the route's regular expression has matched; groups are counted from 1.
    fn capture(&self, group: u8) -> Option<&[u8]>;
    /// The value that a script has given to a name.
    fn set(&self, name: &str) -> Option<&[u8]>;
    /// A value that is made only for a text that has it in it, and that no [`Record`] holds.
    fn computed(&self, variable: &Variable) -> Option<Cow<'_, [u8]>>;
    /// The value that a table has for a text, and what the groups of its expression have found; none where that takes too many steps.
    fn in_map<'m>(&self, map: &'m ValueMap, text: &[u8]) -> Option<(&'m Template, Option<Captures>)> {
        map.find(text, &StepBudget::default()).ok()
    }
}

/// For a request that could not be parsed: no values.
impl Named for () {
    fn request(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn response(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn argument(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn capture(&self, _: u8) -> Option<&[u8]> {
        None
    }

    fn set(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn computed(&self, _: &Variable) -> Option<Cow<'_, [u8]>> {
        None
    }
}
