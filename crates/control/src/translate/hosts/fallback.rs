//! The clusters that a route falls back to.
//!
//! Never in here: which of them serves a request.

use model::{Backend, Backends, Fallback, Split};

use super::Merge;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;

/// Backends in the form that routes with a fallback have: never one cluster alone.
pub(in crate::translate) fn several(backends: Backends) -> Backends {
    match backends {
        Backends::One(cluster) => {
            Backends::Split(Split::new(vec![Backend::new(cluster, 1)]).expect("it has a weight"))
        }
        several @ (Backends::Split(_) | Backends::Canary(_)) => several,
    }
}

impl Merge<'_, '_, '_> {
    /// Adds the clusters that a draft falls back to, which have the protocol of its backend.
    pub(super) fn with_fallback(
        &mut self,
        backends: Backends,
        draft: &DraftRoute,
    ) -> (Backends, Option<Box<Fallback>>) {
        let Some(fallback) = &draft.fallback else { return (backends, None) };
        let of_host = self.terms.upstream_tls.as_ref();
        let mut clusters = Vec::with_capacity(fallback.services.len());
        for named in &fallback.services {
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
        (
            several(backends),
            Some(Box::new(Fallback { clusters: clusters.into(), recovery: fallback.recovery })),
        )
    }
}
