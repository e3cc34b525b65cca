//! Gateways and routes from files. Which route takes what is tested by the golden cases of `control`, and
//! what filters do by the conversations of `proxy`.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use testkit::manifest::{service, tls_secret};
use testkit::{Authority, Canned, Connection, H2Client, Port, SetOnDrop, Setup, TlsClient, Upstream};

use crate::commands::run;
use crate::setup;

/// A class, and a Gateway with these listeners.
pub(crate) fn gateway(listeners: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: forebay}}\n\
         spec: {{controllerName: forebay.io/gateway-controller}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web}}\n\
         spec: {{gatewayClassName: forebay, listeners: [{listeners}]}}\n"
    )
}

pub(crate) const HTTP: &str = "{name: http, port: 80, protocol: HTTP}";

/// A route that is attached to the Gateway.
pub(crate) fn route(kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: web}}\n\
         spec: {{parentRefs: [{{name: web}}], {spec}}}\n"
    )
}

/// Nothing but a Gateway, a route and Service `web`.
fn serving(listeners: &str, route: String, endpoint: SocketAddr) -> Setup {
    setup()
        .manifest("web.yaml", service("web", &[endpoint]))
        .manifest("gateway.yaml", gateway(listeners))
        .manifest("route.yaml", route)
}

fn said(connection: &mut Connection, host: &str, target: &str) -> (u16, String) {
    let response = connection.get(host, target);
    (response.status, response.text().to_owned())
}

#[test]
fn a_route_is_served_and_follows_its_file() {
    let upstream = Canned::saying("hello");
    let rules = |path: &str| {
        format!(
            "hostnames: [web.test], rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: web, port: 80}}]}}]"
        )
    };
    let forebay = serving(HTTP, route("HTTPRoute", &rules("/a")), upstream.address()).start();
    let get = |host: &str, target: &str| said(&mut forebay.client(), host, target);
    assert_eq!(get("web.test", "/a/b"), (200, "hello".to_owned()));
    assert_eq!(get("web.test", "/b").0, 404);
    assert_eq!(get("other.test", "/a").0, 404);
    forebay.replace("route.yaml", &route("HTTPRoute", &rules("/b")));
    forebay.await_that("the changed route", || get("web.test", "/b").0 == 200);
    assert_eq!(get("web.test", "/a").0, 404);
    forebay.replace("gateway.yaml", "");
    forebay.await_that("the Gateway to be gone", || get("web.test", "/b").0 == 404);
}

