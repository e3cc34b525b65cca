//! h2load: HTTP/2 with many streams, in the clear or over TLS.
//!
//! Must not be in here: proxies.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::GRACE;
use crate::child::Program;
use crate::interrupt::Interrupt;

/// Connections, and streams on each.
const CLIENTS: u64 = 16;
const STREAMS: u64 = 32;

/// A run of h2load.
pub(crate) struct H2load<'a> {
    pub(crate) target: SocketAddr,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tls: bool,
    /// The file with what is posted to gRPC; `None` for a GET.
    pub(crate) call: Option<&'a Path>,
    /// The length of every response's body.
    pub(crate) body_bytes: u64,
    pub(crate) drive: Drive,
}

/// The pace of requests.
#[derive(Clone, Copy)]
pub(crate) enum Drive {
    /// So many requests, at a rate.
    Rate { per_second: u64, requests: u64 },
    /// Each stream's next request follows its answer.
    Closed { duration: Duration },
}

/// The result of h2load.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    pub(crate) rate: f64,
}

impl H2load<'_> {
    /// An error where an answer was wrong or missing.
    pub(crate) fn run(&self, cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Seen> {
        let program = Program::start("h2load", self.command(), cpus, folder)?;
        let seen = self.check(&program.output(self.lasts() + GRACE, interrupt)?)?;
        Ok(seen)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("h2load");
        command.args(["--clients", &CLIENTS.to_string(), "--max-concurrent-streams", &STREAMS.to_string()]);
        match self.drive {
            Drive::Rate { per_second, requests } => {
                command.args(["--rps", &(per_second / CLIENTS).to_string()]);
                command.args(["--requests", &requests.to_string()]);
            }
            Drive::Closed { duration } => {
                command.args(["--duration", &format!("{}ms", duration.as_millis())]);
            }
        }
        if let Some(file) = self.call {
            command.arg("--data").arg(file);
            command.args(["--header", "content-type: application/grpc", "--header", "te: trailers"]);
        }
        // One suite for all that is measured over TLS.
        command.args(["--tls13-ciphers", "TLS_AES_256_GCM_SHA384"]);
        command.arg(format!("--connect-to={}", self.target));
        command.arg(format!("{}://{}{}", if self.tls { "https" } else { "http" }, self.host, self.path));
        command
    }

    fn lasts(&self) -> Duration {
        match self.drive {
            Drive::Rate { per_second, requests } => Duration::from_secs(requests / per_second.max(1) + 1),
            Drive::Closed { duration } => duration,
        }
    }

    fn check(&self, output: &str) -> Result<Seen> {
        let summary = Summary::parse(output).with_context(|| format!("h2load says:\n{output}"))?;
        let Summary { rate, done, succeeded, failed, ok, data } = summary;
        // It has seen the heads of some answers whose bodies the end of its time cut off.
        let cut_off = if matches!(self.drive, Drive::Closed { .. }) { CLIENTS * STREAMS } else { 0 };
        let is_ok = (done..=done + cut_off).contains(&ok);
        ensure!(failed == 0 && succeeded == done && is_ok && done > 0, "h2load failed:\n{output}");
        if let Drive::Rate { requests, .. } = self.drive {
            ensure!(done == requests, "h2load made {done} of {requests} requests");
            ensure!(data == done * self.body_bytes, "h2load: {data} bytes in {done} bodies");
        }
        Ok(Seen { requests: done, rate })
    }
}

/// The figures that h2load prints at its end.
#[derive(Debug, PartialEq)]
struct Summary {
    rate: f64,
    done: u64,
    succeeded: u64,
    failed: u64,
    /// Answers with a status of 2xx.
    ok: u64,
    /// Bytes in bodies.
    data: u64,
}

impl Summary {
    fn parse(output: &str) -> Option<Summary> {
        let line = |start: &str| output.lines().find_map(|line| line.strip_prefix(start));
        // "16 total, 15 started, ...": the number before a word.
        let count = |line: &str, word: &str| -> Option<u64> {
            let (number, _) = line
                .split(", ")
                .filter_map(|part| part.trim().split_once(' '))
                .find(|(_, name)| *name == word)?;
            number.parse().ok()
        };
        let requests = line("requests: ")?;
        let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
        let data = line("traffic: ")?.strip_suffix(") data")?.rsplit_once('(')?.1;
        Some(Summary {
            rate: rate.parse().ok()?,
            done: count(requests, "done")?,
            succeeded: count(requests, "succeeded")?,
            failed: count(requests, "failed")? + count(requests, "errored")? + count(requests, "timeout")?,
            ok: count(line("status codes: ")?, "2xx")?,
            data: data.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
finished in 1.00s, 1598.89 req/s, 1.60MB/s
requests: 1600 total, 1600 started, 1600 done, 1600 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 1600 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 1.60MB (1678592) total, 23.79KB (24357) headers (space savings 91.26%), 1.56MB (1638400) data
";

    fn check(output: &str, requests: u64) -> Result<Seen> {
        let load = H2load {
            target: ([127, 0, 0, 1], 1).into(),
            host: "x",
            path: "/",
            tls: false,
            call: None,
            body_bytes: 1024,
            drive: Drive::Rate { per_second: 1600, requests },
        };
        load.check(output)
    }

    #[test]
    fn h2load_tells_its_rate() {
        assert_eq!(check(OUTPUT, 1600).ok(), Some(Seen { requests: 1600, rate: 1598.89 }));
    }

    #[test]
    fn wrong_answers_are_found() {
        assert!(check(OUTPUT, 1601).is_err(), "one is missing");
        for (good, bad) in
            [("0 errored", "1 errored"), ("1600 2xx, 0 3xx", "1599 2xx, 1 3xx"), ("1638400", "1638399")]
        {
            assert!(check(&OUTPUT.replace(good, bad), 1600).is_err(), "{bad}");
        }
    }
}
