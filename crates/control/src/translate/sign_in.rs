//! The endpoints of sign-ins: routes of a host for the paths that Forebay itself answers, whatever the paths of
//! the objects are.
//!
//! Never in here: what the endpoints answer.

use std::sync::Arc;

use model::{Access, Action, Oidc, PathKind, PathMatch, RequestFilter, RequestFilters, Route, Satisfy};

use super::claim::RouteOrigin;

/// A path that is answered, with the sign-ins that have it and the first of their routes.
struct Endpoint {
    path: String,
    sign_ins: Vec<Arc<Oidc>>,
    first: usize,
}

/// Puts the endpoints of a host's sign-ins before its routes, which come with their origins. Of two routes for
/// the same path, the first counts.
pub(super) fn add_endpoints(routes: &mut Vec<Arc<Route>>, origins: &mut Vec<RouteOrigin>) {
    let endpoints = endpoints(routes);
    if endpoints.is_empty() {
        return;
    }
    let has_expressions = routes.iter().any(|route| route.path.kind() == PathKind::Regex);
    let made: Vec<_> = endpoints
        .into_iter()
        .filter_map(|endpoint| {
            let of = endpoint.first;
            Some((Arc::new(route(&routes[of], endpoint, has_expressions)?), origins[of].clone()))
        })
        .collect();
    let (first, first_origins): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    routes.splice(0..0, first);
    origins.splice(0..0, first_origins);
}

fn endpoints(routes: &[Arc<Route>]) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (first, route) in routes.iter().enumerate() {
        let Some(oidc) = route.access.as_ref().and_then(|access| access.oidc.as_ref()) else { continue };
        for path in oidc.client.paths() {
            match endpoints.iter_mut().find(|known| known.path == path) {
                Some(known) if known.sign_ins.iter().any(|one| is_same(one, oidc)) => {}
                Some(known) => known.sign_ins.push(Arc::clone(oidc)),
                None => {
                    let (path, sign_ins) = (path.to_owned(), vec![Arc::clone(oidc)]);
                    endpoints.push(Endpoint { path, sign_ins, first });
                }
            }
        }
    }
    endpoints
}

/// Whether two sign-ins have the same sessions, so that either can serve the endpoints of both.
fn is_same(one: &Oidc, other: &Oidc) -> bool {
    one.client == other.client
}

/// The route of an endpoint. It has the guards of the route that needs it, but no authentication.
fn route(of: &Route, endpoint: Endpoint, has_expressions: bool) -> Option<Route> {
    let guards = of.access.as_deref()?;
    let access = Access {
        forbidden: guards.forbidden.clone(),
        client_certificate: guards.client_certificate.clone(),
        unavailable: guards.unavailable.clone(),
        firewall: guards.firewall.clone(),
        limits: guards.limits.clone(),
        oidc_endpoints: Some(endpoint.sign_ins.into()),
        satisfy: Satisfy::All,
        ..Access::default()
    };
    // Expressions are compared before all other paths.
    let path = if has_expressions {
        PathMatch::regex(&format!("{}$", escaped(&endpoint.path))).ok()?
    } else {
        PathMatch::new(PathKind::Exact, &endpoint.path).ok()?
    };
    let to_tls = |filter: &&RequestFilter| matches!(filter, RequestFilter::TlsRedirect(_));
    let filters: Vec<_> = of.request_filters.as_slice().iter().filter(to_tls).cloned().collect();
    let labels = model::Labels { path: endpoint.path, ..(*of.labels).clone() };
    Some(Route {
        request_filters: RequestFilters::new(filters).ok()?,
        access: Some(Box::new(access)),
        access_log: of.access_log,
        tracing: of.tracing.clone(),
        abuse: of.abuse.clone(),
        ..Route::new(path, Action::NotFound, Arc::new(labels))
    })
}

/// A path as the text of an expression. Paths of endpoints have few characters that mean something there.
fn escaped(path: &str) -> String {
    path.replace('.', "\\.")
}
