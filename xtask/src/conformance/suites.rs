//! The suites whose verdict is their own: gRPC's interoperability tests, testssl.sh, WebSocket, Redis.
//!
//! Must not be in here: how the programs come to be there.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::stage::{HOST, Stage};

const LIMIT: Duration = Duration::from_secs(60);
/// testssl.sh tries some hundred suites, one connection after the other.
const OFFER_LIMIT: Duration = Duration::from_secs(240);

/// All of gRPC's interoperability tests that need no cloud and no load balancer
/// (`doc/interop-test-descriptions.md` in grpc/grpc).
const GRPC_CASES: &str = include_str!("../../conformance/grpc-cases.txt");

/// The suites that testssl.sh must find, and no others. The certificate is ECDSA; those for RSA differ by its
/// name.
const OFFERED_SUITES: &str = include_str!("../../conformance/offered-suites.txt");

pub(super) fn grpc(stage: &Stage) -> Result<String> {
    for case in GRPC_CASES.lines() {
        for (address, is_tls) in [(stage.http, false), (stage.https, true)] {
            let mut command = stage.tools.go_program("grpc-interop-client");
            command.arg(format!("-test_case={case}"));
            command
                .arg(format!("-server_host={}", address.ip()))
                .arg(format!("-server_port={}", address.port()));
            command.args(["-soak_iterations=100", "-soak_overall_timeout_seconds=30"]);
            if is_tls {
                command
                    .args(["-use_tls", "-use_test_ca"])
                    .arg(format!("-ca_file={}", stage.certificate_file.display()));
                command.arg(format!("-server_host_override={HOST}"));
            }
            stage.output("grpc-client", command, LIMIT).with_context(|| format!("{case}, TLS: {is_tls}"))?;
        }
    }
    Ok(format!("{} cases pass, in clear to h2c and over TLS to TLS", GRPC_CASES.lines().count()))
}

pub(super) fn offer(stage: &Stage) -> Result<String> {
    let report = stage.folder.join("offer.json");
    let mut command = Command::new("testssl");
    command.args(["--quiet", "--warnings", "off", "--color", "0", "--protocols", "--cipher-per-proto"]);
    command.arg("--jsonfile").arg(&report).arg(stage.https.to_string());
    stage.output("testssl", command, OFFER_LIMIT)?;
    judge(&serde_json::from_str(&fs::read_to_string(&report)?)?)
}

/// Protocols, suites and weaknesses of a report.
fn judge(report: &Value) -> Result<String> {
    let findings = report.as_array().context("no list of findings")?;
    let field = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let found = |id: &str| {
        findings.iter().find(|one| one["id"] == id).map(|one| field(one, "finding")).unwrap_or_default()
    };
    for (id, begins) in [
        ("SSLv2", "not offered"),
        ("SSLv3", "not offered"),
        ("TLS1", "not offered"),
        ("TLS1_1", "not offered"),
        ("TLS1_2", "offered"),
        ("TLS1_3", "offered"),
    ] {
        ensure!(found(id).starts_with(begins), "{id} is {:?}, and should be {begins}", found(id));
    }
    let suites: BTreeSet<String> = findings
        .iter()
        .filter(|finding| field(finding, "id").starts_with("cipher-tls"))
        .filter_map(|finding| field(finding, "finding").split_whitespace().last().map(str::to_owned))
        .collect();
    ensure!(
        suites.iter().map(String::as_str).eq(OFFERED_SUITES.lines()),
        "the suites offered are {suites:?}"
    );
    let weak: Vec<_> = findings
        .iter()
        .filter(|finding| matches!(&*field(finding, "severity"), "LOW" | "MEDIUM" | "HIGH" | "CRITICAL"))
        .map(|finding| format!("{}: {}", field(finding, "id"), field(finding, "finding")))
        .collect();
    if !weak.is_empty() {
        bail!("weak: {}", weak.join("; "));
    }
    Ok(format!("TLS 1.2 and 1.3 with {} suites and nothing else", suites.len()))
}

pub(super) fn websocket(stage: &Stage) -> Result<String> {
    let mut command = stage.tools.node_script("websocket/client.cjs");
    command.arg(format!("ws://{}/websocket", stage.http));
    stage.output("websocket-clear", command, LIMIT).context("in clear")?;
    let mut command = stage.tools.node_script("websocket/client.cjs");
    // The name is the handshake's only: the host of the request leads to the same Ingress as the address
    // does.
    command.arg(format!("wss://{}/websocket", stage.https)).arg(&stage.certificate_file).arg(HOST);
    stage.output("websocket-tls", command, LIMIT).context("over TLS")?;
    Ok("a client and a server of the ws package talk, in clear and over TLS".into())
}

pub(super) fn redis(stage: &Stage) -> Result<String> {
    let cli = |arguments: &[&str]| {
        let mut command = Command::new("redis-cli");
        command
            .args(["-h", &stage.redis.ip().to_string(), "-p", &stage.redis.port().to_string()])
            .args(arguments);
        stage.output("redis-cli", command, LIMIT)
    };
    let value = "x".repeat(100_000);
    ensure!(cli(&["SET", "key", &value])?.trim() == "OK");
    ensure!(cli(&["GET", "key"])?.trim() == value, "another value came back");
    for pipeline in ["1", "16"] {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", &stage.redis.ip().to_string(), "-p", &stage.redis.port().to_string()]);
        command.args("-n 20000 -c 50 -t ping,set,get,lpush,lrange_100 -q -e -P".split(' ')).arg(pipeline);
        let output = stage.output("redis-benchmark", command, LIMIT)?;
        ensure!(output.contains("requests per second"), "{output}");
    }
    Ok("redis-cli and redis-benchmark get what redis-server has".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Vec<Value> {
        let mut findings = Vec::new();
        for (id, finding) in [
            ("SSLv2", "not offered"),
            ("SSLv3", "not offered"),
            ("TLS1", "not offered"),
            ("TLS1_1", "not offered"),
        ] {
            findings.push(json!({"id": id, "severity": "OK", "finding": finding}));
        }
        for (id, finding) in [("TLS1_2", "offered"), ("TLS1_3", "offered with final")] {
            findings.push(json!({"id": id, "severity": "OK", "finding": finding}));
        }
        for suite in OFFERED_SUITES.lines() {
            let finding =
                format!("TLS 1.2   xc02c   X     ECDH 253   AESGCM      256      {suite}            ");
            findings.push(json!({"id": "cipher-tls1_2_x", "severity": "INFO", "finding": finding}));
        }
        findings
    }

    #[test]
    fn an_offer_is_judged_by_all_that_it_holds() {
        judge(&report().into()).unwrap();
        let mut old = report();
        old[2]["finding"] = "offered (deprecated)".into();
        assert!(judge(&old.into()).is_err());
        let mut few = report();
        few.pop();
        assert!(judge(&few.into()).is_err());
        let mut more = report();
        more.push(json!({"id": "cipher-tls1_2_x2f", "severity": "INFO", "finding": "TLS 1.2 x2f TLS_RSA_WITH_AES_128_CBC_SHA"}));
        assert!(judge(&more.into()).is_err());
        let mut weak = report();
        weak.push(json!({"id": "something", "severity": "HIGH", "finding": "weak"}));
        assert!(judge(&weak.into()).is_err());
    }
}
