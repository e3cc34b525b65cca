//! The endpoints that a worker leaves out, because they fail their health checks.
//!
//! Never in here: how an endpoint is checked.

use std::rc::Rc;
use std::sync::Arc;

use model::ClusterId;

use super::{Upstream, Worker, WorkerConfig};
use crate::replicas::checking_members;
use crate::upstream::Cluster;
use crate::upstream::checks::{Checkers, GroupKey};

impl Worker {
    /// Makes the clusters anew of which health checks have other endpoints left out than before.
    #[cold]
    pub(crate) fn apply_checks(&self) {
        let previous = self.config();
        if let Some(config) = previous.with_present_checks() {
            self.change_to(config, &previous);
        }
    }

    /// Checks the endpoints of the present configuration that fall to this worker.
    pub(crate) fn follow_checks(self: &Rc<Self>) {
        let config = self.config();
        // One worker tells the others, as they may be at another configuration.
        if self.is_first() {
            self.pool.board().together.follow(checking_members(self, &config));
        }
        let all = config.snapshot.clusters_by_id();
        Checkers::follow(self, all.checked().map(|id| all.get(id)));
    }

    /// Whether this worker does what one of them has to do for all.
    pub(crate) fn is_first(&self) -> bool {
        self.share.index == 0
    }

    /// Whether this worker checks a group of endpoints.
    pub(crate) fn has_share(&self, of: &GroupKey) -> bool {
        of.worker(self.share.of) == self.share.index
    }
}

impl WorkerConfig {
    /// Whether endpoints of some cluster are checked.
    pub(super) fn has_checks(&self) -> bool {
        !self.checked.is_empty()
    }

    /// The clusters that are in use and whose endpoints are checked.
    pub(super) fn checked(&self) -> impl Iterator<Item = (ClusterId, &Upstream, &Cluster)> {
        self.checked.iter().filter_map(|&id| {
            let upstream = &**self.used.get(id)?;
            Some((id, upstream, upstream.ready.get()?))
        })
    }

    /// The same configuration without the endpoints that fail their health checks at present; none where it
    /// has just these already.
    pub(super) fn with_present_checks(&self) -> Option<Self> {
        let outdated = self.checked().filter(|(_, upstream, cluster)| cluster.is_outdated(&upstream.model));
        let outdated: Vec<_> =
            outdated.map(|(id, old, _)| (id, Upstream::new(&old.model, old.state.get().cloned()))).collect();
        if outdated.is_empty() {
            return None;
        }
        let mut used = self.used.clone();
        for (id, upstream) in outdated {
            used.replace(id, upstream);
        }
        Some(Self {
            snapshot: Arc::clone(&self.snapshot),
            tls_listeners: Arc::clone(&self.tls_listeners),
            used,
            checked: self.checked.clone(),
            logs_response_headers: self.logs_response_headers,
            logs_request_bodies: self.logs_request_bodies,
        })
    }
}
