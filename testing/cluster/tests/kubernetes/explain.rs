//! `forebay explain` of a cluster.

use std::process::Command;

use serde_json::{Value, json};

use crate::space::{Space, forebay, saying};

/// A request is explained by the objects of the cluster, and nobody is sent it.
#[test]
fn a_request_is_explained_by_the_objects_of_a_cluster() {
    let space = Space::new("explain");
    let one = saying("one");
    space.serve("web", one.address());
    let mut rewriting = space.ingress("a.test", "web");
    rewriting["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/rewrite-target": "/new"});
    space.apply("Ingress", "rewriting", rewriting);
    let mut command = Command::new(forebay());
    command.args(["explain", "http://a.test/old", "--output=json", "--kubeconfig"]).arg(space.kubeconfig());
    let explained =
        command.arg(format!("--controller-class={}", space.controller())).output().expect("it runs");
    assert_eq!(explained.status.code(), Some(0), "{explained:?}");
    let told: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
    let to = &told["destinations"][0];
    assert_eq!(to["endpoints"], json!([one.address().to_string()]), "{told:#}");
    assert!(to["request"].as_str().unwrap_or_default().starts_with("GET /new HTTP/1.1\r\n"), "{told:#}");
    let steps = told["steps"].as_array().expect("steps");
    let rewrite = steps.iter().find(|step| step["step"] == "rewrite").expect("a step");
    assert_eq!(rewrite["from"][0]["name"], "rewrite-target", "{told:#}");
    assert_eq!(rewrite["from"][0]["file"], Value::Null, "{told:#}");
    assert_eq!(one.connections(), 0, "nobody is asked");
}
