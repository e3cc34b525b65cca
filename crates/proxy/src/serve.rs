//! The path of a request, whatever the protocols on both sides: route -> filters -> access -> backend -> tries -> record; a fault or an answer of
//! our own leaves it anywhere.

mod scripted;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{
    Access, Action, BlockedHeaders, BlockedValue, Conditions, Forward, HostName, RequestFilter,
    ResponseFilter, Route, Tracing,
};
use observe::Reason;
use routing::{HostTable, Resolution};
use wire::h1::{Request, TargetForm, Version};

use crate::access::{self, ClientCertContext};
use crate::body::{Framing, Source};
use crate::buffer::Buffer;
use crate::client::Timeout;
use crate::conditions;
use crate::deliver::{Outcome, Recipient};
use crate::error_backend::{self, NoPage};
use crate::exchange::{AfterRequest, Exchange, RequestId, RequestStart};
use crate::fault::Fault;
use crate::filters::{self, FilterResult, Forwarded, RequestView};
use crate::head::{HeadEdits, connection_option};
use crate::lookup;
use crate::mirror;
use crate::outbound::Outbound;
use crate::progress::Progress;
use crate::record;
use crate::reply::{self, Answer, CLIENT_CLOSED_REQUEST, NO_RESPONSE};
use crate::report::Report;
use crate::script::{self, Ended};
use crate::stage::{Stage, Unwatched, Watch};
use crate::tls::ClientTls;
use crate::trace::Trace;
use crate::upstream::{Cluster, Endpoint};
use crate::values;
use crate::worker::Worker;

/// Why a request goes no further.
pub(crate) enum Stop {
    /// It is answered here. On the heap, so that what nearly no request comes to takes little room on the way of all.
    Answer(Box<Answer>),
    /// It is refused, or has failed.
    Fault(Reason),
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
        affinity_cookie: Cell::default(),
        error_page: OnceCell::new(),
        trace: OnceCell::new(),
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
    let edits = filters::response(config.settings(), false, expand);
    let sent = send_answer(worker, arrival, (&Answer::to(reason), &edits), option, !is_head, &report).await;
    record::record_refused(worker, config, conn, head, &report, reason);
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
    report.sent_head.set(head.len() as u64);
    let send_timeout = config.settings().client.send_timeout;
    let timeout = Timeout { deadline, send_timeout };
    let recipient = Recipient { client, timeout, sent: &report.sent_body, pipes: &worker.pipes };
    let (status, body, read_timeout) = (answer.status, Source::Bytes(body), send_timeout);
    let mut outcome = Outcome { status, head, body, framing: Framing::Raw, read_timeout, policy: None };
    recipient.deliver(&mut outcome, || ()).await.is_ok()
}

impl From<Reason> for Stop {
    #[cold]
    fn from(reason: Reason) -> Self {
        Self::Fault(reason)
    }
}

impl From<Answer> for Stop {
    #[cold]
    fn from(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

impl From<NoPage> for Stop {
    fn from(none: NoPage) -> Self {
        match none {
            NoPage::BuiltIn => Answer::not_found().into(),
            NoPage::Failed(reason) => reason.into(),
        }
    }
}

impl From<Ended> for Stop {
    #[cold]
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Answer(answer) => answer.into(),
            Ended::Refuse(reason) => reason.into(),
        }
    }
}

