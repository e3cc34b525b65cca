//! `cargo xtask scale --routes`: a Gateway with many routes before the replayed API server. Their statuses,
//! and the time until a new route is served among others that change.
//!
//! Must not be in here: what the objects are, goals.

use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::payload::Payload;
use serde_json::Value;

use super::replica::{MIB, PATIENCE, Replica, SETTLING, SINGLE_CHANGES, SPACING, STREAM, pause};
use super::route_objects::{self, ENDPOINTS, changed_route, host, new_route};
use super::server::{Contents, Server};
use crate::ask::{self, Asker};
use crate::interrupt::Interrupt;

const KIND: &str = "HTTPRoute";
/// Routes that are created, one after the other, among changes of others.
const CREATIONS: u32 = 100;
/// Time between two creations.
const PAUSE: Duration = Duration::from_millis(50);
/// Time between two looks at whether a route is served: without it, looking would take the CPUs from who
/// makes it so.
const LOOK: Duration = Duration::from_micros(200);
/// Threads that change objects, so that the latency of a write does not lower their rate.
const CHANGERS: u32 = 4;

/// The time and the memory that a replica needed for many routes.
pub(super) struct Measured {
    routes: u32,
    /// Seconds until it was ready, and until the last route had its status.
    ready_s: f64,
    all_written_s: f64,
    /// From the first status to the last.
    written_per_s: f64,
    /// CPU until the last status was written.
    start_cpu_s: f64,
    mib: f64,
    anonymous_mib: f64,
    /// CPU of a change of endpoints, and of a route with its status, in milliseconds.
    endpoints_ms: f64,
    route_ms: f64,
    /// Milliseconds from a write until the route answered 200, the shortest first.
    created_ms: Vec<f64>,
    /// Changes of other objects a second meanwhile, and the CPUs that everything took.
    changes_per_s: f64,
    cpus: f64,
}

/// Measures a start with statuses, changes that come alone, and creations among others.
pub(super) fn measure(
    binary: &Path,
    routes: u32,
    write_latency: Duration,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let backend = Payload::bind((Ipv4Addr::LOCALHOST, 0).into(), 1)?;
    let server = Server::with(Contents { write_latency, ..route_objects::contents(routes) })?;
    // The API server has no endpoints on loopback.
    let endpoints = format!("--endpoints={}={}", route_objects::service_of_new(routes), backend.local_addr());
    let begun = Instant::now();
    let options = ["--disable-leader-election=true", "--publish-status-address=192.0.2.1", &endpoints];
    let replica = Replica::start(binary, &server, &options)?;
    interrupt.await_that(PATIENCE, "Forebay to be ready", || {
        Ok(ask::get(replica.admin, "/readyz").is_ok() && server.is_watched())
    })?;
    let ready_s = begun.elapsed().as_secs_f64();
    let written = || server.status_writes(KIND);
    interrupt.await_that(PATIENCE, "the status of all routes", || Ok(written().count >= routes.into()))?;
    let start_cpu_s = replica.cpu_s()?;
    let (first, last) = written().between.context("statuses were written")?;
    let lacking = server.objects(KIND)?.iter().filter(|route| !has_status(route)).count();
    ensure!(lacking == 0, "{lacking} routes have no status that says they are served");
    pause(interrupt, SETTLING)?;
    let mib = replica.program.resident_bytes()? as f64 / MIB;
    let anonymous_mib = anonymous_bytes(replica.program.pid())? as f64 / MIB;

    let idle = replica.cpus_during(interrupt, || pause(interrupt, SPACING * SINGLE_CHANGES))?;
    let alone = |change: &dyn Fn(u32) -> Result<()>| -> Result<f64> {
        let all = || {
            (1..=SINGLE_CHANGES).try_for_each(|round| change(round).and_then(|()| pause(interrupt, SPACING)))
        };
        let begun = Instant::now();
        let cpus = replica.cpus_during(interrupt, all)?;
        let each = begun.elapsed() / SINGLE_CHANGES;
        Ok((cpus - idle).max(0.0) * each.as_secs_f64() * 1000.0)
    };
    let endpoints_ms = alone(&|round| change_slice(&server, round * 7 % routes, round))?;
    let route_ms = alone(&|round| change_route(&server, round * 7 % routes, round))?;

    let before = (replica.cpu_s()?, Instant::now());
    let (mut created_ms, changes_per_s) = created_among_changes(&server, &replica, routes, interrupt)?;
    let cpus = (replica.cpu_s()? - before.0) / before.1.elapsed().as_secs_f64();
    created_ms.sort_by(f64::total_cmp);
    Ok(Measured {
        routes,
        ready_s,
        all_written_s: (last - begun).as_secs_f64(),
        written_per_s: f64::from(routes) / (last - first).as_secs_f64(),
        start_cpu_s,
        mib,
        anonymous_mib,
        endpoints_ms,
        route_ms,
        created_ms,
        changes_per_s,
        cpus,
    })
}

/// Whether the status says that the route is served, for all of its parents.
fn has_status(route: &Value) -> bool {
    let is_true = |parent: &Value, kind: &str| {
        let conditions = parent["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().any(|condition| {
            condition["type"] == kind
                && condition["status"] == "True"
                && condition["observedGeneration"] == route["metadata"]["generation"]
        })
    };
    let parents = route["status"]["parents"].as_array().map_or(&[][..], Vec::as_slice);
    let says = |parent: &Value| is_true(parent, "Accepted") && is_true(parent, "ResolvedRefs");
    !parents.is_empty() && parents.iter().all(says)
}

