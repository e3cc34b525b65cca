//! `kubectl forebay`, as kubectl runs it, of Forebays that the chart has installed.

use std::env;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Connection;

use crate::chart::Release;
use crate::rights;
use crate::space::{Space, await_that, forebay, saying};

const FORMAT: &str = "controller.config.log-format-upstream=$host $status $request_uri";

/// Runs `kubectl forebay` in the namespace of a test; exit code, standard output and standard error.
fn kubectl(space: &Space, kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    run(kubeconfig, &[&["forebay"], arguments, &["--namespace", &space.name]].concat())
}

/// Runs kubectl with the plugin and what completes it.
fn run(kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    let programs = tempfile::tempdir().expect("a folder");
    for name in ["kubectl-forebay", "kubectl_complete-forebay"] {
        symlink(forebay(), programs.path().join(name)).expect("a link");
    }
    let path = format!("{}:{}", programs.path().display(), env::var("PATH").expect("a PATH"));
    let mut command = Command::new("kubectl");
    command.args(arguments).env("KUBECONFIG", kubeconfig).env("PATH", path);
    let output = command.output().expect("kubectl");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

/// The addresses of the Pods of a release, once all are ready.
fn pods(space: &Space) -> Vec<String> {
    space.await_rollout(&format!("{}-controller", space.name));
    let pods = space.client.list("Pod", &space.name).expect("the API answers");
    pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).map(str::to_owned).collect()
}

fn get(pod: &str, host: &str, target: &str) -> u16 {
    Connection::to(format!("{pod}:80").parse().expect("an address")).get(host, target).status
}

