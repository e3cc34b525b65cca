//! Error pages of a route: the replaced statuses, and the backends of the replacing responses.

use std::sync::Arc;

use model::{Action, ErrorPages};

use super::Merge;
use crate::translate::claim::{DraftRoute, ErrorsDraft};
use crate::translate::upstream_protocol::UpstreamDraft;

impl Merge<'_, '_, '_> {
    /// The error pages of a route. "For the annotation's codes the annotation default-backend; without it,
    /// and always for the global list, `--default-backend-service` or the built-in one." The default backend
    /// delivers pages in clear; as a substitute for missing endpoints it uses the protocol of those
    /// endpoints.
    pub(super) fn error_pages(&mut self, draft: &DraftRoute, action: &Action) -> Option<Arc<ErrorPages>> {
        let ErrorsDraft { statuses, has_own_statuses, spares_endpoints, default_backend, own: own_pages } =
            &draft.errors;
        let own = default_backend.as_ref().and_then(|name| Some((name, self.clusters.first_port(name)?)));
        let mut pages = ErrorPages::new(statuses.clone());
        if !statuses.is_empty() {
            let global = self.defaults.backend.and_then(|name| Some((name, self.clusters.first_port(name)?)));
            let in_clear = UpstreamDraft::default();
            for (name, port) in own.iter().filter(|_| *has_own_statuses).chain(&global) {
                pages.backends.push(self.clusters.for_requests(name, port, &in_clear, None).0);
            }
            pages.spares_endpoints = *spares_endpoints;
        }
        pages.own.clone_from(&own_pages.pages);
        pages.own_spares_endpoints = !pages.own.is_empty() && !own_pages.intercepts;
        if let (Some((name, port)), Action::Forward(forward)) = (&own, action) {
            let of_host = self.terms.upstream_tls.as_ref();
            // The path of the route's health checks says nothing about another Service.
            let upstream = UpstreamDraft { health: None, ..draft.upstream.clone() };
            let (cluster, _) = self.clusters.for_requests(name, port, &upstream, of_host);
            pages.fallback =
                Some(cluster).filter(|&own| forward.backends.clusters().all(|other| other != own));
        }
        (pages != ErrorPages::default()).then(|| self.share(pages))
    }

    fn share(&self, pages: ErrorPages) -> Arc<ErrorPages> {
        let mut known = self.defaults.error_pages.borrow_mut();
        if let Some(known) = known.get(&pages) {
            return Arc::clone(known);
        }
        let pages = Arc::new(pages);
        known.insert(Arc::clone(&pages));
        pages
    }
}
