//! How a workload is measured on one peer: everything it needs is started, loaded, read and stopped again.
//!
//! Must not be in here: goals, and the order of the rounds.

mod beside;
mod cache;
mod cache_restart;
mod connections;
mod counted;
mod h2;
mod ingresses;
mod stream;
mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::generator::{Expect, Outcome, Pace, Plan, Protocol, Status};
use testkit::GrpcServer;

use super::certificate::{Certificates, Key};
use super::contents;
use super::decider::{self, Decider};
use super::feature::{Case, Counted, HOST, Scene};
use super::figures::{self, Figure, Figures};
use super::proxy::{Clients, Peer, Running, Setup, other_host};
use super::workload::{Load, Measure, Then};
use crate::ask;
use crate::backend::Backend;
use crate::child::Program;
use crate::interrupt::Interrupt;
use crate::load::{self, ForebayBench, Wrk};
use crate::machine::Cpus;

const WARM_UP: Duration = Duration::from_millis(500);
/// The highest rate needs no long look.
const CLOSED_LOOP: Duration = Duration::from_secs(1);
/// For a number of requests, and for nginx, which answers what it has taken, one password after the other.
const LONG: Duration = Duration::from_secs(30);

const KILOBYTE: u64 = 1024;

/// The CPUs, folder and sizes of all measurements.
pub(crate) struct Bench<'a> {
    pub(crate) cpus: Cpus,
    pub(crate) seconds: Duration,
    /// The number of objects of cache-zipf.
    pub(crate) zipf_objects: usize,
    /// Gibibytes on disk before cache-restart restarts.
    pub(crate) disk_gib: u32,
    pub(crate) folder: &'a Path,
    /// The profile of Forebay's binary.
    pub(crate) profile: String,
    pub(crate) certificates: Certificates,
    pub(crate) interrupt: Interrupt,
}

/// A peer that runs, and what is behind it.
struct Stage {
    running: Running,
    backends: Vec<Backend>,
    services: Vec<Backend>,
    /// It ends with this value.
    _decider: Option<GrpcServer>,
}

impl Stage {
    fn target(&self) -> SocketAddr {
        self.running.address
    }

    fn program(&self) -> Result<&Program> {
        self.running.program.as_ref().context("there is no program to measure")
    }

    fn scene(&self) -> Scene<'_> {
        Scene { sets_cookies: self.running.admin.is_some(), address: self.target(), backends: &self.backends }
    }

    /// The sum of one of Forebay's metrics over its labels.
    fn metric(&self, name: &str) -> Result<f64> {
        let admin = self.running.admin.context("the peer has no metrics")?;
        Ok(ask::metric(admin, name)?.unwrap_or(0.0))
    }
}

