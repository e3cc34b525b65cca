//! The command line: what each command says, and how it ends.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::manifest::{Ingress, config_map, service};
use testkit::{Connection, Port};

use crate::{FOREBAY, setup};

/// Runs a command to its end; returns exit code, standard output and standard error.
pub(crate) fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(FOREBAY).args(arguments).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

/// A folder with one file of manifests.
fn manifests(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("a path of text").to_owned();
    (folder, file)
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    let (_folder, file) = manifests("");
    let taken = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).expect("a free port");
    let port = taken.local_addr().expect("it listens").port();
    let (http, admin) = (format!("--http-port={port}"), format!("--healthz-port={port}"));
    let silent = Port::tcp();
    for (arguments, said) in [
        (&["check", &file, "--http-prot=1"][..], "did you mean --http-port?"),
        (&["serv"], "did you mean serve?"),
        (&["serve", "--manifests", &file, "--http-port=many"], "--http-port"),
        (&["serve", "--manifests", &file, "--workers=0"], "--workers"),
        (&["serve", "--manifests", &file, "--endpoints=nonsense"], "NAMESPACE/SERVICE"),
        (&["serve", "--manifests", &file, "--configmap=nonsense"], "NAMESPACE/NAME"),
        // TEST-NET-1 (RFC 5737) is nobody's.
        (&["serve", "--manifests", &file, "--upstream-source-address=192.0.2.1"], "192.0.2.1"),
        (&["serve", "--manifests", "/nonexistent", "--http-port=0", "--healthz-port=0"], "/nonexistent"),
        (&["serve", "--manifests", &file, &http, "--healthz-port=0"], &format!(":{port}")),
        (&["serve", "--manifests", &file, "--http-port=0", &admin], &format!(":{port}")),
        (&["check", "/nonexistent"], "/nonexistent"),
        (&["check"], "PATH"),
        (&["check", "--kubeconfig=/nonexistent"], "/nonexistent"),
        (&["check", &file, "--kubeconfig=/nonexistent"], "cannot be used with"),
        (&["check", &format!("--apiserver-host=http://{}", silent.address())], "does not list ingresses"),
        (&["payload", &format!("--port={port}"), "--host=0.0.0.0"], &format!(":{port}")),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, &*stdout), (2, ""), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("forebay: ") && stderr.contains(said), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_port_is_not_shared_with_another_forebay() {
    let forebay = setup().start();
    let (_folder, file) = manifests("");
    let http = format!("--http-port={}", forebay.address().port());
    let (code, _, stderr) = run(&["serve", "--manifests", &file, &http, "--healthz-port=0"]);
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
}

#[test]
fn flags_of_ingress_nginx_that_mean_nothing_here_are_passed_over() {
    let forebay =
        setup().arguments(["--sync-period=1m", "--status-port", "1", "--profiling=false", "-v=2"]).start();
    for flag in ["--sync-period", "--status-port", "--profiling", "--v"] {
        let line = forebay.await_log(&format!("flag=\"{flag}\""));
        assert!(line.contains(" WARN ") && line.contains("ignored: "), "{line}");
    }
}

/// `docs/user-guide/cli-arguments.md` of ingress-nginx.
#[test]
fn every_flag_of_ingress_nginx_without_a_meaning_here_is_taken() {
    let arguments = [
        "--bucket-factor=2",
        "--default-server-port=8181",
        "--disable-full-test",
        "--dynamic-configuration-retries=15",
        "--enable-ssl-chain-completion",
        "--exclude-socket-metrics=nginx_ingress_controller_bytes_sent",
        "--health-check-timeout=10",
        "--internal-logger-address=127.0.0.1:11514",
        "--max-buckets=100",
        "--monitor-max-batch-size=10000",
        "--post-shutdown-grace-period=10",
        "--profiler-address=127.0.0.1",
        "--profiler-port=10245",
        "--ssl-passthrough-proxy-port=442",
        "--stream-port=10247",
        "--sync-rate-limit=0.3",
    ];
    let forebay = setup().arguments(arguments).start();
    for argument in arguments {
        let flag = argument.split('=').next().unwrap_or_default();
        forebay.await_log(&format!("flag=\"{flag}\""));
    }
}

