//! Filters of the Gateway API's routes for requests and responses: headers, paths, hosts, redirects, CORS.

use std::sync::Arc;

use model::{
    Action, Allowed, Backend, BackendFilters, BackendTarget, Backends, ClusterId, CrossOrigin,
    DirectResponse, Filters, HeaderChanges, HostName, Model, OriginPattern, PathChange, PathMatch,
    RequestFilter, RequestFilters, RequestRedirect, ResponseFilter, ResponseFilters, Route, Scheme, Split,
    UrlRewrite, Wider,
};
use testkit::{Canned, Response, Upstream};

use super::{GET, OK, await_fault, forward, route};
use crate::world::{World, cluster, host, web};

fn changes(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> Arc<HeaderChanges> {
    let owned = |list: &[(&str, &str)]| -> Vec<_> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let remove = remove.iter().map(|name| (*name).to_owned()).collect();
    Arc::new(HeaderChanges::new(owned(set), owned(add), remove).unwrap())
}

fn prefix(from: &str, to: &str) -> PathChange {
    PathChange::Prefix { from: from.to_owned(), to: to.to_owned() }
}

fn filtered(upstream: &Upstream, filters: Vec<RequestFilter>) -> World {
    World::http(&[upstream.address()], |model| {
        route(model, |route| route.request_filters = RequestFilters::new(filters).unwrap());
    })
}

/// The request as an endpoint gets it, and the answer as the client gets it.
fn exchanged(world: &World, upstream: &Upstream, request: &str, answer: &str) -> (String, Response) {
    let mut client = world.http_client();
    client.send(request);
    let (mut peer, head) = upstream.accept_request();
    peer.send(answer);
    (head, client.read_response())
}

/// The values of a header, in their order.
fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn headers_of_requests_are_set_added_and_removed() {
    let upstream = Upstream::new();
    let filter = changes(&[("X-Set", "ours")], &[("X-Add", "ours"), ("X-New", "ours")], &["x-remove"]);
    let world = filtered(&upstream, vec![RequestFilter::Headers(filter)]);
    let request = GET.replace(
        "\r\n\r\n",
        "\r\nx-set: theirs\r\nX-Set: too\r\nX-Add: theirs\r\nX-Remove: theirs\r\nX-Stays: theirs\r\n\r\n",
    );
    let (head, response) = exchanged(&world, &upstream, &request, OK);
    assert_eq!(response.said(), (200, "ok"));
    for (name, expected) in [
        ("x-set", vec!["ours"]),
        ("x-add", vec!["theirs", "ours"]),
        ("x-new", vec!["ours"]),
        ("x-remove", vec![]),
        ("x-stays", vec!["theirs"]),
    ] {
        assert_eq!(values(&head, name), expected, "{name}: {head}");
    }
}

#[test]
fn a_request_has_one_host_whoever_sets_it() {
    let upstream = Upstream::new();
    let headers = RequestFilter::Headers(changes(&[("host", "of-headers.test")], &[], &[]));
    let world = filtered(&upstream, vec![headers.clone()]);
    let (head, _) = exchanged(&world, &upstream, GET, OK);
    assert_eq!(values(&head, "host"), ["of-headers.test"], "{head}");
    let rewrite = UrlRewrite { host: model::HeadText::new("of-rewrite.test").ok(), path: None };
    let world = filtered(&upstream, vec![headers, RequestFilter::UrlRewrite(Arc::new(rewrite))]);
    let (head, _) = exchanged(&world, &upstream, GET, OK);
    assert_eq!(values(&head, "host"), ["of-rewrite.test"], "{head}");
    assert_eq!(values(&head, "x-forwarded-host"), ["web.test"], "{head}");
    assert!(head.starts_with("GET /a HTTP/1.1\r\n"), "{head}");
}

#[test]
fn paths_are_rewritten_and_queries_stay() {
    let upstream = Upstream::new();
    for (path, asked, expected) in [
        (prefix("/a", "/b"), "/a/x?q=/a", "/b/x?q=/a"),
        (prefix("/a", "/"), "/a", "/"),
        (prefix("/a", "/b"), "/a/%7Bx%7D?", "/b/%7Bx%7D?"),
        (PathChange::Full("/one".to_owned()), "/a/x?q", "/one?q"),
    ] {
        let rewrite = UrlRewrite { host: None, path: Some(path) };
        let world = filtered(&upstream, vec![RequestFilter::UrlRewrite(Arc::new(rewrite))]);
        let request = GET.replace("/a ", &format!("{asked} "));
        let (head, _) = exchanged(&world, &upstream, &request, OK);
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\r\n")), "{asked}: {head}");
    }
}

#[test]
fn a_redirect_names_what_is_other() {
    let upstream = Upstream::new();
    let redirect = RequestRedirect {
        status: 301,
        scheme: Some(Scheme::Https),
        host: model::HeadText::new("example.org").ok(),
        port: Some(8443),
        listener_port: 80,
        path: Some(prefix("/a", "/b")),
    };
    let world = filtered(&upstream, vec![RequestFilter::RequestRedirect(Box::new(redirect))]);
    let response = world.http_client().ask(&GET.replace("/a ", "/a/c?d "));
    assert_eq!(response.status, 301);
    assert_eq!(response.header("Location").unwrap(), "https://example.org:8443/b/c?d");
    assert!(upstream.is_left_alone());
}

#[test]
fn headers_of_responses_are_set_added_and_removed() {
    let upstream = Upstream::new();
    let filter = changes(&[("X-Set", "ours")], &[("X-Add", "ours"), ("Set-Cookie", "b=2")], &["x-remove"]);
    let world = World::http(&[upstream.address()], |model| {
        let filters = Filters::new(vec![ResponseFilter::Headers(filter)]).unwrap();
        route(model, |route| route.response_filters = filters);
    });
    let answer = OK.replace(
        "\r\n\r\n",
        "\r\nX-Set: theirs\r\nX-Add: theirs\r\nX-Remove: theirs\r\nSet-Cookie: a=1\r\n\r\n",
    );
    let (_, response) = exchanged(&world, &upstream, GET, &answer);
    let of = |name: &str| -> Vec<_> {
        let named = response.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!((of("x-set"), of("x-add"), of("x-remove")), (vec!["ours"], vec!["theirs", "ours"], vec![]));
    assert_eq!(of("set-cookie"), ["a=1", "b=2"]);
}

#[test]
fn what_is_done_for_one_backend_is_done_after_what_is_done_for_all() {
    let upstream = Upstream::new();
    let of_backend = BackendFilters {
        rewrite: Some(Box::new(UrlRewrite {
            host: model::HeadText::new("one.test").ok(),
            path: Some(prefix("/a", "/one")),
        })),
        request_headers: Some(changes(&[("X-Set", "backend")], &[("X-Add", "backend")], &["X-Route"])),
        response_headers: Some(changes(&[("X-Set", "backend"), ("X-Own", "backend")], &[], &[])),
        ..BackendFilters::default()
    };
    let of_route = changes(&[("X-Set", "route"), ("X-Route", "route")], &[("X-Add", "route")], &[]);
    let rewrite =
        UrlRewrite { host: model::HeadText::new("all.test").ok(), path: Some(prefix("/a", "/all")) };
    let world = World::http(&[upstream.address()], |model| {
        let backend = Backend {
            target: BackendTarget::Cluster(ClusterId(0)),
            weight: 1,
            filters: Some(Arc::new(of_backend)),
        };
        forward(model, |forward| forward.backends = Backends::Split(Split::new(vec![backend]).unwrap()));
        route(model, |route| {
            let filters =
                vec![RequestFilter::Headers(of_route), RequestFilter::UrlRewrite(Arc::new(rewrite))];
            route.request_filters = RequestFilters::new(filters).unwrap();
            let changed = ResponseFilter::Headers(changes(&[("X-Set", "route")], &[], &[]));
            route.response_filters = ResponseFilters::new(vec![changed]).unwrap();
        });
    });
    let (head, response) = exchanged(&world, &upstream, &GET.replace("/a ", "/a/x?q "), OK);
    assert!(head.starts_with("GET /one/x?q HTTP/1.1\r\nHost: one.test\r\n"), "{head}");
    assert_eq!(values(&head, "x-set"), ["backend"], "{head}");
    assert_eq!(values(&head, "x-add"), ["route", "backend"], "{head}");
    assert_eq!(values(&head, "x-route"), [""; 0], "{head}");
    assert_eq!(response.header("X-Set").as_deref(), Some("route"), "the route's are the outer ones");
    assert_eq!(response.header("X-Own").as_deref(), Some("backend"));
}

fn cross_origin(model: &mut Model, change: impl FnOnce(&mut CrossOrigin)) {
    let mut cors = CrossOrigin {
        origins: vec![OriginPattern::parse("https://*.bar.com").unwrap()],
        credentials: true,
        methods: Allowed::of(&["GET", "OPTIONS"]).unwrap(),
        headers: Allowed::of(&["x-header-1"]).unwrap(),
        expose: Allowed::of(&["x-header-3"]).unwrap(),
        max_age: 3600,
    };
    change(&mut cors);
    let filters = ResponseFilters::new(vec![ResponseFilter::CrossOrigin(Arc::new(cors))]).unwrap();
    route(model, |route| route.response_filters = filters);
}

fn preflight(origin: &str) -> String {
    format!(
        "OPTIONS /a HTTP/1.1\r\nHost: web.test\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: GET\r\n\r\n"
    )
}

#[test]
fn preflights_are_answered_here_whoever_asks() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| cross_origin(model, |_| ()));
    let mut client = world.http_client();
    let response = client.ask(&preflight("https://xpto.www.bar.com"));
    assert_eq!(response.status, 204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "https://xpto.www.bar.com"),
        ("Access-Control-Allow-Methods", "GET, OPTIONS"),
        ("Access-Control-Allow-Headers", "x-header-1"),
        ("Access-Control-Expose-Headers", "x-header-3"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Max-Age", "3600"),
    ] {
        assert_eq!(response.header(name).as_deref(), Some(value), "{name}");
    }
    let response = client.ask(&preflight("https://foobar.com"));
    assert_eq!((response.status, response.header("Access-Control-Allow-Origin")), (204, None));
    assert!(upstream.is_left_alone());
}

