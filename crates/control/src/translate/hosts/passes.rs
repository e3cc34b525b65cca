//! Routes of requests that snippets send to another cluster than that of their own route (`proxy_pass`).
//!
//! Never in here: which requests those are.

use std::sync::Arc;

use model::template::Template;
use model::{Access, Action, Backends, Forward, PassRoute, PathMatch, Route, Transfer, UpstreamHead};

use super::Merge;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::snippet::PassDraft;

impl Merge<'_, '_, '_> {
    /// The routes for the destinations of snippets, beside the route of a draft.
    pub(super) fn passes(&mut self, draft: &DraftRoute, route: &Route) -> Box<[PassRoute]> {
        let of_host = self.terms.script.iter().chain(&draft.script.global).flat_map(|one| &one.passes);
        let all: Vec<PassDraft> = of_host.chain(&draft.script.passes).cloned().collect();
        all.iter().filter_map(|pass| self.pass(pass, draft, route)).collect()
    }

    fn pass(&mut self, pass: &PassDraft, draft: &DraftRoute, route: &Route) -> Option<PassRoute> {
        let (cluster, fault) = self.clusters.for_url(&pass.service);
        if let Some(fault) = fault {
            let problem = Problem::in_place(Severity::Warning, &draft.place, format!("proxy_pass: {fault}"));
            let problem = problem.because(Reason::Missing);
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let backends = Backends::One(cluster);
        let route = if pass.is_of_place {
            of_place(pass, draft, route, backends)
        } else {
            let Action::Forward(forward) = &route.action else { return None };
            let action = Action::Forward(Forward { backends, cache: None, ..forward.clone() });
            Route { action, script: None, ..route.clone() }
        };
        Some(PassRoute { to: Arc::clone(&pass.to), is_of_place: pass.is_of_place, route: Arc::new(route) })
    }
}

/// The route of a location that a snippet itself declares. As in nginx, it has nothing of an Ingress's
/// locations but what guards the whole host.
fn of_place(pass: &PassDraft, draft: &DraftRoute, route: &Route, backends: Backends) -> Route {
    let host = Template::parse(&pass.host).ok();
    let forward = Forward {
        backends,
        timeouts: draft.timeouts.into(),
        retry: draft.retry.clone().into(),
        body_bytes_max: draft.body_bytes_max.into(),
        connection_header: None,
        sets_affinity_cookie: false,
        head: Some(Box::new(UpstreamHead { host, ..UpstreamHead::default() })),
        transfer: Transfer { response: None, mirrors: None, ..draft.transfer.clone() }.into(),
        cache: None,
        overload: None,
        priority: draft.priority,
        fallback: None,
    };
    let access = route.access.as_ref().map(|access| Access {
        forbidden: access.forbidden.clone(),
        client_certificate: access.client_certificate.clone(),
        unavailable: access.unavailable.clone(),
        ..Access::default()
    });
    let access = access.filter(|access| *access != Access::default()).map(Box::new);
    Route {
        access,
        access_log: route.access_log,
        tracing: route.tracing.clone(),
        ..Route::new(PathMatch::root(), Action::Forward(forward), Arc::clone(&route.labels))
    }
}
