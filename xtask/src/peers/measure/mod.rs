//! How a workload is measured on one peer: everything it needs is started, loaded, read and stopped again.
//!
//! Must not be in here: goals, and the order of the rounds.

mod cache;
mod cache_restart;
mod compression;
mod feature;
mod h2;
mod stream;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::generator::{Expect, Outcome, Pace, Plan, Status};

use super::certificate::Certificates;
use super::feature::Feature;
use super::figures::{self, Figure, Figures};
use super::proxy::{Clients, HOST, Peer, Running, Setup, Upstream};
use crate::ask;
use crate::backend::{Accepted, Backend};
use crate::interrupt::Interrupt;
use crate::load::{self, ForebayBench, Wrk};
use crate::machine::{self, Cpus};

pub(super) use h2::Protocol;
pub(super) use tls::Handshakes;

/// The fixed rate at which CPU per request is compared. In a closed loop the leaner proxy is idle longer, batches less and
/// looks worse than it is.
const RATE_PER_SECOND: f64 = 20_000.0;
const RATE_LARGE_PER_SECOND: f64 = 300.0;
const RATE_FEW_PER_SECOND: f64 = 200.0;

const WARM_UP: Duration = Duration::from_millis(500);
/// The highest rate needs no long look.
const CLOSED_LOOP: Duration = Duration::from_secs(1);

const KILOBYTE: u64 = 1024;
const MEGABYTE: u64 = 1024 * 1024;

const BURST_CLIENTS: usize = 1200;
const BURST_UPSTREAMS: usize = 5;
/// So long that every request of a burst is out at the same time.
const BURST_PATH: &str = "/delay/250";
const BURST_EVERY: Duration = Duration::from_millis(500);

const IDLE_CLIENTS: usize = 10_000;
const IDLE_ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What all measurements share.
pub(crate) struct Bench<'a> {
    pub(crate) cpus: Cpus,
    pub(crate) seconds: Duration,
    /// Of cache-zipf.
    pub(crate) zipf_objects: usize,
    /// What is on disk before a restart.
    pub(crate) disk_gib: u32,
    pub(crate) folder: &'a Path,
    pub(crate) certificates: Certificates,
    pub(crate) interrupt: Interrupt,
}

