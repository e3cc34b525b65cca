//! The filter `ExternalAuth` of HTTP routes.

use deciders::proto::auth::OkHttpResponse;
use testkit::manifest::{service, service_speaking};
use testkit::{Canned, Forebay, H2Upstream, Upstream};

use super::{Service, allowed, denied, header, send};
use crate::setup;

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: forebay}\n\
    spec: {controllerName: forebay.io/gateway-controller}\n---\n\
    apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: web}\n\
    spec: {gatewayClassName: forebay, listeners: [{name: http, port: 80, protocol: HTTP}]}\n";

fn route(host: &str, auth: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {host}}}\n\
         spec: {{parentRefs: [{{name: web}}], hostnames: [{host}.test], rules: [{{\
         filters: [{{type: ExternalAuth, externalAuth: {{{auth}}}}}], backendRefs: [{{name: svc, port: 80}}]}}]}}\n"
    )
}

fn serving(endpoint: &Canned, routes: &[String], services: &[String]) -> Forebay {
    let own = [GATEWAY.to_owned(), service("svc", &[endpoint.address()])];
    let documents: Vec<_> = own.iter().chain(routes).chain(services).map(String::as_str).collect();
    setup().manifest("all.yaml", documents.join("---\n")).start()
}

#[test]
fn a_rule_asks_over_grpc() {
    let (endpoint, at) = (Canned::saying("let in"), Service::start());
    let auth = "protocol: GRPC, backendRef: {name: authz, port: 80}, grpc: {allowedHeaders: [X-Token]}, forwardBody: {maxSize: 4}";
    let forebay = serving(&endpoint, &[route("shop", auth)], &[service("authz", &[at.0.address()])]);
    let mut client = forebay.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: shop.test\r\nX-Token: t\r\nCookie: c\r\nContent-Length: 4\r\n\r\nbody",
    );
    let mut asked = at.asked();
    assert_eq!(
        asked.peer.request.uri().authority().map(ToString::to_string).as_deref(),
        Some("authz.default.svc:80")
    );
    assert_eq!(asked.http().body, "body");
    assert!(asked.http().headers.contains_key("x-token") && !asked.http().headers.contains_key("cookie"));
    let headers = vec![header("X-User", "ann")];
    asked.answer(&allowed(OkHttpResponse { headers, ..OkHttpResponse::default() }));
    assert_eq!(client.read_response().said(), (200, "let in"));
    assert!(endpoint.heads()[0].to_ascii_lowercase().contains("\r\nx-user: ann\r\n"));
    let mut client = send(&forebay, "shop", "/", "");
    at.asked().answer(&denied(401, Vec::new(), "no"));
    assert_eq!(client.read_response().said(), (401, "no"));
    let long = "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nabcde";
    assert_eq!(forebay.client().ask(long).status, 413);
    let mut client = send(&forebay, "shop", "/", "");
    at.asked().peer.reset(h2::Reason::INTERNAL_ERROR);
    assert_eq!(client.read_response().status, 403, "it fails closed");
}

#[test]
fn a_rule_asks_over_http() {
    let (endpoint, at) = (Canned::saying("let in"), Upstream::new());
    let auth = "protocol: HTTP, backendRef: {name: authz, port: 80}, http: {path: /check}";
    let forebay = serving(&endpoint, &[route("shop", auth)], &[service("authz", &[at.address()])]);
    let mut client = send(&forebay, "shop", "/a", "Cookie: c\r\n");
    let (mut peer, head) = at.accept_request();
    assert!(
        head.starts_with("GET /check/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n"),
        "{head}"
    );
    peer.send("HTTP/1.1 200 OK\r\nX-User: ann\r\nHost: other.test\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().said(), (200, "let in"));
    let head = endpoint.heads().remove(0).to_ascii_lowercase();
    assert!(head.contains("\r\nx-user: ann\r\n") && head.contains("host: shop.test"), "{head}");
    assert!(!head.contains("other.test") && !head.contains("content-type"), "{head}");
}

#[test]
fn a_service_may_speak_http2_by_its_port() {
    let (endpoint, at) = (Canned::saying("let in"), H2Upstream::clear());
    let auth = "protocol: HTTP, backendRef: {name: authz, port: 80}, http: {}";
    let authz = service_speaking("authz", "kubernetes.io/h2c", &[at.address()]);
    let forebay = serving(&endpoint, &[route("shop", auth)], &[authz]);
    let mut client = send(&forebay, "shop", "/a", "");
    let mut peer = at.accept_request();
    assert_eq!(peer.request.uri().path(), "/a");
    peer.answer(200, &[("x-user", "ann")], b"");
    assert_eq!(client.read_response().said(), (200, "let in"));
    assert!(endpoint.heads()[0].contains("x-user: ann"));
}

#[test]
fn a_service_that_cannot_be_referred_to_is_a_500() {
    let (endpoint, at) = (Canned::saying("let in"), Canned::saying(""));
    let foreign = service("authz", &[at.address()]).replace("\"default\"", "\"other\"");
    let routes = [
        route("missing", "protocol: GRPC, backendRef: {name: nobody, port: 80}, grpc: {}"),
        route("foreign", "protocol: HTTP, backendRef: {name: authz, namespace: other, port: 80}, http: {}"),
        route(
            "kind",
            "protocol: GRPC, backendRef: {group: example.com, kind: Bucket, name: b, port: 1}, grpc: {}",
        ),
        route("wrong", "protocol: SMTP, backendRef: {name: nobody, port: 80}"),
    ];
    let forebay = serving(&endpoint, &routes, std::slice::from_ref(&foreign));
    for host in ["missing", "foreign", "kind", "wrong"] {
        assert_eq!(send(&forebay, host, "/", "").read_response().status, 500, "{host}");
    }
    let grant = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: a, namespace: other}\n\
                 spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}], to: [{group: \"\", kind: Service}]}\n";
    let own = [GATEWAY.to_owned(), service("svc", &[endpoint.address()]), routes[1].clone(), foreign];
    forebay.replace("all.yaml", &format!("{}{grant}", own.join("---\n")));
    forebay.await_that("the grant", || send(&forebay, "foreign", "/", "").read_response().status == 200);
    assert!(!at.heads().is_empty());
}