#[test]
fn endpoints_say_nothing_of_other_origins_in_our_place() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| cross_origin(model, |_| ()));
    let answer = OK.replace("\r\n\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n\r\n");
    let with_origin = |origin: &str| GET.replace("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n"));
    for (origin, expected) in [("https://www.bar.com", Some("https://www.bar.com")), ("https://b", None)] {
        let (_, response) = exchanged(&world, &upstream, &with_origin(origin), &answer);
        assert_eq!(response.header("Access-Control-Allow-Origin").as_deref(), expected, "{origin}");
        assert_eq!(response.said(), (200, "ok"));
    }
}

#[test]
fn an_invalid_backend_keeps_its_share_and_answers_500() {
    let upstream = Upstream::new();
    let mut world = World::http(&[upstream.address()], |model| {
        let backends = vec![Backend::invalid(1), Backend::new(ClusterId(0), 0)];
        forward(model, |forward| forward.backends = Backends::Split(Split::new(backends).unwrap()));
    });
    assert_eq!(world.http_client().ask(GET).status, 500);
    await_fault(&world, "backend_invalid");
    assert!(upstream.is_left_alone());
    world.change(|model| {
        let backends = vec![Backend::invalid(1), Backend::new(ClusterId(0), 1)];
        forward(model, |forward| forward.backends = Backends::Split(Split::new(backends).unwrap()));
    });
    let endpoint = Canned::saying("ok");
    world.change(|model| model.clusters.insert(ClusterId(0), Arc::new(cluster(&[endpoint.address()]))));
    let mut client = world.http_client();
    let failed = (0..200).filter(|_| client.ask(GET).status == 500).count();
    assert!((60..=140).contains(&failed), "{failed}");
    assert_eq!(endpoint.heads().len(), 200 - failed);
}

