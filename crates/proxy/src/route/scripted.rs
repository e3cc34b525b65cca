//! The way of a request at a host with snippets: the host's steps, the place that takes it, and the steps
//! there.

use std::sync::Arc;

use model::{Pass, PathKind, RequestFilter, Route, RoutePath, ScriptPlace, TooManySteps};
use observe::Reason;
use routing::{HostTable, Needs};

use super::{Routed, check_open};
use crate::limits::REROUTES_MAX;
use crate::request::reply::Answer;
use crate::request::stage::{Stage, Watch};
use crate::request::stop::Stop;
use crate::route::filters;
use crate::route::script::{self, Flow};
use crate::route::script_state::ScriptState;
use crate::route::values::HasValues;

/// The host and the route that a request has reached.
type HostRoute<'a> = (&'a HostTable, &'a Arc<Route>);

impl<'a> Routed<'a> {
    /// Runs the scripts of a host and of its routes, and then the filters of the route that takes the
    /// request in the end.
    #[cold]
    pub(super) fn run_scripts(
        &mut self,
        host: &'a HostTable,
        route: &'a Arc<Route>,
        watch: impl Watch,
    ) -> Result<(), Stop> {
        let mut state = ScriptState::default();
        let ended = self.run_levels(&mut state, host, route, watch);
        self.script = Some(Box::new(state));
        let ((_, route), flow) = ended?;
        let (_, filters) = filters::split_app_root(route.request_filters.as_slice());
        // A step that ends a location's steps ends nginx's own that follow them too; the redirect to TLS is
        // none of them.
        let is_left =
            |filter: &&RequestFilter| flow != Flow::Stay || matches!(filter, RequestFilter::TlsRedirect(_));
        for filter in filters.iter().filter(is_left) {
            self.filter(std::slice::from_ref(filter), watch)?;
        }
        Ok(())
    }

    /// The answer of the host's script to a request that would be redirected for a missing slash.
    #[cold]
    pub(super) fn answer_of_host(&mut self, route: &'a Arc<Route>) -> Result<(), Stop> {
        let script = route.script.as_ref().and_then(|script| script.host.as_deref());
        let Some(of_host) = script.filter(|_| self.script.is_none()) else { return Ok(()) };
        let mut state = ScriptState::default();
        state.is_of_host = true;
        state.enter(Some(&of_host.block.headers), None);
        let ended = script::run(self.scope(), &mut state, &of_host.block.steps);
        self.script = Some(Box::new(state));
        Ok(ended.map(drop)?)
    }

    /// Finds the route for the path as it is now. The guards of its host have been checked for another route.
    fn find_again(&mut self, state: &ScriptState<'a>, watch: impl Watch) -> Result<HostRoute<'a>, Stop> {
        let found = self.find(script::current_path(self.request, state));
        watch.see(Stage::Route, found)?;
        if self.trace.is_some() {
            // The span began at the first route; this one need not ask for spans.
            self.needs = self.needs | Needs::TRACING;
        }
        let (host, route) = self.host.zip(self.route).ok_or(Reason::UnknownPath)?;
        watch.see(Stage::HostGuards, self.check_host(host, route))?;
        Ok((host, route))
    }

    /// The route that serves the request in the end: its own, or that of another cluster.
    fn arrive(
        &mut self,
        state: &mut ScriptState<'a>,
        route: &'a Arc<Route>,
        place: Option<&'a ScriptPlace>,
    ) -> Result<&'a Arc<Route>, Stop> {
        let Some(place) = place else {
            return state.pass.map_or(Ok(route), |pass| self.pass(state, route, pass, false));
        };
        let networks = place.networks.as_ref();
        if networks.is_some_and(|networks| !networks.admits(self.forwarded.client)) {
            return Err(Reason::AddressDenied.into());
        }
        let pass = state.pass.or(place.pass.as_ref()).ok_or(Reason::UnknownPath)?;
        self.pass(state, route, pass, true)
    }

