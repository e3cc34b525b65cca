//! The path of a request: route -> filters -> access -> backend -> tries -> record. A fault or our own answer ends it.

mod behaviour;
mod cached;
mod home;
mod misdirected;
mod reason;
mod scripted;
mod shed;
mod stop;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{
    Access, Action, BlockedHeaders, CachePolicy, Conditions, Files, Forward, HostName, ListedValue,
    RequestFilter, Route, StepBudget, Tracing,
};
use observe::Reason;
use routing::{HostTable, Resolution};
use wire::h1::{Request, TargetForm, Version};

use crate::access::{self, ClientCertContext};
use crate::admission;
use crate::body::{Framing, Source};
use crate::buffer::Buffer;
use crate::caching::{self, Looked};
use crate::client::Timeout;
use crate::conditions;
use crate::deliver::{Outcome, Recipient};
use crate::error_backend;
use crate::exchange::{AfterRequest, Exchange, RequestId, RequestStart};
use crate::fault::Retry;
use crate::filters::{self, Forwarded, RequestView};
use crate::head::{HeadEdits, connection_option};
use crate::limits::RETRY_AFTER_SECONDS_MAX;
use crate::lookup;
use crate::mirror;
use crate::outbound::{Outbound, is_bodiless};
use crate::overload::Picked;
use crate::pace::Direction;
use crate::progress::Progress;
use crate::record;
use crate::replicas;
use crate::reply::{self, Answer, CLIENT_CLOSED_REQUEST, NO_RESPONSE};
use crate::report::{Excuse, Report};
use crate::script;
use crate::stage::{Stage, Unwatched, Watch};
use crate::tls::ClientTls;
use crate::trace::Trace;
use crate::upstream::Cluster;
use crate::values;
use crate::worker::Worker;
pub(crate) use stop::Stop;

/// Who answers a request that is let in.
pub(crate) enum Target<'a> {
    /// One of these endpoints.
    Endpoints(&'a Forward, &'a Cluster),
    /// What the cache keeps: there is no endpoint at the moment.
    Kept(&'a Forward, &'a Arc<CachePolicy>),
    /// A file.
    Files(&'a Files),
}

/// Where load balancers ask whether the proxy is there: on every host that is not served by name, as in ingress-nginx.
const HEALTH_PATH: &[u8] = b"/healthz";

/// Serves a request. `rest` holds what has been read after its head.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    arrival: RequestStart<'_>,
    request: &Request,
    rest: &mut Buffer,
) -> AfterRequest {
    let Some(exchange) = exchange(worker, arrival, request) else {
        return Box::pin(refuse(worker, arrival, Reason::BadTarget)).await;
    };
    let next = exchange.run(rest).await;
    record::record(&exchange);
    access::abuse::count(&exchange);
    next
}

/// A request at the beginning of its way; none if it asks for no path that there could be.
#[inline]
pub(crate) fn exchange<'a>(
    worker: &'a Rc<Worker>,
    arrival: RequestStart<'a>,
    request: &'a Request,
) -> Option<Exchange<'a>> {
    let RequestStart { conn, client, deadline, config, head, begin } = arrival;
    let path = wire::path::normalize(wire::path::of_target(request.origin_target(head))).ok()?;
    let settings = &config.settings().forwarded;
    Some(Exchange {
        worker,
        conn,
        client,
        deadline,
        config,
        head,
        request,
        forwarded: Forwarded::of(head, request, conn.via(), settings),
        path,
        route: Cell::new(None),
        rewritten: OnceCell::new(),
        script: OnceCell::new(),
        cluster: Cell::new(None),
        admitted: OnceCell::new(),
        id: RequestId::of(head, request, &worker.random, settings.request_id),
        steps: StepBudget::default(),
        affinity_cookie: RefCell::default(),
        error_page: OnceCell::new(),
        cache: OnceCell::new(),
        guest: OnceCell::new(),
        trace: OnceCell::new(),
        place: Cell::new(None),
        progress: Progress::default(),
        report: Report::new(begin, request.len as u64),
    })
}

