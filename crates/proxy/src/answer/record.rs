//! Records of a request that is over: metrics, the access log, the span of one that is traced.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use balance::RolloutOutcome;
use model::{Backends, Forward};
use observe::access::write_line;
use observe::limits::SPAN_TEXT_BYTES_MAX;
use observe::spans::Span;
use observe::{Counter, Method, Reason, Sample, Side, UpstreamSample};
use routing::Needs;

use crate::answer::answered::Answered;
use crate::answer::audit;
use crate::request::Request;
use crate::request::conn::Conn;
use crate::request::geo;
use crate::request::lookup;
use crate::request::report::Report;
use crate::request::trace::Trace;
use crate::route::values::{self, RefusalEnd, Refused};
use crate::worker::{Worker, WorkerConfig};

/// Records a request that was served or answered.
pub(crate) fn record(answered: &Answered<'_>) {
    let (worker, report) = (answered.worker, &answered.report);
    let took = worker.clock.now().since(report.begin);
    let route = answered.route;
    let mut recorder = worker.recorder.borrow_mut();
    recorder.count(Counter::Requests);
    let labels = route.map_or(&worker.no_labels, |route| &route.labels);
    recorder.request(labels, &sample(answered, took));
    let is_watched = recorder.tail().is_some();
    drop(recorder);
    if is_watched {
        show(answered, took);
    }
    // The access log may name the verdict of the firewall.
    if answered.needs.has_any(Needs::REPORTS) {
        report_more(answered, took);
    }
    let log = &answered.config.settings().access_log;
    let target = || answered.sent_target();
    let is_skipped =
        || log.skip.iter().any(|skipped| skipped.takes(target(), &answered.steps).unwrap_or(false));
    let is_wanted = route.map_or(report.is_logged.get(), |route| route.access_log);
    if log.enabled && is_wanted && !is_skipped() {
        write_log(answered, took);
    }
}

/// Reports of features that few routes use.
#[cold]
fn report_more(answered: &Answered<'_>, took: Duration) {
    audit::record(answered);
    if let Some(processing) = answered.processing() {
        let (result, messages, waited) = processing.figures();
        answered.worker.recorder.borrow().ext_proc(result, messages, waited);
    }
    if let Some(trace) = answered.trace.as_deref() {
        leave_span(answered, trace, took);
    }
    if answered.needs.has_any(Needs::ROLLOUT) {
        judge_canary(answered);
    }
    if answered.config.settings().counts_countries
        && let Ok(country) = geo::country(answered.request)
    {
        answered.worker.recorder.borrow().country(country);
    }
}

/// Counts a request by which a canary is compared with its mainline. A client's own fault does not count,
/// and neither does a request for which no endpoint was asked.
fn judge_canary(answered: &Answered<'_>) {
    let Some(Forward { backends: Backends::Canary(canary), .. }) = answered.own_forward() else { return };
    let Some(plan) = &canary.rollout else { return };
    let is_canary = answered.cluster == Some(canary.cluster);
    if !is_canary && answered.cluster != Some(canary.mainline) {
        return;
    }
    let report = &answered.report;
    let header_time = report.tries.borrow().last().map(|last| last.header_time);
    let reason = report.reason.get().map(Reason::side);
    let Some(time) = header_time else { return };
    if reason == Some(Side::Client) {
        return;
    }
    let is_error = report.status.get() >= 500 || reason == Some(Side::Upstream);
    if let Some(run) = answered.worker.rollouts.run(plan) {
        run.note(is_canary, RolloutOutcome { is_error, time });
    }
}

/// Shows a request to those who watch requests end.
#[cold]
fn show(answered: &Answered<'_>, took: Duration) {
    let recorder = answered.worker.recorder.borrow();
    let Some(tail) = recorder.tail() else { return };
    let labels = answered.route.map(|route| &route.labels);
    values::with_log(answered, took, |values, _| tail.offer(values, labels));
}

/// Leaves the span of a request to be sent, if it is sampled and there is somebody to send it to.
fn leave_span(answered: &Answered<'_>, trace: &Trace<'_>, took: Duration) {
    let Request { worker, conn, head, parsed, .. } = *answered.request;
    let Trace { tracing, context, parent, .. } = trace;
    if !context.is_sampled() || !worker.spans.is_open() {
        return;
    }
    let route = answered.route;
    let path = || route.map_or("/", |route| route.labels.path()).as_bytes().to_vec();
    let operation = tracing.operation.as_ref().map(|name| values::expand(answered, name));
    let name = operation.filter(|name| !name.is_empty()).unwrap_or_else(path);
    let state = trace.state(head, parsed).filter(|state| state.len() <= SPAN_TEXT_BYTES_MAX);
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
        method: clip(answered.method()),
        target: clip(&head[parsed.target.clone()]),
        host: clip(answered.host()),
        user_agent: lookup::header(head, parsed, b"user-agent").map(|agent| clip(&agent)),
        scheme: conn.scheme(),
        flavor: flavor(answered),
        labels: route.map(|route| Arc::clone(&route.labels)),
        status: answered.report.status.get(),
        client: answered.forwarded.client,
        client_port: conn.peer.port(),
        server_port: conn.local.port(),
    });
}

