//! Where the requests of a route go: clusters, their shares, and the clusters that they fall back to.
//!
//! Never in here: the choice of one for a request.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::{
    Canary, ClusterId, CrossOrigin, DirectResponse, HeaderChanges, Mirror, Rare, RequestRedirect, UrlRewrite,
};

/// Where the requests of a route go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Backends {
    /// All to one cluster.
    One(ClusterId),
    /// Several backends by weight; or a single one that has filters of its own, or is invalid.
    Split(Split),
    /// To a mainline, or to its canary. On the heap, since few routes have one.
    Canary(Box<Canary>),
}

/// Several backends, at least one of which has a weight above zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split(Rare<Backend>);

/// One of several places where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// Whose endpoints take them.
    pub target: BackendTarget,
    /// The backend receives its weight's share of the sum of all weights; a weight of zero receives nothing.
    /// A backend without endpoints or with an invalid reference keeps its share: those requests are answered
    /// with an error, as the Gateway API requires.
    pub weight: u32,
    /// Filters for the requests and responses of this backend, after those of the route; none for most.
    pub filters: Option<Arc<BackendFilters>>,
}

/// The target of a [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BackendTarget {
    /// The endpoints of this cluster.
    Cluster(ClusterId),
    /// An invalid reference: the object does not exist or must not be referred to. Requests are answered with
    /// 500, connections of streams are closed.
    Invalid,
}

/// Filters for the requests that go to one of several backends, after the filters of the route (Gateway API:
/// `HTTPBackendRef.filters`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackendFilters {
    /// Another path or host for the backend, in place of the result of the route's filters.
    pub rewrite: Option<Box<UrlRewrite>>,
    /// Changes to the headers that the backend gets.
    pub request_headers: Option<Arc<HeaderChanges>>,
    /// Changes to the headers of this backend's responses, before those of the route.
    pub response_headers: Option<Arc<HeaderChanges>>,
    /// Targets for copies of this backend's requests, beside the mirrors of the route.
    pub mirrors: Box<[Mirror]>,
    /// Headers of CORS for this backend's responses, and answers to preflights that it would get.
    pub cross_origin: Option<Arc<CrossOrigin>>,
    /// The answer in place of the backend's.
    pub answer: Option<Arc<BackendAnswer>>,
}

/// An answer that the proxy gives in place of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum BackendAnswer {
    /// Send the client elsewhere.
    Redirect(RequestRedirect),
    /// Answer with this.
    Respond(DirectResponse),
}

/// Clusters that serve requests while the backend that was chosen for them is out of use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// The clusters, the preferred one first.
    pub clusters: Box<[ClusterId]>,
    /// Time for which a cluster has to have been in use again before it is preferred to those after it.
    pub recovery: Duration,
}

/// All backends have weight zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no backend has a weight")]
pub struct NoWeight;

impl Backends {
    /// The cluster, if there is only one.
    pub fn only(&self) -> Option<ClusterId> {
        match self {
            Self::One(cluster) => Some(*cluster),
            Self::Split(_) | Self::Canary(_) => None,
        }
    }

    /// All clusters that requests may go to.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let (one, of_split) = match self {
            Self::One(cluster) => ([Some(*cluster), None], [].as_slice()),
            Self::Split(split) => ([None, None], split.backends()),
            Self::Canary(canary) => ([Some(canary.mainline), Some(canary.cluster)], [].as_slice()),
        };
        one.into_iter().flatten().chain(of_split.iter().filter_map(|backend| backend.target.cluster()))
    }
}

impl Split {
    /// Splits requests between backends.
    ///
    /// # Errors
    ///
    /// When none of them has a weight.
    pub fn new(backends: Vec<Backend>) -> Result<Self, NoWeight> {
        let split = Self(backends.into());
        if split.weight() == 0 { Err(NoWeight) } else { Ok(split) }
    }

    /// The backends, in the order of the configuration.
    pub fn backends(&self) -> &[Backend] {
        &self.0
    }

    /// The sum of all weights, which is above zero.
    pub fn weight(&self) -> u64 {
        self.0.iter().map(|backend| u64::from(backend.weight)).sum()
    }

    /// The backend that takes a request, by a random number.
    #[expect(clippy::missing_panics_doc, reason = "the weights add up to more than the rest")]
    pub fn pick(&self, random: u64) -> &Backend {
        let mut rest = random % self.weight();
        let picked = self.0.iter().find(|backend| match rest.checked_sub(backend.weight.into()) {
            Some(below) => {
                rest = below;
                false
            }
            None => true,
        });
        picked.expect("the weights add up to more than the rest")
    }
}

impl Backend {
    /// A cluster with a weight and without filters of its own.
    pub fn new(cluster: ClusterId, weight: u32) -> Self {
        Self { target: BackendTarget::Cluster(cluster), weight, filters: None }
    }

    /// A backend with an invalid reference and this weight.
    pub fn invalid(weight: u32) -> Self {
        Self { target: BackendTarget::Invalid, weight, filters: None }
    }
}

impl BackendTarget {
    /// The cluster, if the target is one.
    pub fn cluster(self) -> Option<ClusterId> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Invalid => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_split_without_weights_is_refused() {
        let backend = |weight| Backend::new(ClusterId(0), weight);
        assert_eq!(Split::new(Vec::new()), Err(NoWeight));
        assert_eq!(Split::new(vec![backend(0), backend(0)]), Err(NoWeight));
        assert_eq!(Split::new(vec![backend(u32::MAX), backend(1)]).unwrap().weight(), 1 << 32);
    }

    #[test]
    fn what_is_invalid_keeps_its_share_and_is_no_cluster() {
        let split = Split::new(vec![Backend::invalid(1), Backend::new(ClusterId(3), 1)]).unwrap();
        assert_eq!(split.pick(0).target, BackendTarget::Invalid);
        assert_eq!(split.pick(1).target, BackendTarget::Cluster(ClusterId(3)));
        assert!(Backends::Split(split).clusters().eq([ClusterId(3)]));
    }

    proptest! {
        #[test]
        fn each_takes_its_share(weights in proptest::collection::vec(0_u32..20, 1..6)) {
            let backends = (0..).zip(&weights).map(|(id, &weight)| Backend::new(ClusterId(id), weight));
            let Ok(split) = Split::new(backends.collect()) else { return Ok(()) };
            let mut taken = vec![0; weights.len()];
            for random in 0..split.weight() {
                taken[split.pick(random).target.cluster().unwrap().0 as usize] += 1;
            }
            prop_assert_eq!(taken, weights);
        }
    }
}
