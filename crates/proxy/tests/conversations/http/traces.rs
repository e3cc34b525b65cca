//! Traces: what endpoints are told of them, and which spans a collector gets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::log::{Escape, Format};
use model::template::Template;
use model::{Sampler, SpanExport, TraceShare, Tracing};
use testkit::{Collector, Upstream};

use super::{GET, OK, route};
use crate::world::World;

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT_ID: &str = "b7ad6b7169203331";
const SENT: &str = "forebay_trace_spans_sent_total";
const DROPPED: &str = "forebay_trace_spans_dropped_total";

fn export(collector: &Collector) -> SpanExport {
    let address = collector.address();
    SpanExport {
        host: address.ip().to_string(),
        port: address.port(),
        delay: Duration::from_millis(1),
        ..SpanExport::default()
    }
}

/// A world whose only route is traced like that.
fn traced(upstream: &Upstream, tracing: Tracing, export: Option<SpanExport>) -> World {
    World::http(&[upstream.address()], |model| {
        route(model, |route| route.tracing = Some(Arc::new(tracing)));
        model.settings.span_export = export.map(Arc::new);
    })
}

fn sampler(share: TraceShare, follows_parent: bool) -> Sampler {
    Sampler { share, follows_parent }
}

/// Version, trace, span and flags.
fn parts(traceparent: &str) -> [&str; 4] {
    traceparent.split('-').collect::<Vec<_>>().try_into().unwrap()
}

fn field<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// The head that an endpoint gets for a request with these fields about a trace.
fn told(world: &World, upstream: &Upstream, fields: &str) -> String {
    let mut client = world.http_client();
    client.send(GET.replace("\r\n\r\n", &format!("\r\n{fields}\r\n")));
    let (mut peer, head) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    head
}

fn incoming(flags: &str) -> String {
    format!("TraceParent: 00-{TRACE_ID}-{PARENT_ID}-{flags}\r\nTracestate: a=1\r\ntracestate: b=2\r\n")
}

#[test]
fn endpoints_are_told_of_our_span_in_the_client_s_trace() {
    let upstream = Upstream::new();
    let (all, none) = (TraceShare::ALL, TraceShare::NONE);
    for (sampler, flags, expected) in [
        (sampler(all, true), "01", "01"),
        (sampler(all, true), "00", "00"),
        (sampler(none, true), "01", "01"),
        (sampler(none, true), "03", "03"),
        (sampler(all, false), "00", "01"),
        (sampler(all, false), "02", "03"),
        (sampler(none, false), "01", "00"),
    ] {
        let world = traced(&upstream, Tracing { sampler, ..Tracing::default() }, None);
        let head = told(&world, &upstream, &incoming(flags));
        let [traceparent] = field(&head, "traceparent")[..] else { panic!("{head}") };
        let [version, trace_id, span_id, flags] = parts(traceparent);
        assert_eq!((version, trace_id, flags), ("00", TRACE_ID, expected), "{sampler:?}");
        assert!(span_id != PARENT_ID && span_id.len() == 16 && span_id != "0".repeat(16), "{traceparent}");
        assert_eq!(field(&head, "tracestate"), ["a=1", "b=2"]);
    }
}

#[test]
fn a_trace_begins_where_no_client_s_counts() {
    let upstream = Upstream::new();
    let distrusting = Tracing { trusts_client: false, ..Tracing::default() };
    let one = format!("traceparent: 00-{TRACE_ID}-{PARENT_ID}-00\r\n");
    for (tracing, fields) in [
        (Tracing::default(), String::new()),
        (Tracing::default(), incoming("0g")),
        (Tracing::default(), "tracestate: a=1\r\n".to_owned()),
        (Tracing::default(), one.repeat(2)),
        (distrusting.clone(), incoming("00")),
    ] {
        let world = traced(&upstream, tracing, None);
        let head = told(&world, &upstream, &fields);
        let [traceparent] = field(&head, "traceparent")[..] else { panic!("{head}") };
        let [version, trace_id, _, flags] = parts(traceparent);
        assert!(version == "00" && trace_id != TRACE_ID && trace_id.len() == 32, "{fields:?}: {head}");
        assert_eq!(flags, "01");
        assert!(field(&head, "tracestate").is_empty(), "of another trace: {head}");
    }
    let unsampled = Tracing { sampler: sampler(TraceShare::NONE, true), ..distrusting };
    let world = traced(&upstream, unsampled, None);
    let head = told(&world, &upstream, &incoming("01"));
    assert!(field(&head, "traceparent")[0].ends_with("-00"), "{head}");
}

