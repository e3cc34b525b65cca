//! Canaries, which receive a share of the requests of a host's routes.
//!
//! A canary applies to routes of objects in its own namespace, unless objects may be named across namespaces:
//! otherwise every author of an Ingress could take over requests of any host.

use std::sync::Arc;

use model::{Action, Backends, Canary, ClusterId, Forward, PathMatch, Route};

use super::Merge;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{CanaryClaim, CanaryDraft, DraftRoute};

impl Merge<'_, '_, '_> {
    /// Attaches canaries to the routes with their paths. "The first per mainline is honoured, later ones
    /// never get traffic."
    ///
    /// `rest` is the route for undeclared paths; it gets a canary only if its object names a backend for it.
    pub(super) fn attach_canaries(&mut self, claims: &[CanaryClaim], mut rest: Option<&mut DraftRoute>) {
        for claim in claims {
            for declared in &claim.paths {
                let (path, canary) = match declared {
                    Ok(declared) => declared,
                    Err(problem) => {
                        self.problems.push(Problem::clone(problem));
                        continue;
                    }
                };
                let declared = self.drafts.iter_mut().map(|declared| &mut declared.draft);
                let rest = rest.as_deref_mut().filter(|rest| rest.backend.is_some());
                let mainline = declared.chain(rest).find(|draft| draft.path == *path);
                if let Some((reason, what)) = attach(claim, path, canary, mainline) {
                    let message = format!(
                        "path {} ({}) of host {}: {what}: there the canary takes nothing",
                        path.path(),
                        path.kind().as_str(),
                        self.name
                    );
                    let problem = Problem::in_place(Severity::Warning, &canary.place, message);
                    self.problems.push(problem.because(reason));
                }
            }
        }
    }

    /// A mainline and its canary as the backends of a route.
    pub(super) fn with_canary(
        &mut self,
        mainline: ClusterId,
        draft: &DraftRoute,
        canary: &CanaryDraft,
    ) -> Backends {
        let Some(main) = &draft.backend else { return Backends::One(mainline) };
        let of_host = self.terms.upstream_tls.as_ref();
        let (service, port) = (&canary.backend.service, &canary.backend.port);
        let main = (&main.service, &main.port);
        let (cluster, fault) =
            self.clusters.for_canary((service, port), main, canary.is_sticky, &draft.upstream, of_host);
        if let Some(fault) = fault {
            let fault = fault.replace("requests are answered 503", "its requests go to the mainline");
            let problem = Problem::in_place(Severity::Error, &canary.place, format!("canary: {fault}"));
            self.problems.push(problem.because(Reason::Missing));
        }
        let name = format!("{}-{}-{port}", service.namespace, service.name);
        Backends::Canary(Box::new(Canary {
            mainline,
            cluster,
            name: Arc::from(name),
            rules: canary.rules.clone(),
            rollout: canary.rollout.clone(),
        }))
    }
}

/// Attaches a canary to a route, or reports why the route does not get it.
fn attach(
    claim: &CanaryClaim,
    path: &PathMatch,
    canary: &CanaryDraft,
    mainline: Option<&mut DraftRoute>,
) -> Option<(Reason, String)> {
    let Some(draft) = mainline else {
        return Some((Reason::NoEffect, "no other Ingress declares it".to_owned()));
    };
    let owner = &draft.place.object;
    if owner.namespace != claim.place.object.namespace && !claim.crosses_namespaces {
        let what = format!(
            "{owner} declares it, which is of another namespace (see allow-cross-namespace-resources)"
        );
        return Some((Reason::NotOwner, what));
    }
    if draft.files.is_some() {
        return Some((Reason::NoEffect, format!("{owner} serves files there")));
    }
    if draft.backend.as_ref() == Some(&canary.backend) {
        return Some((Reason::NoEffect, format!("{owner} sends it to the same Service")));
    }
    if let Some(first) = &draft.canary {
        return Some((Reason::NoEffect, format!("{} is its canary already", first.place.object)));
    }
    debug_assert_eq!(draft.path, *path);
    draft.canary = Some(canary.clone());
    None
}

/// Copies the canary's name from the old route, because metrics are found by this name.
pub(super) fn take_over_name(route: &mut Route, old: &Route) {
    fn canary(action: &Action) -> Option<&Canary> {
        match action {
            Action::Forward(Forward { backends: Backends::Canary(canary), .. }) => Some(canary),
            _ => None,
        }
    }
    let known = canary(&old.action).map(|canary| Arc::clone(&canary.name));
    if let Some(known) = known
        && let Action::Forward(Forward { backends: Backends::Canary(canary), .. }) = &mut route.action
        && canary.name == known
    {
        canary.name = known;
    }
}
