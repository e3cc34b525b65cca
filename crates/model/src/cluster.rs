use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Affinity, HashBy, UpstreamTls};

/// The place of a [`Cluster`] among the [`Clusters`] of its [`Model`](crate::Model). From one model to the next of the same source
/// a cluster keeps it; once the cluster is gone, it may be given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

/// Clusters by id, shared by the models that have them in common. There may be gaps between the ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters(Vec<Option<Arc<Cluster>>>);

impl Clusters {
    /// The cluster of an id.
    ///
    /// # Panics
    ///
    /// When the id is of another model.
    pub fn get(&self, id: ClusterId) -> &Arc<Cluster> {
        self.0[id.0 as usize].as_ref().expect("the id of a cluster of this model")
    }

    /// The clusters by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (ClusterId, &Arc<Cluster>)> {
        (0..).map(ClusterId).zip(&self.0).filter_map(|(id, cluster)| Some((id, cluster.as_ref()?)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Puts a cluster in a place, be there one already or not.
    pub fn insert(&mut self, id: ClusterId, cluster: Arc<Cluster>) {
        let at = id.0 as usize;
        self.0.resize(self.0.len().max(at + 1), None);
        self.0[at] = Some(cluster);
    }

    /// Empties a place.
    pub fn remove(&mut self, id: ClusterId) {
        self.0[id.0 as usize] = None;
        while self.0.pop_if(|last| last.is_none()).is_some() {}
    }
}

impl FromIterator<Cluster> for Clusters {
    fn from_iter<I: IntoIterator<Item = Cluster>>(clusters: I) -> Self {
        Self(clusters.into_iter().map(|cluster| Some(Arc::new(cluster))).collect())
    }
}

/// A group of endpoints that answer the same requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Name in logs and metrics; ingress-nginx's `$proxy_upstream_name` (`namespace-service-port`).
    pub name: String,
    /// Tells the Service's port from every other one, at every replica and after a restart: `namespace/service:port`. A name does not:
    /// both of its first parts may contain dashes.
    pub identity: String,
    /// How one endpoint is picked.
    pub balance: Balance,
    /// What the endpoints speak.
    pub version: AppProtocol,
    /// Whether they speak it over TLS.
    pub encryption: Encryption,
    /// Where the requests can go. By convention an address occurs at most once; one that occurs twice would be
    /// given twice the requests.
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

/// What is spoken with endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AppProtocol {
    /// HTTP/1.1 (RFC 9112)
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, with prior knowledge in clear.
    Http2,
    /// `FastCGI` 1.0, in clear. Applications are told what [`FastCgi`](crate::FastCgi) says.
    FastCgi,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The better of two picked at random, by the moving average of their response times.
    Ewma,
    /// The one that the client's cookie leads to.
    Cookie(Arc<Affinity>),
    /// The one that a value of the request leads to.
    Hash(Arc<HashBy>),
}
