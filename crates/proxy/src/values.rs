//! The values of a request: for the access log, and for other texts with variables.

mod computed;

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::template::{Template, Variable};
use model::{Captures, ValueMap};
use observe::access::{Named, Record, Time, Tls};
use observe::log::Sink;
use wire::h1::{Request, Version};

use crate::client::Client;
use crate::conn::Conn;
use crate::exchange::Exchange;
use crate::lookup;
use crate::script_state::ScriptState;
use crate::worker::{Log, Worker};

/// A text with the values that a request has by now.
pub(crate) fn expand(exchange: &Exchange<'_>, template: &Template) -> Vec<u8> {
    expand_at(exchange, exchange.script.get().map(|script| &**script), template)
}

/// The same while a script is being run.
pub(crate) fn expand_with(exchange: &Exchange<'_>, script: &ScriptState<'_>, template: &Template) -> Vec<u8> {
    expand_at(exchange, Some(script), template)
}

fn expand_at(exchange: &Exchange<'_>, script: Option<&ScriptState<'_>>, template: &Template) -> Vec<u8> {
    expand_as(exchange, script, exchange.report.status.get(), template)
}

fn expand_as(
    exchange: &Exchange<'_>,
    script: Option<&ScriptState<'_>>,
    status: u16,
    template: &Template,
) -> Vec<u8> {
    let took = exchange.worker.clock.now().since(exchange.report.begin);
    let mut text = Vec::new();
    let write = |record: &Record<'_>, _: &mut Sink| {
        observe::access::expand(template, &Record { status, ..*record }, &mut text);
    };
    with_values(exchange, script, took, write);
    text
}