fn answers(path: &str, body: &str) -> Arc<Route> {
    let fixed = DirectResponse::new(200, body.to_owned());
    Arc::new(Route::new(PathMatch::prefix(path).unwrap(), Action::Respond(Box::new(fixed)), Arc::default()))
}

#[test]
fn a_wider_host_takes_what_the_host_itself_does_not() {
    let upstream = Upstream::new();
    let mut world = World::http(&[upstream.address()], |model| {
        let suffix = HostName::parse_with_suffix("*.test").unwrap();
        web(model, |host| {
            host.routes = vec![answers("/own", "own")];
            host.wider = Wider::boxed(Vec::new(), Some(suffix.clone()));
        });
        let wide = model::Host {
            name: suffix,
            routes: vec![answers("/own", "wide own"), answers("/wide", "wide")],
            wider: Wider::boxed(Vec::new(), Some(HostName::Any)),
            ..host("wide.test")
        };
        let any =
            model::Host { name: HostName::Any, routes: vec![answers("/any", "any")], ..host("any.test") };
        let model::Protocol::Http(hosts) = &mut model.listeners[0].protocol else { panic!("not HTTP") };
        let hosts = Arc::make_mut(hosts);
        for host in [wide, any] {
            hosts.insert(hosts.len(), Arc::new(host));
        }
    });
    let mut client = world.http_client();
    for (path, expected) in [("/own", "own"), ("/wide/x", "wide"), ("/any", "any")] {
        assert_eq!(client.get("web.test", path).said(), (200, expected), "{path}");
    }
    assert_eq!(client.get("web.test", "/none").status, 404);
    assert_eq!(client.get("x.y.test", "/own").said(), (200, "wide own"));
    // Without it the host stands alone.
    world.change(|model| web(model, |host| host.wider = None));
    assert_eq!(client.get("web.test", "/wide").status, 404);
    assert_eq!(client.get("web.test", "/own").said(), (200, "own"));
}