#[test]
fn what_forebays_in_a_cluster_know_is_told() {
    let space = Space::new("kubectl");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    space.route("other", "b.test", "web");
    let mut odd = space.ingress("c.test", "web");
    odd["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/limit-rps": "many"});
    space.apply("Ingress", "odd", odd);
    let _release = Release::install(&space, &["controller.replicaCount=2", FORMAT]);
    let addresses = pods(&space);
    assert_eq!(addresses.len(), 2);
    for pod in &addresses {
        await_that("the routes", || {
            get(pod, "a.test", "/first") == 200 && get(pod, "b.test", "/second") == 200
        });
    }
    let ask = |arguments: &[&str]| kubectl(&space, space.kubeconfig(), arguments);

    let (code, stdout, stderr) = ask(&["status", "-o", "json"]);
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    assert_eq!(code, 0, "{told:#}");
    for pod in told["pods"].as_array().expect("Pods") {
        assert_eq!((&pod["isReady"], &pod["trouble"]), (&json!(true), &Value::Null), "{told:#}");
        let status = &pod["status"];
        assert!(
            status["generation"].as_u64() >= Some(1) && status["requests"].as_u64() >= Some(2),
            "{told:#}"
        );
        assert_eq!(status["accessLog"]["format"], "$host $status $request_uri");
        let problems = status["problems"]["first"].as_array().expect("a list");
        let is_it = |problem: &Value| problem["object"] == format!("Ingress {}/odd", space.name);
        assert!(problems.iter().any(is_it), "{told:#}");
    }
    let (_, stdout, _) = ask(&["status"]);
    assert!(
        stdout.starts_with("NAMESPACE ")
            && stdout.lines().nth(1).is_some_and(|row| row.contains("   yes   ")),
        "{stdout}"
    );
    assert!(stdout.contains(&format!(": Ingress {}/odd: ", space.name)), "{stdout}");

    let (code, stdout, stderr) = ask(&["explain", "http://a.test/x"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.starts_with("Request:     GET http://a.test/x\n"), "{stdout}");
    assert!(stdout.contains(&one.address().to_string()), "{stdout}");
    assert_eq!(ask(&["explain", "http://nobody.test/"]).0, 1);

    let (_, stdout, stderr) = ask(&["doctor"]);
    assert_eq!(stdout.matches(" checks: ").count(), 2, "{stdout}{stderr}");
    let (_, stdout, stderr) = ask(&["doctor", "--since", "-1h", "-o", "json"]);
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    for pod in told["pods"].as_array().expect("Pods") {
        assert!(pod["trouble"].is_null() && pod["past"]["samples"].as_u64() >= Some(1), "{told:#}");
    }

    a_look_is_told(&space, ask);

    let (code, stdout, stderr) = ask(&["check"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    // The class is that of this release, which only the flags of its Pods say.
    assert!(stdout.contains("a.test") && stdout.contains("limit-rps"), "{stdout}");
    assert!(stderr.contains(&format!("read with the flags of Pod {}/", space.name)), "{stderr}");

    logs_are_told(ask);

    let (code, _, stderr) = ask(&["explain", "http://a.test/", "--port", "9"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot ask port 9 of Pod") && stderr.contains("refused"), "{stderr}");
}

fn a_look_is_told(space: &Space, ask: impl Fn(&[&str]) -> (i32, String, String)) {
    let (code, stdout, stderr) = ask(&["top", "--once"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.starts_with(&format!("{}-controller-", space.name)) && stdout.contains("REQ/S"),
        "{stdout}"
    );
    let (code, _, stderr) = ask(&["top", "nobody"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no Pod of Forebay is called \"nobody\"; there are "), "{stderr}");
}

/// Of the request to `b.test`, which each Pod has answered.
fn logs_are_told(ask: impl Fn(&[&str]) -> (i32, String, String)) {
    await_that("the access log", || {
        ask(&["logs", "--host", "b.test", "--status", "2xx"]).1.lines().count() >= 2
    });
    let (code, stdout, stderr) = ask(&["logs", "--host", "b.test", "--status", "200"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.lines().all(|line| line == "b.test 200 /second"), "{stdout}");
    assert!(stderr.contains("lines that are not of the access log"), "{stderr}");
    assert!(ask(&["logs", "--host", "nobody.test"]).1.is_empty());
}

/// Rights of a namespace, one more each time, and what can be done with them.
#[test]
fn rights_that_are_missing_are_named() {
    let space = Space::new("kubectl-rights");
    let folder = TempDir::new().expect("a folder");
    let _release = Release::install(&space, &[]);
    pods(&space);
    space.apply("ServiceAccount", "forebay", json!({}));
    let subject = json!({"kind": "ServiceAccount", "name": "forebay", "namespace": space.name});
    let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "plugin"});
    space.apply("RoleBinding", "plugin", json!({"subjects": [subject], "roleRef": of}));
    let kubeconfig = rights::kubeconfig(&space, &folder);
    let allow = |rules: Value| space.apply("Role", "plugin", json!({"rules": rules}));
    let ask = |arguments: &[&str]| kubectl(&space, &kubeconfig, arguments);
    let rule =
        |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});

    allow(json!([]));
    let (code, _, stderr) = ask(&["status"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("with list on pods;"), "{stderr}");

    allow(json!([rule("pods", &["list"])]));
    await_that("the right to list Pods", || ask(&["status"]).0 == 1);
    let (_, stdout, _) = ask(&["status"]);
    assert!(stdout.contains("pods/portforward") && stdout.contains(" yes "), "{stdout}");
    let (code, _, stderr) = ask(&["logs"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("with get on pods/log;"), "{stderr}");

    allow(json!([
        rule("pods", &["list"]),
        rule("pods/log", &["get"]),
        rule("pods/portforward", &["create", "get"])
    ]));
    await_that("all rights", || ask(&["status"]).0 == 0);
    assert_eq!(ask(&["logs"]).0, 0);
    assert_eq!(ask(&["explain", "http://nobody.test/"]).0, 1);
    let (code, _, stderr) = ask(&["check"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("does not list") && stderr.contains("it takes a ClusterRole with list and watch"),
        "{stderr}"
    );
}

#[test]
fn kubectl_completes_what_is_behind_the_plugin() {
    let space = Space::new("kubectl-complete");
    let (code, stdout, stderr) = run(space.kubeconfig(), &["__complete", "forebay", "ex"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("explain\tExplain a request step by step"), "{stdout}{stderr}");
    assert!(stdout.ends_with(":4\n"), "{stdout}");
}
