//! The routes of one host, with the index of their paths.
//!
//! Must not be in here: which names lead to the host.

use std::ops::Range;
use std::sync::Arc;

use model::{Action, Alias, Backends, Host, HostName, HostTls, Rollout, Route, StepBudget};

use crate::expressions::Expressions;
use crate::needs::Needs;
use crate::path::{Found, PathIndex};

/// A host with its routes.
#[derive(Debug)]
pub struct HostTable {
    host: Arc<Host>,
    is_plain: bool,
    /// Index of the routes without a regular expression. The expressions are searched first.
    paths: PathIndex,
    /// The features that each route uses, in the order of the routes.
    needs: Box<[Needs]>,
    /// None for most hosts, therefore on the heap.
    rest: Option<Box<Rest>>,
}

/// The parts of a table that most hosts do not have.
#[derive(Debug)]
struct Rest {
    expressions: Option<Box<Expressions>>,
    /// The routes for wider names, the narrowest name first.
    wider: Box<[Group]>,
}

/// The index of some of a host's routes, which stand together.
#[derive(Debug)]
struct Group {
    /// The place of the first of them.
    start: usize,
    paths: PathIndex,
    expressions: Option<Box<Expressions>>,
}

impl HostTable {
    pub(crate) fn new(host: &Arc<Host>) -> Arc<Self> {
        let mut groups = host.groups();
        let Group { paths, expressions, .. } = Group::new(host, groups.next().unwrap_or_default());
        let wider: Box<[_]> = groups.map(|places| Group::new(host, places)).collect();
        let is_usual = expressions.is_none() && wider.is_empty();
        let rest = (!is_usual).then(|| Box::new(Rest { expressions, wider }));
        let is_plain = *host.tls == HostTls::default();
        let needs = host.routes.iter().map(|route| Needs::of_route(route)).collect();
        Arc::new(Self { host: Arc::clone(host), is_plain, paths, needs, rest })
    }

    /// The route for a normalised path, of those for the host's own name. `complies` reports whether the
    /// request meets the conditions of a route.
    pub(crate) fn find(
        &self,
        path: &[u8],
        budget: &StepBudget,
        complies: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let expressions = self.rest.as_ref().and_then(|rest| rest.expressions.as_ref());
        let by_expression = expressions.and_then(|expressions| expressions.find(path, budget, &complies));
        by_expression.or_else(|| self.paths.find(path, complies))
    }

    /// The route for a normalised path, of those for wider names: the narrowest first.
    #[cold]
    pub(crate) fn find_wider(
        &self,
        path: &[u8],
        budget: &StepBudget,
        complies: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        self.rest.as_ref()?.wider.iter().find_map(|group| group.find(path, budget, &complies))
    }

    /// The host that the table is compiled from.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Name of the host, which selects the requests of this table.
    pub fn name(&self) -> &HostName {
        &self.host.name
    }

    /// Name of the host whose routes are searched if none of its own matches a request.
    pub fn wider(&self) -> Option<&HostName> {
        self.host.wider.as_ref()?.host.as_ref()
    }

    pub(crate) fn aliases(&self) -> &[Alias] {
        &self.host.aliases
    }

    /// TLS settings. The allocation stays the same until the settings change.
    pub fn tls(&self) -> &Arc<HostTls> {
        &self.host.tls
    }

    /// Whether the TLS settings are the defaults.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Routes in the order of the model, including those that are shadowed by another of the same path.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.host.routes
    }

    /// The features that a route uses, by its place among the routes.
    pub(crate) fn needs(&self, route: usize) -> Needs {
        self.needs[route]
    }

    /// The plans of the canaries of its routes that have steps.
    pub fn rollouts(&self) -> impl Iterator<Item = &Arc<Rollout>> {
        self.routes().iter().filter_map(|route| match &route.action {
            Action::Forward(forward) => match &forward.backends {
                Backends::Canary(canary) => canary.rollout.as_ref(),
                Backends::One(_) | Backends::Split(_) => None,
            },
            Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
        })
    }

    /// Whether something of the host concerns more than its own requests: TLS settings, canaries with steps,
    /// aliases.
    pub(crate) fn is_special(&self) -> bool {
        !self.is_plain || !self.aliases().is_empty() || self.rollouts().next().is_some()
    }

    /// Whether the table was built from this host, or from an equal one.
    pub(crate) fn is_of(&self, host: &Arc<Host>) -> bool {
        self.host == *host
    }
}

impl Group {
    fn new(host: &Host, places: Range<usize>) -> Self {
        let start = places.start;
        let routes = &host.routes[places];
        let paths = PathIndex::new(routes.iter().map(|route| (&route.path, route.precedence())));
        let expressions = Expressions::boxed(routes.iter().map(|route| &route.path));
        Self { start, paths, expressions }
    }

    fn find(&self, path: &[u8], budget: &StepBudget, complies: impl Fn(usize) -> bool) -> Option<Found> {
        let complies = |route: usize| complies(self.start + route);
        let by_expression =
            self.expressions.as_ref().and_then(|expressions| expressions.find(path, budget, complies));
        let found = by_expression.or_else(|| self.paths.find(path, complies))?;
        Some(found.moved_by(self.start))
    }
}
