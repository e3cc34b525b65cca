//! `forebay bench compare`, `sweep` and `--report`: what they say, what they write, and that nothing of
//! theirs stays.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::payload::Payload;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::Forebay;

use crate::namespace::in_own_network;
use crate::{FOREBAY, setup};

/// How long what is bound to come may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A payload server, and Forebay before it.
fn stage() -> (Payload, Forebay) {
    let payload = Payload::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a free port");
    let forebay = setup().endpoint(payload.local_addr()).start();
    (payload, forebay)
}

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(FOREBAY);
    command.arg("bench").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    bench(arguments).output().expect("it runs")
}

/// The output of a successful run.
fn object(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// The one line that it printed, where it could do nothing.
fn complaint(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A page that needs nothing but itself, and has so many plots.
fn assert_page(file: &Path, plots: usize) {
    let page = fs::read_to_string(file).expect("it was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<svg ").count(), plots);
    for outside in ["<script", "<link", " src=", " href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn both_ways_are_compared_and_explained() {
    in_own_network(|| {
        let (payload, forebay) = stage();
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path().join("page.html");
        let direct = format!("http://{}/1k", payload.local_addr());
        let via = format!("http://{}/1k?<script>", forebay.address()).replace('<', "%3C").replace('>', "%3E");
        let pid = forebay.pid().as_raw_nonzero().to_string();
        let metrics = format!("http://{}/metrics", forebay.admin_address());
        let output = run(&[
            "compare",
            "--direct",
            &direct,
            "--via",
            &via,
            "--header",
            "Host: web.test",
            "--pid",
            &pid,
            "--metrics",
            &metrics,
            "--rounds=3",
            "--duration=200ms",
            "--connections=4",
            "--output=json",
            "--report",
            page.to_str().expect("a path of text"),
        ]);
        let told = object(&output);
        assert_eq!((&told["kind"], &told["direct"]["url"]), (&"compare".into(), &direct.clone().into()));
        let requests = |way: &str| told[way]["requests"].as_u64().expect("a count");
        assert_eq!(
            requests("direct") + requests("via"),
            payload.counts().requests,
            "each request is counted once"
        );
        for way in ["direct", "via"] {
            assert_eq!(told[way]["errors"], serde_json::json!({}), "{way}");
            assert!(number(&told[way]["connections_opened"]) >= 12.0, "{way}: four in each round");
            assert!(number(&told[way]["duration_seconds"]) > 0.0, "{way}");
        }
        for (ratio, figure) in
            [("rate", "/rate"), ("latency_p50", "/latency_us/p50"), ("latency_p99", "/latency_us/p99")]
        {
            let of = |way: &str| number(told[way].pointer(figure).expect("a figure"));
            assert!((number(&told["ratio"][ratio]) - of("via") / of("direct")).abs() < 1e-9, "{ratio}");
            let spread = &told["spread"][ratio];
            assert!(number(&spread["min"]) <= number(&spread["max"]), "{ratio}");
        }
        let explanations = told["explanations"].as_array().expect("a list");
        let explanation = |id: &str| {
            let found = explanations.iter().find(|finding| finding["id"] == id);
            found.unwrap_or_else(|| panic!("no {id} in {explanations:#?}"))
        };
        let reuse = explanation("upstream-reuse");
        assert_eq!(reuse["verdict"], "ok", "Forebay keeps its connections: {reuse}");
        assert!(number(&explanation("proxy-cpu")["evidence"]["cpu_us_per_request"]) > 0.0);
        assert!(
            explanation("phases")["message"].as_str().expect("text").contains("the median request takes")
        );
        assert_page(&page, 4);
    });
}

#[test]
fn a_proxy_that_keeps_no_connection_is_found() {
    in_own_network(|| {
        let payload = Payload::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a free port");
        // One request for each connection: what field case A's proxy did.
        let forebay =
            setup().setting("upstream-keepalive-requests", "1").endpoint(payload.local_addr()).start();
        let direct = format!("http://{}/1k", payload.local_addr());
        let via = format!("http://{}/1k", forebay.address());
        let pid = forebay.pid().as_raw_nonzero().to_string();
        let output = run(&[
            "compare",
            "--direct",
            &direct,
            "--via",
            &via,
            "--header=Host: web.test",
            "--pid",
            &pid,
            "--rounds=2",
            "--duration=300ms",
            "--connections=4",
            "--output=json",
        ]);
        let told = object(&output);
        let explanations = told["explanations"].as_array().expect("a list");
        let reuse =
            explanations.iter().find(|finding| finding["id"] == "upstream-reuse").expect("it is always told");
        assert_eq!(reuse["verdict"], "failure", "{reuse}");
        let per_request = number(&reuse["evidence"]["connections_per_request"]);
        assert!(per_request > 0.9, "{reuse}");
        let message = reuse["message"].as_str().expect("text");
        assert!(message.contains("TIME_WAIT") && message.contains("; the port range holds "), "{message}");
    });
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let payload = Payload::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a free port");
    let url = format!("http://{}/", payload.local_addr());
    let compare =
        |more: &[&str]| complaint(&run(&[&["compare", "--direct", &url, "--via", &url], more].concat()));
    // One more than the kernel ever gives (proc_sys_kernel(5), pid_max).
    assert!(compare(&["--pid=4194305"]).contains("4194305"));
    assert!(compare(&["--metrics=http://127.0.0.1:1/metrics"]).contains("http://127.0.0.1:1/metrics"));
    assert!(compare(&["--metrics", &format!("{url}missing")]).contains("404"));
    assert!(compare(&["--report=/nonexistent/page.html"]).contains("/nonexistent/page.html"));
    let closed = format!("{url}status/503");
    let all_failed = run(&["compare", "--direct", &url, "--via", &closed, "--rounds=1", "--duration=50ms"]);
    let told = complaint(&all_failed);
    assert!(told.contains(&closed) && told.contains("requests succeeded: status_503"), "{told}");
    assert!(complaint(&run(&["compare", "--direct", &url])).contains("--via"));
    assert!(complaint(&run(&["sweep", "--cpus=60000"])).contains("60000"));
    assert!(complaint(&run(&["sweep", "--pid=1"])).contains("--url"));
}

#[test]
fn a_process_that_ends_ends_the_comparison() {
    let payload = Payload::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a free port");
    let url = format!("http://{}/", payload.local_addr());
    let mut other = Command::new(FOREBAY);
    let mut other =
        Running(other.args(["payload", "--port=0"]).stdout(Stdio::null()).spawn().expect("it runs"));
    let pid = other.0.id().to_string();
    let comparing = bench(&[
        "compare",
        "--direct",
        &url,
        "--via",
        &url,
        "--pid",
        &pid,
        "--rounds=1000",
        "--duration=50ms",
    ]);
    let comparing = thread::spawn(move || { comparing }.output().expect("it runs"));
    wait_until("the rounds to begin", || payload.counts().requests > 0);
    other.0.kill().expect("it is our child");
    other.0.wait().expect("it is our child");
    assert!(complaint(&comparing.join().expect("no panic")).contains(&pid));
}

#[test]
fn a_sweep_fills_four_tables_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let temporary = tempfile::tempdir().expect("a folder");
    let output =
        bench(&["sweep", "--cpus=1", "--duration=500ms", "--connections=4", "--output=json", "--report"])
            .arg(&page)
            .env("TMPDIR", temporary.path())
            .output()
            .expect("it runs");
    let told = object(&output);
    assert_eq!((&told["kind"], &told["cpus_of"]), (&"sweep".into(), &"proxy".into()));
    for (table, kind) in [("http", "rps"), ("https", "rps"), ("tls", "tps"), ("throughput", "throughput")] {
        let rows = told["tables"][table].as_array().expect("a list");
        assert_eq!((rows.len(), &rows[0]["cpus"], &rows[0]["kind"]), (1, &1.into(), &kind.into()), "{table}");
        assert!(number(&rows[0]["rate"]) > 0.0 && number(&rows[0]["proxy_cpus_used"]) > 0.0, "{table}");
        assert!(rows[0]["shared"].is_boolean(), "{table}");
    }
    assert_page(&page, 4);
    assert!(is_left_empty(temporary.path()));
}

#[test]
fn a_sweep_that_is_interrupted_leaves_nothing() {
    let temporary = tempfile::tempdir().expect("a folder");
    let mut sweep = bench(&["sweep", "--cpus=1", "--duration=1h"]);
    let mut sweep = Running(sweep.env("TMPDIR", temporary.path()).spawn().expect("it runs"));
    wait_until("the proxy to run", || runs_with(temporary.path()));
    kill_process(Pid::from_child(&sweep.0), Signal::TERM).expect("it runs");
    assert_eq!(sweep.0.wait().expect("it is our child").code(), Some(130));
    assert!(is_left_empty(temporary.path()));
}

#[test]
fn a_proxy_that_runs_is_swept_by_the_generators_cpus() {
    let (_payload, forebay) = stage();
    let url = format!("http://{}/1k", forebay.address());
    let pid = forebay.pid().as_raw_nonzero().to_string();
    let output = run(&[
        "sweep",
        "--url",
        &url,
        "--header=Host: web.test",
        "--pid",
        &pid,
        "--cpus=1",
        "--duration=100ms",
        "--connections=4",
        "--output=json",
    ]);
    let told = object(&output);
    assert_eq!(told["cpus_of"], "generator");
    let rows = |table: &str| told["tables"][table].as_array().expect("a list").len();
    assert_eq!(["http", "https", "tls", "throughput"].map(rows), [1, 0, 0, 0]);
    let row = &told["tables"]["http"][0];
    assert!(row["shared"].is_null() && number(&row["proxy_cpus_used"]) > 0.0, "{row}");
}

#[test]
fn one_measurement_has_a_page_too() {
    let payload = Payload::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://{}", payload.local_addr());
    for (kind, path) in [("rps", "/1k"), ("throughput", "/1m")] {
        let page = folder.path().join(kind);
        let file = page.to_str().expect("a path of text");
        let output =
            run(&[kind, &format!("{url}{path}"), "--duration=300ms", "--connections=2", "--report", file]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_page(&page, 4);
    }
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

/// Whether a process has a file of `folder` among its arguments.
fn runs_with(folder: &Path) -> bool {
    let folder = folder.to_str().expect("a path of text");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(folder))
}

/// Whether neither a file nor a process is left that was there for a sweep.
fn is_left_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").count() == 0 && !runs_with(folder)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::yield_now();
    }
}
