//! `kubectl forebay` at an API server of few words: who is found, what is refused, and what is said then.
//! `testing/cluster` tests what a running Forebay tells it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::manifest::Ingress;
use testkit::{Canned, Refusing, Upstream};

use crate::{FOREBAY, setup};

/// A folder with the program under its name as a plugin, and a kubeconfig.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn at(server: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        symlink(FOREBAY, folder.path().join("kubectl-forebay")).expect("a link");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "current-context": "one",
        });
        fs::write(folder.path().join("config"), kubeconfig.to_string()).expect("a file");
        Self { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("kubectl-forebay"));
        command.args(arguments).stdin(Stdio::null());
        command.env("KUBECONFIG", self.folder.path().join("config")).env("HOME", self.folder.path());
        command.env_remove("KUBERNETES_SERVICE_HOST");
        command
    }

    /// Exit code, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        ended(&mut self.command(arguments))
    }
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}

fn refusal(what: &str) -> Vec<u8> {
    let message = format!("{what} is forbidden: User \"u\" cannot do that");
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": "Forbidden", "code": 403});
    answer("403 Forbidden", &status.to_string())
}

fn pod(name: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "metadata": {"namespace": "edge", "name": name, "labels": {"app.kubernetes.io/version": "0.1.0"}},
        "spec": {"nodeName": "node-1", "containers": [{
            "name": "controller", "image": "forebay:0.1.0", "args": ["serve"],
            "ports": [{"name": "metrics", "containerPort": 10254}],
        }]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn pods(pods: &[Value]) -> Vec<u8> {
    answer(
        "200 OK",
        &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).to_string(),
    )
}

/// An API server with two Pods, one of them ready, whose logs may be read, and no port of which is forwarded.
fn two_pods() -> Canned {
    Canned::choosing(|head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        if target.contains("/one/log?") {
            answer("200 OK", "2026-11-23T05:00:00.1Z first\n2026-11-23T05:00:02Z third\n")
        } else if target.contains("/two/log?") {
            answer("200 OK", "2026-11-23T05:00:00.25Z second\n")
        } else if target.contains("/portforward?") {
            refusal("pods")
        } else if target.contains("/pods?") {
            pods(&[pod("two", false), pod("one", true)])
        } else {
            refusal("this")
        }
    })
}

fn url(server: &Canned) -> String {
    format!("http://{}", server.address())
}

