//! The cluster for a request where others may take its place: those that a route falls back to, in their
//! order.
//!
//! Never in here: tries, after which a request may go on to the next cluster.

use model::overload::Mode;
use model::{ClusterId, Fallback};
use observe::Counter;

use crate::route::Routed;
use crate::upstream::{Cluster, usability};

impl<'a> Routed<'a> {
    /// The first cluster that is in use of this one and those that the route falls back to; none if all are
    /// out of use.
    #[cold]
    pub(crate) fn first_in_use(
        &self,
        id: ClusterId,
        fallback: &Fallback,
    ) -> Option<(ClusterId, &'a Cluster)> {
        let now = self.worker.clock.now();
        let clusters = || {
            let ids = std::iter::once(id).chain(fallback.clusters.iter().copied());
            ids.map(|id| (id, self.cluster_of(id)))
        };
        let standings = clusters()
            .map(|(_, cluster)| (usability::of(cluster, self.ejects(), now), &cluster.state().standing));
        let may_probe = self.is_idempotent();
        let at = balance::choose_cluster(standings, fallback.recovery, may_probe, now)?;
        if at > 0 {
            self.worker.recorder.borrow().count(Counter::Fallbacks);
        }
        clusters().nth(at)
    }

    /// Whether ejected endpoints of the route get no requests.
    pub(crate) fn ejects(&self) -> bool {
        self.own_overload().is_some_and(|overload| overload.ejection && overload.mode == Mode::Enforce)
    }
}
