//! What is told of a request when it is over: metrics, the access log, the span of one that is traced.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use observe::access::{Record, Try, write_line};
use observe::limits::SPAN_TEXT_BYTES_MAX;
use observe::spans::Span;
use observe::{Counter, Method, Reason, Sample, UpstreamSample};
use wire::h1::Version;

use crate::client::Client;
use crate::conn::Conn;
use crate::exchange::Exchange;
use crate::lookup;
use crate::report::Report;
use crate::trace::Trace;
use crate::values;
use crate::worker::{Log, Worker, WorkerConfig};

/// Records a request that was served or answered.
pub(crate) fn record(exchange: &Exchange<'_>) {
    let (worker, report) = (exchange.worker, &exchange.report);
    let took = worker.clock.now().since(report.begin);
    let route = exchange.route.get();
    let mut recorder = worker.recorder.borrow_mut();
    recorder.count(Counter::Requests);
    let labels = route.map_or(&worker.no_labels, |route| &route.labels);
    recorder.request(labels, &sample(exchange, took));
    let is_watched = recorder.tail().is_some();
    drop(recorder);
    if is_watched {
        show(exchange, took);
    }
    let log = &exchange.config.settings().access_log;
    let target = || exchange.request.origin_target(exchange.head);
    let is_skipped =
        || log.skip.iter().any(|skipped| skipped.takes(target(), &exchange.steps).unwrap_or(false));
    let is_wanted = route.map_or(report.is_logged.get(), |route| route.access_log);
    if log.enabled && is_wanted && !is_skipped() {
        write_log(exchange, took);
    }
    if let Some(trace) = exchange.trace.get() {
        leave_span(exchange, trace, took);
    }
}

/// Shows a request to those who watch requests end.
#[cold]
fn show(exchange: &Exchange<'_>, took: Duration) {
    let recorder = exchange.worker.recorder.borrow();
    let Some(tail) = recorder.tail() else { return };
    let labels = exchange.route.get().map(|route| &route.labels);
    values::with_record(exchange, took, |record, _| tail.offer(record, labels));
}

/// Leaves the span of a request to be sent, if it is sampled and there is somebody to send it to.
#[cold]
fn leave_span(exchange: &Exchange<'_>, trace: &Trace<'_>, took: Duration) {
    let Exchange { worker, conn, head, request, .. } = *exchange;
    let Trace { tracing, context, parent, .. } = trace;
    if !context.is_sampled() || !worker.spans.is_open() {
        return;
    }
    let route = exchange.route.get();
    let path = || route.map_or("/", |route| route.labels.path.as_str()).as_bytes().to_vec();
    let operation = tracing.operation.as_ref().map(|name| values::expand(exchange, name));
    let name = operation.filter(|name| !name.is_empty()).unwrap_or_else(path);
    let state = trace.state(head, request).filter(|state| state.len() <= SPAN_TEXT_BYTES_MAX);
    let end = worker.clock.unix();
    worker.spans.put(Span {
        name: clip(&name),
        trace_id: context.trace_id,
        span_id: context.span_id,
        parent: *parent,
        flags: context.flags,
        trace_state: state.unwrap_or_default().into_owned(),
        begin: end.saturating_sub(took),
        end,
        method: clip(&head[request.method.clone()]),
        target: clip(&head[request.target.clone()]),
        host: clip(exchange.host()),
        user_agent: lookup::header(head, request, b"user-agent").map(|agent| clip(&agent)),
        scheme: conn.scheme(),
        flavor: flavor(exchange),
        labels: route.map(|route| Arc::clone(&route.labels)),
        status: exchange.report.status.get(),
        client: exchange.forwarded.client,
        client_port: conn.peer.port(),
        server_port: conn.local.port(),
    });
}

/// As much of a text as a span holds.
fn clip(text: &[u8]) -> Vec<u8> {
    text[..text.len().min(SPAN_TEXT_BYTES_MAX)].to_vec()
}

/// The version of HTTP, as spans name it.
fn flavor(exchange: &Exchange<'_>) -> &'static str {
    match (exchange.client, exchange.request.version) {
        (Client::Http2(_), _) => "2.0",
        (Client::Http1(_), Version::Http11) => "1.1",
        (Client::Http1(_), Version::Http10) => "1.0",
    }
}

fn sample<'a>(exchange: &Exchange<'a>, took: Duration) -> Sample<'a> {
    let report = &exchange.report;
    let tries = report.tries.borrow();
    Sample {
        method: Method::from_bytes(&exchange.head[exchange.request.method.clone()]),
        status: report.status.get(),
        request_bytes: report.request_bytes(),
        response_bytes: report.sent_bytes(),
        request_time: took,
        upstream: tries.last().map(|one| UpstreamSample {
            connect: one.connect_time,
            header: one.header_time,
            response: one.response_time,
        }),
        canary: exchange.canary().map(|canary| &canary.name),
        // What another replica has asked for is counted there, where its Ingress is known.
        reason: report.reason.get(),
        cache: exchange.told().filter(|_| exchange.guest.get().is_none()).map(|told| told.result()),
    }
}

fn write_log(exchange: &Exchange<'_>, took: Duration) {
    let format = &exchange.config.settings().access_log.format;
    values::with_record(exchange, took, |record, sink| sink.line(|out| write_line(format, record, out)));
}

/// Writes a line about a request to an auth service: what of it is known of the request that it is about is the same.
pub(crate) fn record_auth(
    exchange: &Exchange<'_>,
    status: u16,
    upstream: &str,
    tries: &[Try],
    took: Duration,
) {
    let format = &exchange.config.settings().access_log.format;
    values::with_record(exchange, took, |record, sink| {
        let record = Record { status, upstream_name: Some(upstream), tries, ..*record };
        sink.line(|out| write_line(format, &record, out));
    });
}

/// Records a request that was refused before it could be understood.
pub(crate) fn record_refused(
    worker: &Rc<Worker>,
    config: &WorkerConfig,
    conn: &Conn,
    head: &[u8],
    report: &Report,
    reason: Reason,
) {
    let recorder = worker.recorder.borrow();
    recorder.reason(reason);
    let (log, tail) = (&config.settings().access_log, recorder.tail());
    if !log.enabled && tail.is_none() {
        return;
    }
    let line = head.split(|&b| b == b'\r' || b == b'\n').find(|line| !line.is_empty()).unwrap_or_default();
    let Log { sink, time, hostname, pid, .. } = &mut *worker.log.borrow_mut();
    let record = Record {
        time: time.at(worker.clock.unix()),
        hostname,
        pid: *pid,
        request: Some(line),
        status: report.status.get(),
        reason: Some(reason),
        body_bytes_sent: report.sent_body.get(),
        bytes_sent: report.sent_bytes(),
        request_length: report.request_bytes(),
        request_time: worker.clock.now().since(report.begin),
        ..values::blank_record(conn)
    };
    if let Some(tail) = tail {
        tail.offer(&record, None);
    }
    if log.enabled {
        sink.line(|out| write_line(&log.format, &record, out));
    }
}
