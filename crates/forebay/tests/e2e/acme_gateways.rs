//! Certificates that Forebay obtains itself for listeners of Gateways: challenges, restarts, and what clients
//! are shown before. Orders are the same as those for Ingresses (`acme`).

use std::path::Path;

use rustix::process::Signal;
use testkit::manifest::service;
use testkit::{AcmeServer, Canned, Forebay, Setup, TlsClient};

use crate::acme::{await_certified, await_state, certificate, is_certified, restart_in_each_step, started};
use crate::setup;

/// An HTTPS listener for a host, which names a Secret that does not exist.
fn listener(host: &str) -> String {
    let name = host.trim_matches(|char| "\"*.".contains(char)).replace('.', "-");
    format!(
        "  - {{name: {name}, port: 443, protocol: HTTPS, hostname: {host}, tls: {{certificateRefs: [{{name: {name}}}]}}}}\n"
    )
}

/// A Gateway with a listener for HTTP and these, which asks for certificates.
fn gateway(listeners: &[String]) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: forebay}}\n\
         spec: {{controllerName: forebay.io/gateway-controller}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
         metadata:\n  name: web\n  annotations:\n    forebay.io/acme: \"true\"\n\
         spec:\n  gatewayClassName: forebay\n  listeners:\n  - {{name: http, port: 80, protocol: HTTP}}\n{}",
        listeners.concat()
    )
}

/// Routes for all hosts: over HTTP a redirect, over HTTPS Service `svc`.
fn routes(section: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: redirect}}\n\
         spec: {{parentRefs: [{{name: web, sectionName: http}}], rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{scheme: https}}}}]}}]}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: shop}}\n\
         spec: {{parentRefs: [{{name: web, sectionName: {section}}}], rules: [{{backendRefs: [{{name: svc, port: 80}}]}}]}}\n"
    )
}

fn serving(server: &AcmeServer, folder: &Path, gateway: String, upstream: &Canned) -> Setup {
    setup()
        .arguments([Path::new("--acme-dir"), folder])
        .setting("forebay-acme-directories", &server.directory())
        .manifest("gateway.yaml", gateway)
        .manifest("routes.yaml", routes("a-test"))
        .manifest("svc.yaml", service("svc", &[upstream.address()]))
}

/// Whether a client of the host gets through the handshake, whatever certificate it is shown.
fn is_shown_one(forebay: &Forebay, host: &str) -> bool {
    TlsClient::new(host).blind().try_connect(forebay.https_address()).is_ok()
}

#[test]
fn a_listener_gets_its_certificate_by_either_challenge_and_keeps_it_after_a_restart() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let setup = |challenges: &str| {
        serving(&server, folder.path(), gateway(&[listener("a.test")]), &upstream)
            .setting("forebay-acme-challenges", challenges)
    };
    let forebay = started(&server, setup("http-01"));
    await_certified(&forebay, &server, "a.test");
    assert_eq!(server.looked_at("a.test"), [(Some("http-01"), false)]);
    let client = TlsClient::new("a.test").believing(server.authority());
    let response = client.connect(forebay.https_address()).get("a.test", "/");
    assert_eq!((response.status, response.text()), (200, "shop"));
    // No order is in progress any more: the path has the Gateway's own route.
    let path = "/.well-known/acme-challenge/token_0-of-the-test";
    assert_eq!(forebay.client().get("a.test", path).status, 302);
    let metric = [("host", "a.test"), ("namespace", "acme"), ("secret_name", "a.test")];
    assert_eq!(forebay.metrics().count("nginx_ingress_controller_ssl_expire_time_seconds", &metric), 1);
    forebay.signal(Signal::KILL);
    forebay.wait();

    let forebay = started(&server, setup("tls-alpn-01"));
    assert!(is_certified(&forebay, &server, "a.test"), "it is there before anything else is");
    forebay.replace("gateway.yaml", &gateway(&[listener("a.test"), listener("b.test")]));
    await_certified(&forebay, &server, "b.test");
    assert_eq!(server.looked_at("b.test"), [(Some("tls-alpn-01"), false)]);
    assert_eq!((server.orders("a.test"), server.orders("b.test"), server.accounts()), (1, 1, 1));
    let refused = TlsClient::new("b.test").alpn(&["acme-tls/1"]).try_connect(forebay.https_address());
    assert!(refused.is_err(), "no order is in progress");
}

#[test]
fn a_gateway_without_http_answers_in_handshakes_at_once() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let listeners =
        gateway(&[listener("a.test")]).replace("  - {name: http, port: 80, protocol: HTTP}\n", "");
    let forebay = started(&server, serving(&server, folder.path(), listeners, &upstream));
    await_certified(&forebay, &server, "a.test");
    assert_eq!(server.looked_at("a.test"), [(Some("tls-alpn-01"), false)]);
}

#[test]
fn a_restart_in_each_step_loses_no_order_of_a_listener() {
    let upstream = Canned::saying("shop");
    restart_in_each_step(|server, folder, step| {
        let challenge = if step == "/challenge/" { "tls-alpn-01" } else { "http-01" };
        serving(server, folder, gateway(&[listener("a.test")]), &upstream)
            .setting("forebay-acme-challenges", challenge)
    });
}

#[test]
fn a_listener_without_its_certificate_is_closed_and_says_why() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let both = gateway(&[listener("a.test"), listener("\"*.b.test\"")]);
    let setup = serving(&server, folder.path(), both, &upstream);
    let forebay = setup.setting("forebay-acme-challenges", "http-01").start();
    // The name leads somewhere else.
    server.look_at(upstream.address(), upstream.address());
    server.await_refused("a.test");
    await_state(&forebay, "a.test", "missing");
    let line = forebay.await_log("no certificate was obtained for host a.test: ");
    assert!(line.contains("gateway.yaml") && line.contains("Gateway default/web"), "{line}");
    let fault = certificate(&forebay, "a.test")["fault"].as_str().unwrap_or_default().to_owned();
    assert!(fault.contains("in place of the key authorization"), "{fault}");
    let line = forebay.await_log("*.b.test takes the challenge dns-01");
    assert!(line.contains("gateway.yaml") && line.contains("cert-manager"), "{line}");
    assert!(!is_shown_one(&forebay, "a.test"), "the default certificate is for nobody's host");
    assert_eq!(server.orders("*.b.test"), 0);
}
