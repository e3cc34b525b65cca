//! The way of a request at a host with snippets: the host's steps, the place that takes it, and the steps there.

use std::sync::Arc;

use model::{PathKind, RequestFilter, Route, RoutePath, TooManySteps};
use observe::Reason;
use routing::HostTable;

use super::{Stop, check_open};
use crate::exchange::Exchange;
use crate::filters;
use crate::limits::REROUTES_MAX;
use crate::reply::Answer;
use crate::script::{self, Flow};
use crate::script_state::ScriptState;
use crate::stage::{Stage, Watch};

/// A request stands at a route.
type Found<'a> = (&'a HostTable, &'a Arc<Route>);

impl<'a> Exchange<'a> {
    /// Does what is asked of a route before its backend, at a host with snippets. Returns the route that has the request in the end.
    #[cold]
    pub(super) fn run_scripts(
        &self,
        host: &'a HostTable,
        route: &'a Arc<Route>,
        watch: impl Watch,
    ) -> Result<Found<'a>, Stop> {
        let mut state = ScriptState::default();
        let ended = self.run_levels(&mut state, host, route, watch);
        let _ = self.script.set(Box::new(state));
        let ((host, route), flow) = ended?;
        let (_, filters) = filters::split_app_root(route.request_filters.as_slice());
        // What ends the steps of a location ends nginx's own that stand behind them; the redirect to TLS is none of them.
        let is_left =
            |filter: &&RequestFilter| flow != Flow::Stay || matches!(filter, RequestFilter::TlsRedirect(_));
        for filter in filters.iter().filter(is_left) {
            self.filter(std::slice::from_ref(filter), watch)?;
        }
        Ok((host, route))
    }

    /// What the host answers to a request that would be sent to another path for a slash.
    #[cold]
    pub(super) fn answer_of_host(&self, route: &'a Arc<Route>) -> Result<(), Stop> {
        let script = route.script.as_ref().and_then(|script| script.host.as_deref());
        let Some(of_host) = script.filter(|_| self.script.get().is_none()) else { return Ok(()) };
        let mut state = ScriptState::default();
        state.is_of_host = true;
        state.enter(Some(&of_host.block.headers), None);
        let ended = script::run(self, &mut state, &of_host.block.steps);
        let _ = self.script.set(Box::new(state));
        Ok(ended.map(drop)?)
    }

    /// The route for the path as it is now. What guards its host was asked of another one.
    fn find_again(&self, state: &ScriptState<'a>, watch: impl Watch) -> Result<Found<'a>, Stop> {
        let found = self.find_route_of(script::current_path(self, state));
        let (host, route) = watch.see(Stage::Route, found)?;
        watch.see(Stage::HostGuards, self.check_host(host, route))?;
        Ok((host, route))
    }

    fn run_levels(
        &self,
        state: &mut ScriptState<'a>,
        mut host: &'a HostTable,
        mut route: &'a Arc<Route>,
        watch: impl Watch,
    ) -> Result<(Found<'a>, Flow), Stop> {
        let (app_root, _) = filters::split_app_root(route.request_filters.as_slice());
        let of_host = route.script.as_ref().and_then(|script| script.host.as_deref());
        let outer = of_host.map(|of_host| &of_host.block.headers);
        if let Some(of_host) = of_host {
            state.is_of_host = true;
            state.enter(outer, None);
            let (first, rest) = of_host.block.steps.split_at(of_host.steps_before_app_root);
            if watch.see(Stage::HostScript, script::run(self, state, first))? == Flow::GoOn {
                self.filter(app_root, watch)?;
                watch.see(Stage::HostScript, script::run(self, state, rest))?;
            }
            if state.path().is_some() {
                (host, route) = self.find_again(state, watch)?;
            }
        } else {
            self.filter(app_root, watch)?;
        }
        for _ in 0..REROUTES_MAX {
            let path = script::current_path(self, state).to_vec();
            let compared = compared(route, &path);
            let place = match of_host.map(|of_host| of_host.place(&path, compared, &self.steps)) {
                None => None,
                Some(Ok(place)) => place,
                Some(Err(TooManySteps)) => return Err(Reason::ExpressionSteps.into()),
            };
            let flow = if let Some(place) = place {
                state.is_of_host = true;
                state.enter(outer, Some(&place.block.headers));
                watch.see(Stage::Place, script::run(self, state, &place.block.steps))?
            } else {
                state.is_of_host = false;
                let block = route.script.as_ref().and_then(|script| script.route.as_deref());
                state.enter(outer, block.map(|block| &block.headers));
                watch.see(Stage::BodyLength, self.check_length(route))?;
                watch.see(Stage::Closed, check_open(route))?;
                watch.see(Stage::Preflight, self.preflight(route))?;
                let steps = block.map_or(&[][..], |block| &block.steps);
                watch.see(Stage::RouteScript, script::run(self, state, steps))?
            };
            let is_moved = path != script::current_path(self, state);
            let goes_elsewhere = match flow {
                Flow::Stay => false,
                Flow::GoOn => is_moved,
                Flow::FindRoute => true,
            };
            match (goes_elsewhere, place) {
                (true, _) => (host, route) = self.find_again(state, watch)?,
                (false, None) => return Ok(((host, route), flow)),
                (false, Some(place)) => {
                    let networks = place.networks.as_ref();
                    let is_let_in = networks.is_none_or(|networks| networks.admits(self.forwarded.client));
                    return Err(if is_let_in { Reason::UnknownPath } else { Reason::AddressDenied }.into());
                }
            }
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
