//! A configuration as one worker uses it: of the clusters, those that it has used.
//!
//! Never in here: requests, and what outlives configurations.

use std::sync::Arc;

use model::template::Variable;
use model::{ClusterId, Settings};
use routing::Snapshot;
use wire::h1::RequestLimits;

use super::used::{Upstream, Used};
use crate::io::tls::TlsListeners;

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
    /// The clusters that this worker has used.
    pub(super) used: Used,
    /// The clusters whose endpoints are checked.
    pub(super) checked: Vec<ClusterId>,
    /// Whether the access log's format asks for fields of the response.
    pub(crate) logs_response_headers: bool,
    /// Whether the access log's format asks for the body of the request.
    pub(crate) logs_request_bodies: bool,
}

impl WorkerConfig {
    pub(super) fn new(published: Published, previous: Option<&Self>) -> Self {
        let Published { snapshot, tls_listeners } = published;
        let all = snapshot.clusters_by_id();
        let before = previous.map(|previous| (previous.snapshot.clusters_by_id(), &previous.used));
        let used = Used::new(all, before);
        let template = &snapshot.settings.access_log.format.template;
        let logs_response_headers =
            template.variables().any(|one| matches!(one, Variable::ResponseHeader(_)));
        let logs_request_bodies = template.variables().any(|one| *one == Variable::RequestBody);
        let checked = all.checked().collect();
        Self { snapshot, tls_listeners, used, checked, logs_response_headers, logs_request_bodies }
    }

    /// The clusters that another configuration does not have, or has in another form.
    pub(super) fn gone_from<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = (ClusterId, &'a Upstream)> {
        self.used.unlike(&next.used)
    }

    /// A cluster, whether it was used before or not; none if no cluster has the id.
    pub(super) fn upstream(&self, id: ClusterId) -> Option<&Upstream> {
        let cluster = self.snapshot.clusters_by_id().find(id)?;
        Some(self.used.cell(id).get_or_init(|| Upstream::new(cluster, None)))
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use clock::{Clock, Random};
    use routing::compile;

    use super::*;
    use crate::io::tls::SharedTls;
    use crate::upstream::ClusterState;

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
