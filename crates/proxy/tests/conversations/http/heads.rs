//! Heads on their way through: what holds for all of them, and what a route sets.

use std::sync::Arc;

use model::template::Template;
use model::{
    ForwardedHeaders, ForwardedSettings, HeadSettings, HeaderNames, ResponseFilter, ResponseFilters,
    ServerHeader, Settings,
};
use testkit::{Response, Upstream};

use super::{GET, OK, route};
use crate::world::World;

const UPGRADE: &str =
    "GET /a HTTP/1.1\r\nHost: web.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

fn set(headers: &[(&str, &str)]) -> Vec<(String, Template)> {
    headers.iter().map(|(name, text)| ((*name).to_owned(), Template::parse(text).unwrap())).collect()
}

fn with_heads(upstream: &Upstream, heads: HeadSettings) -> World {
    World::http(&[upstream.address()], |model| model.settings.heads = Some(Box::new(heads)))
}

fn with_settings(upstream: &Upstream, change: impl FnOnce(&mut Settings)) -> World {
    World::http(&[upstream.address()], |model| change(&mut model.settings))
}

/// The head that an endpoint gets.
fn told(upstream: &Upstream, world: &World, request: &str) -> String {
    let mut client = world.http_client();
    client.send(request);
    let (mut peer, head) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    head
}

/// All values of a header of a response.
fn values(response: &Response, name: &str) -> String {
    response.header(name).unwrap_or_default()
}

#[test]
fn headers_of_all_responses_are_on_each_of_them_and_replace_the_endpoint_s() {
    let upstream = Upstream::new();
    let of_responses = set(&[
        ("X-All", "$request_method $uri $status"),
        ("Content-Type", "text/ours"),
        ("X-None", "$arg_x"),
    ]);
    let world = with_heads(&upstream, HeadSettings { of_responses, ..HeadSettings::default() });
    let mut client = world.http_client();
    client.send("GET /a?x=1 HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 201 Created\r\nx-all: theirs\r\nContent-Type: theirs\r\nX-None: theirs\r\nContent-Length: 0\r\n\r\n");
    let response = client.read_response();
    assert_eq!(values(&response, "X-All"), "GET /a 201");
    assert_eq!(values(&response, "Content-Type"), "text/ours");
    assert_eq!(values(&response, "X-None"), "1");

    // One whose text comes to nothing is not sent. No Ingress names the host.
    let response = world.http_client().get("other.test", "/b");
    assert_eq!((response.status, values(&response, "X-All")), (404, "GET /b 404".to_owned()));
    assert_eq!(values(&response, "Content-Type"), "text/ours");
    assert_eq!(values(&response, "X-None"), "");

    // Not even the head can be used.
    let response = world.http_client().ask("GET /a HTTP/1.1\r\nHost : web.test\r\n\r\n");
    assert_eq!((response.status, values(&response, "Content-Type")), (400, "text/ours".to_owned()));
}

#[test]
fn headers_of_all_responses_are_on_one_that_changes_the_protocol() {
    let upstream = Upstream::new();
    let of_responses = set(&[("X-All", "1")]);
    let world = with_heads(&upstream, HeadSettings { of_responses, ..HeadSettings::default() });
    let mut client = world.http_client();
    client.send(UPGRADE);
    let (mut peer, _) = upstream.accept_request();
    peer.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-All: 0\r\n\r\n",
    );
    let head = client.read_head();
    assert!(head.contains("\r\nX-All: 1\r\n") && !head.contains("X-All: 0"), "{head}");
    assert!(
        head.contains("\r\nUpgrade: websocket\r\n") && head.contains("\r\nConnection: upgrade\r\n"),
        "{head}"
    );
}

#[test]
fn no_value_ends_its_line() {
    let upstream = Upstream::new();
    let heads = HeadSettings {
        of_responses: set(&[("X-Path", "$uri")]),
        of_requests: set(&[("X-Path", "$uri")]),
        ..HeadSettings::default()
    };
    let world = with_heads(&upstream, heads);
    let mut client = world.http_client();
    client.send("GET /a%0D%0AX-B:%201 HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nX-Path: /a%0D%0AX-B: 1\r\n"), "{head}");
    peer.send(OK);
    let response = client.read_response();
    assert_eq!(values(&response, "X-Path"), "/a%0D%0AX-B: 1");
    assert_eq!(response.header("X-B"), None);
}

#[test]
fn hidden_headers_are_those_of_endpoints() {
    let upstream = Upstream::new();
    let heads = HeadSettings {
        hidden: vec!["X-Powered-By".to_owned(), "x-all".to_owned()],
        of_responses: set(&[("X-All", "ours")]),
        ..HeadSettings::default()
    };
    let world = with_heads(&upstream, heads);
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(
        "HTTP/1.1 200 OK\r\nX-powered-by: php\r\nX-All: theirs\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n",
    );
    let response = client.read_response();
    assert_eq!(response.header("X-Powered-By"), None);
    assert_eq!(
        (values(&response, "X-All"), values(&response, "X-Kept")),
        ("ours".to_owned(), "1".to_owned())
    );
}

