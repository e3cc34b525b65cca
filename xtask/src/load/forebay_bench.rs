//! `forebay bench rps` as a program, and what its object says.
//!
//! Must not be in here: what it is compared with.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::GRACE;
use crate::child::Program;
use crate::interrupt::Interrupt;
use crate::proxies::forebay_binary;

/// A closed loop on one thread.
pub(crate) struct ForebayBench<'a> {
    pub(crate) target: SocketAddr,
    pub(crate) path: &'a str,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

/// The result in its JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) requests: u64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Half of the responses took less, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl ForebayBench<'_> {
    /// Runs it on these CPUs; an error where any request failed.
    pub(crate) fn run(&self, cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Told> {
        let mut command = Command::new(forebay_binary()?);
        command.args(["bench", "rps", &format!("http://{}{}", self.target, self.path)]);
        command.args(["--threads", "1", "--connections", &self.connections.to_string()]);
        command.args(["--duration", &format!("{}s", self.duration.as_secs().max(1)), "--output", "json"]);
        let program = Program::start("forebay-bench", command, cpus, folder)?;
        parse(&program.output(self.duration + GRACE, interrupt)?)
    }
}

fn parse(output: &str) -> Result<Told> {
    let object: Value = serde_json::from_str(output)?;
    if object["errors"].as_object().is_none_or(|errors| !errors.is_empty()) {
        bail!("forebay bench: {}", object["errors"]);
    }
    let number = |value: &Value| value.as_f64().context("forebay bench tells no number");
    Ok(Told {
        requests: object["requests"].as_u64().context("forebay bench tells no number")?,
        rate: number(&object["rate"])?,
        p50: number(&object["latency_us"]["p50"])?,
        p99: number(&object["latency_us"]["p99"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_object_is_read_and_failures_are_not_passed_over() {
        let object = r#"{"requests": 9, "errors": {}, "rate": 3.5, "latency_us": {"p50": 1.0, "p99": 2.0}}"#;
        let told = Told { requests: 9, rate: 3.5, p50: 1.0, p99: 2.0 };
        assert_eq!(parse(object).expect("an object"), told);
        let failed = parse(&object.replace("{}", r#"{"closed": 1}"#)).expect_err("a failure");
        assert_eq!(failed.to_string(), r#"forebay bench: {"closed":1}"#);
    }
}
