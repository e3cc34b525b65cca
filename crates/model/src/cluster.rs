use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::{Affinity, HashBy, HealthCheck, UpstreamTls};

/// The index of a [`Cluster`] in the [`Clusters`] of its [`Model`](crate::Model). A cluster keeps its index
/// from one model to the next of the same source; once the cluster is gone, another one may get the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

/// The only field of the object that stands for a [`ClusterId`] in JSON.
pub(crate) const CLUSTER_ID: &str = "ClusterId";

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

    /// Sets the cluster with an index, and replaces one that has it already.
    pub fn insert(&mut self, id: ClusterId, cluster: Arc<Cluster>) {
        let at = id.0 as usize;
        self.0.resize(self.0.len().max(at + 1), None);
        self.0[at] = Some(cluster);
    }

    /// Removes the cluster with an index.
    pub fn remove(&mut self, id: ClusterId) {
        self.0[id.0 as usize] = None;
        while self.0.pop_if(|last| last.is_none()).is_some() {}
    }
}

/// An object, which [`to_json`](crate::to_json) tells from numbers.
impl Serialize for ClusterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_variant("ClusterId", 0, CLUSTER_ID, &self.0)
    }
}

impl FromIterator<Cluster> for Clusters {
    fn from_iter<I: IntoIterator<Item = Cluster>>(clusters: I) -> Self {
        Self(clusters.into_iter().map(|cluster| Some(Arc::new(cluster))).collect())
    }
}

/// A group of endpoints that answer the same requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Name in logs and metrics; ingress-nginx's `$proxy_upstream_name` (`namespace-service-port`).
    pub name: String,
    /// The Service's port as `namespace/service:port`, which identifies it at every replica and after a
    /// restart. The cluster's name does not: both of its first parts may contain dashes.
    pub identity: String,
    /// How one endpoint is picked.
    pub balance: Balance,
    /// The protocol of the endpoints.
    pub version: AppProtocol,
    /// Whether they speak it over TLS.
    pub encryption: Encryption,
    /// Where the requests can go. By convention an address occurs at most once; one that occurs twice would
    /// be given twice the requests.
    pub endpoints: Vec<Endpoint>,
    /// The active health check of its endpoints; none where they are not checked.
    pub health_check: Option<Arc<HealthCheck>>,
}

/// One address of a [`Cluster`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it may be given new requests.
    pub state: EndpointState,
}

/// Whether an endpoint takes new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum EndpointState {
    /// Takes new requests.
    Ready,
    /// The endpoint is terminating: it finishes its requests, and gets new ones only while no endpoint of the
    /// cluster is ready (Kubernetes: `serving` while `terminating`).
    Draining,
}

/// The application protocol between the proxy and endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum AppProtocol {
    /// HTTP/1.1 (RFC 9112)
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, with prior knowledge in clear.
    Http2,
    /// `FastCGI` 1.0, in clear. [`FastCgi`](crate::FastCgi) has the parameters that applications get.
    FastCgi,
}

/// Whether endpoints are spoken to over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Encryption {
    /// Connections to endpoints are in clear.
    #[default]
    Never,
    /// Connections to endpoints use TLS with these settings.
    Always(Arc<UpstreamTls>),
    /// As the client speaks to the proxy (`backend-protocol: AUTO_HTTP`).
    AsClient(Arc<UpstreamTls>),
}

/// How an endpoint is picked for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
