//! A request, its answer or why there is none, and where it goes: in all protocols the same.
//!
//! Must not be in here: connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use rustls::ClientConfig;
use tokio::time::sleep;

/// Header that carries a request's identifier.
pub(crate) const ID: &str = "x-soak-id";

/// A request, as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Identifies the request in the access log.
    pub(crate) id: u64,
    pub(crate) method: Method,
    pub(crate) host: String,
    /// The name in the handshake of TLS: that of a host that has a certificate.
    pub(crate) server_name: &'static str,
    pub(crate) target: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    /// Time between two pieces of the answer that are read: a slow reader has more.
    pub(crate) pace: Duration,
}

/// An answer, all of it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why there is no whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// No connection could be made.
    Refused(String),
    /// The connection ended before the head of an answer.
    Silent(String),
    /// The answer was broken off, or did not come in time.
    Cut(String),
}

/// A failure, and whether the server has certainly not looked at the request.
pub(crate) struct Failure {
    pub(crate) is_unsent: bool,
    pub(crate) broken: Broken,
}

/// Where the proxy is, and whom clients believe.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Target {
    /// The settings of TLS for a protocol.
    pub(crate) fn tls_for(&self, alpn: &[u8]) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.tls);
        config.alpn_protocols = vec![alpn.to_vec()];
        config
    }
}

// === impl Request ===

impl Request {
    /// The head, with a header `Host` where the protocol needs it.
    pub(crate) fn head(&self, uri: &str, version: Version, names_host: bool) -> http::Request<()> {
        let builder = http::Request::builder().method(self.method.clone()).uri(uri).version(version);
        let mut builder = builder.header(ID, self.id.to_string());
        if names_host {
            builder = builder.header("host", &self.host);
        }
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        builder.body(()).expect("a head of valid parts")
    }

    /// Waits as a slow reader does.
    pub(crate) async fn linger(&self) {
        if !self.pace.is_zero() {
            sleep(self.pace).await;
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn cut(why: &str, read: usize) -> Failure {
        Failure { is_unsent: false, broken: Broken::Cut(format!("{why}, after {read} bytes")) }
    }
}
