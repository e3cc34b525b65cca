//! The admission webhook: reviews by HTTPS, judged by what is served; and what comes there that is no review.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Authority, Certificate, Connection, Ending, Forebay, PATIENCE, Response, Setup, TlsClient};

use crate::commands::run;
use crate::setup;

/// A running webhook, beside a proxy that serves `web.test`.
struct Webhook {
    forebay: Forebay,
    address: SocketAddr,
    files: Files,
}

/// Certificate and key.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(certificate: &Certificate) -> Self {
        let files = Self { folder: tempfile::tempdir().expect("a folder") };
        files.put(certificate);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces both files, one after the other.
    fn put(&self, certificate: &Certificate) {
        self.replace("tls.crt", &certificate.chain_pem());
        self.replace("tls.key", &certificate.key_pem());
    }

    fn replace(&self, name: &str, text: &str) {
        std::fs::write(self.path("aside"), text).expect("a file");
        std::fs::rename(self.path("aside"), self.path(name)).expect("a rename");
    }

    fn arguments(&self) -> [String; 3] {
        arguments(&self.path("tls.crt"), &self.path("tls.key"))
    }
}

fn arguments(certificate: &Path, key: &Path) -> [String; 3] {
    [
        "--validating-webhook=127.0.0.1:0".to_owned(),
        format!("--validating-webhook-certificate={}", certificate.display()),
        format!("--validating-webhook-key={}", key.display()),
    ]
}

impl Webhook {
    fn start(certificate: &Certificate) -> Self {
        Self::start_with(setup(), certificate)
    }

    fn start_with(setup: Setup, certificate: &Certificate) -> Self {
        let files = Files::new(certificate);
        let forebay = setup.arguments(files.arguments()).start();
        let line = forebay.await_log("judging Ingresses");
        let address =
            line.split("webhook=").nth(1).expect("it tells where").trim().parse().expect("an address");
        Self { forebay, address, files }
    }

    fn connect(&self) -> Connection {
        TlsClient::new("webhook.test").connect(self.address)
    }

    fn post(&self, body: &str) -> Response {
        ask(&mut self.connect(), body)
    }

    /// The result of creating an Ingress: none, or the message of the refusal.
    fn judge(&self, ingress: &Value) -> Option<String> {
        let response = self.post(&review(ingress).to_string());
        assert_eq!(
            (response.status, response.header("content-type").as_deref()),
            (200, Some("application/json"))
        );
        let answer: Value = serde_json::from_slice(&response.body).expect("it is JSON");
        let response = &answer["response"];
        assert_eq!(response["uid"], "705ab4f5");
        assert_eq!(response["allowed"], response["status"].is_null());
        response["status"]["message"].as_str().map(str::to_owned)
    }
}

fn ask(connection: &mut Connection, body: &str) -> Response {
    let length = body.len();
    connection.ask(&format!(
        "POST /networking/v1/ingresses?timeout=10s HTTP/1.1\r\nHost: webhook.test\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn review(ingress: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"},
            "operation": "CREATE",
            "namespace": "default",
            "object": ingress,
        },
    })
}

fn ingress(name: &str, host: &str) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"rules": [
            {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}},
        ]},
    })
}

fn certificate() -> Certificate {
    Authority::new("authority").server(&["webhook.test"])
}

#[test]
fn an_ingress_is_judged_by_what_is_served() {
    let webhook = Webhook::start(&certificate());
    assert_eq!(webhook.judge(&ingress("new", "new.test")), None);
    let taken = "it would not be served as it says: path / (Prefix) of host web.test is declared by Ingress default/web \
                 already; this one is ignored";
    assert_eq!(webhook.judge(&ingress("new", "web.test")).as_deref(), Some(taken));
    let metrics = webhook.forebay.metrics();
    let count = |name: &str| metrics.sum(&format!("nginx_ingress_controller_admission_{name}"), &[]);
    assert_eq!((count("tested_ingresses"), count("render_ingresses")), (2, 2));
    let review = review(&ingress("new", "web.test")).to_string();
    assert_eq!(count("config_size"), review.len() as u64);
    let admission = |name: &str| metrics.value(&format!("nginx_ingress_controller_admission_{name}"));
    let [translation, judging, roundtrip] =
        ["render_duration", "tested_duration", "roundtrip_duration"].map(admission);
    assert!(translation > 0.0 && translation <= judging && judging <= roundtrip && roundtrip < 60.0);

    let more = testkit::manifest::Ingress::new("more").path("new.test", "Prefix", "/", "web").document();
    webhook.forebay.replace("more.yaml", &more);
    let is_refused = || webhook.judge(&ingress("new", "new.test")).is_some();
    webhook.forebay.await_that("what is served now to count", is_refused);
}

#[test]
fn reviews_share_a_connection() {
    let webhook = Webhook::start(&certificate());
    let mut connection = webhook.connect();
    for host in ["web.test", "new.test"] {
        assert_eq!(ask(&mut connection, &review(&ingress("new", host)).to_string()).status, 200);
    }
}