    /// Sends the request where a snippet says, in place of the cluster of its route.
    fn pass(
        &mut self,
        state: &mut ScriptState<'a>,
        route: &'a Arc<Route>,
        pass: &Pass,
        is_of_place: bool,
    ) -> Result<&'a Arc<Route>, Stop> {
        let passes = route.script.as_ref().map(|script| &script.passes[..]).unwrap_or_default();
        let found = passes.iter().find(|one| one.is_of_place == is_of_place && one.to == pass.to);
        let passed = &found.ok_or(Reason::NoEndpoints)?.route;
        script::turn(self.scope(), state, &pass.target)?;
        // The features of this route are those that it has itself: each is looked at.
        (self.route, self.needs) = (Some(passed), Needs::ALL);
        self.check_length(passed)?;
        check_open(passed)?;
        Ok(passed)
    }

    fn run_levels(
        &mut self,
        state: &mut ScriptState<'a>,
        mut host: &'a HostTable,
        mut route: &'a Arc<Route>,
        watch: impl Watch,
    ) -> Result<(HostRoute<'a>, Flow), Stop> {
        let (app_root, _) = filters::split_app_root(route.request_filters.as_slice());
        let of_host = route.script.as_ref().and_then(|script| script.host.as_deref());
        let outer = of_host.map(|of_host| &of_host.block.headers);
        if let Some(of_host) = of_host {
            state.is_of_host = true;
            state.enter(outer, None);
            let (first, rest) = of_host.block.steps.split_at(of_host.steps_before_app_root);
            if watch.see(Stage::HostScript, script::run(self.scope(), state, first))? == Flow::GoOn {
                self.filter(app_root, watch)?;
                watch.see(Stage::HostScript, script::run(self.scope(), state, rest))?;
            }
            if state.path().is_some() {
                (host, route) = self.find_again(state, watch)?;
            }
        } else {
            self.filter(app_root, watch)?;
        }
        for _ in 0..REROUTES_MAX {
            let path = script::current_path(self.request, state).to_vec();
            let compared = compared(route, &path);
            let place = match of_host.map(|of_host| of_host.place(&path, compared, &self.steps)) {
                None => None,
                Some(Ok(place)) => place,
                Some(Err(TooManySteps)) => return Err(Reason::ExpressionSteps.into()),
            };
            let flow = if let Some(place) = place {
                state.is_of_host = true;
                state.enter(outer, Some(&place.block.headers));
                watch.see(Stage::Location, script::run(self.scope(), state, &place.block.steps))?
            } else {
                state.is_of_host = false;
                let block = route.script.as_ref().and_then(|script| script.route.as_deref());
                state.enter(outer, block.map(|block| &block.headers));
                watch.see(Stage::BodyLength, self.check_length(route))?;
                watch.see(Stage::Closed, check_open(route))?;
                watch.see(Stage::Preflight, self.preflight(route))?;
                let steps = block.map_or(&[][..], |block| &block.steps);
                watch.see(Stage::RouteScript, script::run(self.scope(), state, steps))?
            };
            let is_moved = path != script::current_path(self.request, state);
            let goes_elsewhere = match flow {
                Flow::Stay => false,
                Flow::GoOn => is_moved,
                Flow::FindRoute => true,
            };
            if !goes_elsewhere {
                return Ok(((host, self.arrive(state, route, place)?), flow));
            }
            (host, route) = self.find_again(state, watch)?;
        }
        // nginx: "rewrite or internal redirection cycle".
        Err(Answer::with_status(500).into())
    }
}

/// How the path of a route is compared with the locations of a snippet.
fn compared<'r>(route: &'r Route, path: &[u8]) -> RoutePath<'r> {
    match route.path.kind() {
        PathKind::Exact => RoutePath::Exact,
        // nginx has a location of its own for the path itself.
        PathKind::Prefix if path != b"/" && path == route.path.path().as_bytes() => RoutePath::Exact,
        PathKind::Prefix => RoutePath::Prefix(route.path.path()),
        PathKind::Regex => RoutePath::Expression,
    }
}
