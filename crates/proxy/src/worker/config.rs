//! A configuration as one worker uses it: of the clusters, those that it has used.
//!
//! Never in here: requests, and what outlives configurations.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use model::template::Variable;
use model::{ClusterId, Settings};
use routing::Snapshot;
use wire::h1::RequestLimits;

use crate::io::tls::TlsListeners;
use crate::upstream::{Cluster, ClusterState};

/// A configuration, with the TLS configurations derived from it for all workers.
#[derive(Clone)]
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    /// TLS configurations by listener.
    pub(crate) tls_listeners: Arc<TlsListeners>,
}

/// A configuration as one worker uses it.
pub(crate) struct WorkerConfig {
    pub(crate) snapshot: Arc<Snapshot>,
    /// TLS configurations by listener.
    pub(crate) tls_listeners: Arc<TlsListeners>,
    /// By id; those that this worker has used.
    pub(super) clusters: Vec<OnceCell<Rc<Upstream>>>,
    /// Places of the clusters whose endpoints are checked.
    pub(super) checked: Vec<usize>,
    /// Whether the access log's format asks for fields of the response.
    pub(crate) logs_response_headers: bool,
    /// Whether the access log's format asks for the body of the request.
    pub(crate) logs_request_bodies: bool,
}

/// A cluster of a configuration, prepared on first use: most workers of a large installation never use most
/// of the clusters.
pub(super) struct Upstream {
    pub(super) model: Arc<model::Cluster>,
    /// State that outlives changes of the cluster; created when the cluster is first prepared.
    pub(super) state: OnceCell<Rc<ClusterState>>,
    pub(super) ready: OnceCell<Cluster>,
    /// Whether it is part of the configuration that new requests get.
    pub(super) is_in_force: Cell<bool>,
}

impl WorkerConfig {
    pub(super) fn new(published: Published, previous: Option<&Self>) -> Self {
        let Published { snapshot, tls_listeners } = published;
        let all = snapshot.clusters_by_id();
        let mut clusters = vec![OnceCell::new(); all.end().0 as usize];
        // Most clusters of a large installation are used by few workers: only these are looked at.
        for (id, old) in previous.into_iter().flat_map(WorkerConfig::used) {
            let Some(cluster) = all.find(id) else { continue };
            clusters[id.0 as usize] = OnceCell::from(if Arc::ptr_eq(&old.model, cluster) {
                Rc::clone(old)
            } else {
                Upstream::new(cluster, old.state_for(cluster))
            });
        }
        let template = &snapshot.settings.access_log.format.template;
        let logs_response_headers =
            template.variables().any(|one| matches!(one, Variable::ResponseHeader(_)));
        let logs_request_bodies = template.variables().any(|one| *one == Variable::RequestBody);
        let checked = all.checked().map(|id| id.0 as usize).collect();
        Self { snapshot, tls_listeners, clusters, checked, logs_response_headers, logs_request_bodies }
    }

    /// The clusters that another configuration does not have, or has in another form.
    pub(super) fn gone_from<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = (usize, &'a Upstream)> {
        self.used().filter_map(|(id, old)| {
            let (at, new) = (id.0 as usize, next.clusters.get(id.0 as usize).and_then(OnceCell::get));
            (!new.is_some_and(|new| Rc::ptr_eq(new, old))).then_some((at, &**old))
        })
    }

    /// The clusters that this worker has used.
    fn used(&self) -> impl Iterator<Item = (ClusterId, &Rc<Upstream>)> {
        (0..).map(ClusterId).zip(&self.clusters).filter_map(|(id, used)| Some((id, used.get()?)))
    }

    /// A cluster, whether it was used before or not; none if no cluster has the id.
    pub(super) fn upstream(&self, id: ClusterId) -> Option<&Upstream> {
        let cluster = self.snapshot.clusters_by_id().find(id)?;
        Some(self.clusters[id.0 as usize].get_or_init(|| Upstream::new(cluster, None)))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.snapshot.settings
    }

    /// Limits of a request head.
    pub(crate) fn request_limits(&self) -> RequestLimits {
        let client = &self.settings().client;
        RequestLimits { line_bytes_max: client.line_bytes_max, head_bytes_max: client.head_bytes_max }
    }
}

impl Upstream {
    pub(super) fn new(cluster: &Arc<model::Cluster>, state: Option<Rc<ClusterState>>) -> Rc<Self> {
        let (ready, is_in_force) = (OnceCell::new(), Cell::new(true));
        let state = state.map_or_else(OnceCell::new, OnceCell::from);
        Rc::new(Self { model: Arc::clone(cluster), state, ready, is_in_force })
    }

    /// The state for the next form of the cluster, if it is the same cluster: an id may be reused for
    /// another.
    fn state_for(&self, next: &model::Cluster) -> Option<Rc<ClusterState>> {
        self.state.get().filter(|_| self.model.name == next.name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Random};
    use routing::compile;

    use super::*;
    use crate::io::tls::SharedTls;

    fn published(name: &str, generation: u64) -> Published {
        let cluster = model::Cluster { name: name.to_owned(), ..model::Cluster::default() };
        let model = model::Model { clusters: [cluster].into_iter().collect(), ..model::Model::default() };
        let snapshot = Arc::new(compile(&model, None, generation));
        let shared_tls = SharedTls::new(Clock::begin(), None).unwrap();
        let tls_listeners = TlsListeners::new(&snapshot, &shared_tls, None);
        Published { snapshot, tls_listeners }
    }

    #[test]
    fn what_is_known_of_a_cluster_lives_on_while_its_name_stays() {
        let first = WorkerConfig::new(published("a", 1), None);
        let state = ClusterState::new(3, &Random::seeded(0), Clock::new(Clock::begin()).now());
        let set = first.upstream(ClusterId(0)).unwrap().state.set(Rc::clone(&state));
        assert!(set.is_ok());
        let state_in = |config: &WorkerConfig| config.upstream(ClusterId(0)).unwrap().state.get().cloned();
        let second = WorkerConfig::new(published("a", 2), Some(&first));
        assert!(Rc::ptr_eq(&state_in(&second).unwrap(), &state));
        let third = WorkerConfig::new(published("b", 3), Some(&second));
        assert!(state_in(&third).is_none());
    }
}
