//! The request path, whatever the protocols on both sides: route, request filters, upstream, reply, record.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use model::{Action, Forward, HostName, Route};
use observe::Reason;
use routing::{HostTable, Resolution};
use wire::Known;
use wire::h1::{Request, TargetForm};

use crate::attempt::Outbound;
use crate::buffer::Buffer;
use crate::client::{Client, Patience};
use crate::clock::Moment;
use crate::conn::{Conn, claimed_version};
use crate::deadline::Deadline;
use crate::filters::{self, Flow, Forwarded, Presented, Subject};
use crate::h1::connection_option;
use crate::random::Random;
use crate::record::{self, Report};
use crate::reply::{self, Answer, CLIENT_CLOSED_REQUEST, Fault, Lines, Retry};
use crate::tls::ClientTls;
use crate::upstream::{Cluster, Endpoint};
use crate::worker::{Pinned, Worker};

/// What becomes of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It waits for another.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is closed once the client has been heard out.
    Linger,
    /// It is closed in the middle of a response.
    Abort,
}

/// A request on its way.
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) conn: &'a Conn,
    /// Where the request came from.
    pub(crate) client: Client<'a>,
    /// For one wait at a time.
    pub(crate) deadline: &'a Deadline,
    /// The configuration that it began with.
    pub(crate) pinned: &'a Pinned,
    /// The head's bytes, to which `request` refers.
    pub(crate) head: &'a [u8],
    pub(crate) request: &'a Request,
    pub(crate) forwarded: Forwarded<'a>,
    /// Normalised path.
    pub(crate) path: Cow<'a, [u8]>,
    /// Where it goes, once that is known.
    pub(crate) route: Cell<Option<&'a Arc<Route>>>,
    pub(crate) id: RequestId<'a>,
    pub(crate) report: Report,
}

/// What a request is called in logs, here and behind.
pub(crate) enum RequestId<'a> {
    Incoming(&'a [u8]),
    Own([u8; 32]),
    None,
}

/// What is to be done with a request.
enum Decision<'a> {
    Answer(Answer),
    Forward(&'a Forward),
}

/// Where load balancers ask whether the proxy is there: on every host that is not served by name, as in ingress-nginx.
const HEALTH_PATH: &[u8] = b"/healthz";

/// A request as it came in.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) client: Client<'a>,
    pub(crate) deadline: &'a Deadline,
    /// The bytes of its head.
    pub(crate) head: &'a [u8],
    pub(crate) begin: Moment,
}

/// Serves a request. `rest` holds what has been read after its head.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    arrival: Arrival<'_>,
    request: &Request,
    rest: &mut Buffer,
) -> Next {
    let Arrival { conn, client, deadline, head, begin } = arrival;
    let pinned = worker.pinned();
    let target = wire::path::of_target(request.origin_target(head));
    let Ok(path) = wire::path::normalize(target) else {
        return refuse(worker, arrival, Reason::BadTarget).await;
    };
    let settings = &pinned.settings().forwarded;
    let exchange = Exchange {
        worker,
        conn,
        client,
        deadline,
        pinned: &pinned,
        head,
        request,
        forwarded: Forwarded::of(head, request, conn.via(), settings),
        path,
        route: Cell::new(None),
        id: RequestId::of(head, request, &worker.random, settings.request_id),
        report: Report::new(begin, request.len as u64),
    };
    let next = exchange.run(rest).await;
    record::record(&exchange);
    next
}

/// Answers a request of which not even the head could be used.
pub(crate) async fn refuse(worker: &Rc<Worker>, arrival: Arrival<'_>, reason: Reason) -> Next {
    let Arrival { conn, head, begin, .. } = arrival;
    let report = Report::new(begin, head.len() as u64);
    let option = connection_option(claimed_version(head), false);
    let is_head = head.trim_ascii_start().starts_with(b"HEAD ");
    let sent = send_answer(worker, arrival, &Answer::to(reason), option, !is_head, &report).await;
    record::record_refused(worker, conn, head, &report, reason);
    if sent { Next::Linger } else { Next::Close }
}

async fn send_answer(
    worker: &Worker,
    arrival: Arrival<'_>,
    answer: &Answer,
    connection: Option<&str>,
    with_body: bool,
    report: &Report,
) -> bool {
    let Arrival { conn, client, deadline, .. } = arrival;
    let pinned = worker.pinned();
    let mut head = Buffer::small(&worker.buffers);
    let transport_security = conn.strict_transport_security(pinned.settings());
    let lines = Lines { connection, strict_transport_security: transport_security };
    answer.write_head(&mut head, &worker.date(), lines);
    let body = if with_body { answer.body.as_bytes() } else { &[] };
    report.status.set(answer.status);
    report.sent_head.set(head.len() as u64);
    report.sent_body.set(body.len() as u64);
    let patience = Patience { deadline, send_timeout: pinned.settings().client.send_timeout };
    client.answer(answer.status, head.data(), body, patience).await.is_ok()
}

