//! Answers to the challenges of authorities that speak ACME: a route of the host, or a certificate for its
//! handshakes.
//!
//! Never in here: which hosts have an order in progress.

use std::sync::Arc;

use model::{Action, Certificate, DirectResponse, HostName, LabelTexts, Labels, PathMatch, Route};

use super::claim::AcmeClaim;
use super::origin::RouteOrigin;
use crate::acme::Answer;

/// The path below which authorities ask for answers (RFC 8555 section 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The certificate that answers a challenge in a handshake; none for another kind of challenge.
pub(super) fn certificate(claim: &AcmeClaim) -> Option<Arc<Certificate>> {
    match &claim.answer {
        Some(Answer::TlsAlpn(certificate)) => Some(Arc::clone(certificate)),
        _ => None,
    }
}

/// The route that answers a challenge over HTTP, with the object that it is for. It has no conditions: the
/// authority is let in whatever the other routes of the host ask for. None for another kind of challenge.
pub(super) fn route(host: &HostName, claim: &AcmeClaim) -> Option<(Route, RouteOrigin)> {
    let Some(Answer::Http { token, content }) = &claim.answer else { return None };
    let path = PathMatch::exact(&format!("{CHALLENGES}{token}")).ok()?;
    let labels = Labels::from(LabelTexts {
        namespace: claim.place.object.namespace.clone(),
        object: claim.place.object.name.clone(),
        path: CHALLENGES.to_owned(),
        host: host.to_string(),
        ..LabelTexts::default()
    });
    let answer = DirectResponse { status: 200, body: content.clone(), headers: Vec::new() };
    let route = Route::new(path, Action::Respond(Box::new(answer)), Arc::new(labels));
    Some((route, claim.place.clone().into()))
}

/// Puts a route before all others of its host. Expressions are compared before all other paths: where the
/// host has some, the path becomes one too.
pub(super) fn add(
    mut route: Route,
    origin: RouteOrigin,
    routes: &mut Vec<Arc<Route>>,
    origins: &mut Vec<RouteOrigin>,
) {
    if routes.iter().any(|route| route.path.expression().is_some())
        && let Ok(path) = PathMatch::regex(&format!("{}$", route.path.path().replace('.', "\\.")))
    {
        route.path = path;
    }
    routes.insert(0, Arc::new(route));
    origins.insert(0, origin);
}
