//! The route that takes a request, and the decisions of the route's scripts and filters.
//!
//! [`conditions`] are checked while the path is looked up, and only on routes that have any. Hosts with
//! snippets run their [`script`] in place of the fixed order of steps. [`filters`] are one closed set for
//! each direction. A request that is not traced costs one look at a pointer here and one in its record.
//!
//! Never in here: a wait, endpoints, and who may use a route.

pub(crate) mod client_certificate;
pub(crate) mod conditions;
pub(crate) mod filters;
mod misdirected;
pub(crate) mod script;
pub(crate) mod script_state;
mod scripted;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{
    Access, Action, BlockedHeaders, Captures, Conditions, ErrorPages, Forward, HostName, ListedValue,
    Overload, RequestFilter, RequestRedirect, Route, Tracing,
};
use observe::Reason;
use routing::{HostTable, Needs, Resolution};
use wire::h1::TargetForm;

use crate::io::tls::ClientTls;
use crate::request::Request;
use crate::request::lookup;
use crate::request::reply::Answer;
use crate::request::stage::{Stage, Watch};
use crate::request::stop::Stop;
use crate::request::trace::Trace;
use crate::route::client_certificate::ClientCertContext;
use crate::route::filters::response::Asking;
use crate::route::filters::{RequestView, Rewritten};
use crate::route::script_state::ScriptState;

/// Load balancers ask here whether the proxy is there: on every host that is not served by name, as in
/// ingress-nginx.
pub(crate) const HEALTH_PATH: &[u8] = b"/healthz";

/// A request whose route is known, or known not to exist.
pub(crate) struct Routed<'a> {
    pub(crate) request: &'a Request<'a>,
    /// The route; none for a request that no route takes, or that ended before its route was known.
    pub(crate) route: Option<&'a Arc<Route>>,
    /// The features that the route and the settings use; all of them where no route is known.
    pub(crate) needs: Needs,
    /// The host whose routes were searched; none as for the route.
    pub(crate) host: Option<&'a HostTable>,
    /// Path and headers that the route's filters change; none where the request goes on as the client sent
    /// it.
    pub(crate) rewritten: Option<Box<Rewritten>>,
    /// The outcome of scripts, at hosts that have any.
    pub(crate) script: Option<Box<ScriptState<'a>>>,
    /// The span of the request, if it is traced.
    pub(crate) trace: Option<Box<Trace<'a>>>,
    /// The groups of the route's expression, found when a template first asks for one.
    captures: OnceCell<Box<Captures>>,
}

impl<'a> Deref for Routed<'a> {
    type Target = Request<'a>;

    #[inline]
    fn deref(&self) -> &Request<'a> {
        self.request
    }
}

/// Finds the route of a request and lets the route's scripts and filters decide. The result is an answer or
/// a refusal where the request goes no further. `watch` is told of each step.
pub(crate) fn route<'a>(request: &'a Request<'a>, watch: impl Watch) -> (Routed<'a>, Result<(), Stop>) {
    let mut routed = Routed::unrouted(request);
    let result = routed.run(watch);
    (routed, result)
}

/// Refuses requests to a route that is closed because something that guards it cannot be enforced.
fn check_open(route: &Route) -> Result<(), Stop> {
    let is_closed = route.access.as_ref().is_some_and(|access| access.unavailable.is_some());
    if is_closed { Err(Reason::Unavailable.into()) } else { Ok(()) }
}

impl<'a> Routed<'a> {
    /// A request without a route.
    pub(crate) fn unrouted(request: &'a Request<'a>) -> Self {
        Self::bare(request, None)
    }

    /// A request of which no more than the route is known.
    pub(crate) fn bare(request: &'a Request<'a>, route: Option<&'a Arc<Route>>) -> Self {
        Self {
            request,
            route,
            needs: Needs::ALL,
            host: None,
            rewritten: None,
            script: None,
            trace: None,
            captures: OnceCell::new(),
        }
    }

    // === the steps, in their order ===

