//! `forebay bench`, asked.
//!
//! Must not be in here: what a figure ought to be.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::Program;
use serde_json::Value;

use crate::doctor::Diagnosis;
use crate::program::forebay;
use crate::stage::{HOST, Stage};

const LIMIT: Duration = Duration::from_secs(120);

/// The results of `bench compare`.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Requests a second.
    pub(crate) direct: f64,
    pub(crate) via: f64,
    /// Answered through the proxy.
    pub(crate) requests: f64,
    pub(crate) explanations: Diagnosis,
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Of a round.
    pub(crate) seconds: u32,
}

/// Alternates between the backend and the proxy, which is the process `pid`, with a connection for each
/// request.
pub(crate) fn compare(
    stage: &Stage,
    direct: SocketAddr,
    via: SocketAddr,
    pid: u32,
    connections: usize,
    effort: Effort,
) -> Result<Comparison> {
    let (direct, via) = (format!("http://{direct}/1k"), format!("http://{via}/1k"));
    let (rounds, duration) = (effort.rounds.to_string(), format!("{}s", effort.seconds));
    let mut command = bench("compare", connections)?;
    command.args(["--direct", &direct, "--via", &via, "--pid", &pid.to_string()]);
    command.args(["--rounds", &rounds, "--duration", &duration, "--keep-alive", "off"]);
    let said = stage.client.enter(|| run(command, stage.folder.path()))?;
    for way in ["direct", "via"] {
        ensure!(said[way]["errors"] == serde_json::json!({}), "requests failed {way}: {said:#}");
    }
    Ok(Comparison {
        direct: number(&said["direct"], "rate")?,
        via: number(&said["via"], "rate")?,
        requests: number(&said["via"], "requests")?,
        explanations: Diagnosis::new(&said["explanations"])?,
    })
}

/// Requests a second that clients with keep-alive get.
pub(crate) fn rate(stage: &Stage, target: SocketAddr, connections: usize) -> Result<f64> {
    let mut command = bench("rps", connections)?;
    command.args(["--duration", "3s"]).arg(format!("http://{target}/1k"));
    let said = stage.client.enter(|| run(command, stage.folder.path()))?;
    number(&said, "rate")
}

/// `bench sweep` with these arguments: its four tables.
pub(crate) fn sweep(arguments: &[&str], folder: &Path) -> Result<Value> {
    let mut command = forebay()?;
    command.args(["bench", "sweep"]).args(arguments);
    Ok(run(command, folder)?["tables"].clone())
}

/// A number in what was said.
pub(crate) fn number(said: &Value, name: &str) -> Result<f64> {
    said[name].as_f64().with_context(|| format!("no {name} in {said:#}"))
}

fn bench(kind: &str, connections: usize) -> Result<Command> {
    let mut command = forebay()?;
    command.args(["bench", kind, "--connections", &connections.to_string()]);
    command.args(["--header", &format!("Host: {HOST}")]);
    Ok(command)
}

fn run(mut command: Command, folder: &Path) -> Result<Value> {
    command.args(["--output", "json"]);
    let (status, output) = Program::start("bench", command, folder)?.ending(LIMIT)?;
    // With 1 it says that some requests failed, which may be what a case is about.
    ensure!(matches!(status.code(), Some(0 | 1)), "bench ended with {status}:\n{output}");
    serde_json::from_str(&output).with_context(|| output)
}
