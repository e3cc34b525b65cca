//! A Gateway while its certificate is obtained, and when it is there: its hosts, statuses and problems.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use model::{Action, Host, PathKind};
use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::acme::{Answer, HostState};
use crate::certificate::Pair;
use crate::names::NsName;
use crate::options::Options;
use crate::translate::Translation;

/// The first of July 2026.
const NOW: u64 = 1_782_864_000;

const MANIFEST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {forebay-acme-directories: letsencrypt}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: forebay}
spec: {controllerName: forebay.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: web
  annotations:
    forebay.io/acme: "true"
spec:
  gatewayClassName: forebay
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, hostname: a.test, tls: {certificateRefs: [{name: a-tls}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: redirect}
spec:
  parentRefs: [{name: web, sectionName: http}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]
"#;

/// The translation with this state of the host's certificate.
fn translated(state: HostState) -> Translation {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, MANIFEST).unwrap();
    let configmap = Some("default/settings".parse().unwrap());
    let options = Options { manifests: vec![file], configmap, ..Options::default() };
    options.acme.hold(BTreeMap::from([("a.test".to_owned(), Arc::new(state))]));
    crate::load_at(&options, UNIX_EPOCH + Duration::from_secs(NOW)).unwrap()
}

fn pair() -> Arc<Pair> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    let owner = NsName::new("acme", "a.test");
    Arc::new(Pair::parse(&owner, chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap())
}

fn host(translation: &Translation, listener: usize, name: &HostName) -> Option<Arc<Host>> {
    let hosts = translation.model.listeners[listener].hosts().unwrap();
    hosts.iter().find(|host| host.name == *name).cloned()
}

/// Reasons of the listener's conditions about its references and whether it is served, with whether they are
/// met.
fn conditions(translation: &Translation) -> [(&'static str, bool); 2] {
    let listener = &translation.gateway.gateways[0].listeners[1];
    ["ResolvedRefs", "Programmed"].map(|kind| {
        let condition = listener.conditions.iter().find(|one| one.kind == kind).unwrap();
        (condition.reason, condition.is_true)
    })
}

fn a_test() -> HostName {
    HostName::parse("a.test").unwrap()
}

const WAITING: [(&str, bool); 2] = [("InvalidCertificateRef", false), ("Pending", false)];

#[test]
fn without_an_order_the_host_is_closed_and_nothing_is_wrong() {
    let translation = translated(HostState::default());
    assert_eq!(conditions(&translation), WAITING);
    assert_eq!(translation.acme.hosts.iter().collect::<Vec<_>>(), ["a.test"]);
    assert!(translation.acme.by_handshake.is_empty(), "the listener for HTTP has all names");
    assert_eq!(translation.problems, []);
    let https = host(&translation, 1, &a_test()).unwrap();
    assert!(https.tls.stream.as_ref().is_some_and(|stream| !stream.is_terminated));
    assert_eq!(host(&translation, 0, &a_test()), None);
}

#[test]
fn a_challenge_over_http_comes_before_the_routes_of_wider_names() {
    let answer = Answer::Http { token: "token".to_owned(), content: "token.key".to_owned() };
    let translation = translated(HostState { answer: Some(answer), ..HostState::default() });
    let http = host(&translation, 0, &a_test()).unwrap();
    let [route] = &http.routes[..] else { panic!("{:?}", http.routes) };
    assert_eq!(
        (route.path.kind(), route.path.path()),
        (PathKind::Exact, "/.well-known/acme-challenge/token")
    );
    let Action::Respond(response) = &route.action else { panic!("{:?}", route.action) };
    assert_eq!((response.status, response.body.as_str()), (200, "token.key"));
    let wider = http.wider.as_ref().and_then(|wider| wider.host.as_ref());
    assert_eq!(wider, Some(&HostName::Any), "all other paths are redirected");
    let all = host(&translation, 0, &HostName::Any).unwrap();
    assert!(all.routes.iter().all(|route| !matches!(route.action, Action::Respond(_))));
    assert_eq!(translation.origins.len(), 3, "each host has its origins");
}

#[test]
fn a_challenge_in_a_handshake_is_answered_before_the_first_certificate_and_after() {
    let certificate = Arc::clone(&pair().certificate);
    let answer = Some(Answer::TlsAlpn(Arc::clone(&certificate)));
    let translation = translated(HostState { answer: answer.clone(), ..HostState::default() });
    let https = host(&translation, 1, &a_test()).unwrap();
    assert_eq!(https.tls.challenge, Some(Arc::clone(&certificate)));
    assert!(https.tls.stream.as_ref().is_some_and(|stream| stream.is_terminated), "it shows certificates");
    assert_eq!(conditions(&translation), WAITING);
    let translation = translated(HostState { answer, pair: Some(pair()), ..HostState::default() });
    let https = host(&translation, 1, &a_test()).unwrap();
    assert!(https.tls.challenge.is_some() && https.tls.certificate.is_some() && https.tls.stream.is_none());
}

#[test]
fn a_certificate_that_is_there_is_served_until_it_expires() {
    let pair = pair();
    let translation = translated(HostState { pair: Some(Arc::clone(&pair)), ..HostState::default() });
    assert_eq!(conditions(&translation), [("ResolvedRefs", true), ("Programmed", true)]);
    assert_eq!(
        host(&translation, 1, &a_test()).unwrap().tls.certificate,
        Some(Arc::clone(&pair.certificate))
    );
    assert_eq!(translation.certificates.len(), 1);
    assert_eq!(translation.valid_until, Some(pair.not_after() + 1));
    let fault = Some("example: it is busy".to_owned());
    let translation = translated(HostState { pair: Some(pair), fault, ..HostState::default() });
    let [problem] = &translation.problems[..] else { panic!("{:?}", translation.problems) };
    assert!(
        problem.message.ends_with("example: it is busy; the one that is there stays in use"),
        "{problem}"
    );
    assert_eq!(conditions(&translation), [("ResolvedRefs", true), ("Programmed", true)]);
}

#[test]
fn a_failed_order_is_a_fault_of_the_listener() {
    let fault = Some("example: it is busy".to_owned());
    let translation = translated(HostState { fault, ..HostState::default() });
    let [problem] = &translation.problems[..] else { panic!("{:?}", translation.problems) };
    let message = &problem.message;
    assert!(message.starts_with("listener https: no certificate was obtained for host a.test"), "{message}");
    assert_eq!(conditions(&translation), WAITING);
}
