//! One replica before an API server that replays a cluster: what it needs.
//!
//! Must not be in here: what is made of the figures.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::model::{Cost, Point};
use super::objects::{self, CONTROLLER};
use super::server::Server;
use crate::ask::{self, Question};
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;

/// Longest wait for a start, also of a build without optimisation.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Time after a start in which memory that is not needed any more is given back.
pub(super) const SETTLING: Duration = Duration::from_secs(12);
/// Time between two changes that come alone.
pub(super) const SPACING: Duration = Duration::from_millis(250);
pub(super) const SINGLE_CHANGES: u32 = 24;
/// Routes that are made, one after the other.
const ROUTES: u32 = 5;
/// Events a second of a stream that a replica reads in pieces.
const FLOOD: u32 = 10_000;
/// Events a second of a stream in which many come one by one.
pub(super) const STREAM: u32 = 100;
const TICK: Duration = Duration::from_millis(10);
pub(super) const MIB: f64 = 1_048_576.0;

/// How large the cluster is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) ingresses: u32,
    /// Endpoints of each Service.
    pub(super) per_service: u32,
}

/// The memory and the time that a replica needed.
pub(super) struct Measured {
    size: Size,
    cost: Cost,
    /// Seconds until it was ready.
    ready_s: f64,
    /// Longest time until a new route was served, in milliseconds, and the middle one.
    route_ms: (f64, f64),
    /// CPUs that a stream of changes took.
    stream_cpus: f64,
    flood: Flood,
}

/// Many changes at once, and what they took until the last one was served.
struct Flood {
    events: f64,
    /// From the first event until all had been served.
    took_s: f64,
    cpu_s: f64,
}

/// A running Forebay before an API server.
pub(super) struct Replica {
    pub(super) program: Program,
    pub(super) http: SocketAddr,
    pub(super) admin: SocketAddr,
    _folder: TempDir,
}

/// Measures a start, and changes.
pub(super) fn measure(binary: &Path, size: Size, seconds: u64, interrupt: &Interrupt) -> Result<Measured> {
    let server = Server::start(objects::collections(size.ingresses, size.per_service))?;
    let begun = Instant::now();
    let replica = Replica::start(binary, &server, &["--update-status=false"])?;
    interrupt.await_that(PATIENCE, "Forebay to be ready", || {
        Ok(ask::get(replica.admin, "/readyz").is_ok() && server.is_watched())
    })?;
    let (ready_s, start_s) = (begun.elapsed().as_secs_f64(), replica.cpu_s()?);
    let listed_mb = server.sent() as f64 / 1e6;
    pause(interrupt, SETTLING)?;
    let mib = replica.program.resident_bytes()? as f64 / MIB;

    let idle = replica.cpus_during(interrupt, || pause(interrupt, SPACING * SINGLE_CHANGES))?;
    let before = server.sent();
    let alone = |object: &dyn Fn(u32) -> (&'static str, Value)| -> Result<f64> {
        let cpus = replica.cpus_during(interrupt, || changes_alone(&server, object, interrupt))?;
        Ok((cpus - idle).max(0.0) * SPACING.as_secs_f64() * 1000.0)
    };
    let slice = |round: u32| {
        let number = round * 7 % size.ingresses;
        ("EndpointSlice", objects::slice(number, size.per_service, round, server.next_version()))
    };
    let change_ms = alone(&slice)?;
    let event_bytes = (server.sent() - before) as f64 / f64::from(SINGLE_CHANGES);
    let changed = |round: u32| ("Ingress", objects::changed_ingress(round * 7 % size.ingresses, round));
    let route_cpu_ms = alone(&changed)?;

    let mut routes = (0..ROUTES)
        .map(|number| route_served(&server, &replica, size.ingresses + number, interrupt))
        .collect::<Result<Vec<_>>>()?;
    routes.sort_by(f64::total_cmp);
    let route_ms = (routes[routes.len() - 1], routes[routes.len() / 2]);

    let made = |rate: u32| events(&server, size, rate, rate * seconds as u32);
    let of_stream = made(STREAM);
    let send_stream = || stream(&server, &of_stream, STREAM, interrupt);
    let stream_cpus = replica.cpus_during(interrupt, send_stream)? - idle;
    let of_flood = made(FLOOD);
    let (before, begun) = (replica.cpu_s()?, Instant::now());
    stream(&server, &of_flood, FLOOD, interrupt)?;
    route_served(&server, &replica, size.ingresses + ROUTES, interrupt)?;
    let took_s = begun.elapsed().as_secs_f64();
    let flood = Flood { events: of_flood.len() as f64, took_s, cpu_s: replica.cpu_s()? - before };
    let cost = Cost { mib, start_s, change_ms, route_ms: route_cpu_ms, listed_mb, event_bytes };
    Ok(Measured { size, cost, ready_s, route_ms, stream_cpus, flood })
}

