//! The protocol of an endpoint: part of its identity.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use model::{AppProtocol, Encryption, UpstreamTls};

use crate::io::tls::upstream::{ConnectorConfig, ConnectorConfigs};

/// The protocol towards an endpoint.
#[derive(Clone, Default)]
pub(crate) struct Protocol {
    /// The version of HTTP.
    pub(crate) version: AppProtocol,
    /// TLS under it; none for cleartext.
    pub(crate) tls: Option<Arc<ConnectorConfig>>,
}

/// Identity of an endpoint: connections to equal targets are interchangeable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
}

impl Protocol {
    /// The protocol towards a cluster's endpoints for cleartext clients, and the one for clients over TLS
    /// where it differs.
    pub(crate) fn of(cluster: &model::Cluster, profiles: &ConnectorConfigs) -> (Self, Option<Self>) {
        let version = cluster.version;
        let clear = Self { version, tls: None };
        let over = |tls: &Arc<UpstreamTls>| Self { version, tls: Some(profiles.get(tls, version)) };
        match &cluster.encryption {
            Encryption::Never => (clear, None),
            Encryption::Always(tls) => (over(tls), None),
            Encryption::AsClient(tls) => (clear, Some(over(tls))),
        }
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.tls.as_ref().map(Arc::as_ptr) == other.tls.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for Protocol {}

impl Hash for Protocol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.version, self.tls.as_ref().map(Arc::as_ptr)).hash(state);
    }
}
