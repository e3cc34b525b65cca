//! A Prometheus that scrapes one Forebay four times a second.
//!
//! Must not be in here: what it is asked.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::super::stage::Stage;
use super::super::talk::ask;
use super::{LIMIT, NAMESPACE, POD};
use crate::ask::Answer;
use crate::child::{Program, free_address};
use crate::template::render_file;

pub(super) struct Prometheus {
    #[expect(dead_code, reason = "held so that it runs")]
    program: Program,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it, and waits for the first scrape. As in a cluster, the target has labels of its own, and
    /// those of metrics that have the same name are renamed.
    pub(super) fn start(stage: &Stage, target: SocketAddr, rules: &Path) -> Result<Prometheus> {
        let address = free_address()?;
        let folder = stage.folder.join("prometheus");
        fs::create_dir(&folder)?;
        let configuration = folder.join("prometheus.yaml");
        let values = json!({"rules": rules, "target": target, "namespace": NAMESPACE, "pod": POD});
        fs::write(&configuration, render_file("conformance/monitoring/prometheus.yaml", values)?)?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", configuration.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.args([&format!("--web.listen-address={address}"), "--log.level=warn"]);
        let mut program = Program::start("prometheus", command, &[], &stage.folder)?;
        program.wait_for(address, &stage.interrupt)?;
        let prometheus = Prometheus { program, address };
        // It listens before it can answer.
        let is_ready = || Ok(prometheus.get("/-/ready")?.status == 200);
        stage.interrupt.await_that(LIMIT, "Prometheus", is_ready)?;
        prometheus.await_result(stage, "up == 1")?;
        Ok(prometheus)
    }

    /// Waits until a query has a result.
    pub(super) fn await_result(&self, stage: &Stage, query: &str) -> Result<()> {
        stage.interrupt.await_that(LIMIT, query, || self.has_result(query))
    }

    /// Whether a query has a sample that is a number.
    pub(super) fn has_result(&self, query: &str) -> Result<bool> {
        let samples = self.query(query)?;
        Ok(samples.iter().any(|sample| sample["value"][1].as_str().is_some_and(|value| value != "NaN")))
    }

    /// The values of a label among the results of a query.
    pub(super) fn label_values(&self, query: &str, label: &str) -> Result<Vec<String>> {
        let samples = self.query(query)?;
        Ok(samples.iter().filter_map(|sample| Some(sample["metric"][label].as_str()?.to_owned())).collect())
    }

    /// Whether all rules were evaluated, each without an error.
    pub(super) fn check_rules(&self) -> Result<()> {
        let groups = self.api("rules")?;
        let groups = groups["groups"].as_array().context("no groups of rules")?;
        ensure!(!groups.is_empty(), "no rules");
        for rule in groups.iter().filter_map(|group| group["rules"].as_array()).flatten() {
            ensure!(rule["health"] == "ok", "{rule:#}");
        }
        Ok(())
    }

    fn query(&self, query: &str) -> Result<Vec<Value>> {
        let data = self.api(&format!("query?query={}", percent_encoded(query)))?;
        ensure!(data["resultType"] == "vector", "not a vector: {query}");
        data["result"].as_array().cloned().context("no result")
    }

    fn api(&self, path: &str) -> Result<Value> {
        let answer = self.get(&format!("/api/v1/{path}"))?;
        let json = answer.json()?;
        if json["status"] != "success" {
            bail!("Prometheus says {}: {}", answer.status, json["error"]);
        }
        Ok(json["data"].clone())
    }

    fn get(&self, path: &str) -> Result<Answer> {
        ask(self.address, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"), b"")
    }
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(byte).collect()
}