#[test]
fn filters_and_conditions_are_obeyed() {
    let upstream = Canned::saying("hello");
    let spec = "rules: [{matches: [{path: {value: /old}, headers: [{name: version, value: two}]}], filters: [\
                {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: s}]}}, \
                {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}, \
                {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-Seen, value: r}]}}], \
                backendRefs: [{name: web, port: 80}]}, \
                {matches: [{path: {value: /moved}}], filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]}, \
                {matches: [{path: {value: /broken}}], backendRefs: [{name: missing, port: 80}]}]";
    let forebay = serving(HTTP, route("HTTPRoute", spec), upstream.address()).start();
    let mut client = forebay.client();
    let response =
        client.ask("GET /old/page?q=1 HTTP/1.1\r\nHost: web.test\r\nVersion: two\r\nX-Set: c\r\n\r\n");
    assert_eq!((response.status, response.header("x-seen").as_deref()), (200, Some("r")));
    let head = upstream.heads().pop().unwrap();
    assert!(head.starts_with("GET /new/page?q=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("X-Set: s\r\n") && !head.contains("X-Set: c"), "{head}");
    assert_eq!(client.get("web.test", "/old/page").status, 404);
    let moved = client.get("web.test", "/moved/x");
    assert_eq!((moved.status, moved.header("location").as_deref()), (301, Some("https://web.test/moved/x")));
    assert_eq!(client.get("web.test", "/broken").status, 500);
}

#[test]
fn a_tcp_route_opens_the_port_of_its_listener() {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let listener = format!("{{name: tcp, port: {}, protocol: TCP}}", port.number());
    let spec = "rules: [{backendRefs: [{name: web, port: 80}]}]";
    let _forebay = serving(&listener, route("TCPRoute", spec), upstream.address()).start();
    let mut client = Connection::to(port.address());
    client.send("ping");
    let mut peer = upstream.accept();
    assert_eq!(peer.read_exactly(4), b"ping");
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
}

#[test]
fn a_gateway_with_an_address_is_served_there_alone() {
    let (port, upstream) = (Port::tcp(), Canned::saying("hello"));
    let listener = format!("{{name: http, port: {}, protocol: HTTP}}", port.number());
    let spec = "rules: [{backendRefs: [{name: web, port: 80}]}]";
    // The port is opened later: nobody may hold those that are opened at the start.
    let forebay = serving(&listener, route("HTTPRoute", spec), upstream.address())
        .manifest("gateway.yaml", "")
        .arguments(["--gateway-address=127.0.0.1"])
        .start();
    forebay.replace("gateway.yaml", &gateway(&listener));
    forebay.await_that("the port to be open", || std::net::TcpStream::connect(port.address()).is_ok());
    let mut client = Connection::to(port.address());
    assert_eq!(said(&mut client, "web.test", "/"), (200, "hello".to_owned()));
    assert_eq!(forebay.get("/").status, 404, "not at the ports of Ingresses");
}

#[test]
fn check_names_what_is_wrong_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let spec = "rules: [{backendRefs: [{name: missing, port: 80}]}]";
    std::fs::write(&file, format!("{}---\n{}", gateway(HTTP), route("HTTPRoute", spec))).unwrap();
    let (code, stdout, _) = run(&["check", file.to_str().unwrap()]);
    let expected = "web.yaml:14: HTTPRoute default/web: Service default/missing is missing (BackendNotFound)";
    assert!(stdout.contains(expected), "{stdout}");
    assert_eq!(code, 1);
}

/// A Gateway of this class with HTTP, HTTPS and perhaps another port, and both classes that there are.
fn gateway_of(class: &str, other_port: Option<u16>) -> String {
    let other = other_port.map(|port| format!(", {{name: other, port: {port}, protocol: HTTP}}"));
    let https = "{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}";
    let text = gateway(&format!("{HTTP}, {https}{}", other.unwrap_or_default()));
    text.replace("gatewayClassName: forebay", &format!("gatewayClassName: {class}"))
        + "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: second}\n\
           spec: {controllerName: forebay.io/gateway-controller}\n"
}

/// Requests on a connection that is kept for as long as it may be, and on new ones over TLS, all the while;
/// none may fail.
#[test]
fn a_gateways_certificate_ports_and_class_change_without_a_failed_request() {
    let upstream = Canned::saying("hello");
    let port = Port::tcp();
    let authority = Authority::new("authority");
    let certificates = [authority.server(&["web.test"]), authority.server(&["web.test"])];
    let rules = "hostnames: [web.test], rules: [{backendRefs: [{name: web, port: 80}]}]";
    let forebay = serving(HTTP, route("HTTPRoute", rules), upstream.address())
        .manifest("gateway.yaml", gateway_of("forebay", None))
        .manifest("certificate.yaml", tls_secret("certificate", &certificates[0]))
        .arguments(["--workers=2"])
        .start();
    let tls = TlsClient::new("web.test").believing(&authority);
    let hello = (200, "hello".to_owned());
    let (done, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let _ends = SetOnDrop(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(said(&mut forebay.tls_client(&tls), "web.test", "/"), hello);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let mut client = forebay.client();
            while !done.load(Ordering::Relaxed) {
                let response = client.get("web.test", "/");
                assert_eq!(response.said(), (200, "hello"));
                if response.header("connection").is_some() {
                    client = forebay.client();
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..=4 {
            let (class, certificate) = (["forebay", "second"][round % 2], &certificates[round % 2]);
            forebay.replace("certificate.yaml", &tls_secret("certificate", certificate));
            forebay.await_that("the certificate", || forebay.tls_client(&tls).tls_info().shows(certificate));
            forebay.replace("gateway.yaml", &gateway_of(class, Some(port.number())));
            let mut other = None;
            forebay.await_that("the port", || {
                other = TcpStream::connect(port.address()).ok();
                other.is_some()
            });
            assert_eq!(said(&mut Connection::to(port.address()), "web.test", "/"), hello);
            forebay.replace("gateway.yaml", &gateway_of(class, None));
            forebay.await_that("the port to be closed", || TcpStream::connect(port.address()).is_err());
            let before = asked.load(Ordering::Relaxed);
            forebay.await_that("requests beside it", || asked.load(Ordering::Relaxed) > before);
        }
    });
}

/// `GRPCRouteSpec.hostnames` asks for one of two routes; of equally old ones of one name the `HTTPRoute`
/// comes first.
#[test]
fn a_route_is_served_when_the_older_one_of_its_host_is_gone() {
    let upstream = Canned::saying("hello");
    let http = "hostnames: [web.test], rules: [{matches: [{path: {value: /a}}], backendRefs: [{name: web, port: 80}]}]";
    let grpc = "hostnames: ['*.test'], rules: [{backendRefs: [{name: missing, port: 80}]}]";
    let forebay = serving(HTTP, route("HTTPRoute", http), upstream.address())
        .manifest("grpc.yaml", route("GRPCRoute", grpc))
        .start();
    let status = |host: &str, target: &str| said(&mut forebay.client(), host, target).0;
    assert_eq!((status("web.test", "/a"), status("web.test", "/b")), (200, 404));
    assert_eq!(status("other.test", "/b"), 404);
    forebay.await_log("HTTPRoute default/web has host *.test, or some of its names");
    forebay.replace("route.yaml", "");
    forebay.await_that("the younger route", || status("other.test", "/b") == 500);
}

/// `GRPCRouteRule.backendRefs` asks for `UNAVAILABLE` where a route over HTTP has 500.
#[test]
fn a_call_to_a_backend_that_is_missing_is_unavailable() {
    let route =
        route("GRPCRoute", "hostnames: [web.test], rules: [{backendRefs: [{name: missing, port: 80}]}]");
    let forebay = setup().manifest("gateway.yaml", gateway(HTTP)).manifest("route.yaml", route).start();
    let client = H2Client::clear(forebay.address());
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let response = client.call("POST", "web.test", "/echo.Echo/Call", &headers, true).read_response();
    assert_eq!((response.status, response.header("grpc-status").as_deref()), (200, Some("14")));
}
