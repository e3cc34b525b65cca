//! `forebay check` of a cluster.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::space::{Space, forebay, saying};

fn check(space: &Space, arguments: &[&str]) -> Output {
    let mut command = Command::new(forebay());
    command.arg("check").arg("--kubeconfig").arg(space.kubeconfig());
    command.arg(format!("--controller-class={}", space.controller())).args(arguments);
    command.output().expect("it runs")
}

/// The routes, the problems and the report are those of the objects of the cluster, and nothing is written to
/// it.
#[test]
fn a_cluster_is_checked_as_files_are() {
    let space = Space::new("check");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let mut odd = space.ingress("b.test", "web");
    odd["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/limit-rps": "10",
        "nginx.ingress.kubernetes.io/auth-type": "basic",
        "nginx.ingress.kubernetes.io/auth-secret": "users",
    });
    space.apply("Ingress", "odd", odd);
    let before = space.find("Ingress", "web");
    let checked = check(&space, &["--output=json"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let told: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let hosts: Vec<_> =
        told["routes"].as_array().expect("routes").iter().map(|route| &route["host"]).collect();
    assert_eq!(hosts, ["a.test", "b.test"], "{told:#}");
    assert_eq!(told["routes"][0]["endpoints"], one.address().to_string(), "{told:#}");
    assert_eq!(told["migration"]["annotations"].as_array().map(Vec::len), Some(3), "{told:#}");
    let problems = told["problems"].as_array().expect("problems");
    assert!(
        problems.iter().any(|one| one["message"].as_str().unwrap_or_default().contains("users")),
        "{told:#}"
    );
    assert_eq!(space.find("Ingress", "web"), before);
}

/// A Secret that an Ingress names is read before anything is judged.
#[test]
fn secrets_are_read_before_a_cluster_is_judged() {
    let space = Space::new("check-secret");
    let one = saying("one");
    space.serve("web", one.address());
    // htpasswd, in base64: user:{PLAIN}password
    space.apply("Secret", "users", json!({"data": {"auth": "dXNlcjp7UExBSU59cGFzc3dvcmQK"}}));
    let mut guarded = space.ingress("c.test", "web");
    guarded["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/auth-type": "basic",
        "nginx.ingress.kubernetes.io/auth-secret": "users",
    });
    space.apply("Ingress", "guarded", guarded);
    let checked = check(&space, &[]);
    let told = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(told.ends_with("1 of 1 Ingress behaves as before\n"), "{told}");
}
