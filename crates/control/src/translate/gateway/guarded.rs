//! Access rules and error pages of a route, from policies.
//!
//! Never in here: the selection of policies.

use std::sync::Arc;

use model::{
    Access, Action, AppProtocol, ErrorPages, ExtAuthz, ExternalAuth, Networks, PathMatch, Processor,
};

use crate::translate::claim::{
    AccessDraft, AuthPlace, DraftRoute, ErrorsDraft, ExternalDraft, FILES_UNPROCESSED,
};
use crate::translate::clusters::ClusterQueries;
use crate::translate::inputs::Inputs;
use crate::translate::upstream_protocol::UpstreamDraft;

/// The access rules of a route for a path; none without any restriction.
pub(super) fn access(
    draft: &DraftRoute,
    path: &PathMatch,
    clusters: &mut ClusterQueries<'_, '_>,
) -> Option<Box<Access>> {
    let AccessDraft { firewall, limits, quota, networks, places, blocked, spared, satisfy, .. } =
        draft.access.clone();
    let is_spared = spared.iter().any(|beginning| path.path().starts_with(beginning.as_str()));
    let api_keys = draft.access.api_keys.clone().filter(|_| !is_spared);
    let jwt = draft.access.jwt.clone().filter(|_| !is_spared);
    let basic = draft.access.basic.clone().filter(|_| !is_spared);
    let oidc = draft.access.oidc.clone().filter(|_| !is_spared);
    let external = draft.access.external.clone().filter(|_| !is_spared);
    let ext_authz = draft.access.ext_authz.clone().filter(|_| !is_spared);
    let ext_authz = ext_authz.map(|authz| {
        let (cluster, _) = clusters.for_url_speaking(&authz.service, authz.version);
        ExtAuthz { cluster, check: authz.check }
    });
    let mut denials = draft.denials.clone();
    denials.dedup();
    let external = match external.map(|external| service(&external, clusters)) {
        Some(Ok(external)) => Some(external),
        Some(Err(why)) => {
            denials.push(why);
            None
        }
        None => None,
    };
    let processor = draft.access.processor.as_ref().map(|processor| Processor {
        cluster: clusters.for_url_speaking(&processor.service, AppProtocol::Http2).0,
        policy: Arc::clone(&processor.policy),
    });
    if processor.is_some() && draft.files.is_some() {
        denials.push(FILES_UNPROCESSED.to_owned());
    }
    let of_all = || blocked.map(|denied| Networks { denied: Some(denied), ..Networks::default() });
    let access = Access {
        unavailable: (!denials.is_empty()).then(|| denials.join("; ")),
        firewall,
        limits,
        quota,
        networks: Networks::with_places(networks.or_else(of_all), places),
        api_keys,
        jwt,
        basic,
        oidc,
        external,
        ext_authz: ext_authz.into_iter().collect(),
        satisfy,
        processor,
        ..Access::default()
    };
    (access != Access::default()).then(|| Box::new(access))
}

/// The auth service of a route, or the reason for closing the route.
fn service(external: &ExternalDraft, clusters: &mut ClusterQueries<'_, '_>) -> Result<ExternalAuth, String> {
    match &external.place {
        AuthPlace::Known(service) => {
            let (cluster, _) = clusters.for_url(service);
            Ok(ExternalAuth { cluster, check: Arc::clone(&external.check) })
        }
        AuthPlace::OfHost(_) => {
            Err("the host of the auth service's URL has a variable, which it must not have in a policy"
                .to_owned())
        }
    }
}

/// The error pages of a route.
pub(super) fn error_pages(
    draft: &DraftRoute,
    action: &Action,
    inputs: &Inputs<'_>,
    clusters: &mut ClusterQueries<'_, '_>,
) -> Option<Arc<ErrorPages>> {
    let ErrorsDraft { statuses, has_own_statuses, spares_endpoints, default_backend, own: _ } = &draft.errors;
    let usual = inputs.options.default_backend_service.as_ref();
    let own = default_backend.as_ref().filter(|_| *has_own_statuses);
    let in_clear = UpstreamDraft::default();
    let mut cluster = |name| {
        let port = clusters.first_port(name)?;
        Some(clusters.for_requests(name, &port, &in_clear, None).0)
    };
    let mut pages = ErrorPages::new(statuses.clone());
    if !statuses.is_empty() {
        pages.backends.extend(own.into_iter().chain(usual).filter_map(&mut cluster));
        pages.spares_endpoints = *spares_endpoints;
    }
    if let (Some(name), Action::Forward(forward)) = (default_backend, action) {
        let is_other = |own: &model::ClusterId| forward.backends.clusters().all(|other| other != *own);
        pages.fallback = cluster(name).filter(is_other);
    }
    (pages != ErrorPages::default()).then(|| Arc::new(pages))
}
