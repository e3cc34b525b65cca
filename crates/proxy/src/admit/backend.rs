//! The choice of the cluster for a request: by shares, by a canary's rules, and the cluster that replaces one
//! without endpoints.

use std::sync::Arc;

use balance::CanaryChoice;
use model::{
    Action, BackendTarget, Backends, Canary, CanaryWeight, ClusterId, Rollout, RolloutShare, Route, Split,
};
use observe::Reason;

use crate::admit::OfBackend;
use crate::admit::canary::by_rules;
use crate::request::Request;
use crate::request::session::is_kept_at;
use crate::route::Routed;
use crate::route::filters;
use crate::upstream::Cluster;

/// The backend of a request.
pub(crate) struct Backend<'a> {
    /// The cluster that was chosen, be it without endpoints; none where none is needed, or none exists.
    pub(crate) id: Option<ClusterId>,
    /// The filters of the backend, where it was chosen of several and has any.
    pub(crate) filters: Option<Box<OfBackend>>,
    /// Its endpoints; none where the request needs none.
    pub(crate) cluster: Result<Option<&'a Cluster>, Reason>,
}

impl<'a> Request<'a> {
    /// A cluster for the request's client.
    pub(crate) fn cluster_of(&self, id: ClusterId) -> &'a Cluster {
        self.worker.cluster(self.config, id).for_client(self.conn.tls.is_some())
    }
}

impl<'a> Routed<'a> {
    /// The cluster whose endpoints may serve the request.
    #[inline]
    pub(crate) fn backend(&self, route: &'a Route) -> Backend<'a> {
        let Action::Forward(forward) = &route.action else {
            return Backend { id: None, filters: None, cluster: Ok(None) };
        };
        match &forward.backends {
            Backends::One(id) => self.at_cluster(route, *id, None),
            several => self.choose(route, several),
        }
    }

    #[inline]
    fn at_cluster(&self, route: &'a Route, id: ClusterId, filters: Option<Box<OfBackend>>) -> Backend<'a> {
        let cluster = self.cluster_of(id);
        if cluster.len() > 0 {
            return Backend { id: Some(id), filters, cluster: Ok(Some(cluster)) };
        }
        self.replace_empty(route, id, filters)
    }

    /// The cluster of error pages serves the request where the route's own cluster has no endpoint.
    #[cold]
    fn replace_empty(&self, route: &'a Route, id: ClusterId, filters: Option<Box<OfBackend>>) -> Backend<'a> {
        let fallback = route.error_pages.as_ref().and_then(|pages| pages.fallback);
        match fallback.map(|fallback| (fallback, self.cluster_of(fallback))) {
            Some((fallback, cluster)) if cluster.len() > 0 => {
                Backend { id: Some(fallback), filters, cluster: Ok(Some(cluster)) }
            }
            _ => Backend { id: Some(id), filters, cluster: Err(Reason::NoEndpoints) },
        }
    }

    #[cold]
    fn choose(&self, route: &'a Route, backends: &Backends) -> Backend<'a> {
        match backends {
            Backends::One(cluster) => self.at_cluster(route, *cluster, None),
            Backends::Split(split) => self.take_share(route, split),
            Backends::Canary(canary) if self.takes(canary) => self.at_first(route, canary.cluster, None),
            Backends::Canary(canary) => self.at_first(route, canary.mainline, None),
        }
    }

    /// The first cluster in use of this one and those that the route falls back to.
    fn at_first(&self, route: &'a Route, id: ClusterId, filters: Option<Box<OfBackend>>) -> Backend<'a> {
        let fallback = self.own_forward().and_then(|forward| forward.fallback.as_deref());
        match fallback.and_then(|fallback| self.first_in_use(id, fallback)) {
            Some((id, cluster)) => Backend { id: Some(id), filters, cluster: Ok(Some(cluster)) },
            None => self.at_cluster(route, id, filters),
        }
    }

    /// The backend whose turn it is, with the filters that are run for it alone.
    fn take_share(&self, route: &'a Route, split: &Split) -> Backend<'a> {
        // "A client that is kept somewhere stays there, whatever the weights are by now" (GEP-1619, traffic
        // splitting).
        let kept = split
            .backends()
            .iter()
            .find(|backend| backend.target.cluster().is_some_and(|id| is_kept_at(self, self.cluster_of(id))));
        let backend = kept.unwrap_or_else(|| split.pick(self.worker.random.next()));
        let filters = backend.filters.as_ref().map(|filters| {
            let change = filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
            let target =
                change.map(|change| filters::changed_target(change, self.current_path(), self.sent_target()));
            Box::new(OfBackend { filters: Arc::clone(filters), target })
        });
        match backend.target {
            BackendTarget::Cluster(cluster) if self.is_answered_by(backend) => {
                Backend { id: Some(cluster), filters, cluster: Ok(None) }
            }
            BackendTarget::Cluster(cluster) => self.at_first(route, cluster, filters),
            BackendTarget::Invalid => Backend { id: None, filters, cluster: Err(Reason::BackendInvalid) },
        }
    }

    /// Whether the filters of a backend answer the request, so that it needs no endpoint.
    fn is_answered_by(&self, backend: &model::Backend) -> bool {
        backend.filters.as_ref().is_some_and(|filters| {
            filters.answer.is_some()
                || filters.cross_origin.is_some() && self.preflight_of_backend().is_some()
        })
    }

    /// "Mainline without endpoints -> 503 for all; canary without endpoints -> mainline"; "who has a cookie
    /// of either stays there, against header, cookie and weight."
    pub(crate) fn canary_choice(&self, canary: &Canary) -> CanaryChoice {
        let (mainline, other) = (self.cluster_of(canary.mainline), self.cluster_of(canary.cluster));
        if mainline.len() == 0 {
            CanaryChoice::MainlineEmpty
        } else if other.len() == 0 {
            CanaryChoice::CanaryEmpty
        } else if canary.rollout.as_ref().is_none_or(|plan| !self.has_all(plan)) && is_kept_at(self, mainline)
        {
            CanaryChoice::Affinity(false)
        } else if canary.rollout.as_ref().is_none_or(|plan| !self.is_stopped(plan)) && is_kept_at(self, other)
        {
            CanaryChoice::Affinity(true)
        } else {
            let names = self.config.settings().client.header_names;
            by_rules(&canary.rules, self.head, self.parsed, names, &self.steps)
        }
    }

    /// The canary's share of the requests that no other rule decides.
    pub(crate) fn canary_weight(&self, canary: &Canary) -> CanaryWeight {
        match &canary.rollout {
            None => canary.rules.weight,
            Some(plan) => self.worker.rollouts.run(plan).map(|run| run.weight()).unwrap_or_default(),
        }
    }

    /// Whether a canary has been stopped, so that no cookie keeps a client there.
    fn is_stopped(&self, plan: &Arc<Rollout>) -> bool {
        self.worker.rollouts.run(plan).is_some_and(|run| run.is_stopped())
    }

    /// Whether a canary has all requests, so that no cookie keeps a client at the mainline.
    fn has_all(&self, plan: &Arc<Rollout>) -> bool {
        self.worker.rollouts.run(plan).is_some_and(|run| run.share() == RolloutShare::ALL)
    }

    fn takes(&self, canary: &Canary) -> bool {
        let by_chance = || self.canary_weight(canary).takes(self.worker.random.next());
        self.canary_choice(canary).takes().unwrap_or_else(by_chance)
    }
}

#[cfg(test)]
mod tests {
    use clock::Random;
    use model::{Backend, ClusterId, Split};

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
