//! Certificates that Forebay obtains itself: challenges, renewals, faults of authorities, restarts.

use std::path::Path;

use serde_json::Value;
use testkit::manifest::{Ingress, secret, service};
use testkit::{AcmeServer, Canned, Forebay, Setup, TlsClient};

use crate::setup;
use rustix::process::Signal;

/// Forebay with an Ingress that nobody may use, for these hosts.
fn serving(server: &[&AcmeServer], folder: &Path, hosts: &[&str], upstream: &Canned) -> Setup {
    let directories: Vec<String> = server.iter().map(|server| server.directory()).collect();
    let mut ingress = Ingress::new("shop").annotation("whitelist-source-range", "192.0.2.0/24");
    for host in hosts {
        ingress = ingress.path(host, "Prefix", "/", "svc");
    }
    let ingress = ingress.tls_without_secret(hosts).annotation("forebay.io/acme", "true");
    setup()
        .arguments([Path::new("--acme-dir"), folder])
        .setting("forebay-acme-directories", &directories.join(","))
        .manifest(
            "shop.yaml",
            format!("{}---\n{}", ingress.document(), service("svc", &[upstream.address()])),
        )
}

pub(crate) fn started(server: &AcmeServer, setup: Setup) -> Forebay {
    let forebay = setup.start();
    server.look_at(forebay.address(), forebay.https_address());
    forebay
}

/// Whether a client that believes the authority alone is shown a certificate of the host.
pub(crate) fn is_certified(forebay: &Forebay, server: &AcmeServer, host: &str) -> bool {
    TlsClient::new(host).believing(server.authority()).try_connect(forebay.https_address()).is_ok()
}

pub(crate) fn await_certified(forebay: &Forebay, server: &AcmeServer, host: &str) {
    forebay.await_that(&format!("{host} is certified"), || is_certified(forebay, server, host));
    await_state(forebay, host, "valid");
}

pub(crate) fn certificate(forebay: &Forebay, host: &str) -> Value {
    let status: Value = serde_json::from_slice(&forebay.admin("/status").body).expect("JSON");
    let all = status["acme"]["certificates"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["host"] == host).unwrap_or_default()
}

pub(crate) fn await_state(forebay: &Forebay, host: &str, state: &str) {
    forebay.await_that(&format!("{host} is {state}"), || certificate(forebay, host)["state"] == state);
}

#[test]
fn a_certificate_is_obtained_by_either_challenge_and_stays_after_a_restart() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    server.refuse_nonces(3);
    server.require_binding("kid-1", b"a key that both know");
    let eab =
        secret("eab", "Opaque", &[("eab-kid", "kid-1"), ("eab-hmac-key", "YSBrZXkgdGhhdCBib3RoIGtub3c")]);
    let of_all = |challenges: &str| {
        serving(&[&server], folder.path(), &["a.test"], &upstream)
            .manifest("eab.yaml", eab.clone())
            .setting("forebay-acme-secrets", "default/eab")
            .setting("forebay-acme-email", "ops@a.test")
            .setting("forebay-acme-orders-per-hour", "100")
            .setting("forebay-acme-profile", "classic")
            .setting("forebay-acme-challenges", challenges)
            .setting("forebay-acme", "true")
    };
    let forebay = started(&server, of_all("http-01"));
    await_certified(&forebay, &server, "a.test");
    assert_eq!(server.looked_at("a.test"), [(Some("http-01"), false)]);
    let metric = [("host", "a.test"), ("namespace", "acme"), ("secret_name", "a.test")];
    assert_eq!(forebay.metrics().count("nginx_ingress_controller_ssl_expire_time_seconds", &metric), 1);
    // No order is in progress any more, so that the path is the Ingress's, which lets nobody in.
    let response = forebay
        .client()
        .ask("GET /.well-known/acme-challenge/token_0-of-the-test HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(response.status, 308);
    forebay.signal(Signal::KILL);
    forebay.wait();

    let forebay = started(&server, of_all("tls-alpn-01"));
    assert!(is_certified(&forebay, &server, "a.test"), "it is there before anything else is");
    let more = Ingress::new("more").path("b.test", "Prefix", "/", "svc").tls_without_secret(&["b.test"]);
    forebay.replace("more.yaml", &more.document());
    await_certified(&forebay, &server, "b.test");
    assert_eq!(server.looked_at("b.test"), [(Some("tls-alpn-01"), false)]);
    assert_eq!((server.orders("a.test"), server.accounts()), (1, 1));
    let refused = TlsClient::new("b.test").alpn(&["acme-tls/1"]).try_connect(forebay.https_address());
    assert!(refused.is_err(), "no order is in progress");
}

