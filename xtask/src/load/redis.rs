//! redis-benchmark: `GET`s of one key, and whether the server had them all.
//!
//! Must not be in here: proxies.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child::{Program, output};
use crate::interrupt::Interrupt;

const LIMIT: Duration = Duration::from_mins(2);
const CLIENTS: u32 = 50;
/// The key that redis-benchmark requests without a range.
const KEY: &str = "key:__rand_int__";

/// A run of redis-benchmark.
pub(crate) struct RedisBenchmark {
    /// Where it connects to.
    pub(crate) target: SocketAddr,
    /// The server that is behind it.
    pub(crate) server: SocketAddr,
    /// Requests that a client sends before it waits for answers.
    pub(crate) pipelined: u32,
    pub(crate) requests: u64,
}

/// The result of redis-benchmark.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) rate: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl RedisBenchmark {
    /// An error where the server did not get every request.
    pub(crate) fn run(&self, cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Seen> {
        ask(self.server, &["SET", KEY, "xxx"])?;
        let before = hits(self.server)?;
        let program = Program::start("redis-benchmark", self.command(), cpus, folder)?;
        let output = program.output(LIMIT, interrupt)?;
        let seen = parse(&output).with_context(|| format!("redis-benchmark says:\n{output}"))?;
        let answered = hits(self.server)? - before;
        ensure!(
            answered >= self.requests,
            "redis-server found the key {answered} times of {}",
            self.requests
        );
        Ok(seen)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", &self.target.ip().to_string(), "-p", &self.target.port().to_string()]);
        command.args(["-t", "get", "--csv", "-c", &CLIENTS.to_string()]);
        command.args(["-P", &self.pipelined.to_string(), "-n", &self.requests.to_string()]);
        command
    }
}

/// How often the server found a key that it was asked for.
fn hits(server: SocketAddr) -> Result<u64> {
    let hits = ask(server, &["INFO", "stats"])?;
    let hits = hits.lines().find_map(|line| line.strip_prefix("keyspace_hits:"));
    Ok(hits.context("redis-server tells no keyspace_hits")?.trim().parse()?)
}

/// A command, and its answer.
fn ask(server: SocketAddr, command: &[&str]) -> Result<String> {
    let mut cli = Command::new("redis-cli");
    cli.args(["-e", "-h", &server.ip().to_string(), "-p", &server.port().to_string()]);
    output(cli.args(command))
}

/// Comma-separated values below a line with their names.
fn parse(output: &str) -> Option<Seen> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with("\"test\""));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| -> Option<f64> {
        let column = names.split(',').position(|name| name.trim_matches('"') == wanted)?;
        values.split(',').nth(column)?.trim_matches('"').parse().ok()
    };
    let latency = |name| Some(Duration::from_secs_f64(value(name)? / 1e3));
    Some(Seen { rate: value("rps")?, p50: latency("p50_latency_ms")?, p99: latency("p99_latency_ms")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_its_names() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\",\"p99_latency_ms\"\n\
                      \"GET\",\"1000.50\",\"0.3\",\"0.25\",\"1.5\"\n";
        let [p50, p99] = [250, 1500].map(Duration::from_micros);
        assert_eq!(parse(output), Some(Seen { rate: 1000.5, p50, p99 }));
        assert_eq!(parse("Could not connect"), None);
    }
}
