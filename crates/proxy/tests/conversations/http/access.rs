//! Checks of the clients of a route.

use std::num::NonZeroU32;
use std::sync::Arc;

use model::template::Template;
use model::{
    Access, AddressSet, ClientLimits, Cors, Networks, Origin, Origins, QuotaWindow, Rate, RequestQuota,
    ResponseFilter, ResponseFilters,
};
use testkit::Upstream;

use super::{GET, OK, await_fault, route};
use crate::world::World;

fn addresses(networks: &[&str]) -> Arc<AddressSet> {
    let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
    Arc::new(AddressSet::new(&networks))
}

fn guarded(upstream: &Upstream, access: Access) -> World {
    World::http(&[upstream.address()], |model| {
        route(model, |route| route.access = Some(Box::new(access)));
    })
}

fn only(networks: Networks) -> Access {
    Access { networks: Some(networks), ..Access::default() }
}

#[test]
fn clients_are_let_in_by_their_addresses() {
    let here = || Some(addresses(&["127.0.0.0/8"]));
    let elsewhere = || Some(addresses(&["10.0.0.0/8", "::/0"]));
    for (allowed, denied, is_let_in) in [
        (here(), None, true),
        (elsewhere(), None, false),
        (None, here(), false),
        (None, elsewhere(), true),
        (here(), here(), false),
        (here(), elsewhere(), true),
    ] {
        let upstream = Upstream::new();
        let world = guarded(&upstream, only(Networks { denied, allowed, ..Networks::default() }));
        let mut client = world.http_client();
        client.send(GET);
        if is_let_in {
            upstream.accept_request().0.send(OK);
            assert_eq!(client.read_response().said(), (200, "ok"));
        } else {
            assert_eq!(client.read_response().status, 403);
            await_fault(&world, "address_denied");
            assert!(upstream.is_left_alone());
        }
    }
}

#[test]
fn without_endpoints_nobody_is_asked_who_he_is() {
    let access = only(Networks { denied: Some(addresses(&["0.0.0.0/0"])), ..Networks::default() });
    let world = World::http(&[], |model| route(model, |route| route.access = Some(Box::new(access))));
    assert_eq!(world.http_client().ask(GET).status, 503);
}

#[test]
fn who_is_blocked_everywhere_learns_nothing_of_hosts() {
    let world = World::http(&[], |model| {
        model.settings.blocked =
            Some(Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() });
    });
    assert_eq!(world.http_client().get("other.test", "/a").status, 403);
    assert_eq!(world.http_client().get("other.test", "/healthz").status, 200);
}

// === CORS ===

const ALLOWED: &str = "Access-Control-Allow-Origin";

