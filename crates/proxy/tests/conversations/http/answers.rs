//! Answers without an endpoint: routes that respond, filters, faults.

use std::sync::Arc;

use model::log::{Escape, Format};
use model::template::Template;
use model::{
    Access, Action, AddressSet, BlockedHeaders, Conditions, DirectResponse, Expression, LabelTexts, Labels,
    ListedValue, Networks, PathMatch, RequestFilter, RequestFilters, Route, TlsRedirect,
};
use testkit::Ending;

use super::{GET, POST, forward, route};
use crate::world::{World, web};

fn responding(status: u16, body: &str) -> World {
    World::http(&[], |model| {
        let body = body.to_owned();
        route(model, |route| route.action = Action::Respond(Box::new(DirectResponse::new(status, body))));
    })
}

#[test]
fn a_route_may_answer_itself_and_the_connection_goes_on() {
    let world = responding(403, "not for you\n");
    let mut client = world.http_client();
    // The second request comes along with the body of the first, which is passed over.
    client.send([POST, GET].concat());
    for _ in 0..2 {
        let response = client.read_response();
        assert_eq!(response.said(), (403, "not for you\n"));
        assert_eq!(response.header("Connection"), None);
    }
}

#[test]
fn an_answer_to_head_has_a_length_and_no_body() {
    let world = responding(200, "twelve bytes");
    let mut client = world.http_client();
    client.send("HEAD /a HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert_eq!(client.read_response_to_head().header("Content-Length").as_deref(), Some("12"));
    client.send(GET);
    assert_eq!(client.read_response().said(), (200, "twelve bytes"));
}

#[test]
fn an_answer_before_the_body_has_come_ends_the_connection() {
    let world = responding(200, "");
    let mut client = world.http_client();
    client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 400000\r\n\r\nbody");
    let response = client.read_response();
    assert_eq!((response.said(), response.header("Connection").as_deref()), ((200, ""), Some("close")));
    client.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn a_client_of_http_1_0_is_told_that_the_connection_stays() {
    let world = responding(200, "x");
    let mut client = world.http_client();
    client.send("GET /a HTTP/1.0\r\nHost: web.test\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.read_response().header("Connection").as_deref(), Some("keep-alive"));
    client.send("GET /a HTTP/1.0\r\nHost: web.test\r\n\r\n");
    assert_eq!(client.read_response().header("Connection").as_deref(), Some("close"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn what_closes_a_route_comes_before_redirects_and_lists_of_clients_after_them() {
    let redirect = TlsRedirect {
        status: 308,
        believes_hops: false,
        only_for: None,
        keep_trailing_slash: true,
        port: None,
    };
    let denied = Some(Arc::new(AddressSet::new(&["0.0.0.0/0".parse().unwrap()])));
    let networks = Some(Networks { denied, ..Networks::default() });
    let listed = Access { networks, ..Access::default() };
    let closed = Access { unavailable: Some("auth-url".to_owned()), ..listed.clone() };
    for (access, status) in [(listed, 308), (closed, 503)] {
        let world = World::http(&[], |model| {
            route(model, |route| {
                let redirect = RequestFilter::TlsRedirect(redirect.clone());
                route.access = Some(Box::new(access));
                route.request_filters = RequestFilters::new(vec![redirect]).unwrap();
            });
        });
        let response = world.http_client().ask(GET);
        assert_eq!(response.status, status);
        let location = (status == 308).then_some("https://web.test/a");
        assert_eq!(response.header("Location").as_deref(), location);
    }
}

#[test]
fn a_route_with_conditions_takes_only_requests_that_comply() {
    let world = World::http(&[], |model| {
        let respond = |status| Action::Respond(Box::new(DirectResponse::new(status, "")));
        route(model, |route| route.action = respond(200));
        let conditions = Conditions { method: Some("POST".to_owned()), ..Conditions::default() };
        let other = Route::new(PathMatch::root(), respond(201), Arc::default());
        let other = Route { conditions: Some(Box::new(conditions)), ..other };
        web(model, |host| host.routes.push(Arc::new(other)));
    });
    assert_eq!(world.http_client().ask(POST).status, 201);
    assert_eq!(world.http_client().ask(GET).status, 200);
}

#[test]
fn a_host_without_endpoints_is_not_an_unknown_one() {
    for unknown_hosts in [false, true] {
        let world = World::http(&[], |model| model.settings.access_log.unknown_hosts = unknown_hosts);
        assert_eq!(world.http_client().ask(GET).status, 503);
        assert_eq!(world.http_client().get("other.test", "/a").status, 404);
        assert_eq!(world.http_client().get("other.test", "/healthz").status, 200);
        let log = world.stop();
        assert!(log.contains("\"GET /a HTTP/1.1\" 503") && !log.contains("/healthz"), "{log}");
        assert_eq!(log.contains("\"GET /a HTTP/1.1\" 404"), unknown_hosts, "{log}");
    }
}

#[test]
fn a_fault_has_its_reason_in_the_log_the_metrics_and_for_some_clients_the_response() {
    for (network, is_named) in [("127.0.0.0/8", true), ("192.0.2.0/24", false)] {
        let world = World::http(&[], |model| {
            let networks = AddressSet::new(&[network.parse().unwrap()]);
            model.settings.reason_header = Some(Arc::new(networks));
            let format = "$status $forebay_reason";
            model.settings.access_log.format = Format::parse(format, Escape::Default).unwrap();
            web(model, |host| {
                let labels = Labels::from(LabelTexts {
                    namespace: "shop".to_owned(),
                    object: "web".to_owned(),
                    ..LabelTexts::default()
                });
                let respond = Action::Respond(Box::new(DirectResponse::new(200, "")));
                let path = PathMatch::exact("/fixed").unwrap();
                host.routes.push(Arc::new(Route::new(path, respond, Arc::new(labels))));
            });
        });
        let mut client = world.http_client();
        let refused = client.ask(GET);
        let reason = refused.header("X-Forebay-Reason");
        assert_eq!((refused.status, reason.as_deref()), (503, is_named.then_some("no_endpoints")));
        let fixed = client.get("web.test", "/fixed");
        assert_eq!((fixed.status, fixed.header("X-Forebay-Reason")), (200, None));
        let malformed = world.http_client().ask("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        let reason = malformed.header("X-Forebay-Reason");
        assert_eq!((malformed.status, reason.as_deref()), (400, is_named.then_some("duplicate_host")));
        let labels = [("status", "503"), ("reason", "no_endpoints")];
        world.await_metric("forebay_route_faults_total", &labels, 1);
        assert_eq!(world.stop(), "503 no_endpoints\n200 -\n400 duplicate_host\n");
    }
}

#[test]
fn the_redirect_of_the_root_comes_first_and_the_length_of_a_body_before_what_closes_a_route() {
    let world = World::http(&[], |model| {
        route(model, |route| {
            let closed = Access { unavailable: Some("auth-url".to_owned()), ..Access::default() };
            route.access = Some(Box::new(closed));
            let app_root = RequestFilter::AppRoot(Template::parse("/start").unwrap());
            route.request_filters = RequestFilters::new(vec![app_root]).unwrap();
        });
        forward(model, |forward| forward.body_bytes_max = Some(3).into());
    });
    let response = world.http_client().ask(&GET.replace("/a", "/"));
    assert_eq!(
        (response.status, response.header("Location").as_deref()),
        (302, Some("http://web.test/start"))
    );
    assert_eq!(world.http_client().ask(POST).status, 413);
    assert_eq!(world.http_client().ask(GET).status, 503);
}

#[test]
fn clients_that_are_blocked_by_what_they_say_get_nothing_at_all() {
    let pattern = |text| ListedValue::Pattern(Expression::case_sensitive(text).unwrap());
    let world = World::http(&[], |model| {
        let app_root = RequestFilter::AppRoot(Template::parse("/start").unwrap());
        route(model, |route| route.request_filters = RequestFilters::new(vec![app_root]).unwrap());
        model.settings.blocked_headers = Some(Box::new(BlockedHeaders {
            user_agents: vec![ListedValue::Exact("Evil/1.0".to_owned()), pattern("Bot")],
            referers: vec![ListedValue::Pattern(Expression::anywhere("spam\\.test").unwrap())],
        }));
    });
    let ask = |host: &str, path: &str, field: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n\r\n");
        world.http_client().ask(&request).status
    };
    for field in ["User-Agent: evil/1.0", "user-agent: a Bot/2", "Referer: http://SPAM.test/"] {
        for (host, path) in
            [("web.test", "/"), ("web.test", "/a"), ("other.test", "/a"), ("other.test", "/healthz")]
        {
            assert_eq!(ask(host, path, field), 403, "{host} {path} {field}");
        }
    }
    for field in ["User-Agent: evil/1.0.1", "User-Agent: a bot", "Referer: http://web.test/", "X-A: Bot"] {
        assert_eq!(ask("web.test", "/", field), 302, "{field}");
        assert_eq!(ask("other.test", "/healthz", field), 200, "{field}");
    }
}

#[test]
fn a_pipeline_that_is_answered_here_lets_the_clock_go_on() {
    let world = World::http(&[], |model| {
        let body = String::new();
        route(model, |route| route.action = Action::Respond(Box::new(DirectResponse::new(200, body))));
        model.settings.access_log.format = Format::parse("$msec", Escape::Default).unwrap();
    });
    let mut client = world.http_client();
    let count = 900;
    client.send(GET.repeat(count));
    for _ in 0..count {
        assert_eq!(client.read_response().status, 200);
    }
    let log = world.stop();
    let mut times: Vec<_> = log.lines().collect();
    assert_eq!(times.len(), count);
    times.dedup();
    assert!(times.len() > 3, "the clock stood still: {times:?}");
}
