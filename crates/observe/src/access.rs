//! The values of a request, for a line of the access log in the configured format and for other texts with
//! variables.

mod escape;
mod line;
mod push;
mod stream;
mod time;
mod values;

use std::net::SocketAddr;
use std::time::Duration;

pub use line::{expand, write_line};
pub use stream::{StreamRecord, write_stream_line};
pub use time::{Time, TimeCache, TimeForm};
pub use values::Values;

/// A client's connection, with the values that texts with variables can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The other end of the connection, which may be a proxy in front.
    pub peer: SocketAddr,
    /// The address at which the connection arrived.
    pub server: SocketAddr,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The TLS session; none for plain TCP.
    pub tls: Option<Tls<'a>>,
    /// The number of the connection in this process.
    pub serial: u64,
    /// Number of requests on the connection so far, the present one included.
    pub requests: u64,
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
    /// Status of the response; none without a response.
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