/// Has the values of a request that began so long ago. What is not known yet is missing.
pub(crate) fn with_record<T>(
    exchange: &Exchange<'_>,
    took: Duration,
    act: impl FnOnce(&Record<'_>, &mut Sink) -> T,
) -> T {
    with_values(exchange, exchange.script.get().map(|script| &**script), took, act)
}

/// The same with the values of a script; none for a request as it was sent.
pub(crate) fn with_values<T>(
    exchange: &Exchange<'_>,
    script: Option<&ScriptState<'_>>,
    took: Duration,
    act: impl FnOnce(&Record<'_>, &mut Sink) -> T,
) -> T {
    let (worker, conn, head, request) = (exchange.worker, exchange.conn, exchange.head, exchange.request);
    let (report, is_of_question) = (&exchange.report, script.is_some_and(|script| script.is_of_question));
    let target = &head[request.target.clone()];
    let query = target.iter().position(|&b| b == b'?').map(|at| &target[at + 1..]);
    let response_head = report.response_head.borrow();
    let tries = report.tries.borrow();
    let host = lower_case_host(exchange.host());
    let canary = exchange.canary();
    let only = || match &exchange.route.get()?.action {
        model::Action::Forward(forward) => forward.backends.only(),
        model::Action::Files(_) | model::Action::Respond(_) | model::Action::NotFound => None,
    };
    let upstream = canary.map(|canary| canary.mainline).or_else(|| exchange.cluster.get()).or_else(only);
    let upstream = upstream.map(|cluster| exchange.config.snapshot.cluster(cluster).name.as_str());
    let upstream = upstream.or_else(|| is_for_nobody(exchange).then_some(DEFAULT_BACKEND));
    let user = basic_user(head, request);
    let (line, protocol) = match (exchange.client, request.version) {
        (Client::Http2(_), _) => (request_line_http2(head, request).into(), "HTTP/2.0"),
        (Client::Http1(_), Version::Http11) => (Cow::Borrowed(request_line(head, request)), "HTTP/1.1"),
        (Client::Http1(_), Version::Http10) => (Cow::Borrowed(request_line(head, request)), "HTTP/1.0"),
    };
    let Log { sink, time, hostname, pid, .. } = &mut *worker.log.borrow_mut();
    let record = Record {
        time: time.at(worker.clock.unix()),
        hostname,
        pid: *pid,
        remote_addr: exchange.forwarded.client,
        remote_user: user.as_deref(),
        request: Some(&line),
        method: Some(&head[request.method.clone()]),
        target: Some(target),
        path: Some(script.and_then(ScriptState::path).unwrap_or(&exchange.path)),
        query: script.and_then(ScriptState::query).or(query.filter(|_| !is_of_question)),
        protocol: Some(protocol),
        host: Some(&host),
        forwarded: Some((exchange.forwarded.host, exchange.forwarded.scheme)),
        status: report.status.get(),
        body_bytes_sent: report.sent_body.get(),
        bytes_sent: report.sent_bytes(),
        request_length: report.request_bytes(),
        request_time: took,
        upstream_name: upstream,
        alternative_upstream_name: canary.map_or("", |canary| &canary.name),
        cache_status: exchange.told().map(|told| told.name()),
        reason: report.reason.get(),
        tries: &tries,
        request_id: exchange.id.as_bytes(),
        traceparent: exchange.trace.get().map(|trace| &trace.traceparent),
        labels: exchange.route.get().map(|route| &*route.labels),
        named: &NamedValues { exchange, script, head, request, response: &response_head },
        ..blank_record(conn)
    };
    act(&record, sink)
}

/// ingress-nginx's name for its built-in default backend, which answers where no Ingress names a Service.
const DEFAULT_BACKEND: &str = "upstream-default-backend";

/// Whether there is nobody to send a request to.
fn is_for_nobody(exchange: &Exchange<'_>) -> bool {
    match exchange.route.get() {
        Some(route) => route.action == model::Action::NotFound,
        None => exchange.report.status.get() == 404,
    }
}

/// A text as the value of a header: what could end its line is escaped.
pub(crate) fn expand_field(exchange: &Exchange<'_>, template: &Template) -> Vec<u8> {
    as_field(expand(exchange, template))
}

/// The same for a text that a script of its own has.
pub(crate) fn expand_field_with(
    exchange: &Exchange<'_>,
    script: &ScriptState<'_>,
    template: &Template,
) -> Vec<u8> {
    as_field(expand_with(exchange, script, template))
}

/// The same for the head of a response with this status.
pub(crate) fn expand_field_for(exchange: &Exchange<'_>, status: u16, template: &Template) -> Vec<u8> {
    as_field(expand_as(exchange, exchange.script.get().map(|script| &**script), status, template))
}

/// The same with what is known of a request of which not even the head could be used.
pub(crate) fn expand_refused(worker: &Worker, conn: &Conn, template: &Template) -> Vec<u8> {
    let Log { time, hostname, pid, .. } = &mut *worker.log.borrow_mut();
    let record = Record { time: time.at(worker.clock.unix()), hostname, pid: *pid, ..blank_record(conn) };
    let mut text = Vec::new();
    observe::access::expand(template, &record, &mut text);
    as_field(text)
}

fn as_field(text: Vec<u8>) -> Vec<u8> {
    if !text.iter().any(u8::is_ascii_control) {
        return text;
    }
    let mut escaped = Vec::with_capacity(text.len() + 8);
    wire::path::escape_if(&text, |byte| byte.is_ascii_control(), &mut escaped);
    escaped
}

/// What is known before the request is: the rest is missing.
pub(crate) fn blank_record(conn: &Conn) -> Record<'_> {
    Record {
        time: Time::default(),
        hostname: "",
        pid: 0,
        remote_addr: conn.peer.ip().to_canonical(),
        peer: conn.peer,
        server: conn.local,
        remote_user: None,
        request: None,
        method: None,
        target: None,
        path: None,
        query: None,
        scheme: conn.scheme(),
        tls: conn.tls.as_deref().map(|tls| Tls {
            version: tls.version,
            cipher: tls.cipher,
            server_name: tls.server_name.as_deref(),
            is_resumed: tls.is_resumed,
        }),
        protocol: None,
        host: None,
        forwarded: None,
        status: 0,
        body_bytes_sent: 0,
        bytes_sent: 0,
        request_length: 0,
        request_time: Duration::ZERO,
        connection: conn.serial,
        connection_requests: conn.requests.get(),
        upstream_name: None,
        alternative_upstream_name: "",
        cache_status: None,
        reason: None,
        tries: &[],
        request_id: None,
        traceparent: None,
        labels: None,
        index: "",
        named: &(),
    }
}

/// The user of Basic authentication (RFC 7617 section 2), whether or not anybody asked for it.
fn basic_user(head: &[u8], request: &Request) -> Option<Vec<u8>> {
    let field = request.fields.find_name(head, b"authorization")?;
    let (scheme, credentials) = field.value(head).split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = STANDARD.decode(credentials.trim_ascii()).ok()?;
    user.truncate(memchr::memchr(b':', &user)?);
    Some(user)
}

fn request_line<'a>(head: &'a [u8], request: &Request) -> &'a [u8] {
    let line = &head[request.start..];
    let end = memchr::memchr(b'\r', line).unwrap_or(line.len());
    &line[..end]
}

