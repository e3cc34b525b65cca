//! The routes of a host, made from drafts.
//!
//! Never in here: the selection of drafts.

use std::collections::HashSet;
use std::sync::Arc;

use model::{
    Access, Action, Backends, Files, Forward, LabelTexts, Labels, Mirror, PathKind, PathMatch, RequestFilter,
    RequestFilters, ResponseFilter, ResponseFilters, Route, Script, Transfer, UpstreamHead,
};

use super::locations::{self, Location};
use super::{ClaimEffect, Declared, Merge};
use crate::names::ObjectRef;
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::translate::claim::{DraftRoute, FILES_UNPROCESSED, MirrorDraft, NamedPort};

impl Merge<'_, '_, '_> {
    /// Makes the routes of all drafts.
    pub(super) fn make_routes(&mut self, askers: &[ObjectRef]) {
        let mut drafts = std::mem::take(&mut self.drafts);
        self.asked_here = self.asked_here(&drafts);
        let has_guests = drafts.iter().any(|declared| declared.of_guest.is_some());
        let are_expressions = locations::are_expressions(&drafts);
        let exact = if are_expressions { locations::exact_paths(&drafts) } else { HashSet::new() };
        if are_expressions {
            locations::sort(&mut drafts);
        }
        for declared in &drafts {
            let made = match &declared.of_guest {
                Some(path) => locations::plain(&declared.draft, path).map(|one| vec![one]),
                None if are_expressions => locations::expressions(&declared.draft, &exact),
                None => Ok(vec![Location { path: declared.draft.path.clone(), rewrite: None }]),
            };
            match made {
                Ok(locations) if has_guests && are_expressions => {
                    let locations = locations.into_iter().map(locations::beside_guests).collect();
                    self.make(declared, locations, askers);
                }
                Ok(locations) => self.make(declared, locations, askers),
                Err(why) => {
                    let message = format!("{why}; it is ignored");
                    let problem = Problem::in_place(Severity::Error, &declared.draft.place, message);
                    self.problems.push(problem.because(Reason::Invalid));
                }
            }
        }
    }

    /// Makes the routes of a draft, and reports the fault of its backend. The routes are made in any case.
    fn make(&mut self, declared: &Declared, locations: Vec<Location>, askers: &[ObjectRef]) {
        let Declared { number, draft, is_rest, of_guest: _ } = declared;
        let standing = number.map(|number| self.standings[number].clone()).unwrap_or_default();
        let asker = number.map_or(&draft.place.object, |number| &askers[number]);
        let mut fault = None;
        for location in locations {
            let is_rewritten = location.rewrite.is_some();
            let action = match self.action(draft, is_rewritten) {
                Some((action, found)) => {
                    fault = found;
                    action
                }
                None => Action::NotFound,
            };
            self.route(draft, location, action, asker, &standing);
        }
        if let Some(mut fault) = fault {
            if draft.errors.default_backend.is_some() {
                fault = fault.replace("requests are answered 503", "the default-backend serves");
            }
            let message = if *is_rest { format!("default backend: {fault}") } else { fault };
            let problem = Problem::in_place(Severity::Error, &draft.place, message);
            self.problems.push(problem.because(Reason::Missing));
        }
    }

    /// The action for a draft's requests, and the fault of its backend; none without a backend.
    fn action(&mut self, draft: &DraftRoute, is_rewritten: bool) -> Option<(Action, Option<String>)> {
        if let Some(response) = &draft.respond {
            return Some((Action::Respond(Box::new(response.clone())), None));
        }
        if let Some(files) = &draft.files {
            return Some((Action::Files(Box::new(files_of(files, draft, &draft.path))), None));
        }
        let NamedPort { service, port } = draft.backend.as_ref()?;
        let of_host = self.terms.upstream_tls.as_ref();
        let (cluster, fault) = self.clusters.for_requests(service, port, &draft.upstream, of_host);
        let backends = match &draft.canary {
            None => Backends::One(cluster),
            Some(canary) => self.with_canary(cluster, draft, canary),
        };
        let (backends, fallback) = self.with_fallback(backends, draft);
        let mut head = draft.head.clone();
        head.forwarded_prefix = head.forwarded_prefix.filter(|_| is_rewritten);
        let mirrors = draft.mirror.as_ref().map(|mirror| [self.mirror(mirror, &draft.place)].into());
        let parts = self.clusters.parts();
        let forward = Forward {
            backends,
            timeouts: parts.timeouts(draft.timeouts),
            retry: parts.retry(draft.retry.clone()),
            body_bytes_max: draft.body_bytes_max.into(),
            connection_header: draft.connection_header,
            sets_affinity_cookie: draft.sets_affinity_cookie,
            head: Some(head).filter(|head| *head != UpstreamHead::default()).map(Box::new),
            transfer: parts.transfer(Transfer { mirrors, ..draft.transfer.clone() }),
            cache: draft.cache.clone().filter(|_| draft.access.processor.is_none()),
            overload: draft.overload.clone(),
            priority: draft.priority,
            fallback,
        };
        Some((Action::Forward(forward), fault))
    }

    /// Adds a route for a location of a draft. A route that only answers 404 is left out, because the answer
    /// is also 404 without it.
    fn route(
        &mut self,
        draft: &DraftRoute,
        location: Location,
        action: Action,
        asker: &ObjectRef,
        standing: &ClaimEffect,
    ) {
        let Location { path, rewrite } = location;
        let mut access = self.terms.access(draft, standing);
        if let Some(external) = &draft.access.external {
            match self.external(external, draft) {
                Ok(external) => access.external = Some(external),
                Err(why) => {
                    access.unavailable.get_or_insert(why);
                }
            }
        }
        self.have_decided(draft, &action, &mut access);
        let access = Some(access).filter(|access| *access != Access::default());
        let redirect = draft.tls_redirect.as_ref().and_then(|draft| self.terms.redirect(draft, standing));
        let app_root = self.terms.app_root.clone().map(RequestFilter::AppRoot);
        let maintenance = draft.maintenance.clone().map(RequestFilter::Maintenance);
        let own = draft.filters.iter().cloned().chain(maintenance);
        let filters: Vec<_> = app_root.into_iter().chain(own).chain(rewrite).chain(redirect).collect();
        let error_pages = self.error_pages(draft, &action);
        let is_answered = error_pages.as_ref().is_some_and(|pages| !pages.backends.is_empty());
        let script = self.script(draft);
        let response_filters = response_filters(draft);
        let has_filters = !filters.is_empty() || !response_filters.as_slice().is_empty();
        let asks_for_nothing = !has_filters && access.is_none() && script.is_none();
        if action == Action::NotFound && asks_for_nothing && !is_answered {
            return;
        }
        let backend = draft.backend.as_ref();
        let mut route = Route {
            conditions: None,
            response_filters,
            request_filters: RequestFilters::new(filters).expect("each is of another kind"),
            script,
            access: access.map(Box::new),
            action,
            error_pages,
            labels: Arc::new(Labels::from(LabelTexts {
                namespace: asker.namespace.clone(),
                object: asker.name.clone(),
                service: backend.map(|backend| backend.service.name.clone()).unwrap_or_default(),
                service_port: backend.map(|backend| backend.port.to_string()).unwrap_or_default(),
                path: draft.path.path().to_owned(),
                host: self.name.to_string(),
                rule: String::new(),
            })),
            abuse: draft.abuse.clone(),
            access_log: draft.access_log,
            tracing: draft.tracing.clone(),
            slash_redirect: draft.slash_redirect,
            path,
        };
        let passes = self.passes(draft, &route);
        if let Some(script) = route.script.as_mut().filter(|_| !passes.is_empty()) {
            script.passes = passes;
        }
        self.routes.push(Arc::new(route));
        self.origins.push(draft.place.clone().into());
    }

    /// Adds the services that decide about requests and change them.
    fn have_decided(&mut self, draft: &DraftRoute, action: &Action, access: &mut Access) {
        if let Some(authz) = &draft.access.ext_authz {
            access.ext_authz.push(self.ext_authz(authz, draft));
        }
        if let Some(processor) = &draft.access.processor {
            access.processor = Some(self.processor(processor, draft));
            if matches!(action, Action::Files(_)) {
                access.unavailable.get_or_insert(FILES_UNPROCESSED.to_owned());
            }
        }
    }

    /// The script of the route, from its snippets.
    fn script(&mut self, draft: &DraftRoute) -> Option<Box<Script>> {
        let host = self.host_script.get_or_init(|| self.terms.host_script(draft)).clone();
        let adds_headers = draft.access.external.is_some();
        let script = Script { host, route: draft.script.location.clone(), adds_headers, ..Script::default() };
        (!script.is_empty()).then(|| Box::new(script))
    }

    /// The target of the mirrored requests of a route.
    fn mirror(&mut self, draft: &MirrorDraft, place: &SourceLocation) -> Mirror {
        let (cluster, fault) = self.clusters.for_url(&draft.service);
        if let Some(fault) = fault {
            let problem = Problem::in_place(Severity::Warning, place, format!("mirror-target: {fault}"));
            self.problems.push(problem.because(Reason::Missing));
        }
        Mirror { cluster, copy: Some(Arc::clone(&draft.copy)), share: draft.share }
    }
}

fn response_filters(draft: &DraftRoute) -> ResponseFilters {
    let cors = draft.cors.clone().map(ResponseFilter::Cors);
    let headers = draft.custom_headers.clone().map(ResponseFilter::SetHeaders);
    ResponseFilters::new(cors.into_iter().chain(headers).collect()).expect("each is of another kind")
}

/// The files that answer requests of a path. As with nginx's `alias`, the configured part of the path is no
/// part of the files' names.
pub(in crate::translate) fn files_of(files: &Files, draft: &DraftRoute, of: &PathMatch) -> Files {
    let path = of.path();
    let strip = match of.kind() {
        _ if draft.rewrite.is_some() || draft.uses_regex => "",
        PathKind::Prefix => path.trim_end_matches('/'),
        // An exact path is a single file in the folder.
        PathKind::Exact => path.rsplit_once('/').map_or("", |(folder, _)| folder),
        PathKind::Regex => "",
    };
    let response = draft.transfer.response.clone();
    Files { strip: strip.to_owned(), response, ..files.clone() }
}
