//! Which cluster's endpoints serve a request: by shares, by a canary's rules, and who steps in where there is none.

use model::{Action, Backends, Canary, ClusterId, Route};
use observe::Reason;

use crate::exchange::Exchange;
use crate::upstream::{CanaryChoice, Cluster, by_rules, by_weight};

impl<'a> Exchange<'a> {
    /// The cluster whose endpoints may serve the request; none where that needs no endpoint.
    pub(crate) fn backend(&self, route: &'a Route) -> Result<Option<&'a Cluster>, Reason> {
        let Action::Forward(forward) = &route.action else { return Ok(None) };
        let id = match &forward.backends {
            Backends::One(cluster) => *cluster,
            several => self.choose(several),
        };
        let cluster = self.go_to(id);
        if cluster.len() == 0 { self.step_in(route).map(Some) } else { Ok(Some(cluster)) }
    }

    /// A cluster for the request's client.
    pub(crate) fn cluster_of(&self, id: ClusterId) -> &'a Cluster {
        self.worker.cluster(self.config, id).for_client(self.conn.tls.is_some())
    }

    /// Has the endpoints of a cluster asked.
    pub(crate) fn go_to(&self, id: ClusterId) -> &'a Cluster {
        self.cluster.set(Some(id));
        self.cluster_of(id)
    }

    #[cold]
    fn choose(&self, backends: &Backends) -> ClusterId {
        match backends {
            Backends::One(cluster) => *cluster,
            Backends::Split(split) => by_weight(split, self.worker.random.next()),
            Backends::Canary(canary) if self.takes(canary) => canary.cluster,
            Backends::Canary(canary) => canary.mainline,
        }
    }

    /// "Mainline without endpoints -> 503 for all; canary without endpoints -> mainline"; "who has a cookie of either stays there,
    /// against header, cookie and weight."
    pub(crate) fn canary_choice(&self, canary: &Canary) -> CanaryChoice {
        let (mainline, other) = (self.cluster_of(canary.mainline), self.cluster_of(canary.cluster));
        if mainline.len() == 0 {
            CanaryChoice::MainlineEmpty
        } else if other.len() == 0 {
            CanaryChoice::CanaryEmpty
        } else if self.is_kept_at(mainline) {
            CanaryChoice::Kept(false)
        } else if self.is_kept_at(other) {
            CanaryChoice::Kept(true)
        } else {
            by_rules(&canary.rules, self.head, self.request, self.config.settings().client.header_names)
        }
    }

    fn takes(&self, canary: &Canary) -> bool {
        let by_chance = || canary.rules.weight.takes(self.worker.random.next());
        self.canary_choice(canary).takes().unwrap_or_else(by_chance)
    }

    /// Who takes the request where the route's own cluster has no endpoint.
    #[cold]
    fn step_in(&self, route: &Route) -> Result<&'a Cluster, Reason> {
        let fallback = route.error_pages.as_ref().and_then(|pages| pages.fallback);
        let fallback = fallback.filter(|&id| self.cluster_of(id).len() > 0);
        fallback.map(|id| self.go_to(id)).ok_or(Reason::NoEndpoints)
    }
}
