//! The values of a request: a line of the access log in the format that is configured, and other texts with variables.

mod escape;
mod line;
mod stream;
mod time;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::Labels;

pub use line::{expand, write_line};
pub use stream::{StreamRecord, write_stream_line};
pub use time::{Time, TimeCache};

/// What is known of a request when its response has ended. What is missing is logged as `-`.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// When it ended.
    pub time: Time<'a>,
    /// The client, as settled by the forwarded-headers settings.
    pub remote_addr: IpAddr,
    /// Who sent it, whoever it speaks for.
    pub peer: SocketAddr,
    /// Where it arrived.
    pub server: SocketAddr,
    /// User of Basic authentication.
    pub remote_user: Option<&'a [u8]>,
    /// Request line.
    pub request: Option<&'a [u8]>,
    /// Method.
    pub method: Option<&'a [u8]>,
    /// Target with its query, as sent.
    pub target: Option<&'a [u8]>,
    /// Normalised path.
    pub path: Option<&'a [u8]>,
    /// Query, without the question mark.
    pub query: Option<&'a [u8]>,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// What is spoken underneath, where that is TLS.
    pub tls: Option<Tls<'a>>,
    /// `HTTP/1.1` and the like.
    pub protocol: Option<&'a str>,
    /// Host asked for, in lower case, without a port.
    pub host: Option<&'a [u8]>,
    /// Host and scheme that the endpoint is told: a trusted hop may say which were used.
    pub forwarded: Option<(&'a [u8], &'a [u8])>,
    /// Status sent.
    pub status: u16,
    /// Bytes of body sent.
    pub body_bytes_sent: u64,
    /// Bytes sent, head included.
    pub bytes_sent: u64,
    /// Bytes received: line, headers and body.
    pub request_length: u64,
    /// From the first byte of the request to the last of the response.
    pub request_time: Duration,
    /// Serial number of the client connection.
    pub connection: u64,
    /// Requests made on it so far, this one included.
    pub connection_requests: u64,
    /// `namespace-service-port` of the upstream.
    pub upstream_name: Option<&'a str>,
    /// The upstream's canary; empty where none served.
    pub alternative_upstream_name: &'a str,
    /// Endpoints asked, in order.
    pub tries: &'a [Try],
    /// The request's id.
    pub request_id: Option<&'a [u8]>,
    /// Of the route.
    pub labels: Option<&'a Labels>,
    /// Name of the machine.
    pub hostname: &'a str,
    /// Process id.
    pub pid: u32,
    /// Values that have names of their own.
    pub named: &'a dyn Named,
}

/// A session of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls<'a> {
    /// `TLSv1.3` and the like.
    pub version: &'a str,
    /// As OpenSSL calls it.
    pub cipher: &'a str,
    /// Asked for in the handshake.
    pub server_name: Option<&'a str>,
    /// An earlier session was resumed.
    pub is_resumed: bool,
}

/// An endpoint that was asked. Times count from the start of the try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Where it listens.
    pub address: SocketAddr,
    /// Status of its response; none if it did not come to that.
    pub status: Option<u16>,
    /// Bytes of body received.
    pub response_bytes: u64,
    /// Until the connection stood.
    pub connect_time: Option<Duration>,
    /// Until the response's head was there.
    pub header_time: Option<Duration>,
    /// Until the response, or the try, had ended.
    pub response_time: Option<Duration>,
}

/// Where the values are found that have names of their own. Names of headers are asked for in lower case.
pub trait Named {
    /// A header that the client sent.
    fn request(&self, name: &str) -> Option<&[u8]>;
    /// A header that the client was sent.
    fn response(&self, name: &str) -> Option<&[u8]>;
    /// A cookie that the client sent.
    fn cookie(&self, name: &str) -> Option<&[u8]>;
    /// A parameter of the query, as sent.
    fn argument(&self, name: &str) -> Option<&[u8]>;
    /// What a group of the route's regular expression has found, counted from 1.
    fn capture(&self, group: u8) -> Option<&[u8]>;
}

/// No values: nothing could be read.
impl Named for () {
    fn request(&self, _: &str) -> Option<&[u8]> {
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
}
