//! The endpoints of sign-ins: routes of a host for the paths that Forebay itself answers, whatever the paths
//! of the objects are.
//!
//! Never in here: what the endpoints answer.

use std::sync::Arc;

use model::{
    Access, Action, HostName, Oidc, PathKind, PathMatch, RequestFilter, RequestFilters, Route, Satisfy,
    StepBudget,
};

use super::origin::RouteOrigin;
use crate::problem::{Problem, Reason, Severity};

/// A path that is answered, with the sign-ins that have it and the first of their routes.
struct Endpoint {
    path: String,
    sign_ins: Vec<Arc<Oidc>>,
    first: usize,
}

/// An endpoint that cannot be had, since its path belongs to another namespace.
pub(super) struct Taken {
    /// The object with the sign-in.
    pub(super) origin: RouteOrigin,
    pub(super) path: String,
    /// The object that has the path: `namespace/name`.
    pub(super) holder: String,
}

impl Taken {
    /// The problem for the author of the sign-in.
    pub(super) fn problem(self, host: &HostName) -> Problem {
        let place = self.origin.place();
        let (path, holder) = (self.path, self.holder);
        let message = format!(
            "sign-in: path {path} of host {host} belongs to {holder}, of another namespace: nobody can sign in; choose paths below your own"
        );
        Problem::in_place(Severity::Error, &place, message).because(Reason::Conflict)
    }
}

/// Puts the endpoints of a host's sign-ins before its routes, which come with their origins and with the
/// places where those for wider names start. Of two routes for the same path, the first counts. Returns the
/// endpoints that cannot be had.
pub(super) fn add_endpoints(
    routes: &mut Vec<Arc<Route>>,
    origins: &mut Vec<RouteOrigin>,
    starts: &mut [usize],
) -> Vec<Taken> {
    let mut taken = Vec::new();
    let endpoints = endpoints(routes, origins, starts, &mut taken);
    let has_expressions = routes.iter().any(|route| route.path.kind() == PathKind::Regex);
    let made: Vec<_> = endpoints
        .into_iter()
        .filter_map(|endpoint| {
            let of = endpoint.first;
            Some((Arc::new(route(&routes[of], endpoint, has_expressions)?), origins[of].clone()))
        })
        .collect();
    if routes.iter().any(|route| has_sign_in(route)) {
        routes.iter_mut().filter(|route| !has_sign_in(route)).for_each(hide_sessions);
    }
    for start in starts {
        *start += made.len();
    }
    let (first, first_origins): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    routes.splice(0..0, first);
    origins.splice(0..0, first_origins);
    taken
}

fn endpoints(
    routes: &[Arc<Route>],
    origins: &[RouteOrigin],
    starts: &[usize],
    taken: &mut Vec<Taken>,
) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (first, route) in routes.iter().enumerate() {
        let Some(oidc) = route.access.as_ref().and_then(|access| access.oidc.as_ref()) else { continue };
        for path in oidc.client.paths() {
            let is_other = |holder: &&Route| holder.labels.namespace() != route.labels.namespace();
            if let Some(holder) = holder(routes, starts, path).filter(is_other) {
                let holder = format!("{}/{}", holder.labels.namespace(), holder.labels.object());
                taken.push(Taken { origin: origins[first].clone(), path: path.to_owned(), holder });
                continue;
            }
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

/// The route that would get requests for a path, as far as paths decide that: one for the host's own name
/// before those for wider names.
fn holder<'r>(routes: &'r [Arc<Route>], starts: &[usize], path: &str) -> Option<&'r Route> {
    let ends = starts.iter().copied().chain([routes.len()]);
    let mut groups = [0].into_iter().chain(starts.iter().copied()).zip(ends);
    groups.find_map(|(start, end)| holder_among(&routes[start..end], path))
}

/// The same of routes that are all for one name: an expression first, then the longest path.
fn holder_among<'r>(routes: &'r [Arc<Route>], path: &str) -> Option<&'r Route> {
    let steps = StepBudget::default();
    let matches = |route: &&Arc<Route>| {
        let expression = route.path.expression();
        // An expression that takes too many steps may be the one.
        expression.is_some_and(|expression| expression.try_match(path.as_bytes(), &steps).unwrap_or(true))
    };
    let takes = |route: &&Arc<Route>| match route.path.kind() {
        PathKind::Exact => route.path.path() == path,
        PathKind::Prefix => {
            let rest = path.strip_prefix(route.path.path().trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        PathKind::Regex => false,
    };
    let length = |route: &&Arc<Route>| (route.path.kind() == PathKind::Exact, route.path.path().len());
    let found = routes.iter().find(matches).or_else(|| routes.iter().filter(takes).max_by_key(length));
    found.map(|route| &**route)
}

fn has_sign_in(route: &Route) -> bool {
    route.access.as_ref().is_some_and(|access| access.oidc.is_some())
}

/// Has the endpoint of a route get no cookies of sessions, which begin at other routes of the host.
fn hide_sessions(route: &mut Arc<Route>) {
    Arc::make_mut(route).access.get_or_insert_default().hides_sessions = true;
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
    let labels = model::Labels::from(model::LabelTexts { path: endpoint.path, ..of.labels.texts() });
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
