//! Endpoints near this process: those for its node or zone serve, and others where these are out of use.

use std::fmt::Write as _;
use std::net::SocketAddr;

use testkit::manifest::Ingress;
use testkit::{Canned, Connection, Forebay, Moody, Refusing, Setup};

use crate::setup;

const NEAR: &str = "GET / HTTP/1.1\r\nHost: near.test\r\n\r\n";

/// A Service with endpoints for zones and nodes: `(address, hints)`.
fn hinted(endpoints: &[(SocketAddr, &str)]) -> String {
    let mut text = "apiVersion: v1\nkind: Service\nmetadata: {name: near}\nspec:\n  trafficDistribution: PreferSameZone\n  \
                    ports: [{port: 80}]\n"
        .to_owned();
    for (number, (address, hints)) in endpoints.iter().enumerate() {
        let (ip, port) = (address.ip(), address.port());
        writeln!(
            text,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: near-{number}\n  \
             labels: {{kubernetes.io/service-name: near}}\naddressType: IPv4\nports: [{{port: {port}}}]\nendpoints:\n\
             - addresses: [\"{ip}\"]\n  conditions: {{ready: true}}\n  hints: {hints}"
        )
        .expect("a string takes all texts");
    }
    text
}

fn serving(endpoints: &[(SocketAddr, &str)], ingress: Ingress) -> Setup {
    setup()
        .arguments(["--topology-zone=a", "--topology-node=n1"])
        .setting("keep-alive-requests", "1000000")
        .manifest("near.yaml", hinted(endpoints))
        .manifest("near-ingress.yaml", ingress.path("near.test", "Prefix", "/", "near").document())
}

fn texts(client: &mut Connection, count: usize) -> Vec<String> {
    (0..count).map(|_| client.ask(NEAR).text().to_owned()).collect()
}

fn fallbacks(forebay: &Forebay) -> u64 {
    forebay.metrics().sum("forebay_fallbacks_total", &[])
}

#[test]
fn endpoints_of_the_own_zone_serve_and_those_of_the_own_node_before_them() {
    let (near, far) = (Canned::saying("near"), Canned::saying("far"));
    let zones = [(near.address(), "{forZones: [{name: a}]}"), (far.address(), "{forZones: [{name: b}]}")];
    let forebay = serving(&zones, Ingress::new("near")).start();
    let mut client = forebay.client();
    assert_eq!(texts(&mut client, 10), ["near"; 10]);
    let nodes = [
        (near.address(), "{forZones: [{name: a}], forNodes: [{name: n2}]}"),
        (far.address(), "{forZones: [{name: a}], forNodes: [{name: n1}]}"),
    ];
    forebay.replace("near.yaml", &hinted(&nodes));
    forebay.await_that("the node's own to serve", || client.ask(NEAR).text() == "far");
    assert_eq!(texts(&mut client, 10), ["far"; 10]);
    let none = [(near.address(), "{forZones: [{name: a}]}"), (far.address(), "{}")];
    forebay.replace("near.yaml", &hinted(&none));
    let both = || {
        let seen = texts(&mut client, 4);
        seen.contains(&"near".to_owned()) && seen.contains(&"far".to_owned())
    };
    forebay.await_that("all to serve, since one has no hint", both);
}

#[test]
fn while_all_near_endpoints_fail_their_checks_far_ones_serve() {
    let (near, far) = (Moody::hanging(), Canned::saying("far"));
    near.become_well();
    let endpoints = [(near.address(), "{forZones: [{name: a}]}"), (far.address(), "{forZones: [{name: b}]}")];
    let ingress = Ingress::new("near")
        .annotation("forebay.io/health-check", "http")
        .annotation("forebay.io/health-check-interval", "100ms")
        .annotation("forebay.io/health-check-timeout", "1s")
        .annotation("proxy-read-timeout", "1");
    let forebay = serving(&endpoints, ingress).start();
    let mut client = forebay.client();
    assert!(texts(&mut client, 10).iter().all(|text| text != "far"));
    assert_eq!(fallbacks(&forebay), 0);
    near.become_ill();
    forebay.await_that("the far one to serve", || client.ask(NEAR).text() == "far");
    assert!(fallbacks(&forebay) > 0);
}

#[test]
fn a_request_that_near_endpoints_refuse_goes_on_to_a_far_one() {
    let (gone, far) = (Refusing::default(), Canned::saying("far"));
    let endpoints = [(gone.address(), "{forZones: [{name: a}]}"), (far.address(), "{forZones: [{name: b}]}")];
    let forebay = serving(&endpoints, Ingress::new("near")).start();
    assert_eq!(texts(&mut forebay.client(), 20), vec!["far"; 20], "no request fails");
    let line = forebay.await_access_log("\"GET / HTTP/1.1\" 200");
    assert!(line.contains("[default-near-80]") || line.contains("[everywhere-default-near-80]"), "{line}");
}