impl From<FilterResult> for Result<(), Stop> {
    fn from(result: FilterResult) -> Self {
        match result {
            FilterResult::Continue => Ok(()),
            FilterResult::Answer(answer) => Err(answer.into()),
            FilterResult::Refuse(reason) => Err(reason.into()),
        }
    }
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
        match passed {
            Ok(next) => next,
            Err(stop) => Box::pin(self.conclude(stop, rest)).await,
        }
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
        let is_replaced = match stop {
            Stop::Answer(answer) => self.replace(answer.status, || answer.challenges(), true),
            Stop::Fault(reason) => self.replace(reply::status(*reason), Vec::new, true),
        };
        if is_replaced && let Stop::Fault(reason) = stop {
            self.worker.recorder.borrow().reason(*reason);
        }
        is_replaced
    }

    /// The way of a request, step by step. What follows, a try's request, response and delivery, is `attempt`'s.
    async fn pass(&self, rest: &mut Buffer) -> Result<AfterRequest, Stop> {
        let (forward, cluster) = self.admit(Unwatched).await?;
        self.forward(forward, cluster, rest).await
    }

    /// What comes before an endpoint is asked: who gets there, and which endpoints they are. `watch` is told of each step.
    pub(crate) async fn admit(&self, watch: impl Watch) -> Result<(&'a Forward, &'a Cluster), Stop> {
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
        let backend = watch.see(Stage::Backend, self.backend(route))?;
        if let Some(access) = &route.access {
            watch.see(Stage::GuardsInClear, self.check_in_clear(host, access))?;
            let admitted = Box::pin(access::admit(self, access, watch)).await;
            Result::<(), Stop>::from(admitted)?;
        }
        match (&route.action, backend) {
            (Action::Forward(forward), Some(cluster)) => Ok((forward, cluster)),
            (Action::Forward(_), None) => Err(Reason::NoEndpoints.into()),
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
        match self.config.snapshot.resolve(self.conn.listener, self.host(), path, accepts) {
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
            Resolution::UnknownPath => Err(self.unserved(Reason::UnknownPath).into()),
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
        let is_blocked = |name: &[u8], values: &[BlockedValue]| {
            let value = lookup::header(self.head, self.request, name).unwrap_or_default();
            values.iter().any(|blocked| blocked.blocks(&value))
        };
        if is_blocked(b"user-agent", &blocked.user_agents) || is_blocked(b"referer", &blocked.referers) {
            return Err(Reason::HeaderDenied.into());
        }
        Ok(())
    }

    /// Answers the question of a browser whether it may ask (CORS), where the route says so.
    fn preflight(&self, route: &Route) -> Result<(), Stop> {
        for filter in route.response_filters.as_slice() {
            let ResponseFilter::Cors(cors) = filter else { continue };
            let method = &self.head[self.request.method.clone()];
            if let Some(answer) = filters::response::preflight(cors, method, self.origin()) {
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
        if let Some(timeout) = forward.timeouts.request {
            self.deadline.cap(self.report.begin.after(timeout));
        }
        let mut outbound = Outbound::new(self, forward, rest)?;
        outbound.await_body().await?;
        if let Some(mirror) = &forward.transfer.mirror {
            mirror::send(self, mirror, forward.timeouts, outbound.content());
        }
        let mut last_reason = Reason::NoEndpoints;
        let reason = loop {
            let Some(endpoint) = self.pick(cluster) else { break last_reason };
            let is_last = !self.has_another(cluster, forward);
            match outbound.attempt(endpoint, is_last).await {
                Ok(next) => return Ok(next),
                Err(fault) if !is_last && self.may_retry(fault, forward, &outbound) => {
                    last_reason = fault.reason;
                }
                Err(fault) => break fault.reason,
            }
        };
        if self.error_page.get().is_some() || self.is_replaced(&Stop::Fault(reason)) {
            return Ok(Box::pin(error_backend::take_over(self, outbound)).await?);
        }
        Err(reason.into())
    }

    fn pick<'c>(&self, cluster: &'c Cluster) -> Option<&'c Rc<Endpoint>> {
        let was_tried = |endpoint: &Endpoint| self.report.was_tried(endpoint.address);
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        match cluster.keyed() {
            None => cluster.pick(was_tried, random, now).or_else(|| cluster.pick(|_| false, random, now)),
            Some(keyed) => self.pick_by_key(cluster, keyed),
        }
    }

    /// Whether the policy leaves room for a try after the next one. Where all endpoints have been tried, they are tried again, as in
    /// ingress-nginx; a policy without a number tries each of them once.
    fn has_another(&self, cluster: &Cluster, forward: &Forward) -> bool {
        let tries = self.report.tries_len() as u32 + 1;
        let elapsed = self.worker.clock.now().since(self.report.begin);
        forward.retry.tries.map_or_else(|| (tries as usize) < cluster.len(), |max| tries < max)
            && forward.retry.timeout.is_none_or(|max| elapsed < max)
    }

    /// nginx's `proxy_next_upstream`: whether the fault counts, and whether to repeat the request does no harm. There is no other try
    /// once the time of the whole request is up.
    pub(crate) fn may_retry(&self, fault: Fault, forward: &Forward, outbound: &Outbound<'_, '_>) -> bool {
        let on = &forward.retry.on;
        let counts = match fault.reason {
            Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => on.timeout,
            Reason::UpstreamBadResponse | Reason::UpstreamHeadTooLarge => on.invalid_header,
            Reason::UpstreamStatus => true,
            _ => on.error,
        };
        let is_in_time = |timeout| self.worker.clock.now().since(self.report.begin) < timeout;
        counts && forward.timeouts.request.is_none_or(is_in_time) && outbound.is_repeatable(fault.retry)
    }

    /// Answers a fault, where the client can still be answered.
    async fn fail(&self, reason: Reason, rest: &mut Buffer) -> AfterRequest {
        self.worker.recorder.borrow().reason(reason);
        if self.progress.is_answered() {
            self.client.break_off();
            return AfterRequest::Abort;
        }
        if reply::status(reason) == CLIENT_CLOSED_REQUEST {
            self.report.status.set(CLIENT_CLOSED_REQUEST);
            self.client.break_off();
            return AfterRequest::Abort;
        }
        self.answer(&Answer::to(reason), rest).await
    }

    async fn answer(&self, answer: &Answer, rest: &mut Buffer) -> AfterRequest {
        if answer.status == NO_RESPONSE {
            self.report.status.set(NO_RESPONSE);
            self.client.break_off();
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
        script::edit_response(self, answer.status, answer.scope, &mut edits);
        edits
    }

    /// Passes over the request's body if it has come with the head; otherwise the connection cannot be used again.
    fn pass_over_body(&self, rest: &mut Buffer) -> bool {
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
