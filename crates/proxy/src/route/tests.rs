//! Decisions of the step from a request to its route.

use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{
    Access, Action, BlockedHeaders, ListedValue, Model, PathChange, RequestFilter, RequestFilters, Route,
    Sampler, Settings, Timeouts, TlsRedirect, TraceShare, Tracing, UrlRewrite,
};
use observe::Reason;
use routing::Needs;

use crate::testing::{TWO, World, forward, model, outcome, route, route_to};

fn found(world: &World, lines: &str) -> String {
    world.routed(lines, |_, result| outcome(&result))
}

fn with_filters(filters: Vec<RequestFilter>) -> Route {
    Route { request_filters: RequestFilters::new(filters).unwrap(), ..route_to(TWO) }
}

fn closed(route: Route) -> Route {
    let access = Access { unavailable: Some("no secret".to_owned()), ..Access::default() };
    Route { access: Some(Box::new(access)), ..route }
}

#[test]
fn the_route_is_found_by_host_and_path() {
    let forward_to = |path| route(path, Action::Forward(forward(TWO)));
    let world = World::new(&model([forward_to("/app"), forward_to("/dir/")]));
    for (lines, expected) in [
        ("GET /app/x", "goes on"),
        ("GET /app/../dir/x", "goes on"),
        ("GET /", "UnknownPath"),
        ("GET /application", "UnknownPath"),
        ("GET /app\nHost: other.test", "UnknownHost"),
        ("GET /dir", "301 to http://web.test/dir/"),
        ("GET /dir?x=1", "301 to http://web.test/dir/?x=1"),
        ("GET /healthz\nHost: other.test", "200"),
        ("GET /healthz", "UnknownPath"),
        ("TRACE /app", "MethodNotAllowed"),
        ("CONNECT web.test:80", "MethodNotAllowed"),
    ] {
        assert_eq!(found(&world, lines), expected, "{lines}");
    }
}

#[test]
fn health_checks_are_not_logged() {
    let world = World::of(route_to(TWO));
    for (lines, is_logged) in [("GET /healthz\nHost: other.test", false), ("GET /", true)] {
        assert_eq!(world.routed(lines, |routed, _| routed.report.is_logged.get()), is_logged, "{lines}");
    }
}

#[test]
fn a_plain_route_needs_nothing() {
    World::of(route_to(TWO)).routed("GET /", |routed, result| {
        assert!(result.is_ok() && routed.needs.is_empty());
        assert!(routed.rewritten.is_none() && routed.script.is_none() && routed.trace.is_none());
        assert_eq!(routed.route.unwrap().labels.path(), "/");
    });
}

#[test]
fn of_a_request_without_a_route_everything_is_looked_at() {
    World::of(route_to(TWO)).routed("GET /\nHost: other.test", |routed, _| {
        assert_eq!(routed.needs, Needs::ALL);
        assert!(routed.route.is_none() && routed.host.is_none());
    });
}

#[test]
fn blocked_headers_come_before_the_route() {
    let user_agents = vec![ListedValue::Exact("Evil".to_owned())];
    let blocked = BlockedHeaders { user_agents, ..BlockedHeaders::default() };
    let settings = Settings { blocked_headers: Some(Box::new(blocked)), ..Settings::default() };
    let world = World::new(&Model { settings, ..model([route_to(TWO)]) });
    for (lines, expected) in [
        ("GET /\nUser-Agent: evil", "HeaderDenied"),
        ("GET /\nHost: other.test\nUser-Agent: evil", "HeaderDenied"),
        ("GET /\nReferer: evil", "goes on"),
        ("GET /\nUser-Agent: good", "goes on"),
    ] {
        assert_eq!(found(&world, lines), expected, "{lines}");
    }
}

