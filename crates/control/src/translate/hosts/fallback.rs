//! The clusters that a route falls back to: Services that its object names, and before them the endpoints of
//! its own Service that are farther away.
//!
//! Never in here: which of them serves a request.

use std::time::Duration;

use model::{Backend, Backends, ClusterId, Fallback, Split};

use super::Merge;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::clusters::ClusterQueries;

/// Backends in the form that routes with a fallback have: never one cluster alone.
fn several(backends: Backends) -> Backends {
    match backends {
        Backends::One(cluster) => {
            Backends::Split(Split::new(vec![Backend::new(cluster, 1)]).expect("it has a weight"))
        }
        several @ (Backends::Split(_) | Backends::Canary(_)) => several,
    }
}

/// Time for which the near endpoints of a Service have to be in use again before they are preferred, where
/// no object says it.
const RECOVERY: Duration = Duration::from_secs(10);

/// The cluster with all endpoints of a Service, if the only cluster of a route has those near this process.
/// With several backends there is none: the share of one would go to another.
pub(in crate::translate) fn farther(
    backends: &Backends,
    clusters: &mut ClusterQueries<'_, '_>,
) -> Option<ClusterId> {
    clusters.everywhere(backends.only()?)
}

/// Adds clusters to fall back to, in the order of preference, to the backends of a route.
pub(in crate::translate) fn with(
    backends: Backends,
    clusters: Vec<ClusterId>,
    recovery: Option<Duration>,
) -> (Backends, Option<Box<Fallback>>) {
    if clusters.is_empty() {
        return (backends, None);
    }
    let recovery = recovery.unwrap_or(RECOVERY);
    (several(backends), Some(Box::new(Fallback { clusters: clusters.into(), recovery })))
}

impl Merge<'_, '_, '_> {
    /// Adds the clusters that a draft falls back to, which have the protocol of its backend.
    pub(super) fn with_fallback(
        &mut self,
        backends: Backends,
        draft: &DraftRoute,
    ) -> (Backends, Option<Box<Fallback>>) {
        let mut clusters = Vec::from_iter(farther(&backends, self.clusters));
        let of_host = self.terms.upstream_tls.as_ref();
        for named in draft.fallback.iter().flat_map(|fallback| &fallback.services) {
            let (cluster, fault) =
                self.clusters.for_requests(&named.service, &named.port, &draft.upstream, of_host);
            if let Some(fault) = fault {
                let fault = fault.replace("requests are answered 503", "it takes no requests");
                let problem =
                    Problem::in_place(Severity::Warning, &draft.place, format!("fallback: {fault}"));
                self.problems.push(problem.because(Reason::Missing));
            }
            clusters.push(cluster);
        }
        with(backends, clusters, draft.fallback.as_ref().map(|fallback| fallback.recovery))
    }
}