    fn run(&mut self, watch: impl Watch) -> Result<(), Stop> {
        let found = self.find(self.request.client_path());
        if let Some(blocked) = &self.config.settings().blocked_headers {
            watch.see(Stage::BlockedHeaders, self.check_headers(blocked))?;
        }
        watch.see(Stage::Route, found)?;
        let Some((host, route)) = self.host.zip(self.route) else { return Err(Reason::UnknownPath.into()) };
        if !self.needs.has_any(Needs::BEFORE_BACKEND) {
            return watch.see(Stage::BodyLength, self.check_length(route));
        }
        watch.see(Stage::HostGuards, self.check_host(host, route))?;
        if route.script.is_some() {
            return self.run_scripts(host, route, watch);
        }
        let (app_root, filters) = filters::split_app_root(route.request_filters.as_slice());
        self.filter(app_root, watch)?;
        watch.see(Stage::BodyLength, self.check_length(route))?;
        watch.see(Stage::Closed, check_open(route))?;
        watch.see(Stage::Preflight, self.preflight(route))?;
        self.filter(filters, watch)
    }

    /// Finds the route that takes a path of the request's host.
    fn find(&mut self, path: &[u8]) -> Result<(), Stop> {
        let request = self.request;
        if request.parsed.form == TargetForm::Authority || request.method() == b"TRACE" {
            return Err(Reason::MethodNotAllowed.into());
        }
        let accepts = |conditions: &Conditions| conditions::hold(conditions, request.head, request.parsed);
        let snapshot = &request.config.snapshot;
        let resolution =
            snapshot.resolve(request.conn.listener, request.host(), path, &request.steps, accepts);
        if let Some(listener) = request.conn.tls.as_ref().and_then(|tls| tls.listener) {
            misdirected::check(listener, &resolution)?;
        }
        match resolution {
            Resolution::Route(host, _, _) if *host.name() == HostName::Any && path == HEALTH_PATH => {
                request.report.is_logged.set(false);
                Err(Answer::healthy().into())
            }
            Resolution::Route(host, route, needs) => {
                (self.host, self.route, self.needs) = (Some(host), Some(route), needs);
                self.begin_trace(route.tracing.as_ref());
                Ok(())
            }
            Resolution::AddSlash(host, route) => Err(self.add_slash(host, route)),
            Resolution::UnknownHost => {
                let is_probe = path == HEALTH_PATH;
                let log = &request.config.settings().access_log;
                request.report.is_logged.set(log.unknown_hosts && !is_probe);
                if is_probe {
                    return Err(Answer::healthy().into());
                }
                Err(self.unserved(Reason::UnknownHost).into())
            }
            Resolution::Undecided(_) => Err(self.unserved(Reason::ExpressionSteps).into()),
            Resolution::UnknownPath(_) => Err(self.unserved(Reason::UnknownPath).into()),
        }
    }

    /// Begins the request's span, if it is to have one and has none.
    fn begin_trace(&mut self, tracing: Option<&'a Arc<Tracing>>) {
        if let Some(tracing) = tracing
            && self.trace.is_none()
        {
            let Request { head, parsed, worker, .. } = self.request;
            self.trace = Some(Box::new(Trace::begin(tracing, head, parsed, &worker.random)));
        }
    }

    /// Answers a request whose path is that of a route but for the final slash.
    #[cold]
    fn add_slash(&mut self, host: &'a HostTable, route: &'a Arc<Route>) -> Stop {
        let is_first = self.route.replace(route).is_none();
        self.begin_trace(route.tracing.as_ref());
        if is_first {
            if let Err(stop) = self.check_host(host, route) {
                return stop;
            }
            if route.script.is_some()
                && let Err(stop) = self.answer_of_host(route)
            {
                return stop;
            }
        }
        if let Err(stop) = self.check_length(route) {
            return stop;
        }
        self.slash_redirect(route).into()
    }

    /// The reason for which a request is refused that no route takes. Clients that are blocked everywhere do
    /// not learn what is served.
    fn unserved(&mut self, reason: Reason) -> Reason {
        self.begin_trace(self.request.config.settings().tracing.as_ref());
        let blocked = self.config.settings().blocked.as_ref();
        let is_blocked = blocked.is_some_and(|blocked| !blocked.admits(self.forwarded.client));
        if is_blocked { Reason::AddressDenied } else { reason }
    }