#[test]
fn the_plugin_calls_itself_as_it_is_called() {
    let desk = Desk::at("http://192.0.2.1");
    let (code, stdout, _) = desk.run(&["status", "--help"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("Usage: kubectl forebay status"), "{stdout}");
    let (code, _, stderr) = desk.run(&[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("Usage: kubectl forebay"), "{stderr}");
    let (code, _, stderr) = desk.run(&["statsu"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("did you mean status?"), "{stderr}");
    let mut long = Command::new(FOREBAY);
    long.args(["kubectl", "logs", "--status=6xx"]);
    let (code, _, stderr) = ended(&mut long);
    assert_eq!(code, 2);
    assert!(stderr.contains("or 5xx for all of a class"), "{stderr}");
}

#[test]
fn what_is_wrong_with_a_kubeconfig_is_said_in_one_line() {
    let desk = Desk::at("http://192.0.2.1");
    let said = |arguments: &[&str], kubeconfig: Option<&str>| {
        let mut command = desk.command(arguments);
        match kubeconfig {
            Some(path) => command.env("KUBECONFIG", path),
            None => command.env_remove("KUBECONFIG"),
        };
        let (code, stdout, stderr) = ended(&mut command);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        stderr
    };
    let config = desk.folder.path().join("config").display().to_string();
    let none = said(&["status"], None);
    assert!(none.contains("there is no kubeconfig") && none.contains("/.kube/config"), "{none}");
    assert!(said(&["status"], Some("/nonexistent/k")).contains("/nonexistent/k"));
    assert!(said(&["status", "--kubeconfig=/nonexistent/x"], Some(&config)).contains("/nonexistent/x"));
    let other = said(&["status", "--context=two"], Some(&config));
    assert!(other.contains(&format!("{config} has no context \"two\"; there are one")), "{other}");
}

#[test]
fn an_api_server_that_is_away_is_named() {
    let refusing = Refusing::default();
    let (code, _, stderr) = Desk::at(&format!("http://{}", refusing.address())).run(&["status"]);
    assert_eq!(code, 2);
    let expected = format!("cannot ask the API server at http://{}", refusing.address());
    assert!(stderr.contains(&expected) && stderr.contains("refused"), "{stderr}");
    let silent = Upstream::new();
    let desk = Desk::at(&format!("http://{}", silent.address()));
    let (code, _, stderr) = desk.run(&["status", "--request-timeout=200ms"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("has not answered within 0.2 s"), "{stderr}");
}

#[test]
fn a_proxy_is_asked_unless_the_api_server_is_to_be_reached_without() {
    let proxy = Canned::answering("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
    let refusing = Refusing::default();
    // Nobody listens there either, and it is another address than the proxy's.
    let server = format!("127.0.0.2:{}", refusing.address().port());
    let desk = Desk::at(&format!("https://{server}"));
    let run = |without: &str| {
        let mut command = desk.command(&["status"]);
        ended(command.env("HTTPS_PROXY", url(&proxy)).env("NO_PROXY", without).env_remove("no_proxy"))
    };
    let (code, _, stderr) = run("elsewhere.test");
    assert_eq!(code, 2, "{stderr}");
    assert!(proxy.heads()[0].starts_with(&format!("CONNECT {server} ")), "{:?}", proxy.heads());
    let before = proxy.connections();
    let (_, _, stderr) = run("127.0.0.2");
    assert_eq!(proxy.connections(), before, "{stderr}");
    assert!(stderr.contains("refused"), "{stderr}");
}

#[test]
fn where_nothing_is_found_it_is_said_what_was_looked_for() {
    let server = Canned::choosing(|_| pods(&[]));
    let desk = Desk::at(&url(&server));
    for command in ["status", "doctor", "logs"] {
        let (code, stdout, stderr) = desk.run(&[command]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{command}");
        let expected = "no Pod with the labels app.kubernetes.io/name=forebay,app.kubernetes.io/component=controller in all namespaces of";
        assert!(stderr.contains(expected) && stderr.contains(&url(&server)), "{stderr}");
    }
    let (code, _, stderr) = desk.run(&["explain", "http://a.test/", "-n", "edge", "-l", "app=x"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no Pod with the labels app=x in namespace edge of"), "{stderr}");
    let heads = server.heads();
    assert!(heads[0].starts_with("GET /api/v1/pods?"), "{}", heads[0]);
    assert!(heads[3].starts_with("GET /api/v1/namespaces/edge/pods?&labelSelector=app%3Dx "), "{}", heads[3]);
    assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains("authorization: bearer secret")));
}

#[test]
fn a_right_to_list_pods_that_is_missing_is_named() {
    let server = Canned::choosing(|_| refusal("pods"));
    let desk = Desk::at(&url(&server));
    let (code, _, stderr) = desk.run(&["status"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("pods is forbidden: User \"u\" cannot do that; it takes a ClusterRole with list on pods; with -n NAMESPACE"),
        "{stderr}"
    );
    let (code, _, stderr) = desk.run(&["logs", "-n", "edge"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("it takes a Role in namespace edge with list on pods"), "{stderr}");
}

#[test]
fn a_right_to_forward_ports_that_is_missing_costs_what_only_forebay_knows() {
    let server = two_pods();
    let desk = Desk::at(&url(&server));
    let (code, stdout, _) = desk.run(&["status"]);
    assert_eq!(code, 1, "{stdout}");
    let lines: Vec<Vec<_>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["NAMESPACE", "NAME", "NODE", "VERSION", "READY"]);
    assert_eq!(lines[1], ["edge", "one", "node-1", "0.1.0", "yes", "-", "-", "-", "-", "-", "-"]);
    assert_eq!(lines[2][..6], ["edge", "two", "node-1", "0.1.0", "not", "ready"]);
    let right = "it takes a Role in namespace edge with create and get on pods/portforward";
    assert!(
        stdout.contains("cannot forward port 10254 of Pod edge/one") && stdout.contains(right),
        "{stdout}"
    );
    let (code, stdout, _) = desk.run(&["status", "-o", "json"]);
    let told: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(code, 1);
    assert_eq!((&told["pods"][0]["name"], &told["pods"][0]["isReady"]), (&json!("one"), &json!(true)));
    assert!(told["pods"][0]["trouble"].as_str().is_some_and(|why| why.contains(right)), "{told:#}");
    for arguments in [&["explain", "http://a.test/"][..], &["logs", "--host=a.test"]] {
        let (code, stdout, stderr) = desk.run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.contains(right) && stderr.contains("without it there are"), "{stderr}");
    }
    let (code, stdout, _) = desk.run(&["doctor", "--lang", "en"]);
    assert_eq!(code, 2);
    assert!(stdout.contains("Pod edge/one on node node-1\n\n") && stdout.contains(right), "{stdout}");
    let (code, stdout, _) = desk.run(&["doctor", "--since", "-1h", "--lang", "en"]);
    assert_eq!(code, 2);
    assert!(stdout.contains("Pod edge/one on node node-1\n") && stdout.contains(right), "{stdout}");
    let (code, _, stderr) = desk.run(&["explain", "ftp://a.test"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("ftp://a.test is no URL"), "{stderr}");
}

#[test]
fn logs_of_all_pods_come_in_the_order_of_their_times() {
    let server = two_pods();
    let desk = Desk::at(&url(&server));
    let (code, stdout, stderr) = desk.run(&["logs", "--tail=7", "--since=90s"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "first\nsecond\nthird\n", ""));
    let (_, stdout, _) = desk.run(&["logs", "--prefix"]);
    assert_eq!(stdout, "[edge/one] first\n[edge/two] second\n[edge/one] third\n");
    let heads = server.heads();
    let asked = heads.iter().find(|head| head.contains("/pods/one/log?")).expect("it is asked for");
    for part in ["container=controller", "sinceSeconds=90", "tailLines=7", "timestamps=true"] {
        assert!(asked.contains(part), "{asked}");
    }
    let (code, stdout, _) = desk.run(&["logs", "--follow"]);
    let mut lines: Vec<_> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["first", "second", "third"]));
}

#[test]
fn a_right_to_read_logs_that_is_missing_is_named() {
    let server = Canned::choosing(|head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        match target {
            log if log.contains("/one/log?") => refusal("pods \"one\""),
            log if log.contains("/two/log?") => answer("200 OK", "2026-11-23T05:00:00Z of two\n"),
            _ => pods(&[pod("one", true), pod("two", true)]),
        }
    });
    let (code, stdout, stderr) = Desk::at(&url(&server)).run(&["logs"]);
    assert_eq!((code, stdout.as_str()), (1, "of two\n"), "{stderr}");
    let right = "it takes a Role in namespace edge with get on pods/log";
    assert!(stderr.contains("cannot read the log of Pod edge/one") && stderr.contains(right), "{stderr}");
}

#[test]
fn a_pipe_that_nobody_reads_any_more_ends_it_quietly() {
    let server = two_pods();
    let desk = Desk::at(&url(&server));
    for arguments in [&["logs"][..], &["logs", "-f"], &["status"]] {
        let mut child =
            desk.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
}

/// The fields that `status` is made of.
#[test]
fn a_forebay_says_how_it_does() {
    let upstream = Canned::saying("hello");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("log-format-upstream", "$host $status")
        .manifest("odd.yaml", Ingress::new("odd").path("odd.test", "Prefix", "/", "gone").document())
        .start();
    assert_eq!(forebay.get("/").status, 200);
    let status = || {
        let answer = forebay.admin("/status");
        let told: Value = serde_json::from_slice(&answer.body).expect("JSON");
        (answer, told)
    };
    // A request is counted once its response has been sent.
    forebay.await_that("the request to be counted", || status().1["requests"].as_u64() >= Some(1));
    let (answer, told) = status();
    assert_eq!((answer.status, &told["generation"]), (200, &json!(1)), "{told:#}");
    assert!(told["requests"].as_u64() >= Some(1) && told["upSeconds"].as_f64() > Some(0.0), "{told:#}");
    assert_eq!(told["accessLog"], json!({"enabled": true, "output": "stdout", "format": "$host $status"}));
    let problems = &told["problems"];
    assert_eq!(problems["first"][0]["object"], "Ingress default/odd", "{told:#}");
    let count = |name: &str| problems[name].as_u64().expect("a number");
    assert_eq!(count("errors") + count("warnings"), 1, "{told:#}");
}