/// Answers a request of which not even the head could be used.
pub(crate) async fn refuse(worker: &Rc<Worker>, arrival: RequestStart<'_>, reason: Reason) -> AfterRequest {
    let RequestStart { conn, config, head, begin, .. } = arrival;
    let report = Report::new(begin, head.len() as u64);
    let option = connection_option(claimed_version(head), false);
    let is_head = head.trim_ascii_start().starts_with(b"HEAD ");
    let expand = |template: &_| values::expand_refused(worker, conn, template);
    let mut edits = filters::response(config.settings(), false, expand);
    reason::tell(config.settings(), conn.peer.ip(), reason, &mut edits);
    let sent = send_answer(worker, arrival, (&Answer::to(reason), &edits), option, !is_head, &report).await;
    record::record_refused(worker, config, conn, head, &report, reason);
    admission::note_refused(worker, config.settings(), conn.counted_peer(), reason);
    if sent { AfterRequest::Linger } else { AfterRequest::Close }
}

/// What version a head that could not be read claims; the answer to it is written accordingly.
fn claimed_version(head: &[u8]) -> Version {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    if line.trim_ascii_end().ends_with(b"HTTP/1.0") { Version::Http10 } else { Version::Http11 }
}

async fn send_answer(
    worker: &Worker,
    arrival: RequestStart<'_>,
    (answer, edits): (&Answer, &HeadEdits<'_>),
    connection: Option<&str>,
    with_body: bool,
    report: &Report,
) -> bool {
    let RequestStart { client, deadline, config, .. } = arrival;
    let mut head = Buffer::small(&worker.buffers);
    answer.write_head(&mut head, &worker.date(), connection, edits);
    let body = if with_body { answer.body() } else { &[] };
    report.status.set(answer.status);
    report.note_sent_head(head.len());
    let read_timeout = config.settings().client.send_timeout;
    let timeout = Timeout { deadline, send_timeout: read_timeout };
    let (pipes, sent) = (&worker.pipes, &report.sent_body);
    let recipient = Recipient { client, timeout, sent, pipes, bodies: &worker.bodies };
    let (status, body) = (answer.status, Source::Bytes(body));
    let mut outcome = Outcome { status, head, body, framing: Framing::Raw, read_timeout, policy: None };
    recipient.deliver(&mut outcome, || ()).await.is_ok()
}

/// Asks whether a route is closed.
fn check_open(route: &Route) -> Result<(), Stop> {
    let is_closed = route.access.as_ref().is_some_and(|access| access.unavailable.is_some());
    if is_closed { Err(Reason::Unavailable.into()) } else { Ok(()) }
}

/// One request on its way through.
impl<'a> Exchange<'a> {
    async fn run(&self, rest: &mut Buffer) -> AfterRequest {
        let passed = self.pass(rest).await;
        // What has to be said may be said though the time is up.
        self.deadline.uncap();
        let next = match passed {
            Ok(next) => next,
            Err(stop) => Box::pin(self.conclude(stop, rest)).await,
        };
        if self.config.settings().client.bounds.read_rate_min.is_some() {
            // It was for this response.
            self.deadline.pace(Direction::Write, None);
        }
        next
    }

    /// Answers a request that goes no further, or has another backend answer it.
    async fn conclude(&self, stop: Stop, rest: &mut Buffer) -> AfterRequest {
        // What is left of a body that is too long, or has begun to be read in vain, is of no use.
        let is_spoilt = matches!(stop, Stop::Fault(Reason::BodyTooLarge)) || self.progress.has_body_begun();
        let mut stop = stop;
        if self.error_page.get().is_none() && self.is_replaced(&stop) {
            if let Some(page) = self.error_page.get().filter(|_| is_spoilt) {
                page.is_bodiless.set(true);
            }
            match error_backend::ask(self, rest).await {
                Ok(next) => return next,
                Err(none) => stop = none.into(),
            }
        }
        match stop {
            Stop::Answer(answer) => self.answer(&answer, rest).await,
            Stop::Fault(reason) => self.fail(reason, rest).await,
        }
    }

    /// Whether a backend of errors answers in place of the proxy.
    pub(crate) fn is_replaced(&self, stop: &Stop) -> bool {
        if self.report.excuse.get() == Some(Excuse::KnownAbuse) {
            // No other backend is to work for such a client.
            return false;
        }
        let is_replaced = match stop {
            Stop::Answer(answer) => self.replace(answer.status, || answer.challenges(), true),
            Stop::Fault(reason) => self.replace(reply::status(*reason), Vec::new, true),
        };
        if is_replaced && let Stop::Fault(reason) = stop {
            self.note_reason(*reason);
        }
        is_replaced
    }

    /// The way of a request, step by step. What follows, a try's request, response and delivery, is `attempt`'s.
    async fn pass(&self, rest: &mut Buffer) -> Result<AfterRequest, Stop> {
        if let Some(replica) = self.admit_replica() {
            return Box::pin(self.serve_replica(replica, rest)).await;
        }
        // What is not held while endpoints are waited for takes no room in the future of all requests.
        let (forward, cluster) = match self.admit(Unwatched).await? {
            Target::Endpoints(forward, cluster) => (forward, cluster),
            Target::Kept(forward, policy) => {
                let kept = Box::pin(caching::serve_without_endpoint(self, forward, policy)).await?;
                return kept.ok_or_else(|| Reason::NoEndpoints.into());
            }
            Target::Files(files) => return Box::pin(self.serve_files(files, rest)).await,
        };
        if let Some(policy) = &forward.cache {
            let next = match caching::look(self, forward, policy) {
                Some(Looked::Hit(object)) => caching::give_hit(self, forward, object).await?,
                Some(Looked::Sought(sought)) if policy.is_shared => {
                    Box::pin(self.ask_home(forward, policy, sought)).await?
                }
                Some(Looked::Sought(sought)) => sought.await?,
                None => None,
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
        self.check_guard(forward)?;
        self.forward(forward, cluster, rest).await
    }

    /// What comes before an endpoint is asked: who gets there, and which endpoints they are. `watch` is told of each step.
    pub(crate) async fn admit(&self, watch: impl Watch) -> Result<Target<'a>, Stop> {
        if !self.worker.abuse.is_quiet() {
            Box::pin(self.check_behaviour()).await?;
        }
        let found = self.find_route_of(self.client_path());
        if let Some(blocked) = &self.config.settings().blocked_headers {
            watch.see(Stage::BlockedHeaders, self.check_headers(blocked))?;
        }
        let (mut host, mut route) = watch.see(Stage::Route, found)?;
        watch.see(Stage::HostGuards, self.check_host(host, route))?;
        if route.script.is_some() {
            (host, route) = self.run_scripts(host, route, watch)?;
        } else {
            let (app_root, filters) = filters::split_app_root(route.request_filters.as_slice());
            self.filter(app_root, watch)?;
            watch.see(Stage::BodyLength, self.check_length(route))?;
            watch.see(Stage::Closed, check_open(route))?;
            watch.see(Stage::Preflight, self.preflight(route))?;
            self.filter(filters, watch)?;
        }
        self.cap_request(route);
        let backend = match watch.see(Stage::Backend, self.backend(route)) {
            // What is kept needs none, but the client has to pass the checks.
            Err(Reason::NoEndpoints) if self.kept_by(route).is_some() => None,
            backend => backend?,
        };
        if let Some(access) = &route.access {
            watch.see(Stage::GuardsInClear, self.check_in_clear(host, access))?;
            let admitted = Box::pin(access::admit(self, access, watch)).await;
            Result::<(), Stop>::from(admitted)?;
        }
        self.check_steps()?;
        match (&route.action, backend) {
            (Action::Forward(forward), Some(cluster)) => Ok(Target::Endpoints(forward, cluster)),
            (Action::Files(files), _) => Ok(Target::Files(files)),
            (Action::Forward(forward), None) => match self.kept_by(route) {
                Some(policy) => Ok(Target::Kept(forward, policy)),
                None => Err(Reason::NoEndpoints.into()),
            },
            (Action::Respond(fixed), _) => Err(Answer::direct(fixed).into()),
            (Action::NotFound, _) => Err(Reason::UnknownPath.into()),
        }
    }

    /// The route that takes a path of the request's host.
    fn find_route_of(&self, path: &[u8]) -> Result<(&'a HostTable, &'a Arc<Route>), Stop> {
        if self.request.form == TargetForm::Authority || &self.head[self.request.method.clone()] == b"TRACE" {
            return Err(Reason::MethodNotAllowed.into());
        }
        let accepts = |conditions: &Conditions| conditions::hold(conditions, self.head, self.request);
        let resolution =
            self.config.snapshot.resolve(self.conn.listener, self.host(), path, &self.steps, accepts);
        if let Some(listener) = self.conn.tls.as_ref().and_then(|tls| tls.listener) {
            misdirected::check(listener, &resolution)?;
        }
        match resolution {
            Resolution::Route(host, _) if *host.name() == HostName::Any && path == HEALTH_PATH => {
                self.report.is_logged.set(false);
                Err(Answer::healthy().into())
            }
            Resolution::Route(host, route) => {
                self.route.set(Some(route));
                self.begin_trace(route.tracing.as_ref());
                Ok((host, route))
            }
            Resolution::AddSlash(host, route) => {
                let is_first = self.route.replace(Some(route)).is_none();
                self.begin_trace(route.tracing.as_ref());
                if is_first {
                    self.check_host(host, route)?;
                    if route.script.is_some() {
                        self.answer_of_host(route)?;
                    }
                }
                self.check_length(route)?;
                Err(self.add_slash(route).into())
            }
            Resolution::UnknownHost => {
                let is_probe = path == HEALTH_PATH;
                let log = &self.config.settings().access_log;
                self.report.is_logged.set(log.unknown_hosts && !is_probe);
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
    fn begin_trace(&self, tracing: Option<&'a Arc<Tracing>>) {
        if let Some(tracing) = tracing {
            let Self { head, request, worker, .. } = self;
            self.trace.get_or_init(|| Box::new(Trace::begin(tracing, head, request, &worker.random)));
        }
    }

    /// Why a request is refused that no route takes: clients that are blocked everywhere are not told what is served.
    fn unserved(&self, reason: Reason) -> Reason {
        self.begin_trace(self.config.settings().tracing.as_ref());
        let blocked = self.config.settings().blocked.as_ref();
        let is_blocked = blocked.is_some_and(|blocked| !blocked.admits(self.forwarded.client));
        if is_blocked { Reason::AddressDenied } else { reason }
    }

    /// Refuses clients that say themselves that they are not wanted, whatever they ask for.
    #[cold]
    fn check_headers(&self, blocked: &BlockedHeaders) -> Result<(), Stop> {
        let is_blocked = |name: &[u8], values: &[ListedValue]| {
            let value = lookup::header(self.head, self.request, name).unwrap_or_default();
            values.iter().any(|blocked| blocked.takes(&value, &self.steps).unwrap_or(true))
        };
        if is_blocked(b"user-agent", &blocked.user_agents) || is_blocked(b"referer", &blocked.referers) {
            return Err(Reason::HeaderDenied.into());
        }
        Ok(())
    }

    /// Answers the question of a browser whether it may ask (CORS), where the route says so.
    fn preflight(&self, route: &Route) -> Result<(), Stop> {
        for filter in route.response_filters.as_slice() {
            if let Some(answer) = filters::response::preflight(filter, || self.asking()) {
                return Err(answer.into());
            }
        }
        Ok(())
    }

    /// Runs request filters of the route, any of which may answer or refuse.
    fn filter(&self, filters: &[RequestFilter], watch: impl Watch) -> Result<(), Stop> {
        if filters.is_empty() {
            return Ok(());
        }
        let target = self.request.origin_target(self.head);
        let view = RequestView {
            target,
            current: self.script.get().and_then(|script| script.target.as_deref()).unwrap_or(target),
            path: self.current_path(),
            host: self.host(),
            port: self.conn.local.port(),
            forwarded: &self.forwarded,
            rewritten: &self.rewritten,
            steps: &self.steps,
            expand: &|template| values::expand(self, template),
        };
        filters::request(filters, &view, watch).into()
    }

    /// Asks what guards the host. A client in clear is asked for a certificate later: it may be sent to
    /// the TLS port.
    fn check_host(&self, host: &'a HostTable, route: &Route) -> Result<(), Stop> {
        let Some(access) = &route.access else { return Ok(()) };
        let is_due = access.forbidden.is_some() || self.conn.tls.is_some();
        if is_due { self.check_certificate(host, access) } else { Ok(()) }
    }

    /// Refuses a body that is announced to be longer than it may be.
    fn check_length(&self, route: &Route) -> Result<(), Stop> {
        let Action::Forward(forward) = &route.action else { return Ok(()) };
        let length = self.request.fields.content_length.unwrap_or(0);
        let is_too_long = forward.body_bytes_max.is_some_and(|max| length > max);
        if is_too_long { Err(Reason::BodyTooLarge.into()) } else { Ok(()) }
    }

    fn check_certificate(&self, host: &'a HostTable, access: &Access) -> Result<(), Stop> {
        let client = self.conn.tls.as_deref().map(|tls| self.presented(tls, host));
        access::check_host(access, client.as_ref()).into()
    }

    /// Asks a client in clear for the certificate that it cannot have, now that it has not been sent to the TLS port.
    fn check_in_clear(&self, host: &'a HostTable, access: &Access) -> Result<(), Stop> {
        if self.conn.tls.is_none() { self.check_certificate(host, access) } else { Ok(()) }
    }

    /// What is known of a client over TLS.
    fn presented(&self, tls: &'a ClientTls, host: &'a HostTable) -> ClientCertContext<'a> {
        let server_configs = self.config.tls_listeners.get(self.conn.listener);
        let server_configs =
            server_configs.expect("the listener has TLS, and is one of the configuration that has the host");
        ClientCertContext { tls, host: host.name(), server_configs, now: self.worker.clock.unix() }
    }

    /// The redirect that nginx makes to a location whose name ends in a slash when just that is missing.
    fn add_slash(&self, route: &Route) -> Answer {
        let mut target = Vec::new();
        wire::path::escape(route.path.path().as_bytes(), &mut target);
        if let Some(query) = wire::path::query_of_target(self.request.origin_target(self.head)) {
            target.push(b'?');
            wire::path::escape_unprintable(query, &mut target);
        }
        Answer::redirect(301, self.redirect_origin() + &String::from_utf8_lossy(&target))
    }

    /// Tries endpoints until one answers or no other try is allowed.
    async fn forward(
        &self,
        forward: &Forward,
        cluster: &Cluster,
        rest: &mut Buffer,
    ) -> Result<AfterRequest, Stop> {
        let mut outbound = Outbound::new(self, forward, rest)?;
        self.check_steps()?;
        outbound.await_body().await?;
        if self.config.logs_request_bodies {
            outbound.note_body_for_log();
        }
        if forward.transfer.mirrors.is_some() || self.rewritten.get().is_some() {
            mirror::send_all(self, forward, &outbound);
        }
        if forward.overload.is_some() {
            cluster.state().retries.note_request(self.worker.clock.now());
        }
        let mut last_reason = None;
        let reason = loop {
            let member = match self.pick(cluster, forward) {
                Picked::Member(member) => Rc::clone(member),
                Picked::None => break last_reason.unwrap_or_else(|| Self::why_none_is_picked(cluster)),
                Picked::Full(only) => {
                    match Box::pin(self.await_place(cluster, forward, only, &outbound)).await {
                        Ok(member) => member,
                        Err(reason) => break reason,
                    }
                }
            };
            let is_last = !self.has_another(cluster, forward);
            if let Some(time) = forward.timeouts.backend_request {
                self.cap_try(forward, time);
            }
            let attempted = outbound.attempt(member, is_last).await;
            drop(self.place.take());
            match attempted {
                Ok(next) => return Ok(next),
                Err(fault)
                    if !is_last
                        && self.may_retry(fault, forward)
                        && self.is_within_budget(fault, forward) =>
                {
                    last_reason = Some(fault.reason);
                    if let Err(reason) = self.back_off(forward).await {
                        break reason;
                    }
                }
                Err(fault) => break fault.reason,
            }
        };
        if self.passage().is_some() {
            let rescued = Box::pin(caching::rescue(self, forward, reason)).await;
            if let Some(next) = rescued.map_err(|fault| Stop::from(fault.reason))? {
                return Ok(next);
            }
        }
        if self.error_page.get().is_some() || self.is_replaced(&Stop::Fault(reason)) {
            return Ok(Box::pin(error_backend::take_over(self, outbound)).await?);
        }
        Err(reason.into())
    }

    /// Whether the request can be sent again after a fault.
    pub(crate) fn is_repeatable(&self, forward: &Forward, retry: Retry) -> bool {
        let is_at_hand =
            self.progress.can_send_again() || (is_bodiless(self) && !self.progress.is_answered());
        is_at_hand && self.may_repeat(forward, retry)
    }

    /// Answers a fault, where the client can still be answered.
    async fn fail(&self, reason: Reason, rest: &mut Buffer) -> AfterRequest {
        self.note_reason(reason);
        access::abuse::note_fault(self, reason);
        if self.progress.is_answered() {
            self.client.break_off(&self.worker.clock).await;
            return AfterRequest::Abort;
        }
        if reply::status(reason) == CLIENT_CLOSED_REQUEST {
            self.report.status.set(CLIENT_CLOSED_REQUEST);
            self.client.break_off(&self.worker.clock).await;
            return AfterRequest::Abort;
        }
        let answer = Answer::to(reason);
        if !reply::is_overload(reason) {
            return self.answer(&answer, rest).await;
        }
        self.report.excuse.set((reason != Reason::ClientExcess).then_some(Excuse::NoRoom));
        // Who is refused together need not come back together.
        let seconds = 1 + self.worker.random.below(RETRY_AFTER_SECONDS_MAX) as u64;
        self.answer(&answer.after_seconds(seconds), rest).await
    }

    async fn answer(&self, answer: &Answer, rest: &mut Buffer) -> AfterRequest {
        if answer.status == NO_RESPONSE {
            self.report.status.set(NO_RESPONSE);
            self.client.break_off(&self.worker.clock).await;
            return AfterRequest::Abort;
        }
        let body_is_past = self.pass_over_body(rest);
        let keep_alive = self.may_keep_alive() && body_is_past;
        let option = connection_option(self.request.version, keep_alive);
        let arrival = RequestStart {
            conn: self.conn,
            client: self.client,
            deadline: self.deadline,
            config: self.config,
            head: self.head,
            begin: self.report.begin,
        };
        let grpc = if self.is_grpc() { answer.in_grpc() } else { None };
        let answer = grpc.as_ref().unwrap_or(answer);
        let edits = self.answer_edits(answer);
        let what = (answer, &edits);
        let sent = send_answer(self.worker, arrival, what, option, !self.is_head(), &self.report).await;
        match (sent, keep_alive, body_is_past) {
            (true, true, _) => AfterRequest::KeepAlive,
            (true, false, false) => AfterRequest::Linger,
            (false, ..) | (true, false, true) => AfterRequest::Close,
        }
    }

    /// The changes to the head of an answer of our own.
    pub(crate) fn answer_edits(&self, answer: &Answer) -> HeadEdits<'_> {
        let mut edits = self.response_edits(answer.status, answer.scope);
        script::edit_response(self, answer.status, answer.scope, || None, &mut edits);
        self.tell_reason(&mut edits);
        if self.guest.get().is_some() {
            edits.set(replicas::NAME, home::NO_ANSWER);
        }
        edits
    }

    /// Passes over the request's body if it has come with the head; otherwise the connection cannot be used again.
    pub(crate) fn pass_over_body(&self, rest: &mut Buffer) -> bool {
        if self.progress.has_body_begun() || self.request.fields.chunked {
            return self.progress.is_body_done();
        }
        let length = self.request.fields.content_length.unwrap_or(0);
        let has_come = length <= rest.len() as u64;
        if has_come {
            rest.consume(length as usize);
        }
        has_come
    }
}
