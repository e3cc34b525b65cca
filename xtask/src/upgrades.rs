//! `cargo xtask upgrades`: the binary is upgraded again and again while requests come at a constant rate.
//!
//! Must not be in here: how a successor takes over.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::generator::{Outcome, Pace, Plan, Protocol, run as generate};
use bench::tls::Tls;
use rustix::process::{Pid, Signal, kill_process};
use testkit::{Forebay, Setup};

use crate::backend::Backend;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::proxies::forebay_of;

const HOST: &str = "web.test";

/// Time over which the old process closes its connections, in seconds.
const GRACE: u64 = 2;

/// Options of `cargo xtask upgrades`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of upgrades.
    #[arg(long, default_value_t = 10)]
    count: u32,
    /// Requests per second.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// Number of client connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds of load for each upgrade, which begins after the first of them.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Send the requests over HTTP/3.
    #[arg(long)]
    http3: bool,
    /// The profile that the binary was built with.
    #[arg(long, default_value = "release")]
    profile: String,
}

/// The sums of all upgrades.
#[derive(Default)]
struct Total {
    answered: u64,
    unsent: u64,
    failed: u64,
    slowest: Duration,
}

/// The process that serves at present. It ends with this value, also where something has failed.
struct Present(i32);

/// Measures and prints. Any request that fails is a failure.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let program = forebay_of(&arguments.profile)?;
    let (interrupt, folder) = (Interrupt::install()?, tempfile::tempdir()?);
    machine::raise_descriptor_limit();
    let backend = Backend::start("payload", &[], folder.path(), &interrupt)?;
    let setup = Setup::new(program)
        .endpoint(backend.address)
        .setting("keep-alive-requests", "1000000000")
        .setting("ssl-redirect", "false")
        .setting("forebay-http3", if arguments.http3 { "on" } else { "off" })
        .tls(HOST)
        .arguments([format!("--shutdown-grace-period={GRACE}"), "--workers=2".to_owned()]);
    let forebay = setup.start();
    let mut total = Total::default();
    let mut present = Present(forebay.pid().as_raw_nonzero().get());
    for number in 1..=arguments.count {
        let plan = arguments.plan(&forebay);
        let load = std::thread::spawn(move || generate(&plan));
        interrupt.poll(Duration::from_secs(1), || Ok(None::<()>))?;
        let begun = Instant::now();
        present.0 = upgrade(&forebay, present.0)?;
        let took = begun.elapsed();
        let outcome = load.join().map_err(|_| anyhow!("the generator panicked"))??;
        ensure!(took < Duration::from_secs(arguments.seconds - 1), "the load ended before the upgrade");
        total.add(&outcome);
        tell(number, took, &outcome);
    }
    present.end(Signal::TERM);
    let ended = forebay.wait();
    ensure!(ended.status.success(), "the first process ended with {}", ended.status);
    let Total { answered, unsent, failed, slowest } = total;
    println!(
        "{} upgrades: {answered} requests answered, {failed} failed, {unsent} not sent in time, \
         slowest {slowest:.1?}",
        arguments.count
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Arguments {
    fn plan(&self, forebay: &Forebay) -> Plan {
        let (target, protocol, tls) = if self.http3 {
            let tls = Tls { server_name: HOST.into(), ..Tls::default() };
            (forebay.https_address(), Protocol::Http3 { streams: 1 }, Some(tls))
        } else {
            (forebay.address(), Protocol::Http1, None)
        };
        Plan {
            host: HOST.into(),
            protocol,
            tls,
            connections: self.connections,
            pace: Pace::Open { rate_per_second: self.rate },
            duration: Duration::from_secs(self.seconds),
            ..Plan::new(target, "/1k")
        }
    }
}

impl Present {
    fn end(&mut self, signal: Signal) {
        // Zero is no process: it has been told before.
        if let Some(process) = Pid::from_raw(std::mem::take(&mut self.0)) {
            // It may have ended already.
            let _ = kill_process(process, signal);
        }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.end(Signal::KILL);
    }
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        self.answered += outcome.answered;
        self.unsent += outcome.unsent;
        self.failed += failed(outcome);
        self.slowest = self.slowest.max(outcome.latency.max());
    }
}

fn failed(outcome: &Outcome) -> u64 {
    outcome.errors.total() + outcome.unfinished
}

fn tell(number: u32, took: Duration, outcome: &Outcome) {
    let wrong: Vec<_> = outcome.errors.by_kind().into_iter().filter(|(_, count)| *count > 0).collect();
    println!(
        "upgrade {number}: the successor served after {took:.1?}; {} answered, {} failed {wrong:?}, \
         {} connections, slowest {:.1?}",
        outcome.answered,
        failed(outcome),
        outcome.connections_opened,
        outcome.latency.max(),
    );
}

/// Has a process replaced by a successor, and returns that one.
fn upgrade(forebay: &Forebay, process: i32) -> Result<i32> {
    kill_process(Pid::from_raw(process).context("a process")?, Signal::USR2)?;
    let begun = format!("a successor is started, and gets the listening sockets process={process} ");
    let line = forebay.await_log(&begun);
    forebay.await_log(&format!(
        "the successor serves: this process finishes its requests and ends process={process}"
    ));
    let (_, successor) = line.split_once("successor=").context("the successor is named")?;
    Ok(successor.trim().parse()?)
}