#[test]
fn flags_that_nobody_knows_are_passed_over_and_the_health_check_may_be_elsewhere() {
    let forebay = setup()
        .arguments(["--of-a-later-version", "x", "--http-prot=1", "--health-check-path=/alive"])
        .start();
    for said in ["flag=\"--of-a-later-version\"", "did you mean --http-port?"] {
        assert!(forebay.await_log(said).contains(" WARN "), "{said}");
    }
    assert_eq!(["/alive", "/healthz"].map(|path| forebay.admin(path).status), [200; 2]);
}

#[test]
fn the_arguments_of_an_ingress_nginx_deployment_are_taken() {
    let (code, _, stderr) = run(&[
        "/nginx-ingress-controller",
        "--publish-service=ingress-nginx/ingress-nginx-controller",
        "--election-id=ingress-nginx-leader",
        "--controller-class=k8s.io/ingress-nginx",
        "--ingress-class=nginx",
        "--configmap=ingress-nginx/ingress-nginx-controller",
        "--validating-webhook=:8443",
        "--validating-webhook-certificate=/usr/local/certificates/cert",
        "--validating-webhook-key=/usr/local/certificates/key",
        "--enable-metrics=false",
        "--healthz-port=0",
    ]);
    assert_eq!(code, 2, "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("forebay: not in a cluster"), "{stderr}");
}

#[test]
fn help_is_no_mistake() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["--version"]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, &*stderr), (0, ""), "{arguments:?}");
        assert!(!stdout.is_empty());
    }
}

