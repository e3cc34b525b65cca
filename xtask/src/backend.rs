//! The server behind the proxies: a process of its own, with a share of a CPU where one is wanted.
//!
//! Must not be in here: what stands in front of it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lab::Quota;
use serde_json::Value;

use crate::ask::get;
use crate::child::{Program, free_address, this_program};
use crate::interrupt::Interrupt;

/// Short, so that a server that has used up its share waits milliseconds and not tenths of a second.
const PERIOD: Duration = Duration::from_millis(20);

/// A running server.
pub(crate) struct Backend {
    kind: Kind,
    program: Program,
    pub(crate) address: SocketAddr,
    // Behind the program, and so dropped after it: a cgroup can go when its processes are gone.
    quota: Option<Quota>,
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Ours: so lean that it is never the limit.
    Payload,
    /// Ours too, for HTTP/2 in the clear and gRPC.
    H2c,
    /// The real one, with one key for its benchmark to get.
    Redis,
    /// The server of field case A's Pods. A connection costs it several times what a request does, as in most
    /// servers.
    Nginx,
}

impl Backend {
    /// Starts the payload server.
    pub(crate) fn start(name: &str, cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Backend> {
        Backend::start_at(free_address()?, name, cpus, folder, interrupt)
    }

    /// Starts the payload server at an address of the caller's choice.
    pub(crate) fn start_at(
        address: SocketAddr,
        name: &str,
        cpus: &[usize],
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Backend> {
        let program = Program::start(name, this_program("payload", [address.to_string()])?, cpus, folder)?;
        Backend { kind: Kind::Payload, program, address, quota: None }.ready(interrupt)
    }

    /// Starts the server for HTTP/2 in the clear and gRPC.
    pub(crate) fn start_h2c(cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Backend> {
        let address = free_address()?;
        let program = Program::start("h2c", this_program("h2c", [address.to_string()])?, cpus, folder)?;
        Backend { kind: Kind::H2c, program, address, quota: None }.ready(interrupt)
    }

    /// Starts a redis-server that keeps nothing.
    pub(crate) fn start_redis(cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Backend> {
        let address = free_address()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(folder);
        let program = Program::start("redis", command, cpus, folder)?;
        Backend { kind: Kind::Redis, program, address, quota: None }.ready(interrupt)
    }

    /// Starts an nginx that serves `/1k` from a file, in one process so that one share of CPU holds all of
    /// it.
    pub(crate) fn start_nginx(cpus: &[usize], folder: &Path, interrupt: &Interrupt) -> Result<Backend> {
        let address = free_address()?;
        let folder = folder.join("backend");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("1k"), vec![b'x'; 1024])?;
        let config = folder.join("nginx.conf");
        fs::write(
            &config,
            format!(include_str!("backend.conf"), address = address, folder = folder.display()),
        )?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(config).arg("-p").arg(&folder);
        let program = Program::start("backend-nginx", command, cpus, &folder)?;
        Backend { kind: Kind::Nginx, program, address, quota: None }.ready(interrupt)
    }

    fn ready(mut self, interrupt: &Interrupt) -> Result<Backend> {
        self.program.wait_for(self.address, interrupt)?;
        Ok(self)
    }

    /// Holds it to so much of one CPU; an error says why that cannot be.
    pub(crate) fn hold(&mut self, percent: u32) -> Result<()> {
        self.quota = Some(Quota::hold(self.program.pid(), PERIOD * percent / 100, PERIOD)?);
        Ok(())
    }

    /// How many requests the payload server has counted, this question among them.
    pub(crate) fn requests(&self) -> Result<u64> {
        let counts: Value = serde_json::from_str(&get(self.address, "/count")?)?;
        counts["requests"].as_u64().context("no count of requests")
    }

    /// How many connections it has accepted, that of this question among them.
    fn accepted(&self) -> Result<u64> {
        match self.kind {
            Kind::H2c | Kind::Redis => bail!("{:?} does not count its connections", self.kind),
            Kind::Payload => {
                let counts: Value = serde_json::from_str(&get(self.address, "/count")?)?;
                counts["accepted"].as_u64().context("no count of connections")
            }
            // The line after "server accepts handled requests".
            Kind::Nginx => {
                let answer = get(self.address, "/count")?;
                let numbers = answer.lines().nth(2).and_then(|line| line.split_whitespace().next());
                Ok(numbers.context("no count of connections")?.parse()?)
            }
        }
    }
}

/// How many connections several backends had accepted at a time.
pub(crate) struct Accepted(u64);

impl Accepted {
    pub(crate) fn now(backends: &[Backend]) -> Result<Accepted> {
        backends.iter().map(Backend::accepted).sum::<Result<u64>>().map(Accepted)
    }

    /// How many more they have accepted since, without the questions.
    pub(crate) fn opened_since(&self, backends: &[Backend]) -> Result<u64> {
        let questions = backends.len() as u64;
        Ok((Accepted::now(backends)?.0 - self.0).saturating_sub(questions))
    }
}
