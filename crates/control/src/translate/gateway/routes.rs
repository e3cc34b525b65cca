//! The routes of one object, independent of the places where the object is attached, and its faults.
//!
//! Never in here: hosts and listeners.

use std::sync::Arc;

use model::{
    Action, Backends, Conditions, DirectResponse, Fallback, Forward, LabelTexts, Labels, Overload,
    RequestFilter, RequestFilters, ResponseFilters, RetryPolicy, Route, Timeouts, Transfer, UpstreamHead,
};

use super::backends::{Asker, BackendFinder, ByPolicies};
use super::conditions::Fault;
use super::duration;
use super::ext_authz::Authz;
use super::filters;
use super::forebay_policies::{Draft, Drafts};
use super::guarded;
use super::kinds::RouteKind;
use super::rules::{Match, Rule};
use super::sessions::{SessionOf, affinity};
use crate::names::{NsName, ObjectRef, PortRef};
use crate::objects::At;
use crate::objects::gateway_api::{BackendRef, L4Rule, Retry};
use crate::problem::Problem;
use crate::translate::claim::{DraftRoute, NamedPort};
use crate::translate::hosts::{fallback, files_of};
use crate::translate::origin::RouteOrigin;

/// The content made of one object.
#[derive(Default)]
pub(super) struct Content {
    /// The routes, in the order of rules and matches. Their labels have no host yet.
    pub(super) routes: Arc<[Template]>,
    /// The target of a route for connections or datagrams.
    pub(super) stream: Option<Arc<StreamTemplate>>,
    /// The reason why a reference leads nowhere.
    pub(super) unresolved: Option<Fault>,
    /// The reason why no part of it can be served.
    pub(super) refused: Option<Fault>,
    /// The reason why a part of it cannot be served.
    pub(super) partly: Option<Fault>,
    pub(super) services: Vec<NsName>,
    pub(super) problems: Vec<Problem>,
}

/// A route without a host.
pub(super) struct Template {
    pub(super) route: Route,
    pub(super) origin: RouteOrigin,
}

/// The backends of connections or datagrams.
#[derive(Debug, PartialEq)]
pub(super) struct StreamTemplate {
    pub(super) backends: Backends,
    pub(super) labels: Labels,
}

/// Makes the routes of an object for requests. `drafts` has the initial drafts of its rules.
pub(super) fn of_requests(
    object: &ObjectRef,
    rules: &[Rule<'_>],
    drafts: &Drafts,
    mut finder: BackendFinder<'_, '_, '_>,
) -> Content {
    let (mut routes, mut faults, mut good) = (Vec::new(), Vec::new(), 0);
    for (number, rule) in rules.iter().enumerate() {
        let Draft { route: base, settings } = drafts.of(number);
        finder.health.clone_from(&base.upstream.health);
        let settings: Option<Arc<[_]>> = if rule.settings.is_empty() {
            settings.clone()
        } else {
            Some(settings.iter().flat_map(|all| all.iter()).chain(&rule.settings).cloned().collect())
        };
        for one in &rule.matches {
            let (route, fault) = match one {
                Ok(one) => {
                    let mut maker = Maker { object, rule, base, finder: &mut finder, partly: None };
                    let (route, fault) = maker.make(one);
                    (Some(route), fault)
                }
                Err(fault) => (None, Some(fault.clone())),
            };
            good += usize::from(fault.is_none());
            faults.extend(fault.map(|fault| (number, fault)));
            let origin = || RouteOrigin::with_settings(rule.place.clone(), settings.clone());
            routes.extend(route.map(|route| Template { route, origin: origin() }));
        }
    }
    let (refused, partly) = match faults.first() {
        Some((_, first)) if good == 0 => (Some(first.clone()), None),
        _ => (None, dropped(&faults)),
    };
    Content { routes: routes.into(), refused, partly, ..Content::of(finder) }
}

/// The fault of rules that cannot be applied beside rules that can: a message with the prefix that the
/// specification requires, and the numbers of the rules.
fn dropped(faults: &[(usize, Fault)]) -> Option<Fault> {
    let (_, first) = faults.first()?;
    let mut rules: Vec<_> = faults.iter().map(|(number, _)| format!("rules[{number}]")).collect();
    rules.dedup();
    Some(Fault::new(first.reason, format!("Dropped Rule {}: {}", rules.join(", "), first.message)))
}

/// Makes the content of a route for connections or datagrams.
pub(super) fn of_streams(
    object: &ObjectRef,
    rules: &[At<L4Rule>],
    mut finder: BackendFinder<'_, '_, '_>,
) -> Content {
    let Some(rule) = rules.first().map(|rule| &rule.value) else { return Content::of(finder) };
    let backends = finder.backends(&rule.backend_refs, Asker::Forebay, |_, _| Ok(None));
    let name = rule.name.as_deref().unwrap_or_default();
    let labels = labels(object, name, &rule.backend_refs, "");
    let stream = backends.map(|backends| Arc::new(StreamTemplate { backends, labels }));
    Content { stream, ..Content::of(finder) }
}

impl Content {
    fn of(finder: BackendFinder<'_, '_, '_>) -> Self {
        let mut services = finder.services;
        services.sort();
        services.dedup();
        let problems = finder.clusters.take_problems();
        Self { unresolved: finder.faults.into_iter().next(), services, problems, ..Self::default() }
    }
}

fn labels(object: &ObjectRef, rule: &str, backends: &[At<BackendRef>], path: &str) -> Labels {
    let first = backends.first().map(|backend| &backend.value);
    Labels::from(LabelTexts {
        namespace: object.namespace.clone(),
        object: object.name.clone(),
        service: first.map(|backend| backend.name.to_string()).unwrap_or_default(),
        service_port: first.and_then(|backend| backend.port).map(|port| port.to_string()).unwrap_or_default(),
        path: path.to_owned(),
        host: String::new(),
        rule: rule.to_owned(),
    })
}

struct Maker<'m, 'r, 'f, 'c, 'a> {
    object: &'m ObjectRef,
    rule: &'m Rule<'r>,
    base: &'m DraftRoute,
    finder: &'m mut BackendFinder<'f, 'c, 'a>,
    /// The reason why a backend gets no requests, although others do.
    partly: Option<Fault>,
}