fn sharing(upstream: &Upstream, origins: Origins) -> World {
    let cors = Cors {
        origins,
        credentials: true,
        methods: "GET".to_owned(),
        headers: "X-A".to_owned(),
        max_age: "7".to_owned(),
        expose: Some("X-B".to_owned()),
    };
    World::http(&[upstream.address()], |model| {
        route(model, |route| {
            route.response_filters =
                ResponseFilters::new(vec![ResponseFilter::Cors(Arc::new(cors))]).unwrap();
            let networks = Networks { allowed: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
            route.access = Some(Box::new(only(networks)));
        });
    })
}

fn options(origin: &str) -> String {
    format!("OPTIONS /a HTTP/1.1\r\nHost: web.test\r\n{origin}\r\n")
}

#[test]
fn preflights_are_answered_here_and_need_no_permission() {
    let upstream = Upstream::new();
    let mut world = sharing(&upstream, Origins::Any);
    world.change(|model| {
        let networks = Networks { denied: Some(addresses(&["0.0.0.0/0"])), ..Networks::default() };
        route(model, |route| route.access = Some(Box::new(only(networks))));
    });
    for origin in ["", "Origin: https://a.test\r\n"] {
        let mut client = world.http_client();
        client.send(options(origin));
        let head = client.read_head();
        assert!(head.starts_with("HTTP/1.1 204 No Content\r\n"), "{head}");
        for field in [
            "Content-Type: text/plain charset=UTF-8",
            "Content-Length: 0",
            "Access-Control-Allow-Origin: *",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Methods: GET",
            "Access-Control-Allow-Headers: X-A",
            "Access-Control-Max-Age: 7",
            "Access-Control-Expose-Headers: X-B",
        ] {
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
        }
        let refused = client.ask(GET);
        assert_eq!(
            (refused.status, refused.header(ALLOWED).as_deref()),
            (403, Some("*")),
            "refusals have them"
        );
    }
}

#[test]
fn only_listed_origins_are_told_of() {
    let (scheme, rest) = ("https://".to_owned(), ".a.test".to_owned());
    let upstream = Upstream::new();
    let world = sharing(&upstream, Origins::Listed(vec![Origin { scheme, is_wildcard: true, rest }].into()));
    let ours = "HTTP/1.1 200 OK\r\naccess-control-allow-origin: own\r\nContent-Length: 2\r\n\r\nok";
    let mut client = world.http_client();
    client.send(options("Origin: https://X.a.test\r\n"));
    let response = client.read_response();
    assert_eq!((response.status, response.header(ALLOWED).as_deref()), (204, Some("https://X.a.test")));
    let mut peer = None;
    for (origin, told) in [
        ("", "own"),
        ("Origin: https://b.test\r\n", "own"),
        ("Origin: https://x.a.test\r\n", "https://x.a.test"),
    ] {
        let method = if told == "own" { "OPTIONS" } else { "GET" };
        client.send(options(origin).replace("OPTIONS", method));
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.read_head();
        peer.send(ours);
        assert_eq!(client.read_response().header(ALLOWED).as_deref(), Some(told), "{origin}");
    }
}

// === limits ===

fn limits() -> ClientLimits {
    ClientLimits {
        zone: 1,
        rates: Vec::new(),
        connections: None,
        key: None,
        exempt: None,
        rate_status: 429,
        connections_status: 503,
    }
}

#[test]
fn a_client_may_ask_only_so_often_and_is_counted_before_it_is_known() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    let rates = vec![Rate { per_minute: 1, burst: 2 }];
    let access = |limits| Access { limits: Some(limits), ..only(networks.clone()) };
    let world = guarded(&upstream, access(ClientLimits { rates: rates.clone(), ..limits() }));
    let mut client = world.http_client();
    let statuses: Vec<u16> = (0..5).map(|_| client.ask(GET).status).collect();
    assert_eq!(statuses, [403, 403, 403, 429, 429]);
    world.await_metric("forebay_faults_total", &[("reason", "rate_limit")], 2);
    let exempt = Some(addresses(&["127.0.0.0/8"]));
    let world = guarded(&upstream, access(ClientLimits { rates, exempt, ..limits() }));
    let mut client = world.http_client();
    assert!((0..5).all(|_| client.ask(GET).status == 403));
}

#[test]
fn a_client_may_be_told_by_another_value_than_its_address_and_is_not_limited_without_it() {
    let upstream = Upstream::new();
    let key = Some(Template::parse("$http_x_tenant").unwrap());
    let limits = ClientLimits { rates: vec![Rate { per_minute: 1, burst: 1 }], key, ..limits() };
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    let world = guarded(&upstream, Access { limits: Some(limits), ..only(networks) });
    let mut client = world.http_client();
    let mut statuses = |tenant: &str| {
        let ask = format!("GET /a HTTP/1.1\r\nHost: web.test\r\nX-Tenant: {tenant}\r\n\r\n");
        [(); 3].map(|()| client.ask(&ask).status)
    };
    assert_eq!(statuses("blue"), [403, 403, 429]);
    assert_eq!(statuses("green"), [403, 403, 429]);
    assert_eq!(statuses(""), [403; 3]);
}

/// Spellings of a request of which an endpoint may read `blue` as the value of each variable.
fn spellings(number: usize) -> String {
    let junk = format!("junk{number}");
    let (target, fields) = match number % 10 {
        0 => (String::new(), "X-Tenant: blue\r\n".to_owned()),
        1 => (String::new(), format!("X-Tenant: {junk}\r\nx-tenant: blue\r\n")),
        2 => (String::new(), format!("X-Tenant: blue\r\nX-TENANT: {junk}\r\n")),
        3 => (format!("?USER={junk}&user=blue"), String::new()),
        4 => (format!("?user={junk}&us%65r=%62lue"), String::new()),
        5 => (format!("?a={junk};user=blue&user[]={junk}"), String::new()),
        6 => (String::new(), format!("Cookie: ID={junk}; id=blue\r\n")),
        7 => (String::new(), format!("Cookie: id={junk}\r\nCookie: id=\"\\142lue\"\r\n")),
        8 => (format!("?user={junk}"), format!("X-Tenant: {junk}\r\nX-Tenant: blue\r\n")),
        _ => (String::new(), format!("Cookie: %69d=bl%75e; id={junk}\r\n")),
    };
    format!("GET /a{target} HTTP/1.1\r\nHost: web.test\r\n{fields}\r\n")
}