/// As much of a text as a span holds.
fn clip(text: &[u8]) -> Vec<u8> {
    text[..text.len().min(SPAN_TEXT_BYTES_MAX)].to_vec()
}

/// The version of HTTP, as spans name it.
fn flavor(answered: &Answered<'_>) -> &'static str {
    &answered.client.protocol(answered.parsed.version)["HTTP/".len()..]
}

fn sample<'a>(answered: &Answered<'a>, took: Duration) -> Sample<'a> {
    let report = &answered.report;
    let tries = report.tries.borrow();
    Sample {
        method: Method::from_bytes(answered.method()),
        status: report.status.get(),
        request_bytes: report.request_bytes(),
        response_bytes: report.sent_bytes(),
        request_time: took,
        upstream: tries.last().map(|one| UpstreamSample {
            connect: one.connect_time,
            header: one.header_time,
            response: one.response_time,
        }),
        canary: answered.canary().map(|canary| &canary.name),
        // A request of another replica is counted there, where its Ingress is known.
        reason: report.reason.get(),
        cache: answered
            .cache_report()
            .filter(|_| answered.peer_request.is_none())
            .map(|report| report.result()),
    }
}

fn write_log(answered: &Answered<'_>, took: Duration) {
    let format = &answered.config.settings().access_log.format;
    values::with_log(answered, took, |values, sink| sink.line(|out| write_line(format, values, out)));
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
    let end = Some(RefusalEnd { report, reason });
    let refused = Refused { worker, conn, line: Some(line), end };
    if let Some(tail) = tail {
        tail.offer(&refused, None);
    }
    if log.enabled {
        worker.log.sink.borrow_mut().line(|out| write_line(&log.format, &refused, out));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use model::{Action, Canary, CanaryHeader, CanaryHeaderRule, CanaryRules};

    use super::*;
    use crate::testing::{ONE, TWO, World, forward, route, route_to};

    const TOOK: Duration = Duration::from_millis(7);

    #[test]
    fn a_sample_says_how_the_request_ended() {
        World::of(route_to(TWO)).admitted("POST /a", |admitted, _| {
            admitted.report.status.set(503);
            admitted.report.note_reason(Reason::NoEndpoints);
            admitted.report.note_sent_head(100);
            admitted.report.sent_body.set(20);
            admitted.report.received_body.set(3);
            let head = admitted.head.len() as u64;
            let sample = sample(&Answered { admitted: &admitted }, TOOK);
            assert_eq!(sample.method, Method::from_bytes(b"POST"));
            assert_eq!((sample.status, sample.reason), (503, Some(Reason::NoEndpoints)));
            assert_eq!((sample.request_bytes, sample.response_bytes), (head + 3, 120));
            assert_eq!(sample.request_time, TOOK);
            assert!(sample.upstream.is_none() && sample.canary.is_none() && sample.cache.is_none());
        });
    }

    #[test]
    fn a_sample_has_the_times_of_the_last_try() {
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            let now = admitted.worker.clock.now();
            for (last, took) in [(1, 5), (2, 9)] {
                admitted.report.begin_try(SocketAddr::from(([10, 0, 0, last], 8080)), now);
                admitted.report.note_connected(Duration::from_millis(took));
            }
            let sample = sample(&Answered { admitted: &admitted }, TOOK);
            let upstream = sample.upstream.unwrap();
            assert_eq!(upstream.connect, Some(Duration::from_millis(9)));
            assert!(upstream.header.is_none() && upstream.response.is_none());
        });
    }

    #[test]
    fn a_sample_names_the_canary_that_has_served() {
        let header = CanaryHeader { name: "X-Canary".to_owned(), rule: CanaryHeaderRule::AlwaysOrNever };
        let rules = CanaryRules { header: Some(header), ..CanaryRules::default() };
        let canary = Canary { mainline: TWO, cluster: ONE, name: Arc::from("beta"), rules, rollout: None };
        let backends = Backends::Canary(Box::new(canary));
        let world = World::of(route("/", Action::Forward(Forward { backends, ..forward(TWO) })));
        for (header, expected) in [("always", Some("beta")), ("never", None)] {
            world.admitted(&format!("GET /\nX-Canary: {header}"), |admitted, _| {
                let answered = Answered { admitted: &admitted };
                assert_eq!(sample(&answered, TOOK).canary.map(|name| &**name), expected);
            });
        }
    }

    #[test]
    fn a_span_names_the_version_of_the_client() {
        let world = World::of(route_to(TWO));
        for (lines, expected) in [("GET /", "1.1"), ("GET / HTTP/1.0", "1.0")] {
            let found = world.admitted(lines, |admitted, _| flavor(&Answered { admitted: &admitted }));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_text_of_a_span_is_cut() {
        assert_eq!(clip(&vec![b'a'; SPAN_TEXT_BYTES_MAX + 1]).len(), SPAN_TEXT_BYTES_MAX);
        assert_eq!(clip(b"abc"), b"abc");
    }
}
