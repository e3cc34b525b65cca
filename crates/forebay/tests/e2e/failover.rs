//! Failover between Services: requests go to the first Service in the list that is in use.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use testkit::manifest::service;
use testkit::{Canned, Connection, Forebay, Moody, Refusing, Setup, Upstream};

use crate::{GET, setup};

const FALLBACKS: &str = "forebay_fallbacks_total";

/// Time for which a Service has to be in use again before it is preferred.
const RECOVERY: Duration = Duration::from_millis(500);

/// `web.test` leads to Service `web`, and then to Service `standby`.
fn falling_back(setup: Setup, standby: &[SocketAddr]) -> Setup {
    setup
        .annotation("forebay.io/fallback", "standby:80")
        .annotation("forebay.io/fallback-recovery", &format!("{}ms", RECOVERY.as_millis()))
        .setting("keep-alive-requests", "1000000")
        .manifest("standby.yaml", service("standby", standby))
}

/// The texts of so many responses, one after the other.
fn texts(client: &mut Connection, count: usize) -> Vec<String> {
    (0..count).map(|_| client.ask(GET).text().to_owned()).collect()
}

fn fallbacks(forebay: &Forebay) -> u64 {
    forebay.metrics().sum(FALLBACKS, &[])
}

#[test]
fn while_the_first_has_no_pods_the_second_serves() {
    let (first, second) = (Canned::saying("first"), Canned::saying("second"));
    let forebay = falling_back(setup(), &[second.address()]).endpoint(first.address()).start();
    let mut client = forebay.client();
    assert_eq!(texts(&mut client, 10), ["first"; 10]);
    assert_eq!(fallbacks(&forebay), 0);
    forebay.set_endpoints(&[]);
    assert_eq!(texts(&mut client, 10), ["second"; 10]);
    assert_eq!(fallbacks(&forebay), 10);
    // The recovery begins after the last request that finds the first Service out of use.
    let begun = Instant::now();
    assert_eq!(client.ask(GET).text(), "second");
    forebay.set_endpoints(&[first.address()]);
    let is_preferred = client.ask(GET).text() == "first";
    assert!(!is_preferred || begun.elapsed() >= RECOVERY, "the recovery is not over");
    forebay.await_that("the first to serve again", || client.ask(GET).text() == "first");
    assert_eq!(texts(&mut client, 10), ["first"; 10]);
}

#[test]
fn requests_that_are_refused_go_on_to_the_second_and_later_ones_go_there_at_once() {
    let second = Canned::saying("second");
    let refusing = [(); 2].map(|()| Refusing::default());
    let forebay = refusing
        .iter()
        .map(Refusing::address)
        .fold(falling_back(setup(), &[second.address()]), Setup::endpoint)
        .start();
    let mut client = forebay.client();
    assert_eq!(texts(&mut client, 50), vec!["second"; 50], "no request fails");
    let line = forebay.await_access_log("\"GET / HTTP/1.1\" 200");
    assert!(line.contains("[default-web-80]") || line.contains("[default-standby-80]"), "{line}");
    assert!(fallbacks(&forebay) >= 50);
}

#[test]
fn the_first_serves_again_once_it_accepts_connections() {
    let (refusing, second) = (Refusing::default(), Canned::saying("second"));
    let forebay = falling_back(setup(), &[second.address()]).endpoint(refusing.address()).start();
    let mut client = forebay.client();
    assert_eq!(texts(&mut client, 20), ["second"; 20]);
    let first = Canned::saying("first");
    forebay.set_endpoints(&[first.address()]);
    forebay.await_that("the first to serve again", || client.ask(GET).text() == "first");
    assert_eq!(texts(&mut client, 20), ["first"; 20]);
}

/// All Pods of the first Service accept connections and never answer: their checks find it.
#[test]
fn while_all_pods_of_the_first_hang_the_second_serves() {
    let (hanging, second) = ([(); 2].map(|()| Moody::hanging()), Canned::saying("second"));
    hanging.iter().for_each(Moody::become_well);
    let setup = falling_back(setup(), &[second.address()])
        .annotation("forebay.io/health-check", "http")
        .annotation("forebay.io/health-check-interval", "100ms")
        .annotation("forebay.io/health-check-timeout", "1s");
    let forebay = hanging.iter().map(Moody::address).fold(setup, Setup::endpoint).start();
    let mut client = forebay.client();
    assert!(texts(&mut client, 10).iter().all(|text| text != "second"));
    hanging.iter().for_each(Moody::become_ill);
    forebay.await_that("both to fail their checks", || {
        forebay.metrics().sum("forebay_health_check_failing", &[]) == 2
    });
    assert_eq!(texts(&mut client, 20), ["second"; 20]);
    hanging.iter().for_each(Moody::become_well);
    forebay.await_that("the first to serve again", || client.ask(GET).text() != "second");
}

