//! Clusters: the endpoints of a Service's port, and how requests are shared out among them.
//!
//! Must not be in here: a choice among endpoints, which is made for each request.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::{Affinity, HashBy, HealthCheck, RetryConstraint, UpstreamTls};

/// The index of a [`Cluster`] in the [`Clusters`] of its [`Model`](crate::Model). A cluster keeps its index
/// from one model to the next of the same source; once the cluster is gone, another one may get the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

/// The only field of the object that stands for a [`ClusterId`] in JSON.
pub(crate) const CLUSTER_ID: &str = "ClusterId";

/// Clusters by id, shared by the models that have them in common. There may be gaps between the ids.
///
/// There may be 100,000 of them, and a change replaces one: copies share all but the part that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    /// All parts but the last one have [`PART`] places.
    parts: Vec<Arc<ClusterPart>>,
    /// The clusters whose endpoints are checked.
    checked: BTreeSet<ClusterId>,
}

/// A part of [`Clusters`]: those of neighbouring ids, each in its place.
pub type ClusterPart = Vec<Option<Arc<Cluster>>>;

/// Places of a part.
const PART: usize = Clusters::PART;

impl Clusters {
    /// The number of ids in a part: a change of one of its clusters makes another part.
    pub const PART: usize = 256;

    /// The cluster of an id.
    ///
    /// # Panics
    ///
    /// When the id is of another model.
    pub fn get(&self, id: ClusterId) -> &Arc<Cluster> {
        self.find(id).expect("the id of a cluster of this model")
    }

    /// The cluster of an id; none for an id that no cluster has.
    pub fn find(&self, id: ClusterId) -> Option<&Arc<Cluster>> {
        let at = id.0 as usize;
        self.parts.get(at / PART)?.get(at % PART)?.as_ref()
    }

    /// The parts, in which the clusters are by their ids. A part that two models share has the same clusters.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<ClusterPart>> {
        self.parts.iter()
    }

    /// The part with a number, from 0; none beyond the last one.
    pub fn part(&self, number: usize) -> Option<&Arc<ClusterPart>> {
        self.parts.get(number)
    }

    /// The least id that is greater than those of all clusters.
    pub fn end(&self) -> ClusterId {
        let whole = self.parts.len().saturating_sub(1) * PART;
        ClusterId((whole + self.parts.last().map_or(0, |last| last.len())) as u32)
    }

    /// The clusters whose endpoints are checked, by ascending id.
    pub fn checked(&self) -> impl Iterator<Item = ClusterId> {
        self.checked.iter().copied()
    }

    /// The clusters that others do not have as the same allocation with the same id.
    pub fn unlike<'c>(&'c self, others: &'c Self) -> impl Iterator<Item = &'c Arc<Cluster>> {
        let is_same =
            |part: &Arc<_>, at: usize| others.parts.get(at).is_some_and(|one| Arc::ptr_eq(part, one));
        let parts = self.parts.iter().enumerate().filter(move |(at, part)| !is_same(part, *at));
        parts.flat_map(move |(at, part)| {
            let place = move |(place, cluster): (usize, &'c Option<Arc<Cluster>>)| {
                let (id, cluster) = (ClusterId((at * PART + place) as u32), cluster.as_ref()?);
                let is_there = others.find(id).is_some_and(|other| Arc::ptr_eq(cluster, other));
                (!is_there).then_some(cluster)
            };
            part.iter().enumerate().filter_map(place)
        })
    }

    /// The clusters by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (ClusterId, &Arc<Cluster>)> {
        let places = self.parts.iter().flat_map(|part| part.iter());
        (0..).map(ClusterId).zip(places).filter_map(|(id, cluster)| Some((id, cluster.as_ref()?)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Sets the cluster with an index, and replaces one that has it already.
    pub fn insert(&mut self, id: ClusterId, cluster: Arc<Cluster>) {
        let (part, place) = (id.0 as usize / PART, id.0 as usize % PART);
        if part >= self.parts.len() {
            if let Some(last) = self.parts.last_mut() {
                Arc::make_mut(last).resize(PART, None);
            }
            self.parts.resize_with(part, || Arc::new(vec![None; PART]));
            self.parts.push(Arc::default());
        }
        if cluster.health_check.is_some() {
            self.checked.insert(id);
        } else {
            self.checked.remove(&id);
        }
        let places = Arc::make_mut(&mut self.parts[part]);
        places.resize(places.len().max(place + 1), None);
        places[place] = Some(cluster);
    }

    /// Removes the cluster with an index.
    pub fn remove(&mut self, id: ClusterId) {
        self.checked.remove(&id);
        Arc::make_mut(&mut self.parts[id.0 as usize / PART])[id.0 as usize % PART] = None;
        while let Some(last) = self.parts.last_mut().filter(|last| last.last().is_none_or(Option::is_none)) {
            let places = Arc::make_mut(last);
            while places.pop_if(|place| place.is_none()).is_some() {}
            if places.is_empty() {
                self.parts.pop();
            }
        }
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
        let mut all = Self::default();
        for (id, cluster) in (0..).zip(clusters) {
            all.insert(ClusterId(id), Arc::new(cluster));
        }
        all
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
    /// The bound of the Service's retries; none where only routes bound them.
    pub retry_constraint: Option<Arc<RetryConstraint>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> Arc<Cluster> {
        Arc::new(Cluster { name: name.to_owned(), ..Cluster::default() })
    }

    fn names(clusters: &Clusters) -> Vec<(u32, String)> {
        clusters.iter().map(|(id, cluster)| (id.0, cluster.name.clone())).collect()
    }

    #[test]
    fn clusters_are_found_by_id_and_only_changed_ones_are_unlike() {
        let many: Clusters =
            (0..600).map(|number| Cluster { name: number.to_string(), ..Cluster::default() }).collect();
        assert_eq!((many.count(), many.end()), (600, ClusterId(600)));
        let mut changed = many.clone();
        changed.insert(ClusterId(300), cluster("new"));
        assert_eq!(changed.unlike(&many).map(|one| &*one.name).collect::<Vec<_>>(), ["new"]);
        assert_eq!(many.unlike(&changed).map(|one| &*one.name).collect::<Vec<_>>(), ["300"]);
        assert_eq!((&*many.get(ClusterId(300)).name, &*many.get(ClusterId(599)).name), ("300", "599"));
        assert_ne!(changed, many);
    }

    #[test]
    fn gaps_stay_and_what_is_removed_at_the_end_leaves_nothing() {
        let mut clusters = Clusters::default();
        clusters.insert(ClusterId(1000), cluster("far"));
        clusters.insert(ClusterId(2), cluster("near"));
        assert_eq!(names(&clusters), [(2, "near".to_owned()), (1000, "far".to_owned())]);
        assert_eq!((clusters.find(ClusterId(999)), clusters.find(ClusterId(5000))), (None, None));
        clusters.remove(ClusterId(1000));
        assert_eq!((names(&clusters), clusters.end()), (vec![(2, "near".to_owned())], ClusterId(3)));
        clusters.remove(ClusterId(2));
        assert_eq!(clusters, Clusters::default());
    }
}
