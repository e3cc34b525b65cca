use std::net::SocketAddr;
use std::sync::Arc;

use crate::UpstreamTls;

/// Index of a [`Cluster`] in its [`Model`](crate::Model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

/// A group of endpoints that answer the same requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Name in logs and metrics; ingress-nginx's `$proxy_upstream_name` (`namespace-service-port`).
    pub name: String,
    /// How one endpoint is picked.
    pub balance: Balance,
    /// The version of HTTP that the endpoints speak.
    pub version: HttpVersion,
    /// Whether they speak it over TLS.
    pub encryption: Encryption,
    /// Where the requests can go. An address occurs at most once.
    pub endpoints: Vec<Endpoint>,
}

/// One address of a [`Cluster`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it may be given new requests.
    pub state: EndpointState,
}

/// Whether an endpoint takes new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointState {
    /// Takes new requests.
    Ready,
    /// Is going away: it finishes what it has, and is given new requests only when no endpoint of the cluster is ready
    /// (Kubernetes: `serving` while `terminating`).
    Draining,
}

/// Versions of HTTP towards endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/1.1 (RFC 9112)
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, with prior knowledge in clear.
    Http2,
}

/// Whether endpoints are spoken to over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// In clear.
    #[default]
    Never,
    /// Over TLS.
    Always(Arc<UpstreamTls>),
    /// As the client speaks to the proxy (`backend-protocol: AUTO_HTTP`).
    AsClient(Arc<UpstreamTls>),
}

/// How an endpoint is picked for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The better of two picked at random, by the moving average of their response times.
    Ewma,
}
