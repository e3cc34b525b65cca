//! Traces, from manifests to a collector.

use testkit::{Canned, Collector, H2Client, H2Upstream, Setup, Upstream};

use crate::{GET, OK, setup};

/// All requests are traced, and their spans sent there.
fn tracing(collector: &Collector) -> Setup {
    setup()
        .setting("enable-opentelemetry", "true")
        .setting("otlp-collector-host", "localhost")
        .setting("otlp-collector-port", &collector.address().port().to_string())
        .setting("otel-schedule-delay-millis", "1")
}

#[test]
fn requests_become_spans_of_their_routes() {
    let (upstream, collector) = (Canned::saying("hello"), Collector::start());
    let forebay = tracing(&collector)
        .endpoint(upstream.address())
        .setting("opentelemetry-operation-name", "HTTP $request_method $service_name $uri")
        .setting("otel-service-name", "edge")
        .setting("log-format-upstream", "$request_uri $opentelemetry_trace_id $opentelemetry_span_id")
        .start();
    assert_eq!(forebay.get("/a?b").status, 200);
    let mut batch = collector.accept();
    batch.confirm();
    let [span] = &batch.spans[..] else { panic!("{batch:?}") };
    assert_eq!((&*span.name, span.attribute("http.server_name")), ("HTTP GET web /a", Some("web.test")));
    assert_eq!(span.attribute("http.status_code"), Some("200"));
    assert!(batch.resource.contains(&("service.name".to_owned(), "edge".to_owned())), "{batch:?}");
    let line = forebay.await_access_log("/a?b");
    assert_eq!(line, format!("/a?b {} {}", span.trace_id, span.span_id));
    forebay.await_metric("forebay_trace_spans_sent_total", &[], 1);
}

#[test]
fn an_ingress_turns_it_off_or_names_its_spans() {
    let (upstream, collector) = (Upstream::new(), Collector::start());
    let off =
        tracing(&collector).endpoint(upstream.address()).annotation("enable-opentelemetry", "false").start();
    let mut client = off.client();
    client.send(GET);
    let (mut peer, head) = upstream.accept_request();
    assert!(!head.contains("traceparent"), "{head}");
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);

    let named = setup()
        .endpoint(upstream.address())
        .setting("otlp-collector-host", "127.0.0.1")
        .setting("otlp-collector-port", &collector.address().port().to_string())
        .setting("otel-schedule-delay-millis", "1")
        .annotation("enable-opentelemetry", "true")
        .annotation("opentelemetry-operation-name", "shop")
        .annotation("opentelemetry-trust-incoming-span", "false")
        .start();
    let mut client = named.client();
    let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.send(GET.replace("\r\n\r\n", &format!("\r\n{parent}\r\n\r\n")));
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\ntraceparent: 00-") && !head.contains("0af765"), "{head}");
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    let spans = collector.take();
    assert_eq!((spans.len(), &*spans[0].name, &*spans[0].parent), (1, "shop", ""));
}

#[test]
fn both_sides_may_speak_http2() {
    let (upstream, collector) = (H2Upstream::clear(), Collector::start());
    let forebay =
        tracing(&collector).endpoint(upstream.address()).annotation("backend-protocol", "GRPC").start();
    let client = H2Client::clear(forebay.address());
    let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let mut call = client.call("GET", "web.test", "/a", &[parent, ("tracestate", "a=1")], true);
    let mut peer = upstream.accept_request();
    let traceparent = peer.header("traceparent").unwrap();
    assert_eq!(peer.header("tracestate").as_deref(), Some("a=1"));
    peer.answer(200, &[], b"ok");
    assert_eq!(call.read_response().status, 200);
    let spans = collector.take();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(traceparent, format!("00-{}-{}-01", span.trace_id, span.span_id));
    assert_eq!((&*span.trace_id, &*span.parent), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
    assert_eq!(span.attribute("http.flavor"), Some("2.0"));
}

#[test]
fn an_auth_service_is_told_of_the_same_span() {
    let (auth, upstream) = (Upstream::new(), Upstream::new());
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("enable-opentelemetry", "true")
        .annotation("auth-url", "http://auth.default.svc.cluster.local/")
        .manifest("auth.yaml", testkit::manifest::service("auth", &[auth.address()]))
        .start();
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, asked) = auth.accept_request();
    peer.send(OK);
    let (mut peer, told) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    let traceparent =
        |head: &str| head.lines().find(|line| line.starts_with("traceparent: ")).map(str::to_owned);
    assert_eq!(traceparent(&asked), traceparent(&told));
    assert!(traceparent(&asked).is_some(), "{asked}");
}