#[test]
fn who_serves_is_told_only_where_that_is_wanted() {
    let upstream = Upstream::new();
    let endpoint = "HTTP/1.1 200 OK\r\nServer: theirs\r\nContent-Length: 0\r\n\r\n";
    let anonymous = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (server, of_named, of_anonymous) in [
        (ServerHeader::None, None, None),
        (ServerHeader::Own, Some("forebay"), Some("forebay")),
        (ServerHeader::Endpoint, Some("theirs"), Some("forebay")),
    ] {
        let world = with_heads(&upstream, HeadSettings { server, ..HeadSettings::default() });
        for (said, expected) in [(endpoint, of_named), (anonymous, of_anonymous)] {
            let mut client = world.http_client();
            client.send(GET);
            let (mut peer, _) = upstream.accept_request();
            peer.send(said);
            assert_eq!(client.read_response().header("Server").as_deref(), expected, "{server:?}");
        }
        let own = world.http_client().get("other.test", "/");
        assert_eq!(own.header("Server").as_deref(), of_anonymous, "{server:?}");
    }
}

#[test]
fn headers_for_endpoints_replace_the_client_s() {
    let upstream = Upstream::new();
    let of_requests = set(&[("X-Host", "$host"), ("X-Gone", ""), ("X-Id", "$arg_id")]);
    let world = with_heads(&upstream, HeadSettings { of_requests, ..HeadSettings::default() });
    let request =
        "GET /a?id=7 HTTP/1.1\r\nHost: web.test\r\nx-host: theirs\r\nX-Gone: theirs\r\nX-ID: theirs\r\n\r\n";
    let head = told(&upstream, &world, request);
    assert!(head.contains("\r\nX-Host: web.test\r\n") && head.contains("\r\nX-Id: 7\r\n"), "{head}");
    assert!(!head.contains("theirs") && !head.contains("X-Gone"), "{head}");
}

#[test]
fn a_route_sets_headers_of_its_responses_on_every_status() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        let of_responses = set(&[("X-Both", "global")]);
        model.settings.heads = Some(Box::new(HeadSettings { of_responses, ..HeadSettings::default() }));
        let own = [("X-Both".to_owned(), "$route".to_owned())];
        let filter = ResponseFilter::SetHeaders(Arc::new(own));
        route(model, |route| route.response_filters = ResponseFilters::new(vec![filter]).unwrap());
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 500 Oh\r\nx-both: theirs\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(values(&client.read_response(), "X-Both"), "$route");
    assert_eq!(values(&world.http_client().get("other.test", "/"), "X-Both"), "global");
}

#[test]
fn names_of_headers_pass_by_their_characters() {
    let upstream = Upstream::new();
    let request =
        "GET /a HTTP/1.1\r\nHost: web.test\r\nX-Plain: 1\r\nx_under: 1\r\nx.dot: 1\r\nx~t: 1\r\n\r\n";
    for (names, passed) in [
        (HeaderNames::Plain, &["X-Plain"][..]),
        (HeaderNames::Underscores, &["X-Plain", "x_under"]),
        (HeaderNames::All, &["X-Plain", "x_under", "x.dot", "x~t"]),
    ] {
        let world = with_settings(&upstream, |settings| settings.client.header_names = names);
        let head = told(&upstream, &world, request);
        for name in ["X-Plain", "x_under", "x.dot", "x~t"] {
            let is_there = head.contains(&format!("\r\n{name}: 1\r\n"));
            assert_eq!(is_there, passed.contains(&name), "{names:?} {name}: {head}");
        }
    }
}

/// CGI, WSGI and Rack take `X_User` for `X-User`.
#[test]
fn no_other_spelling_of_a_name_passes_that_is_set_or_removed() {
    let upstream = Upstream::new();
    let world = with_settings(&upstream, |settings| {
        settings.client.header_names = HeaderNames::All;
        let of_requests = set(&[("X-Set", "ours"), ("X_Also", "ours"), ("X-Gone", "$arg_nothing")]);
        settings.heads = Some(Box::new(HeadSettings { of_requests, ..HeadSettings::default() }));
    });
    let names = [
        "X_Set",
        "x.set",
        "X-Also",
        "x~also",
        "X_Gone",
        "X_Forwarded_For",
        "X-Forwarded_For",
        "x_real_ip",
        "X_Request_Id",
        "Content_Length",
        "Transfer_Encoding",
        "Keep_Alive",
    ];
    let fields: String = names.iter().flat_map(|name| [name, ": theirs\r\n"]).collect();
    let head =
        told(&upstream, &world, &format!("GET /a HTTP/1.1\r\nHost: web.test\r\n{fields}X_Own: kept\r\n\r\n"));
    assert!(!head.contains("theirs"), "{head}");
    for line in ["X-Set: ours", "X_Also: ours", "X_Own: kept"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
}

#[test]
fn hops_in_front_may_use_names_of_their_own() {
    let upstream = Upstream::new();
    let names = ForwardedHeaders { address: "CF-Connecting-IP".to_owned(), host: "X-Host-Before".to_owned() };
    let world = with_settings(&upstream, |settings| {
        settings.forwarded = ForwardedSettings {
            use_incoming: true,
            compute_full: true,
            header: names.address.clone(),
            other_headers: Some(Box::new(names)),
            ..ForwardedSettings::default()
        };
    });
    let request = "GET /a HTTP/1.1\r\nHost: web.test\r\nCF-Connecting-IP: 192.0.2.7\r\nX-Host-Before: shop.test\r\n\
                   X-Forwarded-For: 192.0.2.8\r\nX-Forwarded-Host: ignored.test\r\n\r\n";
    let head = told(&upstream, &world, request);
    for line in [
        "X-Real-IP: 192.0.2.7",
        "X-Forwarded-For: 192.0.2.8, 127.0.0.1",
        "X-Forwarded-Host: shop.test",
        "X-Original-Forwarded-For: 192.0.2.7",
        "X-Original-Forwarded-Host: shop.test",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(!head.contains("ignored.test"), "{head}");
}
