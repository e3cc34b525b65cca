//! Forebay's rights, and its messages where they are missing.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::space::{Space, await_answer, await_that, saying};

/// The resources that are needed to serve without TLS.
const ROUTES: [&str; 4] = ["ingresses", "ingressclasses", "services", "endpointslices"];

/// A `ServiceAccount` `forebay`, which may watch these resources.
fn account(space: &Space, resources: &[&str]) {
    space.apply("ServiceAccount", "forebay", json!({}));
    space.apply("ClusterRole", &space.name, role(resources));
    let subject = json!({"kind": "ServiceAccount", "name": "forebay", "namespace": space.name});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": space.name});
    space.apply("ClusterRoleBinding", &space.name, json!({"subjects": [subject], "roleRef": role}));
}

/// A kubeconfig of that account.
pub(crate) fn kubeconfig(space: &Space, folder: &TempDir) -> PathBuf {
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/forebay/token", space.name);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = space.client.post(&path, &request).expect("a token")["status"]["token"].take();
    let mut kubeconfig: Value =
        serde_json::from_slice(&fs::read(space.kubeconfig()).expect("a kubeconfig")).expect("it is JSON");
    kubeconfig["users"][0]["user"]["token"] = token;
    let file = folder.path().join("kubeconfig");
    fs::write(&file, kubeconfig.to_string()).expect("a file");
    file
}

fn role(resources: &[&str]) -> Value {
    let groups = ["", "networking.k8s.io", "discovery.k8s.io"];
    json!({"rules": [{"apiGroups": groups, "resources": resources, "verbs": ["get", "list", "watch"]}]})
}

fn forget(space: &Space) {
    space.delete("ClusterRoleBinding", &space.name);
    space.delete("ClusterRole", &space.name);
}

#[test]
fn a_right_that_is_missing_is_named_until_it_is_given() {
    let space = Space::new("rights");
    let folder = tempfile::tempdir().expect("a folder");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    account(&space, &ROUTES[..3]);
    let mut forebay = space.forebay_as(&kubeconfig(&space, &folder)).launch();
    let line = forebay.await_log("cannot watch endpointslices");
    assert!(line.contains("forbidden"), "{line}");
    await_that("the trouble to be told", || {
        let readiness = forebay.admin("/readyz");
        readiness.status == 503 && readiness.text().contains("cannot watch endpointslices")
    });
    space.apply("ClusterRole", &space.name, role(&ROUTES));
    forebay.await_serving();
    await_answer(&forebay, "a.test", 200, "one");
    await_that("no more trouble", || forebay.admin("/readyz").text() == "ok\n");
    forget(&space);
}

/// Secrets are read by namespace, and only where an Ingress names one.
#[test]
fn a_secret_that_must_not_be_read_costs_its_host_no_more_than_the_certificate() {
    let space = Space::new("secrets");
    let folder = tempfile::tempdir().expect("a folder");
    let one = saying("one");
    space.serve("web", one.address());
    let mut ingress = space.ingress("a.test", "web");
    ingress["spec"]["tls"] = json!([{"hosts": ["a.test"], "secretName": "certificate"}]);
    ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/ssl-redirect"] = "false".into();
    space.apply("Ingress", "web", ingress);
    account(&space, &ROUTES);
    let forebay = space.forebay_as(&kubeconfig(&space, &folder)).start();
    await_answer(&forebay, "a.test", 200, "one");
    let trouble = format!("secrets of namespace {}", space.name);
    forebay.await_log(&format!("{trouble} cannot be read"));
    await_that("the trouble to be told", || forebay.admin("/readyz").text().contains(&trouble));
    forget(&space);
}
