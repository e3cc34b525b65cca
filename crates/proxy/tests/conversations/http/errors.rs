//! Errors that another backend answers.

use std::sync::Arc;

use model::{Access, AddressSet, ClusterId, ErrorPages, ExternalAuth, LabelTexts, Labels, Model, Networks};
use testkit::{Connection, Refusing, Response, Upstream};

use super::auth::check;
use super::{GET, OK, POST, await_fault, forward, goes_on, route};
use crate::world::{World, cluster};

const PAGE: &str = "HTTP/1.1 410 Gone\r\nX-Own: 1\r\nContent-Length: 4\r\n\r\npage";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nX-Lost: 1\r\nContent-Length: 4\r\n\r\nlost";

struct House {
    world: World,
    upstream: Upstream,
    errors: Upstream,
}

fn pages(model: &mut Model, statuses: &[u16], change: impl FnOnce(&mut ErrorPages)) {
    let mut pages = ErrorPages::new(statuses.to_vec());
    change(&mut pages);
    route(model, |route| {
        route.error_pages = Some(Arc::new(pages));
        route.labels = Arc::new(Labels::from(LabelTexts {
            namespace: "default".to_owned(),
            object: "web".to_owned(),
            service: "echo".to_owned(),
            service_port: "7".to_owned(),
            ..LabelTexts::default()
        }));
    });
}

impl House {
    fn new(statuses: &[u16], change: impl FnOnce(&mut Model)) -> Self {
        let (upstream, errors) = (Upstream::new(), Upstream::new());
        let world = World::http(&[upstream.address()], |model| {
            model.clusters.insert(ClusterId(1), Arc::new(cluster(&[errors.address()])));
            pages(model, statuses, |pages| pages.backends = vec![ClusterId(1)]);
            change(model);
        });
        Self { world, upstream, errors }
    }

    /// The request that the error backend gets where the endpoint answers in this way.
    fn question(&self, request: &str, answer: &str) -> (Connection, Connection, Connection, String) {
        let mut client = self.world.http_client();
        client.send(request);
        let (mut peer, _) = self.upstream.accept_request();
        peer.send(answer);
        let (errors, question) = self.errors.accept_request();
        (client, peer, errors, question)
    }

    /// The answer to a request that no endpoint is asked for, and what the backend of errors is asked.
    fn refusal(&self, request: &str) -> (Response, String) {
        let mut client = self.world.http_client();
        client.send(request);
        let (mut errors, question) = self.errors.accept_request();
        errors.send(PAGE);
        let response = client.read_response();
        assert!(self.upstream.is_left_alone());
        (response, question)
    }
}

fn listed() -> Access {
    let denied = Some(Arc::new(AddressSet::new(&["0.0.0.0/0".parse().unwrap()])));
    Access { networks: Some(Networks { denied, ..Networks::default() }), ..Access::default() }
}

#[test]
fn the_backend_is_told_what_it_is_about_and_its_answer_is_the_client_s() {
    let house = House::new(&[404], |_| ());
    let (mut client, mut peer, mut errors, question) = house.question(
        "GET /a%20b?q=1 HTTP/1.1\r\nHost: web.test:81\r\nAccept: text/html\r\nX-Code: 7\r\nX-Own: 2\r\n\r\n",
        NOT_FOUND,
    );
    assert!(question.starts_with("GET /?q=1 HTTP/1.1\r\nHost: web.test:81\r\n"), "{question}");
    for field in [
        "X-Code: 404",
        "X-Format: text/html",
        "X-Original-URI: /a%20b?q=1",
        "X-Namespace: default",
        "X-Ingress-Name: web",
        "X-Service-Name: echo",
        "X-Service-Port: 7",
        "X-Own: 2",
    ] {
        assert!(question.contains(&format!("\r\n{field}\r\n")), "{field}: {question}");
    }
    assert!(question.contains("\r\nX-Request-ID: ") && !question.contains("X-Code: 7"), "{question}");
    errors.send(PAGE);
    let response = client.read_response();
    assert_eq!(response.said(), (410, "page"));
    assert_eq!((response.header("X-Own").as_deref(), response.header("X-Lost")), (Some("1"), None));
    // The connections of client and endpoint go on.
    goes_on(&mut client, &mut peer);
    drop(client);
    assert!(house.world.stop().contains("\" 410 4 "));
}

#[test]
fn what_is_not_there_is_not_told() {
    let house = House::new(&[404], |model| route(model, |route| route.labels = Arc::default()));
    let forged =
        GET.replace("\r\n\r\n", "\r\nX-Format: a\r\nX-Service-Name: b\r\nX-Original-URI: /c\r\n\r\n");
    let (.., question) = house.question(&forged, NOT_FOUND);
    for absent in ["X-Format", "X-Service-Name", "X-Namespace", "/c"] {
        assert!(!question.contains(absent), "{absent}: {question}");
    }
    assert!(question.starts_with("GET / HTTP/1.1\r\n") && question.contains("\r\nX-Original-URI: /a\r\n"));
}