#[test]
fn check_shows_what_would_be_served() {
    let (_folder, file) = manifests(
        &(Ingress::new("web").path("web.test", "Prefix", "/a", "web").document()
            + &service("web", &["192.0.2.1:8080".parse().expect("an address")])),
    );
    let (code, stdout, stderr) = run(&["check", &file]);
    assert_eq!((code, &*stderr), (0, ""), "{stdout}");
    let row = stdout.lines().find(|line| line.starts_with("web.test ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..7], ["/a", "Prefix", "ok", "default-web-80", "192.0.2.1:8080", "Ingress"]);
    assert!(row.contains(&format!("default/web ({file}:")), "{row}");
    let summary = "1 host, 1 route, 1 upstream, 0 errors, 0 warnings, 0 notices\n";
    assert!(stdout.contains(&format!("{summary}\ncompared with ingress-nginx 1.15: ")), "{stdout}");
    assert!(stdout.ends_with("\n1 of 1 Ingress behaves as before\n"), "{stdout}");
}

#[test]
fn check_names_what_of_a_snippet_is_not_understood() {
    let allowed = [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("configuration-snippet", "set $a 1;\nproxy_pass http://a;")
        .annotation("enable-modsecurity", "true")
        .annotation("enable-owasp-core-rules", "true");
    let service = service("web", &["192.0.2.1:8080".parse().expect("an address")]);
    let (folder, file) = manifests(&(config_map("settings", &allowed) + &ingress.document() + &service));
    let without_rules = folder.path().to_str().expect("it is text");
    let serve = ["--configmap", "default/settings", "--waf-unenforced=serve", "--waf-rules", without_rules];
    let (code, stdout, _) = run(&[&["check", &file], &serve[..]].concat());
    assert_eq!(code, 1, "{stdout}");
    for row in [
        "closed: the Ingress returns 503: line 2: \"proxy_pass\" is not understood here; requests go to the backend of their path",
        "works in part: requests are served without it",
    ] {
        assert!(stdout.contains(row), "{row} in {stdout}");
    }
    let (_, stdout, _) = run(&["check", &file]);
    assert!(stdout.contains("bad value, as before: the Ingress is ignored"), "{stdout}");
}

/// Before ingress-nginx 1.12 snippets needed one key of the `ConfigMap`, and now need two.
#[test]
fn check_judges_by_the_defaults_of_the_old_version() {
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "web");
    let snippet = |text: &str| ingress("snippet").annotation("configuration-snippet", text).document();
    let allowed = config_map("settings", &[("allow-snippet-annotations", "true")]);
    let service = service("web", &["192.0.2.1:8080".parse().expect("an address")]);
    let rest = allowed + &ingress("plain").document() + &service;
    let (_folder, file) = manifests(&(snippet("more_set_headers \"X: y\";") + &rest));
    let check =
        |more: &[&str]| run(&[&["check", &file, "--configmap", "default/settings"][..], more].concat());
    let to_set = "set annotations-risk-level: Critical in the ConfigMap: 1 Ingress relied on this default";
    let (code, stdout, _) = check(&["--from", "1.11"]);
    assert_eq!(code, 1, "{stdout}");
    for text in [
        "compared with ingress-nginx 1.11: --from says so",
        "Ingress default/snippet",
        to_set,
        "1 of 2 Ingresses behaves as before; 1 needs a look",
        "closed: the Ingress is ignored: its risk is Critical",
    ] {
        assert!(stdout.contains(text), "{text} in {stdout}");
    }
    let (_, stdout, _) = check(&["--from", "v1.12.1"]);
    assert!(stdout.contains("1 of 2 Ingresses behaves as before; 1 serves nothing, as before"), "{stdout}");
    let (_, stdout, _) = check(&[]);
    assert!(
        stdout.contains("compared with ingress-nginx 1.11: allow-snippet-annotations is true"),
        "{stdout}"
    );
    let (code, _, stderr) = check(&["--from", "4.11"]);
    assert!(code == 2 && stderr.contains("is no version of ingress-nginx such as 1.11"), "{stderr}");

    let controller = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c}\nspec: {template: {spec: {containers: [\
                      {image: 'registry.k8s.io/ingress-nginx/controller:v1.10.1@sha256:00'}]}}}\n---\n";
    let (_folder, file) =
        manifests(&(controller.to_owned() + &snippet("more_set_headers \"X: y\";") + &rest));
    let (_, stdout, _) = run(&["check", &file, "--configmap", "default/settings", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(told["migration"]["from"]["version"], "1.10", "{told}");
    assert_eq!(told["migration"]["to_set"][0]["ingresses"], 1, "{told}");

    let values = "controller:\n  image:\n    tag: v1.9.6\n---\n";
    let (_folder, file) = manifests(&(values.to_owned() + &snippet("ssi on;") + &rest));
    let (_, stdout, _) = run(&["check", &file, "--configmap", "default/settings"]);
    assert!(stdout.contains("compared with ingress-nginx 1.9: controller.image.tag in "), "{stdout}");
}

#[test]
fn check_says_what_becomes_of_each_annotation() {
    let ingress = |name: &str, annotations: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {name}
  namespace: default
  annotations: {{{annotations}}}
spec:
  rules:
  - host: {name}.test
    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
---
"
        )
    };
    let name = |name: &str, value: &str| format!("nginx.ingress.kubernetes.io/{name}: \"{value}\"");
    let guarded = ["enable-modsecurity", "enable-owasp-core-rules"].map(|one| name(one, "true")).join(", ");
    let (folder, file) = manifests(
        &(ingress("plain", &name("proxy-read-timeout", "10"))
            + &ingress(
                "tuned",
                &[name("proxy-read-timeout", "20"), name("proxy-busy-buffers-size", "8k")].join(", "),
            )
            + &ingress("wrong", &name("proxy-read-timeout", "10s"))
            + &ingress("guarded", &guarded)
            + &service("web", &["192.0.2.1:8080".parse().expect("an address")])),
    );
    let page = folder.path().join("report.html");
    let without_rules = ["--waf-rules", folder.path().to_str().expect("text")];
    let reported = ["check", &file, "--report", page.to_str().expect("text")];
    let (code, stdout, stderr) = run(&[&reported[..], &without_rules].concat());
    assert_eq!((code, &*stderr), (1, ""), "{stdout}");
    let rows: Vec<_> =
        stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "proxy-read-timeout 2 works",
        "proxy-read-timeout 1 bad value, as before: the default is used",
        "enable-owasp-core-rules 1 closed: the Ingress returns 503",
        &format!("Ingress default/guarded ({file}) needs a look"),
    ] {
        assert!(rows.iter().any(|found| found == row), "{row} in {stdout}");
    }
    assert!(rows.iter().any(|row| row.starts_with("proxy-busy-buffers-size 1 without effect: ")), "{stdout}");
    assert!(stdout.ends_with("\n3 of 4 Ingresses behave as before; 1 needs a look\n"), "{stdout}");
    let page = std::fs::read_to_string(page).expect("a page");
    for part in [
        "<p class=\"lead\">3 of 4 Ingresses behave as before; 1 needs a look.</p>",
        "<strong>3</strong><span class=\"note\">of 4 Ingresses</span>",
        "<th scope=\"row\">default</th><td>4</td><td>3</td><td>1</td><td>0</td>",
        "<p class=\"text\">enable-owasp-core-rules: the Ingress returns 503</p>",
        "<th scope=\"row\">proxy-read-timeout</th><td>2</td>",
        "<dt>compared with</dt><dd>ingress-nginx ",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let (code, stdout, _) = run(&[&["check", &file, "--output", "json"][..], &without_rules].concat());
    let told: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &told["migration"]["ingresses"]), (1, &serde_json::json!(4)));
    assert_eq!(told["routes"].as_array().expect("routes").len(), 4);
    let used = &told["migration"]["annotations"];
    let guard = used.as_array().expect("a list").iter().find(|one| one["name"] == "enable-owasp-core-rules");
    assert_eq!(guard.expect("it is in use")["becomes"], "closed");
}