#[test]
fn a_request_counts_for_each_value_that_an_endpoint_may_read() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    for (variable, numbers) in [("http_x_tenant", 0..3), ("arg_user", 3..6), ("cookie_id", 6..8)] {
        let key = Some(Template::parse(&format!("${variable}")).unwrap());
        let rates = vec![Rate { per_minute: 1, burst: 4 }];
        let of_address = ClientLimits { rates, key: key.clone(), ..limits() };
        let by_key = RequestQuota { key, ..quota(&[(5, 3600)]) };
        for access in [
            Access { limits: Some(of_address), ..only(networks.clone()) },
            Access { quota: Some(by_key), ..only(networks.clone()) },
        ] {
            let world = guarded(&upstream, access);
            let mut client = world.http_client();
            let mut ask = |number| client.ask(&spellings(number)).status;
            let all = (0..100).filter(|number| numbers.contains(&(number % 10)));
            let statuses: Vec<u16> = all.map(&mut ask).collect();
            assert!(statuses[..5].iter().all(|&status| status == 403), "{variable}: {statuses:?}");
            assert!(statuses[5..].iter().all(|&status| status == 429), "{variable}: {statuses:?}");
        }
    }
}

#[test]
fn all_combinations_of_several_values_count_and_too_many_are_refused() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    let key = Some(Template::parse("$http_x_tenant/$arg_user").unwrap());
    let by_key = RequestQuota { key, ..quota(&[(1, 3600)]) };
    let world = guarded(&upstream, Access { quota: Some(by_key), ..only(networks) });
    let ask = |target: &str, tenants: &[&str]| {
        let fields: String = tenants.iter().flat_map(|tenant| ["X-Tenant: ", tenant, "\r\n"]).collect();
        let head = format!("GET /a{target} HTTP/1.1\r\nHost: web.test\r\n{fields}\r\n");
        world.http_client().ask(&head).status
    };
    assert_eq!(ask("?user=ann", &["blue"]), 403);
    assert_eq!(ask("?user=junk1&user=ann", &["blue", "junk2"]), 429);
    assert_eq!(ask("?user=ann&user=junk1", &["junk2", "blue"]), 429);
    assert_eq!(ask("?user=eve", &["1", "1", "1", "1", "1", "1", "1", "1", "1"]), 403, "all the same");
    let many = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    assert_eq!(ask("?user=bob", &many[..8]), 403);
    assert_eq!(ask("?user=zoe", &many), 429);
}

#[test]
fn a_value_under_another_spelling_of_the_name_counts_as_none_too() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    for variable in ["http_x_tenant", "arg_user", "cookie_id"] {
        let key = Some(Template::parse(&format!("of $host: ${variable}")).unwrap());
        let by_key = RequestQuota { key, ..quota(&[(1, 3600)]) };
        let world = guarded(&upstream, Access { quota: Some(by_key), ..only(networks.clone()) });
        let statuses = [1, 2].map(|number| {
            let head = format!(
                "GET /a?USER=a{number} HTTP/1.1\r\nHost: web.test\r\nX.Tenant: a{number}\r\nCookie: ID=a{number}\r\n\r\n"
            );
            world.http_client().ask(&head).status
        });
        assert_eq!(statuses, [403, 429], "{variable}");
    }
}

/// A subscriber of IPv6 has 2^64 addresses.
#[test]
fn a_client_of_ipv6_counts_by_its_network() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["::/0"])), ..Networks::default() };
    let rates = vec![Rate { per_minute: 1, burst: 0 }];
    let exempt = Some(addresses(&["2001:db8:1:2::5/128"]));
    let of_address = ClientLimits { rates, exempt: exempt.clone(), ..limits() };
    let by_address = RequestQuota { exempt, ..quota(&[(1, 3600)]) };
    for access in [
        Access { limits: Some(of_address), ..only(networks.clone()) },
        Access { quota: Some(by_address), ..only(networks.clone()) },
    ] {
        let world = World::http(&[upstream.address()], |model| {
            model.settings.forwarded.use_incoming = true;
            route(model, |route| route.access = Some(Box::new(access)));
        });
        let ask = |client: &str| {
            let head = format!("GET /a HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-For: {client}\r\n\r\n");
            world.http_client().ask(&head).status
        };
        let clients = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:3::1", "2001:db8:1:2::5"];
        assert_eq!(clients.map(ask), [403, 429, 403, 403]);
    }
}