#[test]
fn method_and_body_are_those_of_the_request() {
    let house = House::new(&[404], |_| ());
    let mut client = house.world.http_client();
    let chunked =
        "POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    for (request, body) in [(POST, "body"), (chunked, "4\r\nbody\r\n0\r\n\r\n")] {
        client.send(request);
        let (mut peer, _) = house.upstream.accept_request();
        peer.read_exactly(body.len());
        peer.send(NOT_FOUND);
        let (mut errors, question) = house.errors.accept_request();
        assert!(question.starts_with("POST / HTTP/1.1\r\n"), "{question}");
        assert_eq!(errors.read_exactly(body.len()), body.as_bytes());
        errors.send(PAGE.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert_eq!(client.read_response().said(), (410, "page"));
    }
}

#[test]
fn as_much_of_a_body_is_waited_for_as_can_be_sent_again() {
    let house = House::new(&[404], |_| ());
    let mut client = house.world.http_client();
    let body = "x".repeat(12_000);
    client
        .send(format!("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 12000\r\n\r\n{}", &body[..10]));
    assert!(house.upstream.is_left_alone());
    client.send(&body[10..]);
    let (mut peer, _) = house.upstream.accept_request();
    assert_eq!(peer.read_exactly(body.len()).len(), body.len());
    peer.send(NOT_FOUND);
    let (mut errors, question) = house.errors.accept_request();
    assert!(question.contains("\r\nContent-Length: 12000\r\n"), "{question}");
    assert!(errors.read_exactly(body.len()) == body.as_bytes());
    errors.send(PAGE);
    assert_eq!(client.read_response().said(), (410, "page"));
    goes_on(&mut client, &mut peer);
}

#[test]
fn a_body_that_was_passed_on_and_not_kept_is_not_announced() {
    let house = House::new(&[404], |_| ());
    let mut client = house.world.http_client();
    let body = "x".repeat(400_000);
    client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 400000\r\n\r\n");
    client.send(&body);
    let (mut peer, _) = house.upstream.accept_request();
    assert_eq!(peer.read_exactly(body.len()).len(), body.len());
    peer.send(NOT_FOUND);
    let (mut errors, question) = house.errors.accept_request();
    assert!(question.contains("\r\nContent-Length: 0\r\n") && !question.contains("400000"), "{question}");
    errors.send(PAGE);
    assert_eq!(client.read_response().said(), (410, "page"));
    goes_on(&mut client, &mut peer);
}

#[test]
fn other_statuses_and_spared_endpoints_are_left_alone() {
    for (statuses, spares) in [(&[403, 405][..], false), (&[404], true)] {
        let house = House::new(statuses, |model| {
            pages(model, statuses, |pages| {
                pages.backends = vec![ClusterId(1)];
                pages.spares_endpoints = spares;
            });
        });
        let mut client = house.world.http_client();
        client.send(GET);
        let (mut peer, _) = house.upstream.accept_request();
        peer.send(NOT_FOUND);
        assert_eq!(client.read_response().said(), (404, "lost"));
        goes_on(&mut client, &mut peer);
        assert!(house.errors.is_left_alone());
    }
}

#[test]
fn errors_of_the_proxy_itself_go_there_too() {
    // Endpoints may be spared; that says nothing of the proxy.
    let house = House::new(&[403], |model| {
        pages(model, &[403], |pages| {
            pages.backends = vec![ClusterId(1)];
            pages.spares_endpoints = true;
        });
        route(model, |route| route.access = Some(Box::new(listed())));
    });
    let (response, question) = house.refusal(GET);
    assert_eq!(response.said(), (410, "page"));
    assert!(question.contains("\r\nX-Code: 403\r\n"), "{question}");
    await_fault(&house.world, "address_denied");
    // The body comes along.
    let mut client = house.world.http_client();
    client.send("POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 8\r\n\r\nbo");
    let (mut errors, question) = house.errors.accept_request();
    assert!(question.contains("\r\nContent-Length: 8\r\n"), "{question}");
    client.send("dybody");
    assert_eq!(errors.read_exactly(8), b"bodybody");
    errors.send(PAGE);
    assert_eq!(client.read_response().said(), (410, "page"));
}

#[test]
fn failing_endpoints_are_errors_too() {
    let (nobody, errors) = (Refusing::default(), Upstream::new());
    for (endpoints, status) in [(vec![nobody.address()], 502), (Vec::new(), 503)] {
        let world = World::http(&endpoints, |model| {
            model.clusters.insert(ClusterId(1), Arc::new(cluster(&[errors.address()])));
            pages(model, &[502, 503], |pages| pages.backends = vec![ClusterId(1)]);
        });
        let mut client = world.http_client();
        client.send(POST);
        let (mut peer, question) = errors.accept_request();
        assert!(question.contains(&format!("\r\nX-Code: {status}\r\n")), "{question}");
        assert_eq!(peer.read_exactly(4), b"body");
        peer.send(PAGE);
        assert_eq!(client.read_response().said(), (410, "page"));
    }
}