#[test]
fn check_names_every_problem_with_its_place() {
    let (folder, file) = manifests(
        "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: default
  annotations:
    nginx.ingress.kubernetes.io/proxy-read-timeout: soon
    nginx.ingress.kubernetes.io/enable-owasp-core-rules: 'true'
    nginx.ingress.kubernetes.io/enable-modsecurity: 'true'
spec:
  rules:
  - host: web.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: missing, port: {number: 80}}}}
",
    );
    let (_other_folder, broken) = manifests("kind: Ingress\nspec: [\n");
    let (code, stdout, stderr) =
        run(&["check", &file, &broken, "--waf-rules", folder.path().to_str().expect("text")]);
    assert_eq!((code, &*stderr), (1, ""), "{stdout}");
    let absent = format!("default/missing ({file}:15)");
    assert!(stdout.lines().any(|said| said.starts_with("notice ") && said.ends_with(&absent)), "{stdout}");
    for (line, what) in [(7, "proxy-read-timeout"), (8, "enable-owasp-core-rules")] {
        let place = format!("{file}:{line}: Ingress default/web: ");
        assert!(
            stdout.lines().any(|said| said.contains(&place) && said.contains(what)),
            "{line} in {stdout}"
        );
    }
    let place = format!("{broken}:2: ");
    assert!(stdout.lines().any(|said| said.starts_with("error ") && said.contains(&place)), "{stdout}");
}

/// A process that is killed with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_payload_server_says_where_it_is_and_what_it_has() {
    let mut command = Command::new(FOREBAY);
    let child = command.args(["payload", "--port=0"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut payload = Running(child);
    let mut lines = BufReader::new(payload.0.stdout.take().expect("it is piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    let address = first.split("http://").nth(1).and_then(|text| text.parse().ok()).expect("an address");
    let mut client = Connection::to(address);
    for (path, status, len) in
        [("/1k", 200, 1024), ("/0", 200, 0), ("/status/418", 418, 11), ("/1m", 200, 1 << 20)]
    {
        let response = client.get("x", path);
        assert_eq!((response.status, response.body.len()), (status, len), "{path}");
    }
}

/// The folder `examples`, if there is one.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "yaml"))
        .collect()
}

#[test]
fn every_example_can_be_checked_and_served() {
    for example in examples() {
        let path = example.to_str().expect("a path of text");
        let (code, stdout, stderr) = run(&["check", path]);
        // Problems there may be: field cases are as people have them.
        assert!(code < 2 && stderr.is_empty() && stdout.contains(" 0 errors, "), "{path}: {stdout}{stderr}");
        let forebay = setup().manifest("web.yaml", "").arguments(["--manifests", path]).start();
        assert_eq!(forebay.admin("/healthz").status, 200, "{path}");
        let hosts = forebay.configuration()["hosts"].as_array().map_or(0, Vec::len);
        assert!(hosts > 0, "{path} serves nothing");
    }
}

#[test]
fn the_version_is_printed_with_its_commit_or_why_it_is_not_known() {
    let (code, stdout, stderr) = run(&["version"]);
    assert!(code == 0 && stderr.is_empty() && stdout.starts_with("forebay 0."), "{stdout}{stderr}");
    assert!(stdout.contains("commit"), "{stdout}");
    let (code, stdout, _) = run(&["version", "--output", "json"]);
    let version: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert!(code == 0 && version["version"].is_string() && version.get("commit").is_some(), "{stdout}");
}
