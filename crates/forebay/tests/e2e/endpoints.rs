//! Endpoints that come and go, and which of them is picked.

use std::net::SocketAddr;

use testkit::{Canned, Ending, Upstream};

use crate::{GET, OK, setup};

#[test]
fn requests_go_round() {
    let upstreams = ["a", "b", "c"].map(Canned::saying);
    let forebay =
        upstreams.iter().fold(setup(), |setup, upstream| setup.endpoint(upstream.address())).start();
    let mut client = forebay.client();
    for _ in 0..12 {
        assert_eq!(client.get("web.test", "/").status, 200);
    }
    assert_eq!(upstreams.each_ref().map(|upstream| upstream.heads().len()), [4, 4, 4]);
}

#[test]
fn the_next_request_goes_to_where_the_endpoints_are_now() {
    let (old, new) = (Canned::saying("old"), Canned::saying("new"));
    let forebay = setup().endpoint(old.address()).start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").text(), "old");
    forebay.set_endpoints(&[new.address()]);
    assert_eq!(client.get("web.test", "/").text(), "new");
    forebay.set_endpoints(&[]);
    assert_eq!(client.get("web.test", "/").status, 503);
    forebay.set_endpoints(&[old.address()]);
    assert_eq!(client.get("web.test", "/").text(), "old");
}

#[test]
fn an_endpoint_that_is_gone_loses_its_idle_connections_and_finishes_its_requests() {
    let (leaving, staying) = (Upstream::new(), Canned::saying("stays"));
    let forebay = setup().endpoint(leaving.address()).start();
    let [mut first, mut second] = [(); 2].map(|()| forebay.client());
    first.send(GET);
    second.send(GET);
    let [mut idle, mut busy] = [(); 2].map(|()| leaving.accept_request().0);
    idle.send(OK);
    // The order of connections among the clients is undefined.
    forebay.set_endpoints(&[staying.address()]);
    assert_eq!(idle.ending(), Ending::Reset, "at once, not by age");
    busy.send(OK);
    assert_eq!(busy.ending(), Ending::Reset, "when its request is done");
    assert_eq!(first.read_response().said(), (200, "ok"));
    assert_eq!(second.read_response().said(), (200, "ok"));
}

#[test]
fn an_endpoint_that_stays_keeps_its_connections_whatever_else_changes() {
    let (staying, other) = (Canned::saying("stays"), Canned::saying("other"));
    let forebay = setup().endpoint(staying.address()).start();
    assert_eq!(forebay.get("/").text(), "stays");
    forebay.set_endpoints(&[staying.address(), other.address()]);
    forebay.set_endpoints(&[staying.address()]);
    assert_eq!(forebay.get("/").text(), "stays");
    assert_eq!(staying.connections(), 1);
}

#[test]
fn endpoints_of_a_terminating_pod_serve_while_there_are_no_others() {
    let upstream = Canned::saying("last");
    let SocketAddr::V4(address) = upstream.address() else { unreachable!("it is on IPv4") };
    let forebay = setup()
        .manifest(
            "web.yaml",
            format!(
                "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: web, namespace: default}}
spec:
  rules:
  - host: web.test
    http:
      paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: default, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{port: {}}}]
endpoints:
- addresses: [\"127.0.0.1\"]
  conditions: {{ready: false, serving: true, terminating: true}}
",
                address.port()
            ),
        )
        .start();
    assert_eq!(forebay.get("/").said(), (200, "last"));
    assert_eq!(forebay.configuration()["clusters"][0]["endpoints"][0]["state"], "Draining");
}

/// The preference for the faster one is tested beside the balancer, where the clock is controlled.
#[test]
fn requests_may_go_by_response_time() {
    let upstreams = ["a", "b", "c"].map(Canned::saying);
    let forebay = upstreams
        .iter()
        .fold(setup(), |setup, upstream| setup.endpoint(upstream.address()))
        .annotation("load-balance", "ewma")
        .start();
    let mut client = forebay.client();
    for _ in 0..30 {
        assert_eq!(client.get("web.test", "/").status, 200);
    }
    assert_eq!(upstreams.iter().map(|upstream| upstream.heads().len()).sum::<usize>(), 30);
}