/// HTTP/2 has no such line; nginx logs this one.
fn request_line_http2(head: &[u8], request: &Request) -> Vec<u8> {
    [&head[request.method.clone()], b" ", &head[request.target.clone()], b" HTTP/2.0"].concat()
}

fn lower_case_host(host: &[u8]) -> Cow<'_, [u8]> {
    let (name, _) = wire::host::split_port(host);
    if name.iter().any(u8::is_ascii_uppercase) { name.to_ascii_lowercase().into() } else { name.into() }
}

struct NamedValues<'a, 'x> {
    exchange: &'a Exchange<'x>,
    script: Option<&'a ScriptState<'a>>,
    head: &'a [u8],
    request: &'a Request,
    response: &'a [u8],
}

impl Named for NamedValues<'_, '_> {
    fn request(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let names = self.exchange.config.settings().client.header_names;
        lookup::header_variable(self.head, self.request, name.as_bytes(), names)
    }

    fn response(&self, name: &str) -> Option<&[u8]> {
        self.response.split(|&b| b == b'\n').find_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }
    fn cookie(&self, name: &str) -> Option<&[u8]> {
        lookup::cookie_variable(self.head, self.request, name.as_bytes())
    }

    fn argument(&self, name: &str) -> Option<&[u8]> {
        if self.script.is_some_and(|script| script.is_of_question) {
            return None;
        }
        lookup::parameter_variable(self.head, self.request, name.as_bytes())
    }

    fn capture(&self, group: u8) -> Option<&[u8]> {
        let Exchange { rewritten, route, steps, .. } = self.exchange;
        let path =
            self.script.and_then(|script| script.path()).unwrap_or_else(|| self.exchange.client_path());
        let is_rewritten = rewritten.get().is_some_and(|rewritten| rewritten.target().is_some());
        if let Some(script) = self.script.filter(|script| script.has_captures() && !is_rewritten) {
            return script.capture(group);
        }
        let captures = || {
            let Some(expression) = route.get().and_then(|route| route.path.expression()) else {
                return Captures::default();
            };
            let found = expression.captures(path, steps);
            found.inspect_err(|_| steps.note_undecided()).ok().flatten().unwrap_or_default()
        };
        if self.script.is_some() && self.exchange.script.get().is_none() {
            // A script is being run, and the path may be rewritten behind it.
            return Some(&path[captures().get(group)?]);
        }
        let found = rewritten.get_or_init(Box::default).captures.get_or_init(captures);
        Some(&path[found.get(group)?])
    }

    fn set(&self, name: &str) -> Option<&[u8]> {
        let of_auth = || self.exchange.admitted.get()?.variable(name);
        self.script.and_then(|script| script.variable(name)).or_else(of_auth)
    }

    fn computed(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        computed::value(self.exchange, variable)
    }

    fn in_map<'m>(&self, map: &'m ValueMap, text: &[u8]) -> Option<(&'m Template, Option<Captures>)> {
        let steps = &self.exchange.steps;
        map.find(text, steps).inspect_err(|_| steps.note_undecided()).ok()
    }
}