#[test]
fn what_is_not_traced_passes_as_it_came() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |_| ());
    let head = told(&world, &upstream, &incoming("ff"));
    assert!(head.contains(&format!("\r\nTraceParent: 00-{TRACE_ID}-{PARENT_ID}-ff\r\n")), "{head}");
    assert!(field(&told(&world, &upstream, ""), "traceparent").is_empty());
}

#[test]
fn every_try_is_told_of_the_same_span() {
    let upstream = Upstream::new();
    let world = traced(&upstream, Tracing::default(), None);
    let mut client = world.http_client();
    client.send(GET);
    let (peer, first) = upstream.accept_request();
    drop(peer);
    let (mut peer, second) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    assert_eq!(field(&first, "traceparent"), field(&second, "traceparent"));
}

#[test]
fn a_collector_is_sent_what_nginx_s_module_tells_of_a_request() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let world = traced(&upstream, Tracing::default(), Some(export(&collector)));
    let mut client = world.http_client();
    let fields = incoming("01");
    client.send(format!("GET /a?b=%20 HTTP/1.1\r\nHost: WEB.test:80\r\nUser-Agent: curl/8\r\n{fields}\r\n"));
    let (mut peer, head) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);

    let mut batch = collector.accept();
    let [span] = &batch.spans[..] else { panic!("{batch:?}") };
    let traceparent = field(&head, "traceparent")[0];
    let [_, trace_id, span_id, _] = parts(traceparent);
    assert_eq!((&*span.trace_id, &*span.span_id, &*span.parent), (trace_id, span_id, PARENT_ID));
    assert_eq!(span.trace_state, "a=1,b=2");
    assert!(span.is_server && !span.is_error && span.time.0 > 0 && span.time.0 <= span.time.1, "{span:?}");
    let port = client.address().port().to_string();
    let server_port = client.peer_address().port().to_string();
    let expected = [
        ("http.flavor", "1.1"),
        ("http.host", "WEB.test:80"),
        ("http.method", "GET"),
        ("http.scheme", "http"),
        ("http.server_name", ""),
        ("http.status_code", "200"),
        ("http.target", "/a?b=%20"),
        ("http.user_agent", "curl/8"),
        ("net.host.port", &server_port),
        ("net.peer.ip", "127.0.0.1"),
        ("net.peer.port", &port),
    ];
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(span.attributes, expected);
    let service = batch.resource.iter().find(|(name, _)| name == "service.name");
    assert_eq!(service.map(|(_, value)| value.as_str()), Some("nginx"));
    batch.confirm();
    world.await_metric(SENT, &[], 1);
    world.await_metric(DROPPED, &[], 0);
}

#[test]
fn a_span_has_the_name_that_is_asked_for_and_fails_with_the_request() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let operation = Some(Template::parse("HTTP $request_method $uri $status").unwrap());
    let world = traced(&upstream, Tracing { operation, ..Tracing::default() }, Some(export(&collector)));
    for (status, is_error) in [("404 Not Found", false), ("502 Bad Gateway", true)] {
        let mut client = world.http_client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        client.read_response();
        let spans = collector.take();
        assert_eq!(spans[0].name, format!("HTTP GET /a {}", &status[..3]));
        assert_eq!((spans[0].is_error, &*spans[0].parent), (is_error, ""));
    }
}

#[test]
fn requests_that_no_route_takes_are_traced_where_all_are_and_probes_never() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let world = World::http(&[upstream.address()], |model| {
        model.settings.tracing = Some(Arc::default());
        model.settings.span_export = Some(Arc::new(export(&collector)));
    });
    assert_eq!(world.http_client().get("else.test", "/healthz").status, 200);
    assert_eq!(world.http_client().get("else.test", "/x").status, 404);
    let spans = collector.take();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*span.name, span.attribute("http.server_name")), ("/", Some("_")));
    assert_eq!((span.attribute("http.target"), span.is_error), (Some("/x"), false));
    assert_eq!(span.attribute("http.user_agent"), None);
}