#[test]
fn an_api_server_may_speak_any_tls_that_is_safe() {
    let webhook = Webhook::start(&certificate());
    for client in [TlsClient::new("webhook.test").only_12(), TlsClient::new("webhook.test").only_13()] {
        let client = client.alpn(&["h2", "http/1.1"]);
        let mut connection = client.connect(webhook.address);
        assert_eq!(connection.tls_info().alpn.as_deref(), Some("http/1.1"));
        assert_eq!(ask(&mut connection, &review(&ingress("new", "new.test")).to_string()).status, 200);
    }
    let mut clear = Connection::to(webhook.address);
    clear.send("POST / HTTP/1.1\r\nHost: webhook.test\r\n\r\n");
    assert!(matches!(clear.read_to_end().1, Ending::Closed | Ending::Reset));
}

#[test]
fn another_certificate_is_taken_without_a_restart() {
    let (first, second) = (certificate(), certificate());
    let webhook = Webhook::start(&first);
    let shows = |certificate: &Certificate| webhook.connect().tls_info().shows(certificate);
    assert!(shows(&first));
    // Of a pair that is being replaced, one file comes before the other.
    webhook.files.replace("tls.crt", &second.chain_pem());
    assert!(shows(&first));
    webhook.forebay.await_log("the webhook keeps its certificate");
    webhook.files.replace("tls.key", &second.key_pem());
    assert!(shows(&second));
    webhook.forebay.await_log("the webhook has another certificate");
    std::fs::remove_file(webhook.files.path("tls.crt")).expect("a file");
    assert!(shows(&second));
}

#[test]
fn what_is_no_review_is_told_so_in_one_line() {
    let webhook = Webhook::start(&certificate());
    let head = |method: &str, rest: &str| format!("{method} / HTTP/1.1\r\nHost: webhook.test\r\n{rest}\r\n");
    let json = "Content-Type: application/json\r\n";
    for (request, status, said) in [
        (head("GET", ""), 405, "by POST"),
        (head("POST", "Content-Length: 2\r\n") + "{}", 415, "application/json"),
        (head("POST", "Content-Type: text/yaml\r\nContent-Length: 2\r\n") + "{}", 415, "application/json"),
        (head("POST", &format!("{json}Content-Length: 2\r\n")) + "{}", 400, "not an AdmissionReview"),
        (head("POST", &format!("{json}Content-Length: 5\r\n")) + "hello", 400, "not an AdmissionReview"),
        (head("POST", &format!("{json}Content-Length: 4194305\r\n")), 413, "4194304 bytes at most"),
    ] {
        let response = webhook.connect().ask(&request);
        assert_eq!(response.status, status, "{request}");
        assert_eq!(response.text().lines().count(), 1, "{}", response.text());
        assert!(response.text().contains(said), "{}", response.text());
    }
}

#[test]
fn a_body_that_does_not_tell_its_length_has_the_same_limit() {
    let webhook = Webhook::start(&certificate());
    let mut connection = webhook.connect();
    connection.send(
        "POST / HTTP/1.1\r\nHost: webhook.test\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let piece = format!("10000\r\n{}\r\n", " ".repeat(1 << 16));
    // It is answered before the end, and then nobody reads on.
    for _ in 0..65 {
        if connection.try_send(&piece).is_err() {
            break;
        }
    }
    assert_eq!(connection.read_response().status, 413);
}

#[test]
fn a_certificate_that_cannot_be_used_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = format!("--manifests={}", folder.path().display());
    let files = Files::new(&certificate());
    files.replace("other.key", &certificate().key_pem());
    files.replace("empty", "");
    let [webhook, ..] = files.arguments();
    let path = |name: &str| files.path(name);
    let cases = [
        (arguments(&path("nowhere"), &path("tls.key")).to_vec(), "nowhere"),
        (arguments(&path("tls.crt"), &path("nowhere")).to_vec(), "nowhere"),
        (arguments(&path("empty"), &path("tls.key")).to_vec(), "no certificate in PEM"),
        (arguments(&path("tls.crt"), &path("empty")).to_vec(), "validating-webhook-key"),
        (arguments(&path("tls.crt"), &path("other.key")).to_vec(), "tls.crt"),
        (vec![webhook], "--validating-webhook-certificate"),
        (vec!["--validating-webhook=everywhere".to_owned()], "everywhere"),
    ];
    for (flags, said) in cases {
        let ports = ["--http-port=0", "--https-port=0", "--healthz-port=0"];
        let given = flags.iter().map(String::as_str);
        let arguments: Vec<_> = ["serve", &manifests].into_iter().chain(ports).chain(given).collect();
        let (code, _, stderr) = run(&arguments);
        let last = stderr.lines().last().unwrap_or_default();
        assert_eq!(code, 2, "{flags:?}: {stderr}");
        assert!(last.starts_with("forebay: ") && last.contains(said), "{flags:?}: {stderr}");
    }
}

/// The webhook is no way to slow the proxy down: it judges on a thread of its own, one review after the
/// other.
#[test]
fn requests_are_served_while_a_large_ingress_is_judged() {
    let upstream = testkit::Canned::saying("hello");
    let webhook = Webhook::start_with(setup().endpoint(upstream.address()), &certificate());
    let mut object = ingress("large", "large.test");
    let path = |number: usize| {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        json!({"path": format!("/{number}"), "pathType": "Prefix", "backend": backend})
    };
    object["spec"]["rules"][0]["http"]["paths"] = (0..10_000).map(path).collect();
    let body = review(&object).to_string();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let judged = scope.spawn(|| webhook.post(&body).status);
        while !judged.is_finished() {
            assert_eq!(webhook.forebay.get("/").status, 200);
        }
        assert_eq!(judged.join().expect("no panic"), 200);
    });
    assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
}
