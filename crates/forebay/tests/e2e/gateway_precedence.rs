//! Of the routes that have a name in common with a listener, those come first whose own hostname is the most
//! specific, whatever their age and their paths.

use testkit::manifest::{service, tls_secret};
use testkit::{Authority, Canned, GrpcReply, GrpcServer, H2Client, Setup, TlsClient};

use crate::gateway::gateway;
use crate::setup;

/// A route that leads to the Service of its name. `year` says how old it is.
fn route(kind: &str, name: &str, year: u32, hostnames: &str, matches: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
         metadata: {{name: {name}, creationTimestamp: '{year}-01-01T00:00:00Z'}}\n\
         spec:\n  parentRefs: [{{name: web}}]\n  hostnames: [{hostnames}]\n  \
         rules: [{{{matches} backendRefs: [{{name: {name}, port: 80}}]}}]\n"
    )
}

fn serving(listener: &str) -> Setup {
    setup().manifest("gateway.yaml", gateway(listener))
}

#[test]
fn the_route_with_the_narrowest_hostname_comes_before_longer_paths() {
    let [own, wide, all] = ["own", "wide", "all"].map(Canned::saying);
    let matches = "matches: [{path: {value: /a}, headers: [{name: version, value: two}]}],";
    let forebay = serving("{name: http, port: 80, protocol: HTTP, hostname: app.shop.test}")
        .manifest("own.yaml", service("own", &[own.address()]))
        .manifest("wide.yaml", service("wide", &[wide.address()]))
        .manifest("all.yaml", service("all", &[all.address()]))
        .manifest("route-all.yaml", route("HTTPRoute", "all", 2020, "", ""))
        .manifest(
            "route-wide.yaml",
            route("HTTPRoute", "wide", 2021, "'*.shop.test'", "matches: [{path: {value: /a/long}}],"),
        )
        .manifest("route-own.yaml", route("HTTPRoute", "own", 2022, "app.shop.test", matches))
        .start();
    let answer = |target: &str, header: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: app.shop.test\r\n{header}\r\n");
        forebay.client().ask(&request).text().to_owned()
    };
    let version = "Version: two\r\n";
    assert_eq!(answer("/a/long/x", version), "own", "before a longer path of a wider hostname");
    assert_eq!(answer("/a/long/x", ""), "wide", "what it does not match is passed on");
    assert_eq!(answer("/a", ""), "all", "a route without hostnames is the last");
    assert_eq!(answer("/", version), "all");
    forebay.replace("route-own.yaml", "");
    forebay.await_that("the route to be gone", || answer("/a/long/x", version) == "wide");
    forebay.replace("route-wide.yaml", "");
    forebay.await_that("the other route to be gone", || answer("/a/long/x", version) == "all");
}

#[test]
fn a_grpc_route_with_a_narrower_hostname_comes_first() {
    let [own, wide] = [(); 2].map(|()| GrpcServer::new(|_| vec![GrpcReply::End(0)]));
    let forebay = serving("{name: http, port: 80, protocol: HTTP, hostname: '*.shop.test'}")
        .manifest("own.yaml", service("own", &[own.address()]))
        .manifest("wide.yaml", service("wide", &[wide.address()]))
        .manifest("route-wide.yaml", route("GRPCRoute", "wide", 2020, "'*.test'", ""))
        .manifest("route-own.yaml", route("GRPCRoute", "own", 2021, "'*.shop.test'", ""))
        .start();
    let call = || {
        let client = H2Client::clear(forebay.address());
        let headers = [("content-type", "application/grpc"), ("te", "trailers")];
        client.call("POST", "app.shop.test", "/echo.Echo/Call", &headers, true).read_response().status
    };
    assert_eq!((call(), own.begun(), wide.begun()), (200, 1, 0));
    forebay.replace("route-own.yaml", "");
    forebay.await_that("the narrower route to be gone", || call() == 200 && wide.begun() > 0);
}

#[test]
fn a_tls_route_with_a_narrower_hostname_comes_first() {
    let certificate = Authority::new("authority").server(&["app.shop.test"]);
    let tls = TlsClient::new("app.shop.test");
    let [own, wide] = ["own", "wide"].map(Canned::saying);
    let listener = "{name: tls, port: 443, protocol: TLS, hostname: '*.shop.test', \
                    tls: {certificateRefs: [{name: pair}]}}";
    let forebay = serving(listener)
        .manifest("pair.yaml", tls_secret("pair", &certificate))
        .manifest("own.yaml", service("own", &[own.address()]))
        .manifest("wide.yaml", service("wide", &[wide.address()]))
        .manifest("route-wide.yaml", route("TLSRoute", "wide", 2020, "'*.test'", ""))
        .manifest("route-own.yaml", route("TLSRoute", "own", 2021, "'*.shop.test'", ""))
        .start();
    let answer = || forebay.tls_client(&tls).get("app.shop.test", "/").text().to_owned();
    assert_eq!(answer(), "own");
    forebay.replace("route-own.yaml", "");
    forebay.await_that("the narrower route to be gone", || answer() == "wide");
}