#[test]
fn a_client_is_still_told_how_to_authenticate() {
    let auth = Upstream::new();
    let house = House::new(&[401], |model| {
        model.clusters.insert(ClusterId(2), Arc::new(cluster(&[auth.address()])));
        let external = Some(ExternalAuth { cluster: ClusterId(2), check: Arc::new(check()) });
        route(model, |route| route.access = Some(Box::new(Access { external, ..Access::default() })));
    });
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut asked, _) = auth.accept_request();
    asked.send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n");
    let (mut errors, question) = house.errors.accept_request();
    assert!(question.contains("\r\nX-Code: 401\r\n"), "{question}");
    errors.send(PAGE);
    let response = client.read_response();
    assert_eq!(
        (response.said(), response.header("WWW-Authenticate").as_deref()),
        ((410, "page"), Some("Basic"))
    );
}

#[test]
fn a_body_that_is_too_long_is_not_passed_on_and_its_length_is_0() {
    let chunked =
        "POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    for request in [POST, chunked] {
        let house =
            House::new(&[413], |model| forward(model, |forward| forward.body_bytes_max = Some(3).into()));
        let (response, question) = house.refusal(request);
        assert_eq!(response.said(), (410, "page"));
        assert!(question.contains("\r\nX-Code: 413\r\n"), "{question}");
        assert!(question.contains("\r\nContent-Length: 0\r\n"), "{question}");
        assert!(!question.contains("Content-Length: 4") && !question.contains("chunked"), "{question}");
        assert_eq!(response.header("Connection").as_deref(), Some("close"));
    }
}

#[test]
fn the_built_in_backend_makes_404_of_every_listed_status() {
    let upstream = Upstream::new();
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[])));
        pages(model, &[403, 503], |pages| pages.backends = vec![ClusterId(1)]);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().said(), (404, "404 Not Found\n"));
    let world = World::http(&[], |model| {
        pages(model, &[403, 503], |_| ());
        route(model, |route| route.access = Some(Box::new(listed())));
        model.settings.error_pages = Some(Box::new(ErrorPages::new(vec![403])));
    });
    assert_eq!(world.http_client().ask(GET).status, 404);
}

#[test]
fn an_error_of_that_backend_is_answered_plainly() {
    let house = House::new(&[404, 502], |_| ());
    let (mut client, _, mut errors, _) = house.question(GET, NOT_FOUND);
    errors.send(NOT_FOUND);
    assert_eq!(client.read_response().said(), (404, "lost"));
    assert!(house.errors.is_left_alone());
    let (upstream, nobody) = (Upstream::new(), Refusing::default());
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[nobody.address()])));
        pages(model, &[404, 502], |pages| pages.backends = vec![ClusterId(1)]);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(NOT_FOUND);
    assert_eq!(client.read_response().said(), (502, "502 Bad Gateway\n"));
    await_fault(&world, "connect_refused");
}

#[test]
fn a_default_backend_steps_in_where_there_is_no_endpoint() {
    let errors = Upstream::new();
    let world = World::http(&[], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[errors.address()])));
        pages(model, &[404], |pages| {
            pages.fallback = Some(ClusterId(1));
            pages.backends = vec![ClusterId(1)];
        });
    });
    let mut client = world.http_client();
    client.send(POST.replace("/a", "/a?q"));
    let (mut peer, question) = errors.accept_request();
    assert!(question.starts_with("POST /a?q HTTP/1.1\r\n"), "{question}");
    assert!(question.contains("\r\nX-Code: 503\r\n") && question.contains("\r\nX-Service-Name: echo\r\n"));
    assert!(!question.contains("X-Original-URI"), "{question}");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    // Its own errors are replaced as an endpoint's would be.
    client.send(GET);
    peer.read_head();
    peer.send(NOT_FOUND.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    let (mut again, question) = errors.accept_request();
    assert!(question.starts_with("GET / HTTP/1.1\r\n") && question.contains("\r\nX-Code: 404\r\n"));
    again.send(PAGE);
    assert_eq!(client.read_response().said(), (410, "page"));
}

#[test]
fn a_default_backend_leaves_an_answered_503_alone() {
    let house = House::new(&[], |model| {
        pages(model, &[], |pages| pages.fallback = Some(ClusterId(1)));
    });
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut peer, question) = house.upstream.accept_request();
    assert!(!question.contains("X-Code"), "{question}");
    peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    assert_eq!(client.read_response().said(), (503, "busy"));
    assert!(house.errors.is_left_alone());
}

#[test]
fn an_upgrade_is_not_asked_of_the_backend_of_errors() {
    let house = House::new(&[404], |_| ());
    let ask = GET.replace("\r\n\r\n", "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let (mut client, _, mut errors, question) = house.question(&ask, NOT_FOUND);
    assert!(!question.contains("pgrade"), "{question}");
    errors.send(PAGE);
    assert_eq!(client.read_response().said(), (410, "page"));
}

#[test]
fn a_redirect_may_be_listed_too() {
    let house = House::new(&[302], |_| ());
    let (mut client, _, mut errors, question) =
        house.question(GET, "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n");
    assert!(question.contains("\r\nX-Code: 302\r\n"), "{question}");
    errors.send(PAGE);
    assert_eq!(client.read_response().header("Location"), None);
}
