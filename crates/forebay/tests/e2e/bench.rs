//! `forebay bench rps|tps|throughput`: what it says it did is what the servers counted, and what is wrong is
//! said in a line.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use ::bench::payload::Payload;
use serde_json::{Value, json};
use testkit::manifest::tls_secret;
use testkit::{Authority, Forebay, Refusing};

use crate::{FOREBAY, setup};

const HOST: &str = "web.test";

/// Runs `forebay bench`, trusting the authorities in a file; exit code, standard output and standard error.
fn bench_trusting(arguments: &[&str], authorities: &str) -> (i32, String, String) {
    let mut command = Command::new(FOREBAY);
    command.arg("bench").args(arguments).env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR");
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

/// The object that is told when all went well.
fn told(arguments: &[&str], authorities: &str) -> Value {
    let arguments = [arguments, &["--output=json"]].concat();
    let (code, stdout, stderr) = bench_trusting(&arguments, authorities);
    assert_eq!((code, &*stderr), (0, ""), "{arguments:?}: {stdout}");
    let object: Value = serde_json::from_str(&stdout).expect("one object");
    assert_eq!(object["errors"], json!({}), "{arguments:?}");
    object
}

fn payload() -> Payload {
    Payload::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port")
}

/// A proxy with a certificate that an authority in this file has signed, in front of that payload server.
fn secured(payload: &Payload) -> (Forebay, tempfile::NamedTempFile) {
    let authority = Authority::new("authority");
    let certificate = authority.server(&[HOST]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("a file");
    let setup = setup().tls(HOST).manifest("certificate.yaml", tls_secret("certificate", &certificate));
    let shown_to_all = setup.arguments(["--default-ssl-certificate=default/certificate"]);
    (shown_to_all.endpoint(payload.local_addr()).start(), file)
}

fn url(scheme: &str, host: &str, port: u16, path: &str) -> String {
    format!("{scheme}://{host}:{port}{path}")
}

/// Where the URL's host is.
fn resolve(address: SocketAddr) -> String {
    format!("--resolve={HOST}:{}:127.0.0.1", address.port())
}

#[test]
fn a_closed_loop_says_what_the_server_counted() {
    let payload = payload();
    let url = url("http", "127.0.0.1", payload.local_addr().port(), "/1k");
    let object = told(&["rps", &url, "--connections=8", "--threads=2", "--duration=200ms"], "");
    let counts = payload.counts();
    assert_eq!((&object["kind"], &object["url"]), (&json!("rps"), &json!(url)));
    assert_eq!(object["requests"], counts.requests);
    assert_eq!((object["connections_opened"].as_u64(), counts.accepted), (Some(8), 8));
    let number = |path: &str| object.pointer(path).and_then(Value::as_f64).expect("a number");
    assert!(number("/bytes") > 1024.0 * counts.requests as f64);
    let rate = counts.requests as f64 / number("/duration_seconds");
    assert!((number("/rate") / rate - 1.0).abs() < 0.01, "{object}");
    let latencies =
        ["p50", "p90", "p99", "p999", "p9999", "max"].map(|name| number(&format!("/latency_us/{name}")));
    assert!(latencies.is_sorted() && latencies[0] > 0.0, "{latencies:?}");
    assert!(number("/phases_us/connect") > 0.0 && number("/phases_us/first_byte") > 0.0);
    assert_eq!((&object["phases_us"]["dns"], &object["phases_us"]["tls"]), (&Value::Null, &Value::Null));
    assert!(number("/generator/cpu_seconds") > 0.0 && number("/generator/peak_rss_bytes") > 1e6);
    assert!(object["generator"]["limited"].is_boolean());
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    let payload = payload();
    let url = url("http", "localhost", payload.local_addr().port(), "/1k");
    let at = resolve(payload.local_addr()).replace(HOST, "localhost");
    let object = told(&["rps", &url, "--keep-alive=off", "--requests=200", "--duration=1m", &at], "");
    let counts = payload.counts();
    assert_eq!((object["requests"].as_u64(), counts.requests), (Some(200), 200));
    assert_eq!((object["connections_opened"].as_u64(), counts.accepted), (Some(200), 200));
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let payload = payload();
    let url = url("http", "127.0.0.1", payload.local_addr().port(), "/1k");
    // So many connections that one is free, however slow the machine.
    let object = told(&["rps", &url, "--rate=1000", "--duration=300ms", "--connections=300"], "");
    assert_eq!((object["requests"].as_u64(), payload.counts().requests), (Some(300), 300));
}

#[test]
fn every_tls_connection_makes_a_handshake_and_carries_a_request() {
    let payload = payload();
    let (forebay, authorities) = secured(&payload);
    let trusted = authorities.path().to_str().expect("a path of text");
    let url = url("https", HOST, forebay.https_address().port(), "/1k");
    let at = resolve(forebay.https_address());
    let object = told(&["tps", &url, "--requests=100", "--duration=1m", &at], trusted);
    assert_eq!((object["requests"].as_u64(), payload.counts().requests), (Some(100), 100));
    assert_eq!(object["connections_opened"], 100);
    assert!(object["phases_us"]["tls"].as_f64() > object["phases_us"]["connect"].as_f64(), "{object}");
}

#[test]
fn http2_is_spoken_over_tls_and_in_the_clear() {
    let payload = payload();
    let (forebay, authorities) = secured(&payload);
    let trusted = authorities.path().to_str().expect("a path of text");
    // Plain requests for a host with a certificate are redirected, which is an answer, too.
    for (scheme, address, counted) in
        [("https", forebay.https_address(), 300), ("http", forebay.address(), 300)]
    {
        let (url, at) = (url(scheme, HOST, address.port(), "/1k"), resolve(address));
        let http2 = ["--http2", "--streams=5", "--connections=4", "--requests=300", "--duration=1m"];
        let object = told(&[&["rps", &url, &at][..], &http2].concat(), trusted);
        assert_eq!(
            (object["requests"].as_u64(), object["connections_opened"].as_u64()),
            (Some(300), Some(4))
        );
        assert_eq!(payload.counts().requests, counted, "{scheme}");
    }
    let (url, at) =
        (url("https", HOST, forebay.https_address().port(), "/1k"), resolve(forebay.https_address()));
    let open = ["--http2", "--rate=500", "--duration=200ms", "--connections=20", "--streams=5"];
    let object = told(&[&["rps", &url, &at][..], &open].concat(), trusted);
    assert_eq!((object["requests"].as_u64(), payload.counts().requests), (Some(100), 400));
    let object = told(&["tps", &url, &at, "--http2", "--requests=50", "--duration=1m"], trusted);
    assert_eq!((object["connections_opened"].as_u64(), payload.counts().requests), (Some(50), 450));
}

#[test]
fn http3_is_spoken_where_the_url_has_tls() {
    let payload = payload();
    let authority = Authority::new("authority");
    let certificate = authority.server(&[HOST]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("a file");
    let trusted = file.path().to_str().expect("a path of text");
    let setup = setup().tls(HOST).manifest("certificate.yaml", tls_secret("certificate", &certificate));
    let setup = setup.arguments(["--default-ssl-certificate=default/certificate"]);
    let forebay = setup.setting("forebay-http3", "on").endpoint(payload.local_addr()).start();
    let (url, at) =
        (url("https", HOST, forebay.https_address().port(), "/1k"), resolve(forebay.https_address()));
    let http3 = ["--http3", "--streams=5", "--connections=4", "--requests=300", "--duration=1m"];
    let object = told(&[&["rps", &url, &at][..], &http3].concat(), trusted);
    let opened = object["connections_opened"].as_u64();
    assert_eq!((object["requests"].as_u64(), opened), (Some(300), Some(4)));
    assert_eq!(payload.counts().requests, 300);
    let object = told(&["tps", &url, &at, "--http3", "--requests=50", "--duration=1m"], trusted);
    assert_eq!((object["connections_opened"].as_u64(), payload.counts().requests), (Some(50), 350));
    let clear = ["rps", "http://127.0.0.1:1/", "--http3", "--duration=1s"];
    let (code, _, stderr) = bench_trusting(&clear, "");
    assert_eq!((code, stderr.contains("HTTP/3 needs TLS")), (2, true), "{stderr}");
    let both = ["rps", &url, "--http2", "--http3"];
    assert_eq!(bench_trusting(&both, "").0, 2);
}

#[test]
fn throughput_counts_bodies() {
    let payload = payload();
    let url = url("http", "127.0.0.1", payload.local_addr().port(), "/1m");
    let object = told(&["throughput", &url, "--requests=20", "--connections=2", "--duration=1m"], "");
    let gigabits = 20.0 * f64::from(1 << 20) * 8.0 / 1e9;
    let (rate, seconds) = (object["rate"].as_f64().unwrap(), object["duration_seconds"].as_f64().unwrap());
    assert!((rate * seconds / gigabits - 1.0).abs() < 1e-6, "{object}");
    // Requests in flight at the end are no errors.
    told(&["throughput", &url.replace("1m", "slow/50"), "--connections=2", "--duration=150ms"], "");
}

#[test]
fn what_a_request_says_is_up_to_the_arguments() {
    let payload = payload();
    let address = payload.local_addr();
    let body = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(body.path(), vec![b'x'; 100_000]).expect("a file");
    let file = body.path().to_str().expect("a path of text");
    let url = url("http", "127.0.0.1", address.port(), "/echo");
    let echoing = |arguments: &[&str]| {
        let once = ["throughput", &url, "--requests=1", "--duration=1m"];
        told(&[&once, arguments].concat(), "")["bytes"].as_u64().expect("a number")
    };
    let plain = echoing(&[]);
    assert!(echoing(&["--header=X-Long: 0123456789", "--header=X-More: 1"]) > plain + 30);
    assert!(echoing(&["--body", file]) > plain, "the echo tells the body");
    assert_eq!(payload.counts().requests, 3);
}

#[test]
fn statuses_are_errors_by_code() {
    let payload = payload();
    let url = url("http", "127.0.0.1", payload.local_addr().port(), "/status/503");
    let arguments = ["rps", &url, "--requests=10", "--duration=1m", "--output=json"];
    let (code, stdout, stderr) = bench_trusting(&arguments, "");
    let object: Value = serde_json::from_str(&stdout).expect("one object");
    assert_eq!((code, &*stderr, &object["errors"]), (1, "", &json!({"status_503": 10})));
    let (code, stdout, _) = bench_trusting(&arguments[..4], "");
    assert!(code == 1 && stdout.contains("status_503 10"), "{stdout}");
}

#[test]
fn the_text_has_all_that_the_object_has() {
    let payload = payload();
    let url = url("http", "127.0.0.1", payload.local_addr().port(), "/1k");
    let (code, stdout, stderr) = bench_trusting(&["rps", &url, "--requests=100", "--duration=1m"], "");
    assert_eq!((code, &*stderr), (0, ""));
    for part in [&*url, "requests/s", "p99.99", "first byte", "64 opened", "100, none failed", "s of CPU"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    assert!(!stdout.contains('\x1b') && stdout.lines().all(|line| line.len() <= 110), "{stdout}");
}

#[test]
fn what_cannot_be_measured_is_said_in_one_line() {
    let payload = payload();
    let (forebay, authorities) = secured(&payload);
    let trusted = authorities.path().to_str().expect("a path of text");
    let stranger = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(stranger.path(), Authority::new("stranger").pem()).expect("a file");
    let untrusted = stranger.path().to_str().expect("a path of text");
    let closed = Refusing::default();
    let https = forebay.https_address().port();
    // A label of more than 63 bytes is nobody's, and no server needs to be asked.
    let nowhere = url("http", &format!("{}.test", "a".repeat(64)), 80, "/");
    let (refused, plain) =
        (url("http", "127.0.0.1", closed.address().port(), "/"), url("http", "127.0.0.1", 1, "/"));
    let (known, other) = (url("https", HOST, https, "/"), url("https", "other.test", https, "/"));
    let (at, at_other) =
        (resolve(forebay.https_address()), format!("--resolve=other.test:{https}:127.0.0.1"));
    let clear = url("https", "127.0.0.1", payload.local_addr().port(), "/");
    for (arguments, authorities, said) in [
        (&["rps", &refused][..], "", "Connection refused"),
        (&["rps", &nowhere], "", "cannot look up aaaa"),
        (&["rps", &known, &at], "/nonexistent", "no certificate authorities"),
        (&["rps", &known, &at], untrusted, "no authority that is trusted here has signed it (--insecure"),
        (&["rps", &other, &at_other], trusted, "not valid for name \"other.test\""),
        (&["rps", &clear, "--insecure"], "", "no TLS with 127.0.0.1"),
        (&["rps", &plain, "--method=G T"], "", "--method"),
        (&["rps", &clear.replace("https", "http"), "--http2", "--requests=50"], "", "does not speak HTTP/2"),
        (&["rps", &clear, "--http2", "--insecure"], "", "no TLS with 127.0.0.1"),
        (&["tps", &plain], "", "is not https://"),
        (&["rps", "127.0.0.1:80"], "", "http:// or https://"),
        (&["rps", &plain, "--body=/nonexistent"], "", "/nonexistent"),
        (&["rps", &plain, "--header=nonsense"], "", "--header"),
        (&["rps", &plain, "--resolve=nonsense"], "", "HOST:PORT:ADDR"),
        (&["rps", &plain, "--rate=0"], "", "--rate"),
        (&["rps", &plain, "--connections=0"], "", "--connections"),
        (&["rps"], "", "URL"),
    ] {
        let (code, stdout, stderr) = bench_trusting(arguments, authorities);
        assert_eq!((code, &*stdout, stderr.lines().count()), (2, "", 1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("forebay: ") && stderr.contains(said), "{arguments:?}: {stderr}");
    }
    let insecure = ["--insecure", "--requests=3", "--duration=1m"];
    told(&[&["rps", &known, &at][..], &insecure].concat(), "");
}