    /// Runs request filters of the route, any of which may answer or refuse.
    fn filter(&mut self, filters: &[RequestFilter], watch: impl Watch) -> Result<(), Stop> {
        if filters.is_empty() {
            return Ok(());
        }
        if let Some(rewritten) = self.decide(filters, watch)? {
            self.rewritten.get_or_insert_default().merge(rewritten);
        }
        Ok(())
    }

    fn decide(&self, filters: &[RequestFilter], watch: impl Watch) -> Result<Option<Rewritten>, Stop> {
        filters::request(filters, &self.view(&|template| values::expand(self, template)), watch)
    }

    /// The request as filters see it.
    fn view<'v>(&'v self, expand: &'v dyn Fn(&Template) -> Vec<u8>) -> RequestView<'v> {
        let target = self.sent_target();
        RequestView {
            target,
            current: self.script.as_deref().and_then(|script| script.target.as_deref()).unwrap_or(target),
            path: self.current_path(),
            host: self.host(),
            port: self.conn.local.port(),
            forwarded: &self.forwarded,
            now: self.worker.clock.unix().as_secs().cast_signed(),
            steps: &self.steps,
            expand,
        }
    }

    /// The answer that sends a client elsewhere, for one of several backends.
    #[cold]
    pub(crate) fn redirected(&self, redirect: &RequestRedirect) -> Result<(), Stop> {
        let expand = |template: &Template| values::expand(self, template);
        filters::request_redirect(redirect, &self.view(&expand)).into()
    }

    /// Answers a preflight of a browser for one of several backends.
    #[cold]
    pub(crate) fn preflight_of_backend(&self) -> Option<Answer> {
        if self.method() == b"OPTIONS" {
            filters::response::cross_origin_preflight(&Asking::of(self))
        } else {
            None
        }
    }

    // === checks ===

    /// Refuses clients whose `User-Agent` or `Referer` is blocked everywhere.
    #[cold]
    fn check_headers(&self, blocked: &BlockedHeaders) -> Result<(), Stop> {
        let is_blocked = |name: &[u8], values: &[ListedValue]| {
            let value = lookup::header(self.head, self.parsed, name).unwrap_or_default();
            values.iter().any(|blocked| blocked.takes(&value, &self.steps).unwrap_or(true))
        };
        if is_blocked(b"user-agent", &blocked.user_agents) || is_blocked(b"referer", &blocked.referers) {
            return Err(Reason::HeaderDenied.into());
        }
        Ok(())
    }

    /// Answers a preflight of a browser (CORS), where the route asks for that.
    fn preflight(&self, route: &Route) -> Result<(), Stop> {
        if self.method() != b"OPTIONS" {
            return Ok(());
        }
        for filter in route.response_filters.as_slice() {
            if let Some(answer) = filters::response::preflight(filter, || Asking::of(self)) {
                return Err(answer.into());
            }
        }
        Ok(())
    }

    /// Checks the guards of the whole host. A client in clear is asked for a certificate later: it may be
    /// redirected to the TLS port first.
    fn check_host(&self, host: &'a HostTable, route: &Route) -> Result<(), Stop> {
        let Some(access) = &route.access else { return Ok(()) };
        let is_due = access.forbidden.is_some() || self.conn.tls.is_some();
        if is_due { self.check_certificate(host, access) } else { Ok(()) }
    }

    /// Refuses a body that is announced to be longer than it may be.
    fn check_length(&self, route: &Route) -> Result<(), Stop> {
        let Action::Forward(forward) = &route.action else { return Ok(()) };
        let length = self.parsed.fields.content_length.unwrap_or(0);
        let is_too_long = forward.body_bytes_max.bytes().is_some_and(|max| length > max);
        if is_too_long { Err(Reason::BodyTooLarge.into()) } else { Ok(()) }
    }

    fn check_certificate(&self, host: &'a HostTable, access: &Access) -> Result<(), Stop> {
        let client = self.conn.tls.as_deref().map(|tls| self.client_certificate(tls, host));
        client_certificate::check_host(access, client.as_ref()).into()
    }

    /// Asks a client in clear for the certificate that it cannot have, now that it has not been redirected
    /// to the TLS port.
    pub(crate) fn check_in_clear(&self, access: &Access) -> Result<(), Stop> {
        match self.host {
            Some(host) if self.conn.tls.is_none() => self.check_certificate(host, access),
            _ => Ok(()),
        }
    }