fn quota(windows: &[(u32, u32)]) -> RequestQuota {
    let number = |number| NonZeroU32::new(number).unwrap();
    let window = |&(requests, seconds)| QuotaWindow { requests: number(requests), seconds: number(seconds) };
    let windows = windows.iter().map(window).collect();
    RequestQuota { zone: 1, windows, key: None, exempt: None, is_shared: false }
}

#[test]
fn clients_are_told_what_is_left_of_their_requests_and_when_to_come_again() {
    let upstream = Upstream::new();
    let quota = Some(quota(&[(2, 3600), (100, 86_400)]));
    let world = guarded(&upstream, Access { quota, ..Access::default() });
    let mut client = world.http_client();
    for left in ["1", "0"] {
        client.send(GET);
        let (mut peer, head) = upstream.accept_request();
        assert!(!head.to_ascii_lowercase().contains("ratelimit"), "{head}");
        peer.send(
            "HTTP/1.1 200 OK\r\nRateLimit: \"own\";r=7\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        );
        let response = client.read_response();
        assert_eq!(
            response.header("ratelimit-policy").as_deref(),
            Some(r#""2/3600s";q=2;w=3600, "100/86400s";q=100;w=86400"#)
        );
        let told = response.header("ratelimit").unwrap();
        assert!(told.starts_with(r#""own";r=7, "#), "what the endpoint says stays: {told}");
        assert!(told.contains(&format!(r#""2/3600s";r={left};t="#)), "{told}");
    }
    let refused = client.ask(GET);
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    // Half of the next hour, when one of the two is forgotten.
    assert!((5300..=5401).contains(&seconds), "{seconds}");
    assert!(refused.header("ratelimit").unwrap().starts_with(r#""2/3600s";r=0;t=5"#));
    world.await_metric("forebay_faults_total", &[("reason", "rate_limit")], 1);
}

#[test]
fn all_with_one_value_are_counted_together_and_who_has_none_or_is_exempt_is_not() {
    let upstream = Upstream::new();
    let networks = Networks { denied: Some(addresses(&["127.0.0.1/32"])), ..Networks::default() };
    let key = Some(Template::parse("$http_x_tenant$arg_user").unwrap());
    let by_key = RequestQuota { key, ..quota(&[(1, 60)]) };
    let world = guarded(&upstream, Access { quota: Some(by_key), ..only(networks.clone()) });
    let statuses = |target: &str, tenant: &str| {
        let ask = format!("GET {target} HTTP/1.1\r\nHost: web.test\r\nX-Tenant: {tenant}\r\n\r\n");
        [(); 2].map(|()| world.http_client().ask(&ask).status)
    };
    assert_eq!(statuses("/a", "blue"), [403, 429]);
    assert_eq!(statuses("/b?user=ann", ""), [403, 429]);
    assert_eq!(statuses("/b", "blue"), [429, 429]);
    assert_eq!(statuses("/a", ""), [403, 403]);
    let exempt = Some(addresses(&["127.0.0.0/8"]));
    let quota = Some(RequestQuota { exempt, ..quota(&[(1, 60)]) });
    let world = guarded(&upstream, Access { quota, ..only(networks) });
    assert!((0..3).all(|_| world.http_client().ask(GET).status == 403));
}

#[test]
fn a_client_may_have_only_so_many_requests_at_work() {
    let upstream = Upstream::new();
    let limits = Some(ClientLimits { connections: Some(1), ..limits() });
    let world = guarded(&upstream, Access { limits, ..Access::default() });
    let mut first = world.http_client();
    first.send(GET);
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(world.http_client().ask(GET).status, 503);
    peer.send(OK);
    assert_eq!(first.read_response().said(), (200, "ok"));
    first.send(GET);
    peer.read_head();
    peer.send(OK);
    assert_eq!(first.read_response().said(), (200, "ok"), "the place has been given back");
}
