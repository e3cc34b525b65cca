//! What an ingress costs: field case A, with clients that connect for each request.
//!
//! Three ways to the same Pod take turns: none between, an ingress that connects to the Pod for each request, and Forebay as it is.
//! The second is Forebay with a pool of none, so that nothing differs but what is asked about.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bench::generator::{self, Expect, Plan, Status};

use super::programs::{self, POD_PERCENT, Pod, Serve};
use super::table::Table;
use super::{Demo, Interrupt};
use crate::bench::format::grouped;
use crate::bench::metrics;
use crate::output::print;

const MANIFESTS: &str = include_str!("demo.yaml");
const HOST: &str = "demo.localhost";
/// Where Forebay listens, if nobody else does.
const LIKELY_PORT: u16 = 8080;
const CLIENTS: usize = 200;
/// The ways take turns, so that whatever else the machine does hits all alike.
const ROUNDS: u32 = 4;
const NAME_WIDTH: usize = 42;
const COLUMNS: &[&str] = &["requests/s", "of direct", "connections to the Pod per request"];
const LOOK: Duration = Duration::from_millis(100);

/// The Pod and the proxies. Fields are dropped in this order.
struct Stage {
    without_reuse: Serve,
    forebay: Serve,
    pod: Pod,
    address: SocketAddr,
}

/// A way to the Pod, and what came of it.
struct Way {
    name: &'static str,
    target: SocketAddr,
    requests: u64,
    seconds: f64,
    opened: u64,
}

pub(super) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let folder = programs::folder()?;
    let stage = Stage::set(folder.path())?;
    print(format!(
        "What does an ingress cost? {CLIENTS} clients, a new connection for each request (field case A).\n\
         The Pod has {POD_PERCENT} % of a CPU, as that of the case had: it is held down {}.\n\n",
        stage.pod.holder()
    ))?;
    let ways = stage.measure(options.duration / ROUNDS, &interrupt)?;
    let table = Table::begin(NAME_WIDTH, COLUMNS)?;
    let direct = ways[0].rate();
    for way in &ways {
        let opened = way.opened as f64 / way.requests.max(1) as f64;
        let share = way.rate() / direct;
        table.row(way.name, &[grouped(way.rate().round()), format!("{share:.2}"), format!("{opened:.3}")])?;
    }
    print(format!("\n{}\n", conclusion(ways[1].rate() / direct, ways[2].rate() / direct)))?;
    print(stage.invitation(options.stay))?;
    print(format!("ratio: {:.2}\n", ways[2].rate() / direct))?;
    while options.stay && !interrupt.is_wanted() {
        thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}

/// In words, what the two shares say.
fn conclusion(each: f64, kept: f64) -> String {
    let verdict = if kept >= 1.0 {
        "Forebay costs no QPS here: it spares the Pod the connections".to_owned()
    } else {
        format!("Forebay leaves {:.0} % of the QPS here", kept * 100.0)
    };
    format!(
        "{verdict}. An ingress that connects for each request, as ingress controllers\ndo unless they are told otherwise, leaves {:.0} %.",
        each * 100.0
    )
}

impl Stage {
    fn set(folder: &Path) -> anyhow::Result<Stage> {
        let (pod, address) = programs::payload((Ipv4Addr::LOCALHOST, 0).into(), folder)?;
        let endpoints = format!("default/web={address}");
        let loopback = ("bind-address", "127.0.0.1");
        let serve = |name, settings: &[_], port: u16| {
            let port = port.to_string();
            let arguments = ["--endpoints", &endpoints, "--http-port", &port];
            programs::serve(name, MANIFESTS, settings, &arguments, folder)
        };
        let without_reuse = serve("without-reuse", &[loopback, ("upstream-keepalive-connections", "0")], 0)?;
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, LIKELY_PORT)).is_ok();
        let forebay = serve("forebay", &[loopback], if is_free { LIKELY_PORT } else { 0 })?;
        let pod = Pod::free(pod).hold(POD_PERCENT)?;
        Ok(Stage { without_reuse, forebay, pod, address })
    }

    fn measure(&self, round: Duration, interrupt: &Interrupt) -> anyhow::Result<[Way; 3]> {
        let way = |name, target| Way { name, target, requests: 0, seconds: 0.0, opened: 0 };
        let mut ways = [
            way("straight to the Pod", self.address),
            way("an ingress that connects for each request", self.without_reuse.http),
            way("Forebay", self.forebay.http),
        ];
        for _ in 0..ROUNDS {
            for way in &mut ways {
                interrupt.check()?;
                self.round(way, round)?;
            }
        }
        Ok(ways)
    }

    fn round(&self, way: &mut Way, duration: Duration) -> anyhow::Result<()> {
        let plan = Plan {
            host: HOST.into(),
            connections: CLIENTS,
            requests_per_connection: Some(1),
            duration,
            expect: Expect { status: Status::Is(200), body_bytes: Some(1024) },
            ..Plan::new(way.target, "/1k")
        };
        let before = self.accepted()?;
        let outcome = generator::run(&plan).with_context(|| format!("{}: no load", way.name))?;
        // The question itself is a connection too.
        way.opened += (self.accepted()? - before).saturating_sub(1);
        way.requests += outcome.answered;
        way.seconds += outcome.duration.as_secs_f64();
        Ok(())
    }

    /// Connections that the Pod has accepted.
    fn accepted(&self) -> anyhow::Result<u64> {
        let said = metrics::fetch(&format!("http://{}/count", self.address))?;
        let said: serde_json::Value = serde_json::from_str(&said)?;
        said["accepted"].as_u64().with_context(|| format!("process {} says {said}", self.pod.program.pid()))
    }

    /// What to do with it, or next.
    fn invitation(&self, stays: bool) -> String {
        let (http, admin) = (self.forebay.http, self.forebay.admin);
        let port = http.port();
        if stays {
            format!(
                "\nForebay serves until Ctrl-C. In another terminal:\n  curl -i http://{HOST}:{port}/echo\n  \
                 curl -i http://api.localhost:{port}/v1/echo\n  forebay explain http://api.localhost/v1/echo --admin http://{admin}\n  \
                 curl http://{admin}/metrics\n"
            )
        } else {
            "\nNext: forebay demo --stay        the same, and goes on serving: URLs to try\n      \
             forebay demo --case d        connections that a proxy closes too soon (also a, c, e)\n      \
             forebay check MANIFESTS      what of your own Ingresses would be served\n"
                .to_owned()
        }
    }
}

impl Way {
    fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}