impl Bench<'_> {
    fn backends(&self, count: usize) -> Result<Vec<Backend>> {
        (0..count).map(|index| self.backend(&format!("payload-{index}"))).collect()
    }

    fn backend(&self, name: &str) -> Result<Backend> {
        Backend::start(name, &self.cpus.load, self.folder, &self.interrupt)
    }

    fn setup<'a>(&'a self, upstreams: &'a [SocketAddr]) -> Setup<'a> {
        Setup {
            clients: Clients::Clear,
            upstream: Upstream::Http1,
            upstreams,
            cpus: &self.cpus.proxy,
            workers: 1,
            logs: false,
            keepalive: None,
            other_ingresses: 4,
            feature: Feature::default(),
            services: Vec::new(),
            folder: self.folder,
        }
    }

    fn plan(&self, target: SocketAddr, path: &str, body_bytes: u64) -> Plan {
        Plan {
            host: HOST.into(),
            duration: self.seconds,
            expect: Expect { status: Status::Is(200), body_bytes: Some(body_bytes) },
            cpus: Some(self.cpus.load.clone()),
            ..Plan::new(target, path)
        }
    }

    fn generate(&self, plan: &Plan) -> Result<Outcome> {
        load::generate(plan, &self.interrupt)
    }

    /// Carries the plan out twice: shortly, to warm up, then for the figures of generator and proxy.
    fn spent_on(&self, running: &Running, plan: &Plan) -> Result<Figures> {
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?;
        Ok(self.spent(running, plan)?.1)
    }

    /// The same without a warm-up, and what the generator saw.
    fn spent(&self, running: &Running, plan: &Plan) -> Result<(Outcome, Figures)> {
        let program = running.program.as_ref().context("nobody to measure")?;
        let before = program.cpu_time()?;
        let outcome = self.generate(plan)?;
        let spent = program.cpu_time()? - before;
        let mut figures = figures::of_outcome(&outcome);
        figures.extend(figures::of_cpu(spent, outcome.answered));
        Ok((outcome, figures))
    }

    fn open_loop(&self, target: SocketAddr, connections: usize) -> Plan {
        let pace = Pace::Open { rate_per_second: RATE_PER_SECOND };
        Plan { connections, pace, awake: true, ..self.plan(target, "/1k", KILOBYTE) }
    }

    fn wrk(&self, scheme: &str, target: SocketAddr, connections: usize) -> Result<f64> {
        let wrk = Wrk { scheme, target, host: HOST, path: "/1k", connections, duration: self.seconds };
        wrk.rate(&self.cpus.load, self.folder, &self.interrupt)
    }

    /// `forebay bench` and wrk, both on one CPU, against a backend on the other, which must have counted what the first
    /// says that it sent.
    pub(crate) fn generator(&self) -> Result<Figures> {
        let backend = Backend::start("payload", &self.cpus.proxy, self.folder, &self.interrupt)?;
        let (target, connections) = (backend.address, 64);
        let bench = ForebayBench { target, path: "/1k", connections, duration: self.seconds };
        let told = bench.run(&self.cpus.load, self.folder, &self.interrupt)?;
        // The question counts itself.
        let counted = backend.requests()? - 1;
        ensure!(
            told.requests == counted,
            "forebay bench says {} requests; counted were {counted}",
            told.requests
        );
        Ok(Figures::from([
            (Figure::Rate, told.rate),
            (Figure::P50, told.p50),
            (Figure::P99, told.p99),
            (Figure::RateMax, self.wrk("http", target, connections)?),
        ]))
    }

    /// 1 KB, kept alive on both sides: CPU at a fixed rate, then the highest rate.
    pub(crate) fn keepalive(&self, peer: Peer, connections: usize, logs: bool) -> Result<Figures> {
        let backends = self.backends(1)?;
        let upstreams = [backends[0].address];
        let running = peer.start(&Setup { logs, ..self.setup(&upstreams) }, &self.interrupt)?;
        let mut figures = self.spent_on(&running, &self.open_loop(running.address, connections))?;
        figures.insert(Figure::RateMax, self.wrk("http", running.address, connections)?);
        Ok(figures)
    }

    /// Field case A: every request on a new client connection, before a backend that has little CPU.
    pub(crate) fn case_a(&self, peer: Peer, clients: usize, percent: u32) -> Result<Figures> {
        let mut backends = vec![Backend::start_nginx(&self.cpus.load, self.folder, &self.interrupt)?];
        if let Err(error) = backends[0].hold(percent) {
            eprintln!("the backend has a whole CPU, not {percent} % of one: {error:#}");
        }
        let upstreams = [backends[0].address];
        let setup = Setup { keepalive: tuned_keepalive(peer), ..self.setup(&upstreams) };
        let running = peer.start(&setup, &self.interrupt)?;
        let plan = Plan {
            connections: clients,
            requests_per_connection: Some(1),
            ..self.plan(running.address, "/1k", KILOBYTE)
        };
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?;
        let before = Accepted::now(&backends)?;
        let outcome = self.generate(&plan)?;
        let opened = before.opened_since(&backends)? as f64;
        let mut figures = figures::of_outcome(&outcome);
        figures.insert(Figure::OpenedPercent, 100.0 * opened / outcome.answered.max(1) as f64);
        Ok(figures)
    }

    /// Field case D: many clients at once, again and again, before several upstreams.
    pub(crate) fn case_d(&self, peer: Peer, keepalive: Option<u32>) -> Result<Figures> {
        let backends = self.backends(BURST_UPSTREAMS)?;
        let upstreams: Vec<_> = backends.iter().map(|backend| backend.address).collect();
        let ports: Vec<_> = upstreams.iter().map(SocketAddr::port).collect();
        let keepalive = keepalive.or(tuned_keepalive(peer));
        let running = peer.start(&Setup { keepalive, ..self.setup(&upstreams) }, &self.interrupt)?;
        let bursts = Plan {
            connections: BURST_CLIENTS,
            pace: Pace::Bursts { every: BURST_EVERY },
            expect: Expect { status: Status::Is(200), body_bytes: None },
            ..self.plan(running.address, BURST_PATH, 0)
        };
        self.generate(&Plan { requests: Some(BURST_CLIENTS as u64), ..bursts.clone() })?;
        let before = Accepted::now(&backends)?;
        let outcome = self.generate(&bursts)?;
        let waiting = machine::time_wait_towards(&ports)?;
        let mut figures = figures::of_outcome(&outcome);
        figures.insert(Figure::OpenedLater, before.opened_since(&backends)? as f64);
        figures.insert(Figure::TimeWait, waiting as f64);
        if let Some(admin) = running.admin {
            figures.insert(Figure::Regretted, metric(admin, "forebay_upstream_connections_regretted_total")?);
        }
        Ok(figures)
    }

    /// 1 MB bodies at a fixed rate.
    pub(crate) fn large(&self, peer: Peer) -> Result<Figures> {
        let backends = self.backends(1)?;
        let upstreams = [backends[0].address];
        let running = peer.start(&self.setup(&upstreams), &self.interrupt)?;
        let pace = Pace::Open { rate_per_second: RATE_LARGE_PER_SECOND };
        let plan = Plan { connections: 16, pace, awake: true, ..self.plan(running.address, "/1m", MEGABYTE) };
        self.spent_on(&running, &plan)
    }

    /// Few requests: whether two workers share what one alone would reuse.
    pub(crate) fn two_workers(&self, peer: Peer) -> Result<Figures> {
        let opened = |workers| -> Result<f64> {
            let backends = self.backends(1)?;
            let upstreams = [backends[0].address];
            let cpus = self.cpus.all();
            let setup = Setup { workers, cpus: &cpus, ..self.setup(&upstreams) };
            let running = peer.start(&setup, &self.interrupt)?;
            let before = Accepted::now(&backends)?;
            let pace = Pace::Open { rate_per_second: RATE_FEW_PER_SECOND };
            self.generate(&Plan { connections: 20, pace, ..self.plan(running.address, "/1k", KILOBYTE) })?;
            Ok(before.opened_since(&backends)? as f64)
        };
        Ok(Figures::from([(Figure::OpenedByOne, opened(1)?), (Figure::OpenedByTwo, opened(2)?)]))
    }

    /// Clients that made a request and stay.
    pub(crate) fn idle(&self, peer: Peer) -> Result<Figures> {
        let backends = self.backends(1)?;
        let upstreams = [backends[0].address];
        let running = peer.start(&self.setup(&upstreams), &self.interrupt)?;
        self.generate(&Plan {
            duration: WARM_UP,
            connections: 64,
            ..self.plan(running.address, "/1k", KILOBYTE)
        })?;
        let program = running.program.as_ref().context("nobody to measure")?;
        let before = program.resident_bytes()?;
        let clients: Vec<TcpStream> = (0..IDLE_CLIENTS)
            .map(|_| {
                self.interrupt.check()?;
                let mut client = TcpStream::connect(running.address)?;
                client.set_read_timeout(Some(IDLE_ANSWER_LIMIT))?;
                get_nothing(&mut client)?;
                Ok(client)
            })
            .collect::<Result<_>>()?;
        let grown = program.resident_bytes()?.saturating_sub(before);
        Ok(Figures::from([(Figure::IdleBytes, grown as f64 / clients.len() as f64)]))
    }

    /// The same requests, with few Ingresses and with many.
    pub(crate) fn routing(&self, peer: Peer) -> Result<Figures> {
        let backends = self.backends(1)?;
        let upstreams = [backends[0].address];
        let cpu = |ingresses: usize| -> Result<f64> {
            let setup = Setup { other_ingresses: ingresses - 1, ..self.setup(&upstreams) };
            let running = peer.start(&setup, &self.interrupt)?;
            let figures = self.spent_on(&running, &self.open_loop(running.address, 64))?;
            Ok(figures[&Figure::Cpu])
        };
        Ok(Figures::from([(Figure::CpuFew, cpu(5)?), (Figure::CpuMany, cpu(5000)?)]))
    }

    /// The same with very many hosts, and how long they take at the start.
    pub(crate) fn many_hosts(&self, peer: Peer) -> Result<Figures> {
        let backends = self.backends(1)?;
        let upstreams = [backends[0].address];
        let few = Setup { other_ingresses: 4, ..self.setup(&upstreams) };
        let running = peer.start(&few, &self.interrupt)?;
        let cpu_few = self.spent_on(&running, &self.open_loop(running.address, 64))?[&Figure::Cpu];
        drop(running);
        let most = Setup { other_ingresses: 99_999, ..self.setup(&upstreams) };
        let begun = Instant::now();
        let running = peer.start(&most, &self.interrupt)?;
        let ready = begun.elapsed();
        let resident = running.program.as_ref().context("nobody to measure")?.resident_bytes()?;
        let cpu_most = self.spent_on(&running, &self.open_loop(running.address, 64))?[&Figure::Cpu];
        Ok(Figures::from([
            (Figure::CpuFew, cpu_few),
            (Figure::CpuMost, cpu_most),
            (Figure::ReadyMillis, ready.as_secs_f64() * 1000.0),
            (Figure::ResidentMib, resident as f64 / f64::from(1 << 20)),
        ]))
    }
}

/// What who tunes nginx by hand for cases A and D arrives at, for all that have such a number; Forebay, `HAProxy` and Envoy are to do
/// without.
fn tuned_keepalive(peer: Peer) -> Option<u32> {
    matches!(peer, Peer::Nginx | Peer::Caddy | Peer::Pingora).then_some(10_000)
}

/// The sum of one of Forebay's metrics over its labels.
pub(crate) fn metric(admin: SocketAddr, name: &str) -> Result<f64> {
    let metrics = ask::get(admin, "/metrics")?;
    let samples: Vec<f64> = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
        .collect();
    Ok(samples.iter().sum())
}

/// One request whose answer has no body.
fn get_nothing(stream: &mut (impl Read + Write)) -> Result<()> {
    write!(stream, "GET /0 HTTP/1.1\r\nHost: {HOST}\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..count]);
        if count == 0 || !b"HTTP/1.1 200".iter().zip(&answer).all(|(expected, byte)| expected == byte) {
            bail!("an idle client was answered: {}", answer.escape_ascii());
        }
    }
    Ok(())
}
