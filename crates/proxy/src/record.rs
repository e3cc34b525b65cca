//! What is told of a request when it is over: metrics and the access log.

use std::rc::Rc;
use std::time::Duration;

use observe::access::{Record, Try, write_line};
use observe::{Counter, Method, Reason, Sample, UpstreamSample};

use crate::conn::Conn;
use crate::exchange::Exchange;
use crate::report::Report;
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
    drop(recorder);
    let log = &exchange.config.settings().access_log;
    let is_skipped = || log.skip.iter().any(|prefix| exchange.path.starts_with(prefix.as_bytes()));
    let is_wanted = route.map_or(report.is_logged.get(), |route| route.access_log);
    if log.enabled && is_wanted && !is_skipped() {
        write_log(exchange, took);
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
    worker.recorder.borrow().reason(reason);
    let log = &config.settings().access_log;
    if !log.enabled {
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
        body_bytes_sent: report.sent_body.get(),
        bytes_sent: report.sent_bytes(),
        request_length: report.request_bytes(),
        request_time: worker.clock.now().since(report.begin),
        ..values::blank_record(conn)
    };
    sink.line(|out| write_line(&log.format, &record, out));
}
