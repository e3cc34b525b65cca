//! redis-server under a CPU quota, and clients that come in bursts.
//!
//! A burst is so much CPU time of the server, whatever the machine: what a request costs is measured first.
//! Must not be in here: how much time the server is given.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::{Program, Quota, Throttling};

use crate::stage::Stage;

/// Replies that take longer are the case's timeouts.
pub(crate) const SLOW: Duration = Duration::from_millis(10);
const PORT: u16 = 6379;
/// Bytes that each request has the server count bits in: some tens of microseconds.
const VALUE_BYTES: usize = 128 * 1024;
const CLIENTS: usize = 20;
/// How often the cost of a round is measured, and by how many rounds at first.
const TRIALS: u32 = 5;
const TRIAL_ROUNDS: u32 = 20;
const GROWTHS_MAX: u32 = 10;
/// At each size.
const BURSTS: u64 = 3;
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A running redis-server, which keeps nothing on disk, in the backend's namespace. Fields are dropped in
/// this order: a cgroup can go when its processes are gone.
pub(crate) struct Server {
    program: Program,
    quota: Option<Quota>,
}

impl Server {
    pub(crate) fn start(stage: &Stage) -> Result<Server> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no"]).arg("--dir").arg(stage.folder.path());
        stage.backend.enter(|| {
            let mut program = Program::start("redis", command, stage.folder.path())?;
            program.wait_for(([127, 0, 0, 1], PORT).into())?;
            Ok(Server { program, quota: None })
        })
    }

    /// Gives it so much CPU time in each period from now on.
    pub(crate) fn hold(&mut self, time: Duration, period: Duration) -> Result<()> {
        if let Some(quota) = &self.quota {
            return quota.set(time, period);
        }
        self.quota = Some(Quota::hold(self.program.pid(), time, period)?);
        Ok(())
    }

    /// The effect of the quota so far.
    pub(crate) fn throttling(&self) -> Result<Throttling> {
        self.quota.as_ref().map_or_else(|| Ok(Throttling::default()), Quota::throttling)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }
}

/// Where it is for those who reach `host`.
pub(crate) fn at(host: SocketAddr) -> SocketAddr {
    SocketAddr::new(host.ip(), PORT)
}

/// Clients with a connection each.
pub(crate) struct Clients {
    clients: Vec<Client>,
    rounds: u32,
}

/// Latencies of replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replies {
    pub(crate) total: u32,
    /// Replies that took longer than [`SLOW`].
    pub(crate) slow: u32,
    pub(crate) slowest: Duration,
}

struct Client(BufReader<TcpStream>);

impl Clients {
    /// Connects from the client's namespace to a server that nothing throttles yet, so that a burst costs it
    /// `burst` of CPU time, or more while the machine is slower than it was at its best.
    pub(crate) fn connect(stage: &Stage, server: SocketAddr, burst: Duration) -> Result<Clients> {
        let connect = || (0..CLIENTS).map(|_| Client::connect(server)).collect::<Result<Vec<_>>>();
        let mut clients = Clients { clients: stage.client.enter(connect)?, rounds: TRIAL_ROUNDS };
        let value = "x".repeat(VALUE_BYTES);
        clients.clients[0].ask(&format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE_BYTES}\r\n{value}"))?;
        // The first trial warms up, and the last ones are as long as what is to come.
        let mut cheapest = Duration::MAX;
        for _ in 0..TRIALS {
            let before = clients.server_cpu()?;
            clients.burst(&mut Replies::default())?;
            let round = clients.server_cpu()?.saturating_sub(before) / clients.rounds;
            cheapest = cheapest.min(round.max(Duration::from_micros(1)));
            let rounds = burst.as_nanos() / cheapest.as_nanos();
            clients.rounds = u32::try_from(rounds).context("redis-server says that it does nothing")?;
        }
        ensure!(clients.rounds > 2, "a round of requests takes too long for {burst:?}");
        Ok(clients)
    }

    /// Makes the bursts larger until each of a few makes `count` grow, and then a little more: what they cost
    /// differs from minute to minute.
    pub(crate) fn grow(&mut self, every: Duration, count: impl Fn() -> Result<u64>) -> Result<()> {
        for _ in 0..GROWTHS_MAX {
            let (before, mut left) = (count()?, BURSTS);
            self.bursts(every, || {
                let is_enough = left == 0;
                left = left.saturating_sub(1);
                Ok(is_enough)
            })?;
            self.rounds += self.rounds / 4;
            if count()? >= before + BURSTS {
                return Ok(());
            }
        }
        bail!("no burst is large enough")
    }

    /// The same bursts by another way.
    pub(crate) fn by_way_of(&self, stage: &Stage, server: SocketAddr) -> Result<Clients> {
        let connect = || (0..CLIENTS).map(|_| Client::connect(server)).collect::<Result<Vec<_>>>();
        Ok(Clients { clients: stage.client.enter(connect)?, rounds: self.rounds })
    }

    /// Bursts, one in each period, until it is enough.
    pub(crate) fn bursts(
        &mut self,
        period: Duration,
        mut is_enough: impl FnMut() -> Result<bool>,
    ) -> Result<Replies> {
        let mut replies = Replies::default();
        while !is_enough()? {
            let begun = Instant::now();
            self.burst(&mut replies)?;
            std::thread::sleep(period.saturating_sub(begun.elapsed()));
        }
        Ok(replies)
    }

    /// A number of rounds, in each of which all clients ask and then have their replies.
    fn burst(&mut self, replies: &mut Replies) -> Result<()> {
        for _ in 0..self.rounds {
            let begun = Instant::now();
            for client in &mut self.clients {
                client.send("BITCOUNT k")?;
            }
            for client in &mut self.clients {
                client.reply()?;
                let latency = begun.elapsed();
                replies.total += 1;
                replies.slow += u32::from(latency > SLOW);
                replies.slowest = replies.slowest.max(latency);
            }
        }
        Ok(())
    }

    /// CPU time of the server so far.
    fn server_cpu(&mut self) -> Result<Duration> {
        let text = self.clients[0].ask("INFO cpu")?;
        let value = |name: &str| -> Result<f64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(value.with_context(|| format!("redis-server tells no {name}"))?.trim().parse()?)
        };
        Ok(Duration::from_secs_f64(value("used_cpu_user")? + value("used_cpu_sys")?))
    }
}

// === impl Replies ===

impl Replies {
    pub(crate) fn slow_share(&self) -> f64 {
        f64::from(self.slow) / f64::from(self.total.max(1))
    }
}

// === impl Client ===

impl Client {
    fn connect(server: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Client(BufReader::new(stream)))
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        self.send(command)?;
        self.reply()
    }

    fn send(&mut self, command: &str) -> Result<()> {
        Ok(self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?)
    }

    /// A simple string, a number or a bulk string.
    fn reply(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.trim_end().into()),
            Some(("$", length)) => {
                let mut body = vec![0; length.trim_end().parse::<usize>()? + 2];
                self.0.read_exact(&mut body)?;
                Ok(String::from_utf8(body)?)
            }
            _ => bail!("redis-server says {line:?}"),
        }
    }
}