fn change_slice(server: &Server, number: u32, round: u32) -> Result<()> {
    server.write("EndpointSlice", &mut super::objects::slice(number, ENDPOINTS, round, 1))
}

fn change_route(server: &Server, number: u32, round: u32) -> Result<()> {
    server.write(KIND, &mut changed_route(number, round))
}

/// Creates routes while others change. Returns the milliseconds until each was served, and the changes a
/// second.
fn created_among_changes(
    server: &Server,
    replica: &Replica,
    routes: u32,
    interrupt: &Interrupt,
) -> Result<(Vec<f64>, f64)> {
    let over = AtomicBool::new(false);
    let made = AtomicU32::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        let changer = |changer: u32| {
            let (over, made) = (&over, &made);
            scope.spawn(move || change(server, routes, changer, over, made))
        };
        let changers: Vec<_> = (0..CHANGERS).map(changer).collect();
        let created = (1..=CREATIONS).map(|number| created(server, replica, routes, number, interrupt));
        let created = created.collect::<Result<Vec<_>>>();
        over.store(true, Ordering::Relaxed);
        let rate = f64::from(made.load(Ordering::Relaxed)) / begun.elapsed().as_secs_f64();
        for changer in changers {
            changer.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok((created?, rate))
    })
}

/// Changes one route or slice after the other, in turn, until it is over.
fn change(server: &Server, routes: u32, changer: u32, over: &AtomicBool, made: &AtomicU32) -> Result<()> {
    let every = Duration::from_secs(1) * CHANGERS / STREAM;
    let begun = Instant::now() + every * changer / CHANGERS;
    for turn in 0_u32.. {
        thread::sleep((begun + every * turn).saturating_duration_since(Instant::now()));
        if over.load(Ordering::Relaxed) {
            break;
        }
        let step = turn * CHANGERS + changer;
        // Rounds after those of the changes that came alone.
        let (number, round) = (step % routes, SINGLE_CHANGES + 1 + step / routes);
        if turn.is_multiple_of(2) {
            change_route(server, number, round)?;
        } else {
            change_slice(server, number, round)?;
        }
        made.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Creates a route to the Service that has a real endpoint. Returns the milliseconds until it answers 200.
fn created(
    server: &Server,
    replica: &Replica,
    routes: u32,
    number: u32,
    interrupt: &Interrupt,
) -> Result<f64> {
    pause(interrupt, PAUSE)?;
    let number = routes + number;
    let host = host(number);
    let mut asker = Asker::new(replica.http, &host);
    let end = Instant::now() + PATIENCE;
    let begun = Instant::now();
    server.write(KIND, &mut new_route(number, routes))?;
    while asker.status()? != 200 {
        ensure!(Instant::now() < end, "waited in vain for {host}");
        pause(interrupt, LOOK)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

/// The resident memory that is not backed by a file.
fn anonymous_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Of sorted times, the nearest rank.
fn percentile(times: &[f64], percent: usize) -> f64 {
    let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(rank).copied().unwrap_or_default()
}

impl Measured {
    pub(super) const HEADER: &str = "routes: s to ready, s until the last status, statuses/s, CPU s; MiB resident, \
                                     anonymous; CPU ms of a change of endpoints, of a route with its status; ms until a route that is created \
                                     serves (middle, p99, longest) among changes/s, CPUs";
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |percent| percentile(&self.created_ms, percent);
        write!(
            f,
            "{}: {:.2} s, {:.2} s, {:.0}/s, {:.2} s; {:.1}, {:.1} MiB; {:.1}, {:.1} ms; {:.1}, {:.1}, {:.1} ms \
             among {:.0}/s, {:.2} CPUs",
            self.routes,
            self.ready_s,
            self.all_written_s,
            self.written_per_s,
            self.start_cpu_s,
            self.mib,
            self.anonymous_mib,
            self.endpoints_ms,
            self.route_ms,
            times(50),
            times(99),
            times(100),
            self.changes_per_s,
            self.cpus,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_one_of_the_present_generation_at_each_parent() {
        let condition = |kind: &str, status: &str, generation: u32| json!({"type": kind, "status": status, "observedGeneration": generation});
        let accepted = || condition("Accepted", "True", 2);
        let route = |parents: Value| json!({"metadata": {"generation": 2}, "status": {"parents": parents}});
        let good = json!({"conditions": [accepted(), condition("ResolvedRefs", "True", 2)]});
        assert!(has_status(&route(json!([good]))));
        for other in [
            json!([]),
            json!([good, {"conditions": [accepted()]}]),
            json!([{"conditions": [accepted(), condition("ResolvedRefs", "False", 2)]}]),
            json!([{"conditions": [accepted(), condition("ResolvedRefs", "True", 1)]}]),
        ] {
            assert!(!has_status(&route(other.clone())), "{other}");
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = [50, 99, 100].map(|percent| percentile(&times, percent).to_bits());
        assert_eq!(found, [50.0_f64, 99.0, 100.0].map(f64::to_bits));
        assert_eq!(percentile(&[], 50).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn this_process_has_memory_of_its_own() -> Result<()> {
        assert!(anonymous_bytes(std::process::id())? > 0);
        Ok(())
    }
}
