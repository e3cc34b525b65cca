//! A relay and its followers before an API server that replays a cluster: what the relay needs for each event
//! and follower.
//!
//! Must not be in here: what is made of the figures.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::objects::{self, CONTROLLER};
use super::server::{Collection, Server};
use crate::ask;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;

/// Followers of the relays that are measured, one after the other.
const FOLLOWERS: [u8; 4] = [0, 1, 2, 4];
/// Events a second.
const RATE: u32 = 500;
const TICK: Duration = Duration::from_millis(20);
/// Longest wait for replicas to start, also of a build without optimisation.
const PATIENCE: Duration = Duration::from_mins(5);
const SERVICE: &str = "replicas/forebay";
const SLICES_OF_SERVICE: &str = "/apis/discovery.k8s.io/v1/namespaces/replicas/endpointslices";

/// A relay's needs.
struct Measured {
    followers: u8,
    events: f64,
    /// CPU of the relay during these events.
    cpu_s: f64,
    /// Bytes that the API server sent, and that the relay sent to all followers.
    received_bytes: f64,
    sent_bytes: f64,
}

struct Replica {
    program: Program,
    admin: SocketAddr,
}

/// Measures relays, and prints each.
pub(super) fn run(binary: &Path, ingresses: u32, seconds: u64, interrupt: &Interrupt) -> Result<()> {
    println!(
        "followers: us of CPU of the relay for each event; bytes of an event from the API server, and to each follower"
    );
    for followers in FOLLOWERS {
        println!("{}", measure(binary, ingresses, followers, seconds, interrupt)?);
    }
    Ok(())
}

fn measure(
    binary: &Path,
    ingresses: u32,
    followers: u8,
    seconds: u64,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let addresses: Vec<IpAddr> =
        (0..=followers).map(|number| Ipv4Addr::new(127, 0, 1, 1 + number).into()).collect();
    let mut collections = objects::collections(ingresses, 2);
    collections.push(members(&addresses));
    let server = Server::start(collections)?;
    let folder = tempfile::tempdir().context("a folder for logs")?;
    let port = free_address()?.port();
    let start = |own: &IpAddr| Replica::start(binary, &server, *own, addresses.len(), port, &folder);
    let replicas = addresses.iter().map(start).collect::<Result<Vec<_>>>()?;
    let relay = || -> Result<Option<&Replica>> {
        for replica in &replicas {
            if replica.followers().is_ok_and(|count| count == u64::from(followers)) {
                return Ok(Some(replica));
            }
        }
        Ok(None)
    };
    let are_ready = || replicas.iter().all(|replica| ask::get(replica.admin, "/readyz").is_ok());
    interrupt.await_that(PATIENCE, "the replicas to follow one of them", || {
        Ok(are_ready() && relay()?.is_some())
    })?;
    let relay = relay()?.context("a replica that the others follow")?;
    // The rest of the start is over then.
    thread::sleep(Duration::from_secs(3));
    let sent = server.sent();
    let relayed = relay.sent_bytes()?;
    let cpu = relay.cpu_s()?;
    let events = stream(&server, ingresses, seconds, interrupt)?;
    interrupt.await_that(PATIENCE, "the last event to be handed on", || {
        let before = relay.sent_bytes()?;
        thread::sleep(Duration::from_millis(500));
        Ok(relay.sent_bytes()? <= before)
    })?;
    let watches =
        server.send("EndpointSlice", "MODIFIED", &objects::slice(0, 2, 0, server.next_version()).to_string());
    ensure!(watches == 1, "{watches} replicas watch the API server");
    Ok(Measured {
        followers,
        events: f64::from(events),
        cpu_s: relay.cpu_s()? - cpu,
        received_bytes: (server.sent() - sent) as f64,
        sent_bytes: relay.sent_bytes()? - relayed,
    })
}

/// Sends events at a rate. Returns how many.
fn stream(server: &Server, ingresses: u32, seconds: u64, interrupt: &Interrupt) -> Result<u32> {
    let events = RATE * seconds as u32;
    let (begun, mut sent) = (Instant::now(), 0);
    while sent < events {
        let due = begun.elapsed().as_millis() * u128::from(RATE) / 1000;
        let due = u32::try_from(due).unwrap_or(events).min(events);
        for number in sent..due {
            let round = 1 + number / ingresses;
            let slice = objects::slice(number % ingresses, 2, round, server.next_version());
            server.send("EndpointSlice", "MODIFIED", &slice.to_string());
        }
        sent = due;
        thread::sleep(TICK);
        interrupt.check()?;
    }
    Ok(events)
}

/// The slice of the replicas' own Service.
fn members(addresses: &[IpAddr]) -> Collection {
    let endpoints: Vec<_> = addresses.iter().map(|address| json!({ "addresses": [address] })).collect();
    let slice = json!({"metadata": {"name": "forebay", "namespace": "replicas"}, "endpoints": endpoints});
    Collection {
        path: SLICES_OF_SERVICE,
        api_version: "discovery.k8s.io/v1",
        kind: "Members",
        items: vec![slice.to_string()],
    }
}

impl Replica {
    fn start(
        binary: &Path,
        server: &Server,
        own: IpAddr,
        per_watch: usize,
        port: u16,
        folder: &TempDir,
    ) -> Result<Replica> {
        let secret = folder.path().join("secret");
        std::fs::write(&secret, [b'x'; 32])?;
        let admin = free_address()?;
        let mut command = Command::new(binary);
        command.args(["serve", "--apiserver-host", &format!("http://{}", server.address)]);
        command.args(["--http-port=0", "--https-port=0", "--controller-class", CONTROLLER]);
        command.args(["--healthz-port", &admin.port().to_string(), "--workers=1"]);
        command.args(["--update-status=false", "--disable-sync-events=true", "--replicas-service", SERVICE]);
        command.args(["--replica-address", &own.to_string(), "--replicas-watch-port", &port.to_string()]);
        command.args(["--replicas-per-watch", &per_watch.max(2).to_string()]);
        command.arg("--replicas-secret").arg(&secret);
        let program = Program::start(&format!("forebay-{own}"), command, &[], folder.path())?;
        Ok(Replica { program, admin })
    }

    fn cpu_s(&self) -> Result<f64> {
        Ok(self.program.cpu_time()?.total.as_secs_f64())
    }

    fn followers(&self) -> Result<u64> {
        let status: Value = serde_json::from_str(&ask::get(self.admin, "/status")?)?;
        let relay = &status["sharedWatch"];
        ensure!(relay["relay"].is_null(), "it follows one");
        relay["followers"].as_u64().context("a replica that shares watches")
    }

    fn sent_bytes(&self) -> Result<f64> {
        ask::metric(self.admin, "forebay_watch_relay_sent_bytes_total")?.context("a metric")
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { followers, events, cpu_s, received_bytes, sent_bytes } = self;
        let each = sent_bytes / events / f64::from((*followers).max(1));
        write!(
            f,
            "{followers}: {:.1} us; {:.0}, {each:.0} bytes",
            cpu_s / events * 1e6,
            received_bytes / events
        )
    }
}