impl Maker<'_, '_, '_, '_, '_> {
    /// The route for a match. If a part of it cannot be applied, its requests are answered with 500.
    fn make(&mut self, one: &Match) -> (Route, Option<Fault>) {
        let labels = Arc::new(labels(self.object, self.rule.name, self.rule.backends, &one.written));
        let mut route = Route::new(one.path.clone(), error(), labels);
        route.conditions =
            Some(&one.conditions).filter(|it| **it != Conditions::default()).cloned().map(Box::new);
        route.abuse = self.base.abuse.clone();
        route.access_log = self.base.access_log;
        route.tracing.clone_from(&self.base.tracing);
        route.access = guarded::access(self.base, &one.path, self.finder.clusters);
        let fault = self.fill(one, &mut route).err().or_else(|| self.partly.take());
        let (inputs, clusters) = (self.finder.inputs, &mut *self.finder.clusters);
        route.error_pages = guarded::error_pages(self.base, &route.action, inputs, clusters);
        (route, fault)
    }

    fn fill(&mut self, one: &Match, route: &mut Route) -> Result<(), Fault> {
        let mut filters = filters::read(self.rule.filters, &one.path, self.finder)?;
        match filters.take_authz() {
            None => {}
            Some(Authz::Service(authz)) => route.access.get_or_insert_default().ext_authz.push(authz),
            // The error that a route begins with stays.
            Some(Authz::Unresolved) => return Ok(()),
        }
        let redirects = filters.redirects();
        let response = filters.take_response();
        if response.is_some() && !self.rule.backends.is_empty() {
            let message = "filter DirectResponse cannot be used together with backendRefs";
            return Err(Fault::new("IncompatibleFilters", message));
        }
        let response = response.or_else(|| self.base.respond.clone());
        let (mut of_request, of_response, mirrors) = filters.of_route();
        of_request.extend(self.base.maintenance.clone().map(RequestFilter::Maintenance));
        let action = match &self.base.files {
            _ if redirects => Action::NotFound,
            _ if response.is_some() => Action::Respond(Box::new(response.unwrap_or_default())),
            Some(files) => Action::Files(Box::new(files_of(files, self.base, &one.path))),
            None => self.action(one, mirrors)?,
        };
        route.request_filters = RequestFilters::new(of_request).expect("each is of another kind");
        route.response_filters = ResponseFilters::new(of_response).expect("each is of another kind");
        route.action = action;
        Ok(())
    }

    fn action(&mut self, one: &Match, mirrors: Vec<model::Mirror>) -> Result<Action, Fault> {
        let affinity = self.rule.session.map(|asked| affinity(asked, SessionOf::Rule)).transpose()?;
        let affinity = affinity.map(Arc::new);
        self.finder.by_policies = ByPolicies::default();
        let asker = Asker::Clients(affinity.as_ref());
        let mut fault = None;
        let backends = self.finder.backends(self.rule.backends, asker, |finder, reference| {
            if reference.filters.is_empty() {
                return Ok(None);
            }
            let read = filters::read(&reference.filters, &one.path, finder);
            match read.and_then(|read| read.of_backend(finder)) {
                Ok(filters) => Ok(Some(Arc::new(filters))),
                Err(why) => {
                    fault.get_or_insert(why);
                    Err(())
                }
            }
        });
        self.partly = fault;
        let Some(backends) = backends else { return Ok(error()) };
        let timeouts = self.timeouts()?;
        let retry = match self.rule.retry {
            Some(asked) => retry(asked, &self.base.retry)?,
            None => self.base.retry.clone(),
        };
        let mirrors = (!mirrors.is_empty()).then(|| mirrors.into());
        let (backends, fallback) = self.with_fallback(backends, asker);
        let by_policies = self.finder.by_policies;
        let parts = self.finder.clusters.parts();
        Ok(Action::Forward(Forward {
            backends,
            timeouts: parts.timeouts(timeouts),
            retry: parts.retry(retry),
            body_bytes_max: self.base.body_bytes_max.into(),
            connection_header: self.base.connection_header,
            sets_affinity_cookie: affinity.is_some() || by_policies.keep_sessions,
            head: Some(&self.base.head)
                .filter(|head| **head != UpstreamHead::default())
                .cloned()
                .map(Box::new),
            transfer: parts.transfer(Transfer { mirrors, ..self.base.transfer.clone() }),
            cache: self.base.cache.clone().filter(|_| self.base.access.processor.is_none()),
            overload: self.overload(by_policies.bound_retries),
            priority: self.base.priority,
            fallback,
        }))
    }

    /// Adds the clusters that policies have the rule fall back to.
    fn with_fallback(&mut self, backends: Backends, asker: Asker<'_>) -> (Backends, Option<Box<Fallback>>) {
        let fallback = self.base.fallback.as_ref();
        let is_grpc = self.finder.kind == RouteKind::Grpc;
        let mut clusters = Vec::from_iter(fallback::farther(&backends, self.finder.clusters));
        for NamedPort { service, port } in fallback.iter().flat_map(|fallback| &fallback.services) {
            let number = match port {
                PortRef::Number(number) => Some(*number),
                PortRef::Name(_) => self.finder.port_number(service, port),
            };
            match self.finder.known(service, number, asker, is_grpc) {
                Ok(cluster) => clusters.push(cluster),
                Err(fault) => self.finder.faults.push(fault),
            }
        }
        fallback::with(backends, clusters, fallback.map(|fallback| fallback.recovery))
    }

    /// The overload settings. Where retries are bound by the requests of a Service, these are counted in any
    /// case.
    fn overload(&self, is_counted: bool) -> Option<Arc<Overload>> {
        let counting = || is_counted.then(|| Arc::new(Overload::counting()));
        self.base.overload.clone().or_else(counting)
    }

    /// The timeouts of the rule. "A zero-valued duration means that there is no timeout."
    fn timeouts(&self) -> Result<Timeouts, Fault> {
        let Some(asked) = self.rule.timeouts else { return Ok(self.base.timeouts) };
        let of_request = duration::read(asked.request.as_deref())?;
        let backend_request = duration::read(asked.backend_request.as_deref())?;
        let longest = of_request.max(backend_request);
        let read = longest.map_or(self.base.timeouts.read, |longest| longest.max(self.base.timeouts.read));
        Ok(Timeouts { request: of_request, backend_request, read, ..self.base.timeouts })
    }
}

fn error() -> Action {
    Action::Respond(Box::new(DirectResponse::new(500, "")))
}

fn retry(asked: &Retry, base: &RetryPolicy) -> Result<RetryPolicy, Fault> {
    let mut policy = base.clone();
    policy.on.error = true;
    policy.on.timeout = true;
    policy.on.statuses.clone_from(&asked.codes);
    policy.tries = asked.attempts.map_or(policy.tries, |attempts| Some(attempts.saturating_add(1)));
    policy.backoff = duration::read(asked.backoff.as_deref())?;
    Ok(policy)
}