#[test]
fn spans_that_are_not_sampled_are_not_sent() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let world = traced(&upstream, Tracing::default(), Some(export(&collector)));
    told(&world, &upstream, &incoming("00"));
    told(&world, &upstream, &incoming("01"));
    let spans = collector.take();
    assert_eq!(spans.len(), 1);
    world.await_metric(SENT, &[], 1);
}

#[test]
fn the_access_log_names_trace_and_span() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        route(model, |route| route.tracing = Some(Arc::default()));
        let format = "$opentelemetry_trace_id $opentelemetry_span_id $opentelemetry_context_traceparent";
        model.settings.access_log.unknown_hosts = true;
        model.settings.access_log.format = Format::parse(format, Escape::Default).unwrap();
    });
    let head = told(&world, &upstream, &incoming("01"));
    assert_eq!(world.http_client().get("else.test", "/").status, 404);
    let traceparent = field(&head, "traceparent")[0].to_owned();
    let [_, trace_id, span_id, _] = parts(&traceparent);
    assert_eq!(world.stop(), format!("{trace_id} {span_id} {traceparent}\n- - -\n"));
}

/// One batch of one span is on its way, two spans may wait, and the others have no room.
#[test]
fn a_collector_that_hangs_costs_spans_and_no_request_any_time() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let export = SpanExport { queue_max: 2, batch_max: 1, ..export(&collector) };
    let world = traced(&upstream, Tracing::default(), Some(export));
    told(&world, &upstream, "");
    let mut hanging = collector.accept();
    for _ in 0..10 {
        told(&world, &upstream, "");
    }
    world.await_metric(DROPPED, &[], 8);
    assert!(collector.is_left_alone());
    hanging.confirm();
    assert_eq!((collector.take().len(), collector.take().len()), (1, 1));
    world.await_metric(SENT, &[], 3);
    world.await_metric(DROPPED, &[], 8);
}

#[test]
fn a_collector_that_is_away_costs_its_spans_alone() {
    let upstream = Upstream::new();
    let refusing = testkit::Refusing::default();
    let export = SpanExport {
        host: refusing.address().ip().to_string(),
        port: refusing.address().port(),
        delay: Duration::from_millis(1),
        ..SpanExport::default()
    };
    let world = traced(&upstream, Tracing::default(), Some(export));
    told(&world, &upstream, "");
    world.await_metric(DROPPED, &[], 1);
    told(&world, &upstream, "");
}

#[test]
fn another_collector_is_gone_over_to_and_none_is_left() {
    let (upstream, first, second) = (Upstream::new(), Collector::start(), Collector::start());
    let mut world = traced(&upstream, Tracing::default(), None);
    world.change(|model| model.settings.span_export = Some(Arc::new(export(&first))));
    told(&world, &upstream, "");
    assert_eq!(first.take().len(), 1);
    world.change(|model| model.settings.span_export = Some(Arc::new(export(&second))));
    told(&world, &upstream, "");
    assert_eq!(second.take().len(), 1);
    world.await_metric(SENT, &[], 2);
    world.change(|model| model.settings.span_export = None);
    told(&world, &upstream, "");
    assert!(first.is_left_alone() && second.is_left_alone());
    world.await_metric(DROPPED, &[], 0);
}

#[test]
fn what_waits_is_sent_in_the_end() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let later = SpanExport { delay: Duration::from_hours(1), batch_max: 2, ..export(&collector) };
    let world = traced(&upstream, Tracing::default(), Some(later));
    told(&world, &upstream, "");
    told(&world, &upstream, "");
    assert_eq!(collector.take().len(), 2, "the batch is full");
    told(&world, &upstream, "");
    let ending = std::thread::spawn(move || world.stop());
    assert_eq!(collector.take().len(), 1);
    ending.join().unwrap();
}

#[test]
fn the_end_does_not_wait_for_a_collector_that_hangs() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let world = traced(&upstream, Tracing::default(), Some(export(&collector)));
    told(&world, &upstream, "");
    let _hanging = collector.accept();
    told(&world, &upstream, "");
    let begin = Instant::now();
    world.stop();
    assert!(begin.elapsed() < observe::limits::SPAN_EXPORT_TIMEOUT, "{:?}", begin.elapsed());
}
