//! Load: our generator on a thread; `forebay bench`, wrk, h2load and redis-benchmark as programs; all with
//! every answer checked.
//!
//! Must not be in here: proxies.

mod forebay_bench;
mod h2load;
mod redis;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bench::generator::{self, Outcome, Plan};

use crate::child::Program;
use crate::interrupt::Interrupt;

pub(crate) use forebay_bench::ForebayBench;
pub(crate) use h2load::{Drive, H2load, Seen};
pub(crate) use redis::RedisBenchmark;

/// The time that a run may take beyond its plan.
const GRACE: Duration = Duration::from_secs(30);

/// Carries out `plan`; an error where an answer was wrong or missing. Requests that were due and never sent
/// are no error but a figure: the proxy was too slow for the rate.
pub(crate) fn generate(plan: &Plan, interrupt: &Interrupt) -> Result<Outcome> {
    let running = thread::spawn({
        let plan = plan.clone();
        move || generator::run(&plan)
    });
    let limit = plan.duration + plan.patience + GRACE;
    interrupt
        .poll(limit, || Ok(running.is_finished().then_some(())))?
        .ok_or_else(|| anyhow!("the generator does not end"))?;
    let outcome = running.join().map_err(|_| anyhow!("the generator panicked"))??;
    let wrong: Vec<_> = outcome.errors.by_kind().into_iter().filter(|(_, count)| *count > 0).collect();
    if !wrong.is_empty() || outcome.unfinished > 0 {
        bail!("of {} requests some failed: {wrong:?}, unfinished {}", outcome.sent, outcome.unfinished);
    }
    check_sessions(plan, &outcome)?;
    Ok(outcome)
}

/// Handshakes must have been what the plan wants to measure: all full, or all but each connection's first
/// resumed.
fn check_sessions(plan: &Plan, outcome: &Outcome) -> Result<()> {
    let Some(tls) = &plan.tls else { return Ok(()) };
    let (opened, resumed) = (outcome.connections_opened, outcome.connections_resumed);
    let as_planned = if tls.resume { opened - resumed <= plan.connections as u64 } else { resumed == 0 };
    if !as_planned {
        bail!("of {opened} connections {resumed} resumed a session, which is not what was to be measured");
    }
    Ok(())
}

/// A run of wrk.
pub(crate) struct Wrk<'a> {
    /// http or https.
    pub(crate) scheme: &'a str,
    pub(crate) target: SocketAddr,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

impl Wrk<'_> {
    /// Requests a second in a closed loop; an error where any failed.
    pub(crate) fn rate(&self, cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<f64> {
        let mut command = Command::new("wrk");
        command.args(["--threads", "1", "--connections", &self.connections.to_string()]);
        command.args(["--duration", &format!("{}s", self.duration.as_secs().max(1))]);
        command.args(["--header", &format!("Host: {}", self.host)]);
        command.arg(format!("{}://{}{}", self.scheme, self.target, self.path));
        let program = Program::start("wrk", command, cpus, folder)?;
        parse_wrk(&program.output(self.duration + GRACE, interrupt)?)
    }
}

fn parse_wrk(output: &str) -> Result<f64> {
    if let Some(line) = output.lines().find(|line| line.contains("Non-2xx") || line.contains("Socket errors"))
    {
        bail!("wrk: {}", line.trim());
    }
    let rate =
        output.lines().find_map(|line| line.strip_prefix("Requests/sec:")).context("wrk tells no rate")?;
    Ok(rate.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_tells_its_rate_and_its_errors() {
        assert_eq!(parse_wrk("  2 requests\nRequests/sec:  38123.45\nTransfer/sec: 1").ok(), Some(38123.45));
        let failed = parse_wrk("  Non-2xx or 3xx responses: 7\nRequests/sec: 1").expect_err("a failure");
        assert_eq!(failed.to_string(), "wrk: Non-2xx or 3xx responses: 7");
    }
}