#[test]
fn a_body_that_is_announced_too_long_is_refused() {
    let limited = model::Forward { body_bytes_max: Some(4).into(), ..forward(TWO) };
    let world = World::of(route("/", Action::Forward(limited)));
    for (length, expected) in [
        ("Content-Length: 4", "goes on"),
        ("Content-Length: 5", "BodyTooLarge"),
        ("Transfer-Encoding: chunked", "goes on"),
    ] {
        assert_eq!(found(&world, &format!("POST /\n{length}")), expected, "{length}");
    }
}

#[test]
fn a_closed_route_still_sends_to_the_application() {
    let world =
        World::of(closed(with_filters(vec![RequestFilter::AppRoot(Template::parse("/app").unwrap())])));
    assert_eq!(found(&world, "GET /"), "302 to http://web.test/app");
    assert_eq!(found(&world, "GET /x"), "Unavailable");
}

#[test]
fn a_closed_route_is_closed_before_its_redirects() {
    let redirect = TlsRedirect {
        status: 308,
        believes_hops: false,
        only_for: None,
        keep_trailing_slash: false,
        port: None,
    };
    let redirecting = with_filters(vec![RequestFilter::TlsRedirect(redirect)]);
    assert_eq!(found(&World::of(redirecting.clone()), "GET /a?b"), "308 to https://web.test/a?b");
    assert_eq!(found(&World::of(redirecting.clone()).over_tls(), "GET /a"), "goes on");
    assert_eq!(found(&World::of(closed(redirecting)), "GET /a"), "Unavailable");
}

#[test]
fn a_forbidden_host_refuses_before_the_body_is_measured() {
    let access = Access { forbidden: Some("no authorities".to_owned()), ..Access::default() };
    let limited = model::Forward { body_bytes_max: Some(0).into(), ..forward(TWO) };
    let guarded = Route { access: Some(Box::new(access)), ..route("/", Action::Forward(limited)) };
    assert_eq!(found(&World::of(guarded), "POST /\nContent-Length: 1"), "Forbidden");
}

#[test]
fn filters_rewrite_the_target_with_its_query() {
    let path = PathChange::Prefix { from: "/app".to_owned(), to: "/new".to_owned() };
    let rewrite = UrlRewrite { path: Some(path), ..UrlRewrite::default() };
    let world = World::of(with_filters(vec![RequestFilter::UrlRewrite(Arc::new(rewrite))]));
    world.routed("GET /app/x?y=1", |routed, result| {
        assert!(result.is_ok());
        assert_eq!(routed.rewritten.as_ref().unwrap().target.as_deref(), Some(&b"/new/x?y=1"[..]));
        assert_eq!(routed.client_path(), b"/app/x", "the request itself stays as it came");
    });
}

#[test]
fn a_traced_route_continues_a_trace_that_is_trusted() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let sampler = Sampler { share: TraceShare::NONE, follows_parent: true };
    for (trusts_client, continues) in [(true, true), (false, false)] {
        let tracing = Arc::new(Tracing { operation: None, trusts_client, sampler });
        let world = World::of(Route { tracing: Some(tracing), ..route_to(TWO) });
        world.routed(&format!("GET /\ntraceparent: {PARENT}"), |routed, _| {
            let trace = routed.trace.as_ref().unwrap();
            assert_eq!(trace.traceparent[..36] == PARENT.as_bytes()[..36], continues);
            assert_eq!(trace.context.is_sampled(), continues);
        });
    }
}

#[test]
fn a_request_whose_time_is_up_fails_by_that() {
    for (request, expected) in [
        (None, Reason::NoEndpoints),
        (Some(Duration::from_secs(60)), Reason::NoEndpoints),
        (Some(Duration::ZERO), Reason::UpstreamReadTimeout),
    ] {
        let timeouts = Timeouts { request, ..Timeouts::default() };
        let world = World::of(route(
            "/",
            Action::Forward(model::Forward { timeouts: timeouts.into(), ..forward(TWO) }),
        ));
        assert_eq!(world.routed("GET /", |routed, _| routed.late_or(Reason::NoEndpoints)), expected);
    }
}