#[test]
fn a_restart_in_each_step_loses_no_order() {
    let upstream = Canned::saying("shop");
    for challenge in ["http-01", "tls-alpn-01"] {
        restart_in_each_step(|server, folder, _| {
            serving(&[server], folder, &["a.test"], &upstream).setting("forebay-acme-challenges", challenge)
        });
    }
}

/// Kills the process of a setup in each step of the order for `a.test`, and starts it again: the order goes
/// on.
pub(crate) fn restart_in_each_step(setup: impl Fn(&AcmeServer, &Path, &str) -> Setup) {
    for step in ["/order/", "/authorization/", "/challenge/", "/finalize/", "/certificate/"] {
        let (server, folder) = (AcmeServer::start(), tempfile::tempdir().unwrap());
        let start = || started(&server, setup(&server, folder.path(), step));
        server.hold(Some(step));
        let forebay = start();
        server.await_held();
        forebay.signal(Signal::KILL);
        forebay.wait();
        let forebay = start();
        server.hold(None);
        await_certified(&forebay, &server, "a.test");
        assert_eq!((server.orders("a.test"), server.accounts()), (1, 1), "{step}");
    }
}

#[test]
fn a_failed_order_is_told_with_its_object() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let forebay = serving(&[&server], folder.path(), &["a.test"], &upstream).start();
    // The name leads somewhere else.
    server.look_at(upstream.address(), upstream.address());
    server.await_refused("a.test");
    await_state(&forebay, "a.test", "missing");
    let fault = certificate(&forebay, "a.test")["fault"].as_str().unwrap_or_default().to_owned();
    assert!(fault.contains("in place of the key authorization"), "{fault}");
    let line = forebay.await_log("no certificate was obtained for host a.test");
    assert!(line.contains("shop.yaml") && line.contains("default/shop"), "{line}");
    let missing = [("state", "missing")];
    assert_eq!(forebay.metrics().sum("forebay_acme_certificates", &missing), 1);
}

#[test]
fn a_restart_forgets_no_pause() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let setup = || serving(&[&server], folder.path(), &["a.test"], &upstream);
    // The authority wants to be left alone for two minutes.
    server.set_busy(true);
    let forebay = started(&server, setup());
    await_state(&forebay, "a.test", "missing");
    let retried = certificate(&forebay, "a.test")["renewedAt"].as_i64().unwrap();
    forebay.signal(Signal::KILL);
    forebay.wait();
    server.set_busy(false);
    let forebay = started(&server, setup());
    await_state(&forebay, "a.test", "missing");
    assert_eq!(certificate(&forebay, "a.test")["renewedAt"].as_i64(), Some(retried));
    assert_eq!((server.orders("a.test"), server.accounts()), (0, 1));
}

#[test]
fn another_authority_is_asked_if_the_first_one_is_busy() {
    let (first, second) = (AcmeServer::start(), AcmeServer::start());
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Canned::saying("shop"));
    first.set_busy(true);
    let forebay = started(&second, serving(&[&first, &second], folder.path(), &["a.test"], &upstream));
    await_certified(&forebay, &second, "a.test");
    assert_eq!((first.orders("a.test"), second.orders("a.test")), (0, 1));
}

#[test]
fn a_certificate_is_renewed_when_the_authority_suggests_it() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    server.suggest_renewal("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let forebay = started(&server, serving(&[&server], folder.path(), &["a.test"], &upstream));
    server.await_issued("a.test", 2);
    server.suggest_renewal("2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z");
    let looked = server.looked_at("a.test");
    assert!(looked.iter().skip(1).all(|(_, replaces)| *replaces), "{looked:?}");
    await_certified(&forebay, &server, "a.test");
}

#[test]
fn hosts_that_cannot_have_a_certificate_are_told() {
    let server = AcmeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Canned::saying("shop");
    let forebay = serving(&[&server], folder.path(), &["*.a.test"], &upstream).start();
    let line = forebay.await_log("no certificate is obtained for *.a.test");
    assert!(line.contains("dns-01") && line.contains("shop.yaml"), "{line}");
    drop(forebay);
    let forebay = setup().setting("forebay-acme-directories", &server.directory()).start();
    forebay.await_log("without --acme-dir there is no place for keys");
    assert_eq!(server.accounts(), 0);
}
