//! `forebay check` as a gate: what is wrong is found and said in one right sentence, and what is right
//! passes.

use std::io::Write as _;
use std::process::{Command, Stdio};

use testkit::manifest::{Ingress, service};

use crate::FOREBAY;
use crate::commands::run;

/// Runs a command with a text on standard input, in an environment without KUBECONFIG.
fn run_with(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(FOREBAY)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // A command that does not read its input has closed it.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

/// An Ingress for web.test, of which parts are replaced.
fn ingress(replacements: &[(&str, &str)]) -> String {
    let mut text = "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  annotations:
    nginx.ingress.kubernetes.io/proxy-body-size: 8m
spec:
  rules:
  - host: web.test
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: web
            port:
              number: 80
"
    .to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

fn web() -> String {
    format!("---\n{}", service("web", &["192.0.2.1:8080".parse().expect("an address")]))
}

/// A kind of wrong input.
#[derive(Clone)]
struct Wrong {
    name: &'static str,
    text: String,
    code: i32,
    /// The sentence, of which this is a part, and the line of the file that it names; 0 for none.
    said: &'static str,
    line: usize,
}

fn wrong(name: &'static str, line: usize, said: &'static str, replacements: &[(&str, &str)]) -> Wrong {
    Wrong { name, text: ingress(replacements) + &web(), code: 1, said, line }
}

/// Fields that the API server would drop, and those that it misses.
fn wrong_fields() -> Vec<Wrong> {
    vec![
        wrong(
            "a field of v1beta1",
            15,
            "spec.rules[0].http.paths[0].backend.serviceName: unknown field: kubectl refuses it, and the API server drops it; its name today is service.name, and that of servicePort is service.port.number or service.port.name",
            &[(
                "          service:\n            name: web\n            port:\n              number: 80\n",
                "          serviceName: web\n          servicePort: 80\n",
            )],
        ),
        wrong(
            "a field with a slip",
            13,
            "spec.rules[0].http.paths[0].pathtype: unknown field: kubectl refuses it, and the API server drops it; did you mean pathType?",
            &[("pathType", "pathtype")],
        ),
        wrong(
            "a field at the wrong place",
            10,
            "spec.rules[0].paths: unknown field: kubectl refuses it, and the API server drops it; it belongs to http.paths",
            &[
                ("    http:\n      paths:\n", "    paths:\n"),
                (
                    "      - path: /\n        pathType: Prefix\n        backend:\n          service:\n            name: web\n            port:\n              number: 80\n",
                    "      - path: /\n",
                ),
            ],
        ),
        wrong(
            "a field that is missing",
            12,
            "spec.rules[0].http.paths[0].pathType: required, and missing",
            &[("        pathType: Prefix\n", "")],
        ),
    ]
}

/// Values that the API server would refuse.
fn wrong_values() -> Vec<Wrong> {
    vec![
        wrong(
            "a number that is no text",
            6,
            "metadata.annotations[nginx.ingress.kubernetes.io/proxy-body-size]: is a number where the API server accepts only text: put it in quotes",
            &[("8m", "8")],
        ),
        wrong(
            "a boolean that is no text",
            6,
            "metadata.annotations[nginx.ingress.kubernetes.io/proxy-body-size]: is a boolean where the API server accepts only text: put it in quotes",
            &[("8m", "on")],
        ),
        wrong(
            "text that is no number",
            18,
            "spec.rules[0].http.paths[0].backend.service.port.number: is text where a whole number is needed: remove the quotes",
            &[("number: 80", "number: \"80\"")],
        ),
        wrong(
            "a port without number and name",
            17,
            "spec.rules[0].http.paths[0].backend.service.port: is a number where a mapping is needed",
            &[("            port:\n              number: 80\n", "            port: 80\n")],
        ),
        wrong(
            "a list that is a mapping",
            9,
            "spec.rules: is a mapping where a list is needed",
            &[("  - host: web.test\n    http:", "    host: web.test\n    http:")],
        ),
        wrong(
            "a spec without rules",
            8,
            "spec: rules or defaultBackend is required: nothing is served",
            &[(
                "  rules:\n  - host: web.test\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n        backend:\n          service:\n            name: web\n            port:\n              number: 80\n",
                "  ingressClassName: nginx\n",
            )],
        ),
    ]
}

/// Names that lead nowhere.
fn wrong_names() -> Vec<Wrong> {
    vec![
        wrong(
            "a class with a slip",
            1,
            "did you mean nginx?",
            &[("spec:\n", "spec:\n  ingressClassName: ngnix\n")],
        ),
        wrong(
            "a Service with a slip",
            12,
            "Service default/wep is missing: requests are answered 503; did you mean default/web?",
            &[("name: web\n            port", "name: wep\n            port")],
        ),
        wrong("a host with a port", 9, "web.test:80", &[("host: web.test", "host: web.test:80")]),
        wrong(
            "a path type that nobody knows",
            12,
            "pathType \"prefix\" is none of Exact, Prefix and ImplementationSpecific",
            &[("pathType: Prefix", "pathType: prefix")],
        ),
    ]
}

/// Mistakes in a document.
fn wrong_documents() -> Vec<Wrong> {
    let kind = |name, line, said, replacements: &[(&str, &str)]| wrong(name, line, said, replacements);
    vec![
        kind(
            "a kind with a slip",
            2,
            "kind: there is no \"ingress\" in networking.k8s.io/v1; write Ingress",
            &[("kind: Ingress", "kind: ingress")],
        ),
        kind(
            "a group with a slip",
            2,
            "apiVersion: there is no \"Ingress\" in networking/v1; Ingress is in networking.k8s.io/v1",
            &[("networking.k8s.io/v1", "networking/v1")],
        ),
        kind("no kind", 1, "kind: required, and missing", &[("kind: Ingress\n", "")]),
        kind(
            "no API version",
            1,
            "apiVersion: required, and missing; Ingress is in networking.k8s.io/v1",
            &[("apiVersion: networking.k8s.io/v1\n", "")],
        ),
        kind(
            "a tab",
            4,
            "there is a tab in the indentation, where YAML allows only spaces",
            &[("metadata:\n  name", "metadata:\n\tname")],
        ),
        kind("a key twice", 9, "rules: the key occurs twice", &[("spec:\n", "spec:\n  rules: []\n")]),
        kind(
            "a Helm template",
            1,
            "is a Helm template: render it first, `helm template CHART | forebay check -`",
            &[("name: web\n  ann", "name: {{ include \"web.name\" . }}\n  ann")],
        ),
    ]
}

/// Input that holds nothing to judge.
fn nothing_to_judge() -> Vec<Wrong> {
    let nothing = |name, text: &str, said| Wrong { name, text: text.to_owned(), code: 2, said, line: 0 };
    vec![
        nothing(
            "an empty text",
            "",
            "nothing to judge: there is no Ingress, Gateway or route; no object was found",
        ),
        nothing(
            "only other kinds",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
            "nothing to judge: there is no Ingress, Gateway or route; found 1 Deployment.apps",
        ),
        nothing(
            "only other classes",
            &ingress(&[("spec:\n", "spec:\n  ingressClassName: traefik\n")]),
            "nothing to judge: 1 Ingress of class \"traefik\" is not judged: default/web (stdin:1); --ingress-class names the class that is judged",
        ),
    ]
}

/// Each kind is found, with one sentence about it and no second one.
#[test]
fn each_kind_of_wrong_input_is_found_and_said_once() {
    let kinds =
        [wrong_fields(), wrong_values(), wrong_names(), wrong_documents(), nothing_to_judge()].concat();
    assert!(kinds.len() >= 20);
    let failures: Vec<_> = kinds.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// How a kind of wrong input is judged otherwise than it should be; none if it is not.
fn failure(Wrong { name, text, code: expected, said, line }: &Wrong) -> Option<String> {
    let (code, stdout, stderr) = run_with(&["check", "-"], text);
    let errors: Vec<_> = match expected {
        1 => stdout.lines().filter(|line| line.starts_with("error ")).collect(),
        _ => stderr.lines().collect(),
    };
    let place = if *line == 0 { String::new() } else { format!("stdin:{line}:") };
    let is_right = errors.iter().any(|error| error.contains(said) && error.contains(&place));
    let is_as_wanted = code == *expected && errors.len() == 1 && is_right;
    (!is_as_wanted).then(|| {
        format!("== {name}: exit {code}, not {expected} with {place} {said}\n{}\n{stderr}", errors.join("\n"))
    })
}

#[test]
fn a_broken_document_leaves_the_others_of_its_file() {
    let other = ingress(&[("name: web\n  ann", "name: other\n  ann"), ("web.test", "other.test")]);
    let text = format!("kind: [\n---\n{other}{}", web());
    let (code, stdout, _) = run_with(&["check", "-"], &text);
    assert_eq!(code, 1);
    assert!(stdout.contains("stdin:1: ") && stdout.contains("\nother.test  /  "), "{stdout}");
    assert!(stdout.lines().any(|line| line.starts_with("other.test") && line.contains("  ok  ")), "{stdout}");
}

#[test]
fn services_that_are_not_among_the_files_are_one_line() {
    let document = |n: usize| {
        let name = format!("application-{n}");
        Ingress::new(&name).path(&format!("{name}.test"), "Prefix", "/", &name).document()
    };
    let ingresses = (0..62).map(document).collect::<Vec<_>>().join("---\n");
    let (code, stdout, _) = run_with(&["check", "-"], &ingresses);
    let told: Vec<_> = stdout.lines().filter(|line| line.contains("not among the files")).collect();
    assert_eq!((code, told.len()), (0, 1), "{stdout}");
    assert!(
        told[0].starts_with("notice ") && told[0].contains("62 Services are not among the files"),
        "{stdout}"
    );
    assert!(!stdout.contains("is missing"), "{stdout}");
    let (code, stdout, _) = run_with(&["check", "-"], &(ingresses + &web()));
    let told: Vec<_> = stdout.lines().filter(|line| line.starts_with("error ")).collect();
    assert_eq!(
        (code, told.len()),
        (1, 1),
        "where there are Services, those that are missing are an error: {stdout}"
    );
}

#[test]
fn other_classes_are_listed() {
    let other = ingress(&[
        ("name: web\n  ann", "name: other\n  ann"),
        ("spec:\n", "spec:\n  ingressClassName: traefik\n"),
    ]);
    let text = format!("{}{}---\n{other}", ingress(&[]), web());
    let (code, stdout, _) = run_with(&["check", "-"], &text);
    assert_eq!(code, 0, "{stdout}");
    assert!(
        stdout.contains("1 Ingress of class \"traefik\" is not judged: default/other (stdin:"),
        "{stdout}"
    );
}

#[test]
fn rows_have_a_state() {
    let annotated = |name: &str, annotation: &str, value: &str| {
        let host = format!("{name}.test");
        format!(
            "---\n{}",
            Ingress::new(name).path(&host, "Prefix", "/", "web").annotation(annotation, value).document()
        )
    };
    let idle = Ingress::new("idle").path("idle.test", "Prefix", "/", "idle").document();
    let text = [
        annotated("plain", "proxy-read-timeout", "5"),
        annotated("closed", "allowlist-source-range", "nobody"),
        annotated("moved", "permanent-redirect", "https://www.test/"),
        format!("---\n{idle}---\n{}", service("idle", &[])),
        web(),
    ]
    .concat();
    let (_, stdout, _) = run_with(&["check", "-"], &text);
    for (host, state) in [
        ("plain.test", "ok"),
        ("closed.test", "closed 503"),
        ("moved.test", "redirect"),
        ("idle.test", "no endpoints"),
    ] {
        let row = stdout.lines().find(|line| line.starts_with(host)).unwrap_or_default();
        assert!(row.contains(&format!("  Prefix  {state}  ")), "{host}: {stdout}");
    }
}

/// The forms that kubectl has: `-`, `-f` and `-o`.
#[test]
fn commands_take_the_flags_of_kubectl() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yaml");
    let text = ingress(&[]) + &web();
    std::fs::write(&file, &text).expect("a file");
    let file = file.to_str().expect("a path of text");
    for arguments in [
        &["check", "-f", file, "-o", "json"][..],
        &["check", file, "--output=json"],
        &["check", "-f", "-", "-o", "json"],
        &["check", "--filename", "-", "-ojson"],
        &["explain", "web.test/a", "-f", file, "-o", "json"],
        &["explain", "http://web.test/a", "-", "-o", "json"],
        &["convert", "ingress", "-f", file, "-o", "json"],
        &["convert", "ingress", file, "-o", "json"],
        &["convert", "ingress", "-", "-o", "json"],
        &["convert", "ingress", "-o", "json"],
    ] {
        let (code, stdout, stderr) = run_with(arguments, &text);
        assert!(code < 2, "{arguments:?}: {stderr}");
        let told: Result<serde_json::Value, _> = serde_json::from_str(&stdout);
        assert!(told.is_ok_and(|told| told.is_object()), "{arguments:?}: {stdout}");
    }
}

#[test]
fn a_kubeconfig_of_the_environment_is_used() {
    for arguments in [&["check"][..], &["explain", "web.test"], &["convert", "ingress"]] {
        let mut command = Command::new(FOREBAY);
        command.args(arguments).env("KUBECONFIG", "/nonexistent/config").stdin(Stdio::null());
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("/nonexistent/config"), "{arguments:?}: {said}");
    }
    let (code, _, stderr) = run(&["check"]);
    assert!(code == 2 && stderr.contains("nothing to check: give a PATH"), "{stderr}");
}