/// Changes with so much time between them that each is processed by itself.
fn changes_alone(
    server: &Server,
    object: &dyn Fn(u32) -> (&'static str, Value),
    interrupt: &Interrupt,
) -> Result<()> {
    for round in 1..=SINGLE_CHANGES {
        let (kind, object) = object(round);
        server.send(kind, "MODIFIED", &object.to_string());
        pause(interrupt, SPACING)?;
    }
    Ok(())
}

/// Changes of one slice after the other, made before they are sent: making one takes longer than reading it.
fn events(server: &Server, size: Size, rate: u32, count: u32) -> Vec<String> {
    // Another one than those of the changes and streams before.
    let first_round = SINGLE_CHANGES + 1 + rate / STREAM;
    let event = |number: u32| {
        let (slice, round) = (number % size.ingresses, first_round + number / size.ingresses);
        objects::slice(slice, size.per_service, round, server.next_version()).to_string()
    };
    (0..count).map(event).collect()
}

/// Sends events at a rate.
fn stream(server: &Server, events: &[String], rate: u32, interrupt: &Interrupt) -> Result<()> {
    let begun = Instant::now();
    let mut sent = 0;
    while sent < events.len() {
        let due = (begun.elapsed().as_millis() as usize * rate as usize / 1000).min(events.len());
        events[sent..due].iter().for_each(|event| send(server, event));
        sent = due;
        pause(interrupt, TICK)?;
    }
    Ok(())
}

fn send(server: &Server, slice: &str) {
    server.send("EndpointSlice", "MODIFIED", slice);
}

/// Makes an Ingress of a Service that is missing, and waits until its host is known: the answer is 503 then,
/// and was 404. Returns the milliseconds.
fn route_served(server: &Server, replica: &Replica, number: u32, interrupt: &Interrupt) -> Result<f64> {
    let host = format!("{}.test", objects::name(number));
    let begun = Instant::now();
    server.send("Ingress", "ADDED", &objects::ingress(number).to_string());
    let question = Question { host: &host, ..Question::default() };
    interrupt.await_that(PATIENCE, &host, || Ok(question.ask(replica.http)?.status == 503))?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

pub(super) fn pause(interrupt: &Interrupt, time: Duration) -> Result<()> {
    thread::sleep(time);
    interrupt.check()
}

impl Replica {
    /// Starts it with these options beside the usual ones.
    pub(super) fn start(binary: &Path, server: &Server, options: &[&str]) -> Result<Replica> {
        let folder = tempfile::tempdir().context("a folder for its log")?;
        let [http, admin] = [free_address()?, free_address()?];
        let mut command = Command::new(binary);
        command.args(["serve", "--apiserver-host", &format!("http://{}", server.address)]);
        command.args(["--http-port", &http.port().to_string(), "--https-port", "0"]);
        command.args(["--healthz-port", &admin.port().to_string(), "--controller-class", CONTROLLER]);
        command.arg("--disable-sync-events=true").args(options);
        let program = Program::start("forebay", command, &[], folder.path())?;
        Ok(Replica { program, http, admin, _folder: folder })
    }

    pub(super) fn cpu_s(&self) -> Result<f64> {
        Ok(self.program.cpu_time()?.total.as_secs_f64())
    }

    /// The CPUs that it takes during a time, and until what came in that time has been processed.
    pub(super) fn cpus_during(
        &self,
        interrupt: &Interrupt,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        let (before, begun) = (self.cpu_s()?, Instant::now());
        work()?;
        let took = begun.elapsed();
        interrupt.check()?;
        thread::sleep(TICK);
        Ok((self.cpu_s()? - before) / took.as_secs_f64())
    }
}

impl Measured {
    pub(super) const HEADER: &str = "Ingresses, endpoints: s to ready, CPU s, MB listed, MiB resident; CPU ms of \
                                     a change of endpoints and of an Ingress; ms until a route serves (middle, longest); CPUs at 100 changes/s; \
                                     changes/s of a flood that are served, CPU us of each";

    pub(super) fn point(&self) -> Point {
        let ingresses = f64::from(self.size.ingresses);
        Point { ingresses, endpoints: ingresses * f64::from(self.size.per_service), cost: self.cost }
    }

    /// CPU of an event that comes with many others, in milliseconds, with its share of the passes.
    pub(super) fn event_ms(&self) -> f64 {
        self.flood.cpu_s / self.flood.events * 1000.0
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, cost, ready_s, route_ms: (longest, middle), stream_cpus, flood } = self;
        let endpoints = size.ingresses * size.per_service;
        write!(
            f,
            "{}, {endpoints}: {ready_s:.1} s, {:.1} s, {:.0} MB, {:.0} MiB; {:.1}, {:.1} ms; {middle:.0}, {longest:.0} ms; \
             {stream_cpus:.2} CPUs; {:.0}/s, {:.0} us",
            size.ingresses,
            cost.start_s,
            cost.listed_mb,
            cost.mib,
            cost.change_ms,
            cost.route_ms,
            flood.events / flood.took_s,
            self.event_ms() * 1000.0,
        )
    }
}
