//! The nouns of a configuration: hosts, routes, filters, clusters, endpoints and the settings of the proxy.
//!
//! Every source of configuration is translated to a [`Model`], and everything that serves requests is compiled from one.
//! A value is checked when it is made, so that no later stage has to doubt it. What several values together must keep, such as that a
//! name occurs once, is said where they stand, and is kept by whoever puts them together.
//!
//! Never in here: IO, async, Kubernetes types, protocol bytes.

mod access;
mod backend;
mod cluster;
mod condition;
mod filter;
mod host;
mod host_tls;
pub mod log;
mod pattern;
mod route;
mod settings;
mod stream;
pub mod template;
mod tls;
mod unit;

use std::sync::Arc;

pub use access::{Access, ClientCertificate};
pub use backend::{Backend, Backends, NoWeight, Split};
pub use cluster::{Balance, Cluster, ClusterId, Clusters, Encryption, Endpoint, EndpointState, HttpVersion};
pub use condition::{Condition, Conditions, Precedence, ValueMatch};
pub use filter::{DuplicateFilter, RequestFilter, RequestFilters, TlsRedirect};
pub use host::{Host, HostName, InvalidHostName};
pub use host_tls::{ClientAuth, HostTls, VerifyClient};
pub use pattern::{InvalidPattern, Pattern};
pub use route::{
    Action, ConnectionHeader, DirectResponse, Forward, InvalidPath, Labels, PathKind, PathMatch, RetryOn,
    RetryPolicy, Route, Timeouts,
};
pub use settings::{AccessLog, ClientSettings, ForwardedSettings, PoolCap, Settings, UpstreamConnections};
pub use stream::{Stream, StreamSettings, Transport};
pub use tls::{
    Authorities, Certificate, CertificateInfo, CipherSuite, KeyEncoding, PrivateKey, TlsSettings,
    TlsVersions, UpstreamTls,
};
pub use unit::{InvalidUnit, parse_duration, parse_seconds, parse_size};

/// A whole configuration, as one source or several together describe it. What models have in common they share: two pointers to
/// one place are equal without a look at what is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Hosts with their routes. A name occurs at most once by convention: of two, the last one would be served. A request for a host
    /// that is not listed goes to [`HostName::Any`] where that is listed.
    pub hosts: Vec<Arc<Host>>,
    /// Groups of endpoints, referred to by [`ClusterId`].
    pub clusters: Clusters,
    /// Ports whose bytes are passed on as they are. By convention a port occurs at most once for
    /// each transport: of two, the first one would be opened.
    pub streams: Vec<Stream>,
    /// What holds for the proxy as a whole.
    pub settings: Settings,
}

impl Model {
    /// The cluster that an id of this model stands for.
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        self.clusters.get(id)
    }
}
