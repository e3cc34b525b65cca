//! The cost of an ingress: field case A, with clients that connect for each request.
//!
//! Three ways to the same Pod alternate: a direct one, an ingress that connects to the Pod for each request,
//! and Forebay as it is. The second is Forebay without a pool, so that only the pool differs.

use std::io::{IsTerminal, Write};
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
/// The port where Forebay listens, if it is free.
const LIKELY_PORT: u16 = 8080;
const CLIENTS: usize = 200;
/// The ways take turns, so that whatever else the machine does hits all alike.
const ROUNDS: u32 = 4;
const NAME_WIDTH: usize = 42;
const COLUMNS: &[&str] = &["requests/s", "of direct", "connections to the Pod per request"];
/// An ingress that leaves this share of the direct rate has cost nothing: runs differ by some per cent.
const HARMLESS_SHARE: f64 = 0.95;
const LOOK: Duration = Duration::from_millis(100);

/// The Pod and the proxies. Fields are dropped in this order.
struct Stage {
    without_reuse: Serve,
    forebay: Serve,
    pod: Pod,
    address: SocketAddr,
}

/// A way to the Pod, and what came of it.
struct TargetCost {
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
    let direct = ways[0].rate();
    print(format!("\n{}\n", conclusion(ways[1].rate() / direct, ways[2].rate() / direct)))?;
    print(stage.invitation(options.stay))?;
    print(format!("ratio: {:.2}\n", ways[2].rate() / direct))?;
    while options.stay && !interrupt.is_wanted() {
        thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}

/// The conclusion from the two shares of the direct rate: with a connection for each request, and with kept
/// connections.
fn conclusion(each: f64, kept: f64) -> String {
    let verdict = if kept >= 1.0 {
        "Forebay costs no QPS here: it spares the Pod the connections".to_owned()
    } else {
        format!("Forebay leaves {:.0} % of the QPS here", kept * 100.0)
    };
    let comparison = if each < HARMLESS_SHARE {
        format!("leaves {:.0} %.", each * 100.0)
    } else {
        format!(
            "costs none on this\nmachine: the Pod's {POD_PERCENT} % of a CPU run out before the ingress does, and a connection costs \
             the Pod the same,\nwhoever opens it. `forebay demo --case e` has the ingress run out of ports, which costs QPS on every machine."
        )
    };
    format!(
        "{verdict}.\nAn ingress that connects for each request, as ingress controllers do by default, {comparison}"
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
        // Another program may take the port before Forebay does.
        let likely = is_free.then(|| serve("forebay", &[loopback], LIKELY_PORT)).and_then(Result::ok);
        let forebay = likely.map_or_else(|| serve("forebay", &[loopback], 0), Ok)?;
        let pod = Pod::free(pod).hold(POD_PERCENT)?;
        Ok(Stage { without_reuse, forebay, pod, address })
    }

    fn measure(&self, round: Duration, interrupt: &Interrupt) -> anyhow::Result<[TargetCost; 3]> {
        let way = |name, target| TargetCost { name, target, requests: 0, seconds: 0.0, opened: 0 };
        let mut ways = [
            way("straight to the Pod", self.address),
            way("an ingress that connects for each request", self.without_reuse.http),
            way("Forebay", self.forebay.http),
        ];
        for number in 1..ROUNDS {
            show_progress(&format!("round {number} of {ROUNDS}"));
            for way in &mut ways {
                interrupt.check()?;
                self.round(way, round)?;
            }
        }
        show_progress("");
        let table = Table::begin(NAME_WIDTH, COLUMNS)?;
        // Each row is printed as soon as its last round has ended.
        let mut direct = None;
        for way in &mut ways {
            interrupt.check()?;
            self.round(way, round)?;
            let share = way.rate() / *direct.get_or_insert(way.rate());
            table.row(way.name, &way.cells(share))?;
        }
        Ok(ways)
    }

    fn round(&self, way: &mut TargetCost, duration: Duration) -> anyhow::Result<()> {
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

    /// Suggestions for the next steps.
    fn invitation(&self, stays: bool) -> String {
        let (http, admin) = (self.forebay.http, self.forebay.admin);
        let port = http.port();
        if stays {
            format!(
                "\nForebay serves until Ctrl-C. In another terminal:\n  curl -i http://{HOST}:{port}/echo\n  \
                 curl -i http://api.localhost:{port}/v1/echo\n  forebay explain http://api.localhost/v1/echo --admin http://{admin}\n  \
                 curl http://{admin}/metrics\nIn a browser: http://{admin}/console/\n"
            )
        } else {
            "\nNext: forebay demo --stay        the same, and goes on serving: URLs to try\n      \
             forebay demo --case d        connections that a proxy closes too soon (also a, c, e)\n      \
             forebay check MANIFESTS      what of your own Ingresses would be served\n"
                .to_owned()
        }
    }
}

/// Replaces the last line of a terminal; writes nothing to anything else.
fn show_progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
    }
}

impl TargetCost {
    /// The cells of its row. `share` is its part of the direct rate.
    fn cells(&self, share: f64) -> [String; 3] {
        let opened = self.opened as f64 / self.requests.max(1) as f64;
        [grouped(self.rate().round()), format!("{share:.2}"), format!("{opened:.3}")]
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingress_that_costs_nothing_here_is_not_said_to_cost_something() {
        let costly = conclusion(0.48, 1.3);
        assert!(
            costly.starts_with("Forebay costs no QPS here") && costly.ends_with("leaves 48 %."),
            "{costly}"
        );
        assert!(conclusion(0.48, 0.8).starts_with("Forebay leaves 80 % of the QPS here.\n"));
        // A share above 1 occurs for a Pod at its limit, where runs differ.
        for each in [0.95, 1.03] {
            let hidden = conclusion(each, 2.5);
            assert!(!hidden.contains("leaves") && hidden.contains("--case e"), "{hidden}");
        }
    }
}
