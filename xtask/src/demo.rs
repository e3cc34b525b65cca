//! `cargo xtask demo`: the examples served, the URLs to try, and field case A's experiment in ten seconds.
//!
//! Must not be in here: a second terminal. It leaves nothing running.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::generator::{Expect, Plan, Status};

use crate::backend::{Accepted, Backend};
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::machine::{self, Cpus};
use crate::{load, peers};

/// Field case A's host and Service.
const HOST: &str = "web.test.com";
const SERVICE: &str = "default/web";
/// Where the `EndpointSlice`s of the other examples say that their Pods are, and some of what they serve.
const OTHERS_PORT: u16 = 9000;
const OTHERS: &[(&str, &str)] = &[("hello.test", "/"), ("shop.test", "/10k"), ("www.shop.test", "/echo")];
/// The `ConfigMap` that field case A's examples bring.
const CONFIGMAP: &str = "kube-system/nginx-configuration";

/// What the backend has of a CPU: as much as the Pod of the case (`cpu: 60m`).
const BACKEND_PERCENT: u32 = 6;
const CLIENTS: usize = 200;
/// Short, and in turn, so that whatever else the machine does hits both alike.
const ROUNDS: u32 = 5;
const ROUND: Duration = Duration::from_secs(1);

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What is served.
    #[arg(long, default_value = "examples")]
    manifests: String,
}

/// Answers, and the time they took.
#[derive(Default)]
struct Sum {
    requests: u64,
    seconds: f64,
}

/// What runs during the demo. Fields are dropped in this order: the proxy first, what is behind it last.
struct Stage {
    #[expect(dead_code, reason = "held so that it runs")]
    forebay: Program,
    address: SocketAddr,
    backends: [Backend; 1],
    /// Behind the other examples; none where their port is taken.
    others: Option<Backend>,
    cpus: Cpus,
    interrupt: Interrupt,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    machine::raise_descriptor_limit();
    let folder = tempfile::tempdir()?;
    let mut stage = Stage::set(&arguments.manifests, folder.path(), Interrupt::install()?)?;
    println!("{}\n", stage.urls());
    println!("Field case A: {CLIENTS} clients, every request on a new connection, {}.", stage.hold_backend());
    let [direct, through, opened] = stage.experiment()?;
    println!("  direct           {direct:>8.0} requests/s");
    println!("  through Forebay  {through:>8.0} requests/s");
    println!("  connections that Forebay opened to the backend: {opened}");
    println!("ratio: {:.2}", through / direct);
    Ok(())
}

impl Stage {
    fn set(manifests: &str, folder: &Path, interrupt: Interrupt) -> Result<Stage> {
        let binary = peers::forebay_binary()?;
        let cpus = Cpus::choose()?;
        let backends = [Backend::start("payload", &cpus.load, folder, &interrupt)?];
        let others = match free_port(OTHERS_PORT) {
            Some(address) => Some(Backend::start_at(address, "others", &cpus.load, folder, &interrupt)?),
            None => None,
        };
        let (address, admin) = (likely_free(8080)?, free_address()?);
        let mut command = Command::new(binary);
        command.args(["serve", "--manifests", manifests, "--configmap", CONFIGMAP]);
        command.args(["--endpoints", &format!("{SERVICE}={}", backends[0].address)]);
        command.args(["--http-port", &address.port().to_string(), "--https-port", "0"]);
        command.args(["--healthz-port", &admin.port().to_string()]);
        let mut forebay = Program::start("forebay", command, &[], folder)?;
        forebay.wait_for(address, &interrupt)?;
        Ok(Stage { forebay, address, backends, others, cpus, interrupt })
    }

    fn urls(&self) -> String {
        let others = if self.others.is_some() { OTHERS } else { &[] };
        let urls = [(HOST, "/echo"), (HOST, "/status/503")].iter().chain(others);
        let lines: Vec<_> = urls
            .map(|(host, path)| format!("  curl -i -H 'Host: {host}' http://{}{path}", self.address))
            .collect();
        format!(
            "Forebay serves the examples while this runs. In another terminal you may try:\n{}",
            lines.join("\n")
        )
    }

    /// Makes the backend's CPU small, and says how small it is.
    fn hold_backend(&mut self) -> String {
        match self.backends[0].hold(BACKEND_PERCENT) {
            Ok(()) => format!("the backend held to {BACKEND_PERCENT} % of a CPU by a cgroup"),
            Err(error) => format!("the backend on one thread (no cgroup: {error:#})"),
        }
    }

    /// Requests a second direct and through Forebay, and the connections that Forebay opened meanwhile.
    fn experiment(&self) -> Result<[f64; 3]> {
        let (mut direct, mut through) = (Sum::default(), Sum::default());
        let mut opened = 0;
        for _ in 0..ROUNDS {
            self.round(self.backends[0].address, &mut direct)?;
            let before = Accepted::now(&self.backends)?;
            self.round(self.address, &mut through)?;
            opened += before.opened_since(&self.backends)?;
        }
        Ok([direct.rate(), through.rate(), opened as f64])
    }

    fn round(&self, target: SocketAddr, sum: &mut Sum) -> Result<()> {
        let plan = Plan {
            host: HOST.into(),
            connections: CLIENTS,
            requests_per_connection: Some(1),
            duration: ROUND,
            expect: Expect { status: Status::Is(200), body_bytes: Some(1024) },
            cpus: Some(self.cpus.load.clone()),
            ..Plan::new(target, "/1k")
        };
        let outcome = load::generate(&plan, &self.interrupt).with_context(|| format!("load on {target}"))?;
        sum.requests += outcome.answered;
        sum.seconds += outcome.duration.as_secs_f64();
        Ok(())
    }
}

impl Sum {
    fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

/// That port on loopback where it is free, else any. Forebay will listen on all addresses.
fn likely_free(port: u16) -> Result<SocketAddr> {
    free_port(port).map_or_else(free_address, Ok)
}

fn free_port(port: u16) -> Option<SocketAddr> {
    let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    free.then(|| (Ipv4Addr::LOCALHOST, port).into())
}
