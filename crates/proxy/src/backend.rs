//! Which cluster's endpoints serve a request: by shares, by a canary's rules, and who steps in where there is none.

use std::sync::Arc;

use model::{Action, BackendTarget, Backends, Canary, ClusterId, Route, Split};
use observe::Reason;

use crate::exchange::Exchange;
use crate::filters::{self, OfBackend};
use crate::upstream::{CanaryChoice, Cluster, by_rules};

impl<'a> Exchange<'a> {
    /// The cluster whose endpoints may serve the request; none where that needs no endpoint.
    pub(crate) fn backend(&self, route: &'a Route) -> Result<Option<&'a Cluster>, Reason> {
        let Action::Forward(forward) = &route.action else { return Ok(None) };
        let id = match &forward.backends {
            Backends::One(cluster) => *cluster,
            several => self.choose(several)?,
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
    fn choose(&self, backends: &Backends) -> Result<ClusterId, Reason> {
        match backends {
            Backends::One(cluster) => Ok(*cluster),
            Backends::Split(split) => self.take_share(split),
            Backends::Canary(canary) if self.takes(canary) => Ok(canary.cluster),
            Backends::Canary(canary) => Ok(canary.mainline),
        }
    }

    /// The backend whose turn it is. What is done for it alone is noted, and done where heads are written.
    fn take_share(&self, split: &Split) -> Result<ClusterId, Reason> {
        // "A client that is kept somewhere stays there, whatever the weights are by now" (GEP-1619, traffic splitting).
        let kept = split
            .backends()
            .iter()
            .find(|backend| backend.target.cluster().is_some_and(|id| self.is_kept_at(self.cluster_of(id))));
        let backend = kept.unwrap_or_else(|| split.pick(self.worker.random.next()));
        if let Some(filters) = &backend.filters {
            let change = filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
            let target = change.map(|change| {
                let target = self.request.origin_target(self.head);
                filters::changed_target(change, self.current_path(), target)
            });
            let of_backend = OfBackend { filters: Arc::clone(filters), target };
            // A request has its turn once.
            let _ = self.rewritten.get_or_init(Box::default).backend.set(of_backend);
        }
        match backend.target {
            BackendTarget::Cluster(cluster) => Ok(cluster),
            BackendTarget::Invalid => Err(Reason::BackendInvalid),
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
            let names = self.config.settings().client.header_names;
            by_rules(&canary.rules, self.head, self.request, names, &self.steps)
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

#[cfg(test)]
mod tests {
    use model::{Backend, ClusterId, Split};

    use crate::random::Random;

    /// "Weights within 1 % over 100,000 requests", of all requests.
    #[test]
    fn backends_get_their_shares() {
        const REQUESTS: u32 = 100_000;
        for (seed, weights) in
            [&[1, 1][..], &[90, 10], &[70, 30, 0], &[1, 2, 3, 4], &[999, 1]].into_iter().enumerate()
        {
            let random = Random::seeded(seed as u64 + 1);
            let backends = (0..).zip(weights).map(|(id, &weight)| Backend::new(ClusterId(id), weight));
            let split = Split::new(backends.collect()).unwrap();
            let mut taken = vec![0_u32; weights.len()];
            for _ in 0..REQUESTS {
                taken[split.pick(random.next()).target.cluster().unwrap().0 as usize] += 1;
            }
            let sum: u32 = weights.iter().sum();
            for (&weight, taken) in weights.iter().zip(taken) {
                let expected = REQUESTS / sum * weight;
                assert!(taken.abs_diff(expected) <= REQUESTS / 100, "{weights:?}: {taken} of {expected}");
            }
        }
    }
}