    /// The certificate of a client over TLS, with what verifies it.
    fn client_certificate(&self, tls: &'a ClientTls, host: &'a HostTable) -> ClientCertContext<'a> {
        let server_configs = self.request.config.tls_listeners.get(self.conn.listener);
        let server_configs =
            server_configs.expect("the listener has TLS, and is one of the configuration that has the host");
        ClientCertContext { tls, host: host.name(), server_configs, now: self.worker.clock.unix() }
    }

    /// nginx's redirect to a location whose name ends in a slash when just that is missing.
    fn slash_redirect(&self, route: &Route) -> Answer {
        let mut target = Vec::new();
        wire::path::escape(route.path.path().as_bytes(), &mut target);
        if let Some(query) = wire::path::query_of_target(self.sent_target()) {
            target.push(b'?');
            wire::path::escape_unprintable(query, &mut target);
        }
        Answer::redirect(301, self.redirect_origin() + &String::from_utf8_lossy(&target))
    }

    // === what later steps ask ===

    /// The path by which routes are found, after scripts have changed it.
    pub(crate) fn current_path(&self) -> &[u8] {
        self.script.as_deref().and_then(ScriptState::path).unwrap_or_else(|| self.client_path())
    }

    /// Scheme and host as nginx writes them before a path that it redirects to; empty where the route's
    /// redirects are relative.
    pub(crate) fn redirect_origin(&self) -> String {
        let form = self.route.map(|route| route.slash_redirect).unwrap_or_default();
        let port = form.names_port.then_some(self.conn.local.port());
        if form.relative {
            String::new()
        } else {
            filters::own_origin(self.forwarded.own_scheme, self.host(), port)
        }
    }

    /// The groups that the route's expression has found in `path`, where no rewrite has found others.
    pub(crate) fn captures(&self, path: &[u8]) -> &Captures {
        if let Some(captures) = self.rewritten.as_ref().and_then(|rewritten| rewritten.captures.as_ref()) {
            return captures;
        }
        self.captures.get_or_init(|| Box::new(self.find_captures(path)))
    }

    /// The same, without keeping them: a script that runs may still change the path.
    pub(crate) fn find_captures(&self, path: &[u8]) -> Captures {
        let Some(expression) = self.route.and_then(|route| route.path.expression()) else {
            return Captures::default();
        };
        let found = expression.captures(path, &self.steps);
        found.inspect_err(|_| self.steps.note_undecided()).ok().flatten().unwrap_or_default()
    }

    /// How the route forwards requests, if it does.
    pub(crate) fn own_forward(&self) -> Option<&'a Forward> {
        match &self.route?.action {
            Action::Forward(forward) => Some(forward),
            Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
        }
    }

    pub(crate) fn own_overload(&self) -> Option<&'a Overload> {
        self.own_forward()?.overload.as_deref()
    }

    /// The responses that another backend gives in place of the request's errors.
    pub(crate) fn error_pages(&self) -> Option<&'a ErrorPages> {
        match self.route {
            Some(route) => route.error_pages.as_deref(),
            None => self.request.config.settings().error_pages.as_deref(),
        }
    }

    /// The longest time of the whole request, where the route has one.
    fn request_timeout(&self) -> Option<Duration> {
        self.own_forward()?.timeouts.request
    }

    /// Lets no wait last longer than the route gives the request as a whole.
    #[inline]
    pub(crate) fn cap_request(&self) {
        if let Some(timeout) = self.request_timeout() {
            self.deadline.cap(self.report.begin.after(timeout));
        }
    }

    /// Whether the time is up that the route gives the request as a whole.
    pub(crate) fn is_late(&self) -> bool {
        let elapsed = self.worker.clock.now().since(self.report.begin);
        self.request_timeout().is_some_and(|max| elapsed >= max)
    }

    /// The reason of a failure before an endpoint was asked: this one, unless the time of the whole request
    /// is up.
    pub(crate) fn late_or(&self, reason: Reason) -> Reason {
        if self.is_late() { Reason::UpstreamReadTimeout } else { reason }
    }
}
