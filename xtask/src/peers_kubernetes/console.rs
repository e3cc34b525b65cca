//! The CPU of an open console, and of an idle Forebay.
//!
//! Must not be in here: how the console looks; see the conformance suite of that name.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bench::generator::{self, Pace, Plan};

use super::stage::{Forebay, Stage, many_host};
use super::traffic::{failures, plan};
use crate::measured::Findings;
use crate::measured::median;

const RATE: f64 = 20_000.0;
/// The least part of the rate with which a round counts.
const RATE_PART_MIN: f64 = 0.97;
const ROUNDS: u32 = 6;
const ROUND: Duration = Duration::from_secs(5);
/// Forebay measures on for 10 s after a console is closed.
const LINGER: Duration = Duration::from_secs(11);
const IDLE: Duration = Duration::from_secs(30);
/// In percent of a CPU.
const OPEN_MAX: f64 = 1.0;
const IDLE_MAX: f64 = 0.2;

/// A browser that shows the overview, as far as Forebay can tell.
struct Console {
    stream: TcpStream,
    reader: JoinHandle<io::Result<u64>>,
}

impl Console {
    fn open(admin: SocketAddr) -> Result<Console> {
        let mut stream = TcpStream::connect(admin)?;
        write!(stream, "GET /console/events HTTP/1.1\r\nHost: {admin}\r\n\r\n")?;
        let mut events = stream.try_clone()?;
        let reader = thread::spawn(move || io::copy(&mut events, &mut io::sink()));
        Ok(Console { stream, reader })
    }

    /// Closes it. Returns how many bytes of events there were.
    fn close(self) -> Result<u64> {
        self.stream.shutdown(Shutdown::Both)?;
        Ok(self.reader.join().map_err(|_| anyhow!("the reader panicked"))??)
    }
}

pub(super) fn cost(stage: &mut Stage) -> Result<Findings> {
    stage.fill()?;
    let forebay = stage.forebay()?;
    stage.await_host(&forebay, &many_host(0))?;
    pause(stage, LINGER)?;
    let idle = cpu_percent(&forebay, || pause(stage, stage.part_of_time(IDLE)))?;
    let (mut closed, mut open, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.part_of(ROUNDS) {
        pause(stage, LINGER)?;
        let without = under_load(stage, &forebay)?;
        let console = Console::open(forebay.admin)?;
        let with = under_load(stage, &forebay)?;
        // The head of the response, and an event each second or as often as measuring allows.
        ensure!(console.close()? > 1024, "the console was shown nothing");
        closed.push(without);
        open.push(with);
        more.push(with - without);
    }
    let [closed, open, more] = [closed, open, more].map(|of| median(of).unwrap_or(f64::NAN));
    let mut findings = Findings::default();
    findings.figure("Ingresses", stage.many().to_string());
    findings.figure("% of a CPU, closed", format!("{closed:.1}"));
    findings.figure("% of a CPU, open", format!("{open:.1}"));
    findings.figure("more", format!("{more:.2}"));
    findings.figure("% of a CPU, idle", format!("{idle:.2}"));
    findings.goal(format!("an open console costs at most {OPEN_MAX} % of a CPU"), more <= OPEN_MAX);
    findings.goal(format!("idle, at most {IDLE_MAX} % of a CPU"), idle <= IDLE_MAX);
    Ok(findings)
}

/// Forebay's CPU under load, in percent of a CPU.
fn under_load(stage: &Stage, forebay: &Forebay) -> Result<f64> {
    let pace = Pace::Open { rate_per_second: RATE };
    let cpus = Some(stage.cpus.load.clone());
    let plan = Plan { pace, cpus, ..plan(forebay.http, &many_host(0), stage.part_of_time(ROUND)) };
    cpu_percent(forebay, || {
        let outcome = generator::run(&plan)?;
        ensure!(failures(&outcome) == 0, "{} requests failed", failures(&outcome));
        ensure!(outcome.rate() >= RATE * RATE_PART_MIN, "only {:.0} requests/s were done", outcome.rate());
        Ok(())
    })
}

fn cpu_percent(forebay: &Forebay, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (before, begun) = (forebay.program.cpu_time()?, Instant::now());
    work()?;
    let spent = forebay.program.cpu_time()? - before;
    Ok(100.0 * spent.total.as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// Lets time pass, of which something is measured or waited for.
fn pause(stage: &Stage, time: Duration) -> Result<()> {
    stage.interrupt.poll(time, || Ok(None::<()>)).map(drop)
}