/// The first Service takes requests and closes the connection.
#[test]
fn a_request_that_must_not_be_repeated_fails_where_it_may_have_arrived() {
    let (closing, second) = (Upstream::new(), Canned::saying("second"));
    let forebay = falling_back(setup(), &[second.address()]).endpoint(closing.address()).start();
    let ask = |method: &str| {
        let mut client = forebay.client();
        client.send(format!("{method} / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 2\r\n\r\nab"));
        drop(closing.accept_request());
        client.read_response()
    };
    assert_eq!(ask("POST").status, 502);
    assert_eq!(ask("PUT").text(), "second");
    let sent = second.heads();
    assert!(sent.len() == 1 && sent[0].starts_with("PUT / HTTP/1.1\r\n"), "{sent:?}");
}

#[test]
fn the_only_try_is_not_followed_by_another_service() {
    let (refusing, second) = (Refusing::default(), Canned::saying("second"));
    let forebay = falling_back(setup(), &[second.address()])
        .annotation("proxy-next-upstream-tries", "1")
        .endpoint(refusing.address())
        .start();
    assert_eq!(forebay.client().ask(GET).status, 502);
}

#[test]
fn where_all_are_out_the_first_is_asked() {
    let refusing = Refusing::default();
    let forebay = falling_back(setup(), &[]).endpoint(refusing.address()).start();
    let statuses: Vec<_> = (0..10).map(|_| forebay.client().ask(GET).status).collect();
    assert_eq!(statuses, [502; 10]);
}

#[test]
fn explain_and_the_console_show_the_order() {
    let (first, second) = (Canned::saying("first"), Canned::saying("second"));
    let forebay = falling_back(setup(), &[second.address()]).endpoint(first.address()).start();
    let explained = || -> serde_json::Value {
        let told = forebay.admin("/explain?url=http%3A%2F%2Fweb.test%2F");
        serde_json::from_str(told.text()).expect("JSON")
    };
    let told = explained();
    let destinations = told["destinations"].as_array().expect("destinations");
    let upstreams: Vec<_> = destinations.iter().map(|one| one["upstream"].as_str().unwrap()).collect();
    assert_eq!(upstreams, ["default-web-80", "default-standby-80"], "{told}");
    forebay.set_endpoints(&[]);
    let of_backend = |told: &serde_json::Value| {
        told["steps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|step| step["step"] == "backend")
            .expect("a step")
            .clone()
    };
    let is_standby = |step: &serde_json::Value| {
        step["text"].as_str().is_some_and(|text| text.contains("default-standby-80 steps in"))
    };
    // A worker that has the endpoints may not know yet that none is usable.
    forebay.await_that("the standby to step in", || is_standby(&of_backend(&explained())));
    let step = of_backend(&explained());
    assert_eq!(step["from"][0]["name"], "forebay.io/fallback", "{step}");
    let objects = forebay.admin("/console/objects");
    assert!(objects.text().contains("\"fallback\":true"), "{}", objects.text());
}

/// The same by a policy for a route of the Gateway API, with a Service of another namespace.
#[test]
fn a_policy_names_services_of_namespaces_that_grant_it() {
    let second = Canned::saying("second");
    let standby = service("standby", &[second.address()]).replace("\"default\"", "\"other\"");
    let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: forebay}\n\
        spec: {controllerName: forebay.io/gateway-controller}\n---\n\
        apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: web}\n\
        spec: {gatewayClassName: forebay, listeners: [{name: http, port: 80, protocol: HTTP}]}\n---\n\
        apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\n\
        spec: {parentRefs: [{name: web}], hostnames: [own.test], rules: [{backendRefs: [{name: svc, port: 80}]}]}\n---\n\
        apiVersion: forebay.io/v1alpha1\nkind: ForebayPolicy\nmetadata: {name: web}\n\
        spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}], \
        fallback: {services: ['other/standby:80']}}\n---\n";
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {name: a, namespace: other}\n\
        spec: {from: [{group: forebay.io, kind: ForebayPolicy, namespace: default}], to: [{group: '', kind: Service}]}\n";
    let forebay = setup()
        .manifest("gateway.yaml", text)
        .manifest("service.yaml", service("svc", &[]) + &standby)
        .start();
    let mut client = forebay.client();
    assert_eq!(client.get("own.test", "/").status, 503, "no grant allows it");
    forebay.replace("grant.yaml", grant);
    forebay.await_that("the grant to be in force", || client.get("own.test", "/").text() == "second");
}