impl<'a> RequestId<'a> {
    fn of(head: &'a [u8], request: &Request, random: &Random, generate: bool) -> Self {
        match request.fields.find(Known::XRequestId).map(|field| field.value(head)) {
            Some(id) if !id.is_empty() => Self::Incoming(id),
            _ if generate => Self::Own(random.hex_id()),
            _ => Self::None,
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Incoming(id) => Some(id),
            Self::Own(id) => Some(id),
            Self::None => None,
        }
    }
}

impl<'a> Exchange<'a> {
    async fn run(&self, rest: &mut Buffer) -> Next {
        let result = match self.decide() {
            Ok(Decision::Answer(answer)) => return self.answer(&answer, rest).await,
            Ok(Decision::Forward(forward)) => self.forward(forward, rest).await,
            Err(reason) => Err(reason),
        };
        match result {
            Ok(next) => next,
            Err(reason) => self.fail(reason, rest).await,
        }
    }

    /// Route and request filters.
    fn decide(&self) -> Result<Decision<'a>, Reason> {
        if self.request.form == TargetForm::Authority {
            return Err(Reason::MethodNotAllowed);
        }
        let path = if self.request.form == TargetForm::Asterisk { b"/" } else { &*self.path };
        let (host, route) = match self.pinned.snapshot.resolve(self.host(), path) {
            Resolution::Route(host, _) if *host.name() == HostName::Any && path == HEALTH_PATH => {
                return Ok(Decision::Answer(Answer::healthy()));
            }
            Resolution::Route(host, route) => (host, route),
            Resolution::AddSlash(route) => {
                self.route.set(Some(route));
                return Ok(Decision::Answer(self.add_slash(route)));
            }
            Resolution::UnknownHost if path == HEALTH_PATH => return Ok(Decision::Answer(Answer::healthy())),
            Resolution::UnknownHost => return Err(Reason::UnknownHost),
            Resolution::UnknownPath => return Err(Reason::UnknownPath),
        };
        self.route.set(Some(route));
        let target = self.request.origin_target(self.head);
        let client = self.conn.tls.as_deref().map(|tls| self.presented(tls, host));
        let subject = Subject { target, path, forwarded: &self.forwarded, client };
        match filters::request(&route.filters, &subject) {
            Flow::Answer(answer) => return Ok(Decision::Answer(answer)),
            Flow::Refuse(reason) => return Err(reason),
            Flow::Continue => {}
        }
        Ok(match &route.action {
            Action::Forward(forward) => Decision::Forward(forward),
            Action::Respond(fixed) => Decision::Answer(Answer {
                status: fixed.status,
                location: None,
                body: fixed.body.clone(),
                grpc: None,
            }),
        })
    }

    /// The host that the request is for: its own, whatever a hop before us says that it was.
    pub(crate) fn host(&self) -> &'a [u8] {
        &self.head[self.request.host.clone()]
    }

    /// What the filters know of a client over TLS.
    fn presented(&self, tls: &'a ClientTls, host: &'a HostTable) -> Presented<'a> {
        Presented {
            tls,
            host: host.name(),
            snapshot: &self.pinned.snapshot,
            acceptors: &self.pinned.acceptors,
            now: self.worker.clock.unix(),
        }
    }

    /// The redirect that nginx makes to a location whose name ends in a slash when just that is missing.
    fn add_slash(&self, route: &Route) -> Answer {
        let target = self.request.origin_target(self.head);
        let query = &target[wire::path::of_target(target).len()..];
        let scheme = self.forwarded.own_scheme.escape_ascii();
        let host = self.forwarded.host.escape_ascii();
        let path = route.path.path();
        Answer::redirect(301, format!("{scheme}://{host}{path}{}", query.escape_ascii()))
    }

    /// Tries endpoints until one answers or no other try is allowed.
    async fn forward(&self, forward: &Forward, rest: &mut Buffer) -> Result<Next, Reason> {
        let cluster = self.worker.cluster(self.pinned, forward.cluster).for_client(self.conn.tls.is_some());
        if cluster.len() == 0 {
            return Err(Reason::NoEndpoints);
        }
        let mut outbound = Outbound::new(self, forward, rest)?;
        outbound.await_body().await?;
        loop {
            let Some(endpoint) = self.pick(cluster) else {
                return Err(self.report.last_fault());
            };
            let is_last = !self.has_another(cluster, forward);
            match outbound.attempt(endpoint, is_last).await {
                Ok(next) => return Ok(next),
                Err(fault) if !is_last && Self::may_retry(fault, forward, &outbound) => {
                    self.report.note_fault(fault.reason);
                }
                Err(fault) => return Err(fault.reason),
            }
        }
    }

    fn pick<'c>(&self, cluster: &'c Cluster) -> Option<&'c Rc<Endpoint>> {
        let was_tried = |endpoint: &Endpoint| self.report.was_tried(endpoint.address);
        cluster.pick(was_tried, &self.worker.random, self.worker.clock.now())
    }

    /// Whether the policy and the number of endpoints leave room for a try after the next one.
    fn has_another(&self, cluster: &Cluster, forward: &Forward) -> bool {
        let tries = self.report.tries_len() as u32 + 1;
        let elapsed = self.worker.clock.now().since(self.report.begin);
        (tries as usize) < cluster.len()
            && forward.retry.tries.is_none_or(|max| tries < max)
            && forward.retry.timeout.is_none_or(|max| elapsed < max)
    }

    /// nginx's `proxy_next_upstream`: whether the fault counts, and whether to repeat the request does no harm.
    fn may_retry(fault: Fault, forward: &Forward, outbound: &Outbound<'_, '_>) -> bool {
        let on = &forward.retry.on;
        let counts = match fault.reason {
            Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => on.timeout,
            Reason::UpstreamBadResponse | Reason::UpstreamHeadTooLarge => on.invalid_header,
            Reason::UpstreamStatus => true,
            _ => on.error,
        };
        counts && outbound.is_repeatable(fault.retry)
    }

    /// Whether a request may be sent again though an endpoint may have acted on it (RFC 9110 section 9.2.2, with nginx's
    /// list of methods).
    pub(crate) fn may_repeat(&self, forward: &Forward, retry: Retry) -> bool {
        let harmless = !matches!(&self.head[self.request.method.clone()], b"POST" | b"LOCK" | b"PATCH");
        match retry {
            Retry::Never => false,
            Retry::Unsent => true,
            Retry::Sent => harmless || forward.retry.on.non_idempotent,
        }
    }

    /// Whether the client's connection may stay open after this request.
    pub(crate) fn may_keep_alive(&self) -> bool {
        let client = &self.pinned.settings().client;
        // What follows a refused CONNECT may be meant for the tunnel that it asked for.
        self.request.form != TargetForm::Authority
            && self.request.is_persistent()
            && !client.keep_alive_timeout.is_zero()
            && self.conn.requests.get() < client.keep_alive_requests
            && !self.worker.is_draining()
    }

    /// Whether it asks for another protocol, and for none but those that are passed on: what an endpoint agrees to besides, such as
    /// h2c, would be a tunnel past every rule of the proxy.
    pub(crate) fn is_upgrade(&self) -> bool {
        let known = &self.pinned.settings().client.upgrade_protocols;
        let is_known = |name: &[u8]| known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        self.request.is_upgrade() && self.request.fields.upgrades(self.head).all(is_known)
    }

    pub(crate) fn is_head(&self) -> bool {
        &self.head[self.request.method.clone()] == b"HEAD"
    }

    /// Answers a fault, where the client can still be answered.
    async fn fail(&self, reason: Reason, rest: &mut Buffer) -> Next {
        self.worker.recorder.borrow().reason(reason);
        if self.report.answered.get() {
            self.client.break_off();
            return Next::Abort;
        }
        if reply::status(reason) == CLIENT_CLOSED_REQUEST {
            self.report.status.set(CLIENT_CLOSED_REQUEST);
            self.client.break_off();
            return Next::Abort;
        }
        self.answer(&Answer::to(reason), rest).await
    }

    /// The client's end, with the time that it has.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience { deadline: self.deadline, send_timeout: self.pinned.settings().client.send_timeout }
    }

    /// Whether the client speaks gRPC, and has to be told of faults in its terms.
    fn is_grpc(&self) -> bool {
        let content_type = self.request.fields.find_name(self.head, b"content-type");
        self.client.is_http2()
            && content_type.is_some_and(|field| field.value(self.head).starts_with(b"application/grpc"))
    }

    async fn answer(&self, answer: &Answer, rest: &mut Buffer) -> Next {
        let body_is_past = self.pass_over_body(rest);
        let keep_alive = self.may_keep_alive() && body_is_past;
        let option = connection_option(self.request.version, keep_alive);
        let arrival = Arrival {
            conn: self.conn,
            client: self.client,
            deadline: self.deadline,
            head: self.head,
            begin: self.report.begin,
        };
        let grpc = if self.is_grpc() { answer.in_grpc() } else { None };
        let answer = grpc.as_ref().unwrap_or(answer);
        let sent = send_answer(self.worker, arrival, answer, option, !self.is_head(), &self.report).await;
        match (sent, keep_alive, body_is_past) {
            (true, true, _) => Next::KeepAlive,
            (true, false, false) => Next::Linger,
            (false, ..) | (true, false, true) => Next::Close,
        }
    }

    /// Passes over the request's body if it has come with the head; otherwise the connection cannot be used again.
    fn pass_over_body(&self, rest: &mut Buffer) -> bool {
        if self.report.body_begun.get() || self.request.fields.chunked {
            return self.report.body_done.get();
        }
        let length = self.request.fields.content_length.unwrap_or(0);
        let has_come = length <= rest.len() as u64;
        if has_come {
            rest.consume(length as usize);
        }
        has_come
    }
}