impl Bench<'_> {
    /// The figures of a workload.
    pub(crate) fn measure(&self, measure: &Measure, peer: Peer) -> Result<Figures> {
        match measure {
            Measure::Generator => self.generator(),
            Measure::Cost(load) => self.cost(peer, load),
            Measure::Added(load) => self.added(peer, load),
            Measure::Compressed(load) => self.compressed(peer, load),
            Measure::Handshakes(handshakes) => self.handshakes(peer, handshakes),
            Measure::CaseA { clients, percent } => self.case_a(peer, *clients, *percent),
            Measure::CaseD { keepalive } => self.case_d(peer, *keepalive),
            Measure::TwoWorkers => self.two_workers(peer),
            Measure::Idle { key } => self.idle(peer, *key),
            Measure::Routing => self.routing(peer),
            Measure::Hosts => self.hosts(peer),
            Measure::H2(protocol) => self.h2(peer, *protocol),
            Measure::H2Upstreams => self.h2_upstreams(peer),
            Measure::Redis(redis) => self.redis(peer, redis),
            Measure::HandshakeFlood => self.handshake_flood(peer),
            Measure::WrongPasswords => self.wrong_passwords(peer),
            Measure::Conditions(load) => self.conditions(peer, load),
            Measure::MirrorHanging(load) => self.mirror_hanging(peer, load),
            Measure::CacheCollapse(load) => self.cache_collapse(peer, load),
            Measure::CacheZipf => self.cache_zipf(peer),
            Measure::CacheRestart => self.cache_restart(peer),
        }
    }

    fn backend(&self, name: &str) -> Result<Backend> {
        Backend::start(name, &self.cpus.load, self.folder, &self.interrupt)
    }

    fn nginx_backend(&self) -> Result<Backend> {
        Backend::start_nginx(&self.cpus.load, self.folder, &self.interrupt)
    }

    /// One worker on the CPU of proxies.
    fn setup(&self) -> Setup<'_> {
        Setup {
            cpus: self.cpus.proxy.clone(),
            workers: 1,
            profile: Some(self.profile.clone()),
            other_ingresses: 4,
            folder: self.folder.into(),
            ..Setup::default()
        }
    }

    /// The same for clients with TLS, or without where there is no key.
    fn setup_for(&self, key: Option<Key>) -> Setup<'_> {
        let clients = if key.is_some() { Clients::Tls } else { Clients::Clear };
        Setup { clients, certificate: key.map(|key| self.certificates.of(key)), ..self.setup() }
    }

    /// Starts a peer in front of one payload server.
    fn start(&self, peer: Peer, setup: Setup) -> Result<Stage> {
        self.start_with(peer, setup, vec![self.backend("payload-0")?])
    }

    /// Starts a peer in front of these backends, and the services that its feature needs.
    fn start_with(&self, peer: Peer, setup: Setup, backends: Vec<Backend>) -> Result<Stage> {
        let names = setup.feature.services.clone();
        let services = names.iter().map(|name| self.backend(name)).collect::<Result<Vec<_>>>()?;
        let decider = setup.feature.decider.map(Decider::start);
        let besides = names.into_iter().zip(services.iter().map(|service| service.address));
        let deciding = decider.iter().map(|server| (decider::NAME.into(), server.address()));
        let setup = Setup {
            upstreams: backends.iter().map(|backend| backend.address).collect(),
            services: besides.chain(deciding).collect(),
            ..setup
        };
        let running = peer.start(&setup, &self.interrupt)?;
        Ok(Stage { running, backends, services, _decider: decider })
    }

    /// Starts what a load needs, and checks that its feature is in force.
    fn start_for(&self, peer: Peer, load: &Load, backends: Option<Vec<Backend>>) -> Result<(Stage, Case)> {
        let case =
            load.feature.clone().map(|feature| feature.case(&load.path)).transpose()?.unwrap_or_default();
        let http3 = load.http3_streams.is_some();
        let setup = Setup { http3, logs: load.logs, feature: case.clone(), ..self.setup_for(load.key) };
        let payload =
            || (0..case.endpoints.unwrap_or(1)).map(|index| self.backend(&format!("payload-{index}")));
        let backends = backends.map_or_else(|| payload().collect::<Result<_>>(), Ok)?;
        let stage = self.start_with(peer, setup, backends)?;
        if load.key.is_none() {
            case.check(&stage.scene()).context("the feature is not in force")?;
        }
        Ok((stage, case))
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

    /// Requests at the load's rate, with what its feature needs.
    fn plan_of(&self, load: &Load, case: &Case, stage: &Stage) -> Result<Plan> {
        let plan = self.plan(stage.target(), &load.path, load.body_bytes);
        Ok(Plan {
            tls: load.key.map(|_| tls::tls()),
            protocol: load.http3_streams.map_or(Protocol::Http1, |streams| Protocol::Http3 { streams }),
            connections: load.connections,
            pace: Pace::Open { rate_per_second: load.rate },
            method: case.method.clone().unwrap_or_else(|| plan.method.clone()),
            headers: case.headers.clone().into_iter().collect(),
            body: case.body.clone().into_bytes(),
            variants: case.variants(&stage.scene())?.into(),
            awake: true,
            patience: if load.feature.is_some() { LONG } else { plan.patience },
            ..plan
        })
    }

    fn generate(&self, plan: &Plan) -> Result<Outcome> {
        load::generate(plan, &self.interrupt)
    }

    fn warm_up(&self, plan: &Plan) -> Result<Outcome> {
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })
    }

    /// As many requests as the feature needs before the measurement.
    fn warm_up_for(&self, case: &Case, plan: &Plan) -> Result<Outcome> {
        let Some(requests) = case.warm_up else { return self.warm_up(plan) };
        let all = Plan { requests: Some(requests), duration: LONG, ..plan.clone() };
        self.generate(&Plan { pace: Pace::Closed, ..all })
    }

    /// Carries the plan out twice: shortly, to warm up, then for the figures of generator and proxy.
    fn spent_on(&self, stage: &Stage, plan: &Plan) -> Result<Figures> {
        self.warm_up(plan)?;
        Ok(self.spent(stage, plan)?.1)
    }

    /// The same without a warm-up, and what the generator saw.
    fn spent(&self, stage: &Stage, plan: &Plan) -> Result<(Outcome, Figures)> {
        let program = stage.program()?;
        let before = program.cpu_time()?;
        let outcome = self.generate(plan)?;
        let spent = program.cpu_time()? - before;
        let mut figures = figures::of_outcome(&outcome);
        figures.extend(figures::of_cpu(spent, outcome.answered));
        Ok((outcome, figures))
    }

    fn wrk(&self, scheme: &str, target: SocketAddr, connections: usize) -> Result<f64> {
        let wrk = Wrk { scheme, target, host: HOST, path: "/1k", connections, duration: self.seconds };
        wrk.rate(&self.cpus.load, self.folder, &self.interrupt)
    }

    /// `forebay bench` and wrk, both on one CPU, against a backend on the other, which must have counted
    /// what the first says that it sent.
    fn generator(&self) -> Result<Figures> {
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

    /// CPU per request at a fixed rate.
    fn cost(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let (stage, case) = self.start_for(peer, load, None)?;
        let plan = self.plan_of(load, &case, &stage)?;
        self.warm_up_for(&case, &plan)?;
        let before = Counted::now(&stage.services)?;
        let (outcome, mut figures) = self.spent(&stage, &plan)?;
        check_besides(&case, &before.since(&stage.services)?, &outcome)?;
        match load.then {
            Some(Then::Wrk) => {
                let scheme = if load.key.is_some() { "https" } else { "http" };
                figures.insert(Figure::RateMax, self.wrk(scheme, stage.target(), load.connections)?);
            }
            Some(Then::Proxied) if peer == Peer::Forebay => {
                let proxied = Plan { host: other_host(0), ..plan };
                figures.insert(Figure::CpuProxied, self.spent_on(&stage, &proxied)?[&Figure::Cpu]);
            }
            Some(Then::Closed) => {
                let closed = Plan { pace: Pace::Closed, duration: CLOSED_LOOP, ..plan };
                let (outcome, spent) = self.spent(&stage, &closed)?;
                figures.insert(Figure::RateClosed, outcome.rate());
                figures.insert(Figure::CpuClosed, spent[&Figure::Cpu]);
            }
            Some(Then::Counted) => figures.extend(self.counted(&stage, &plan)?),
            _ => {}
        }
        Ok(figures)
    }

    /// The costs of requests with the load's feature, and of the same requests without it.
    fn added(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let (with, case) = self.start_for(peer, load, None)?;
        let plan = self.plan_of(load, &case, &with)?;
        self.warm_up_for(&case, &plan)?;
        let (_, mut figures) = self.spent(&with, &plan)?;
        drop(with);
        let (without, _) = self.start_for(peer, &Load { feature: None, ..load.clone() }, None)?;
        let plan = Plan { targets: vec![without.target()], ..plan };
        let plain = self.spent_on(&without, &plan)?;
        let added = |figure: Figure| figures[&figure] - plain[&figure];
        let of_it = [(Figure::CpuAdded, added(Figure::Cpu)), (Figure::P50Added, added(Figure::P50))];
        figures.extend(of_it);
        figures.insert(Figure::CpuPlain, plain[&Figure::Cpu]);
        Ok(figures)
    }

    /// All contents in turn, from files of a server behind the peer: what compression costs, and how much is
    /// left of them.
    fn compressed(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let backend = self.nginx_backend()?;
        contents::write(&self.folder.join("backend"))?;
        let (stage, case) = self.start_for(peer, load, Some(vec![backend]))?;
        let expect = Expect { status: Status::Is(200), body_bytes: None };
        let plan = Plan { expect, ..self.plan_of(load, &case, &stage)? };
        self.warm_up(&plan)?;
        let (outcome, mut figures) = self.spent(&stage, &plan)?;
        let plain = outcome.answered.max(1) as f64 * contents::mean_bytes();
        figures.insert(Figure::LeftPercent, 100.0 * outcome.body_bytes as f64 / plain);
        Ok(figures)
    }
}

/// An error where other Services got more or fewer requests than the feature lets them have.
fn check_besides(case: &Case, asked: &[u64], outcome: &Outcome) -> Result<()> {
    let asked = asked.iter().sum::<u64>() as f64 / outcome.answered.max(1) as f64;
    let [least, most] = case.asked_besides;
    ensure!(
        (least..=most).contains(&asked),
        "other Services got {asked:.4} requests for each that was answered, not {least} to {most}"
    );
    Ok(())
}
