//! Requests that must not fail, whatever goes on meanwhile.
//!
//! Must not be in here: changes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::generator::{self, Expect, Outcome, Pace, Plan, Status};
use cluster::{Client, Cluster, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::change::while_changing;
use super::stage::{Forebay, Kind, SPACE, Stage, apply, many_host, object, objects};
use crate::measured::Findings;

pub(super) const HOST: &str = "web.test";
const RESTARTS: u32 = 10;
/// How long a load lasts in which a restart or a kill has to fit.
const ROUND: Duration = Duration::from_secs(8);
/// Before something happens to it.
const QUIET: Duration = Duration::from_millis(500);
const AWAY: Duration = Duration::from_secs(60);
const UNDER_CHANGE: Duration = Duration::from_secs(20);
const RATE_UNDER_CHANGE: f64 = 5_000.0;
const RATIO_MAX: f64 = 1.5;
/// Of each kind of request in the mix.
const RATE_OF_EACH: f64 = 500.0;
const CONNECTIONS: usize = 16;
/// Nobody listens there.
const CLOSED_PORT: u16 = 1;

/// The kinds of requests in the mix: the method, and how many a connection carries.
const MIX: [(&str, Option<u64>); 4] = [("GET", None), ("GET", Some(1)), ("POST", None), ("POST", Some(1))];

pub(super) fn rolling_restart(stage: &mut Stage) -> Result<Findings> {
    let forebay = deploy(stage)?;
    let (mut total, mut rounds) = (Total::default(), 0);
    for round in 0..stage.part_of(RESTARTS) {
        eprintln!("restart {}", round + 1);
        let begun = Instant::now();
        let load = plan(forebay.http, HOST, ROUND);
        let (outcomes, took) = under_mix(&load, || restart(stage, round).map(|()| begun.elapsed()))?;
        ensure!(took? < ROUND, "the load ended before the restart");
        total.add(&outcomes);
        rounds += 1;
    }
    undeploy(stage)?;
    let mut findings = Findings::default();
    findings.figure("restarts", rounds.to_string());
    total.tell(&mut findings);
    findings.goal("0 failed", total.failed() == 0);
    Ok(findings)
}

pub(super) fn kill_pod(stage: &mut Stage) -> Result<Findings> {
    let forebay = deploy(stage)?;
    // Some are in flight at any time.
    let expect = Expect { status: Status::Is(200), body_bytes: None };
    let load = Plan { path: "/delay/10".into(), expect, ..plan(forebay.http, HOST, ROUND) };
    let (outcomes, killed) = under_mix(&load, || kill_one(stage))?;
    killed?;
    undeploy(stage)?;
    let (mut total, mut findings) = (Total::default(), Findings::default());
    total.add(&outcomes);
    total.tell(&mut findings);
    // At most so many requests were in flight as the connections carry.
    let in_flight_max = 2 * CONNECTIONS as u64;
    findings.goal("no GET failed", total.failed_of("GET") == 0);
    findings.goal("no POST failed but those in flight on it", total.failed_of("POST") <= in_flight_max);
    Ok(findings)
}

pub(super) fn api_server_away(stage: &mut Stage) -> Result<Findings> {
    let mut api = Cluster::start(&Options { api_only: true, ..Options::default() })?;
    let client = Client::new(&api.kubeconfig())?;
    apply(&client, "prepare", json!({}))?;
    stage.expose(&client, "web")?;
    client.apply(&web()?)?;
    let forebay = stage.forebay_following(&api.kubeconfig())?;
    stage.await_host(&forebay, HOST)?;
    let away = stage.part_of_time(AWAY);
    let plan =
        Plan { pace: Pace::Open { rate_per_second: 1_000.0 }, ..plan(forebay.http, HOST, away + 2 * QUIET) };
    let (outcome, stopped) = under(&plan, || {
        thread::sleep(QUIET);
        api.kill_api_server();
        thread::sleep(away);
        api.start_api_server()
    })?;
    stopped?;
    let mut findings = Findings::default();
    findings.figure("s away", away.as_secs().to_string());
    findings.figure("requests", outcome.answered.to_string());
    findings.figure("failed", failures(&outcome).to_string());
    findings.goal("0 failed", failures(&outcome) == 0);
    Ok(findings)
}

pub(super) fn under_change(stage: &mut Stage) -> Result<Findings> {
    stage.fill()?;
    let forebay = stage.forebay()?;
    // One of many, whose second endpoint nobody listens at, would measure connects that fail.
    stage.expose(&stage.client, "web")?;
    stage.client.apply(&web()?)?;
    stage.await_host(&forebay, HOST)?;
    stage.await_host(&forebay, &many_host(0))?;
    let duration = stage.part_of_time(UNDER_CHANGE);
    let pace = Pace::Open { rate_per_second: RATE_UNDER_CHANGE };
    let plan = Plan { pace, cpus: Some(stage.cpus.load.clone()), ..plan(forebay.http, HOST, duration) };
    let quiet = generator::run(&plan)?;
    let (changed, changes) = while_changing(stage, || generator::run(&plan))?;
    let changed = changed?;
    stage.client.delete(&web()?)?;
    let p99 = |outcome: &Outcome| outcome.latency.percentile(99.0).as_secs_f64() * 1e6;
    let ratio = p99(&changed) / p99(&quiet);
    let mut findings = Findings::default();
    findings.figure("Ingresses", stage.many().to_string());
    findings.figure("changes/s", format!("{changes:.0}"));
    findings.figure("requests/s", format!("{:.0}", changed.rate()));
    findings.figure("failed", (failures(&quiet) + failures(&changed)).to_string());
    findings.figure("p99 us, quiet", format!("{:.0}", p99(&quiet)));
    findings.figure("p99 us, changing", format!("{:.0}", p99(&changed)));
    findings.figure("ratio", format!("{ratio:.2}"));
    findings.goal("0 failed", failures(&quiet) + failures(&changed) == 0);
    findings.goal(format!("p99 at most {RATIO_MAX} of quiet"), ratio <= RATIO_MAX);
    Ok(findings)
}

/// A route with shares, a mirror, a retry and a timeout, while others change.
pub(super) fn route_under_change(stage: &mut Stage) -> Result<Findings> {
    /// Shares of the two backends: of the second one the answers are empty, which tells how many were its.
    const SHARES: [u32; 2] = [3, 1];
    stage.fill()?;
    let forebay = stage.forebay()?;
    stage.expose(&stage.client, "web")?;
    let values = json!({
        "host": HOST,
        "address": stage.backend.address.ip(),
        "closed_port": CLOSED_PORT,
        "shares": SHARES,
    });
    let objects = objects("route-with-shares", values)?;
    objects.iter().try_for_each(|object| stage.client.apply(object).map(drop))?;
    stage.await_host(&forebay, HOST)?;
    let duration = stage.part_of_time(UNDER_CHANGE);
    let plan = Plan {
        pace: Pace::Open { rate_per_second: RATE_UNDER_CHANGE },
        cpus: Some(stage.cpus.load.clone()),
        expect: Expect { status: Status::Is(200), body_bytes: None },
        ..plan(forebay.http, HOST, duration)
    };
    let (outcome, changes) = while_changing(stage, || generator::run(&plan))?;
    let outcome = outcome?;
    stage.client.delete(&objects[1])?;
    let of_first = outcome.body_bytes as f64 / 1024.0 / outcome.answered.max(1) as f64;
    let off = of_first - f64::from(SHARES[0]) / f64::from(SHARES.iter().sum::<u32>());
    let mut findings = Findings::default();
    findings.figure("of them", stage.many().to_string());
    findings.figure("changes/s", format!("{changes:.0}"));
    findings.figure("requests", outcome.answered.to_string());
    findings.figure("failed", failures(&outcome).to_string());
    findings.figure("share of the first %", format!("{:.2}", 100.0 * of_first));
    findings.goal("0 failed", failures(&outcome) == 0);
    findings.goal("shares within 1 %", off.abs() <= 0.01);
    Ok(findings)
}

/// The results of all loads of the mix, by method.
#[derive(Default)]
pub(super) struct Total(Vec<(&'static str, u64, u64)>);

impl Total {
    pub(super) fn add(&mut self, outcomes: &[(&'static str, Outcome)]) {
        self.0.extend(outcomes.iter().map(|(method, seen)| (*method, seen.answered, failures(seen))));
    }

    pub(super) fn failed(&self) -> u64 {
        self.0.iter().map(|(_, _, failed)| failed).sum()
    }

    fn failed_of(&self, method: &str) -> u64 {
        self.0.iter().filter(|(of, ..)| *of == method).map(|(_, _, failed)| failed).sum()
    }

    pub(super) fn tell(&self, findings: &mut Findings) {
        findings.figure("requests", self.0.iter().map(|(_, answered, _)| answered).sum::<u64>().to_string());
        findings.figure("GET failed", self.failed_of("GET").to_string());
        findings.figure("POST failed", self.failed_of("POST").to_string());
    }
}

/// Every request that has no right answer.
pub(super) fn failures(outcome: &Outcome) -> u64 {
    outcome.errors.total() + outcome.unfinished
}

pub(super) fn plan(target: SocketAddr, host: &str, duration: Duration) -> Plan {
    Plan {
        host: host.into(),
        connections: CONNECTIONS,
        duration,
        expect: Expect { status: Status::Is(200), body_bytes: Some(1024) },
        ..Plan::new(target, "/1k")
    }
}

/// Does something while a load is on; what the load saw, and what came of it.
fn under<T>(plan: &Plan, work: impl FnOnce() -> T) -> Result<(Outcome, T)> {
    thread::scope(|scope| {
        let load = scope.spawn(|| generator::run(plan));
        let result = work();
        Ok((load.join().map_err(|_| anyhow!("the generator panicked"))??, result))
    })
}

/// The same with all kinds of requests at once.
pub(super) fn under_mix<T>(
    load: &Plan,
    work: impl FnOnce() -> T,
) -> Result<(Vec<(&'static str, Outcome)>, T)> {
    thread::scope(|scope| {
        let loads = MIX.map(|(method, requests_per_connection)| {
            let plan = Plan {
                method: method.into(),
                body: if method == "POST" { b"hello".into() } else { Vec::new() },
                requests_per_connection,
                pace: Pace::Open { rate_per_second: RATE_OF_EACH },
                ..load.clone()
            };
            (method, scope.spawn(move || generator::run(&plan)))
        });
        thread::sleep(QUIET);
        let result = work();
        let outcomes = loads
            .into_iter()
            .map(|(method, load)| Ok((method, load.join().map_err(|_| anyhow!("the generator panicked"))??)));
        Ok((outcomes.collect::<Result<_>>()?, result))
    })
}

/// The Ingress that leads to `web`.
pub(super) fn web() -> Result<Value> {
    Kind::Ingress.object("web", HOST, "web")
}

/// A Deployment behind Forebay, both ready.
fn deploy(stage: &Stage) -> Result<Forebay> {
    deploy_pods(stage, &web()?)?;
    let forebay = stage.forebay()?;
    stage.await_host(&forebay, HOST)?;
    Ok(forebay)
}

/// A Deployment that is ready, and an Ingress that leads to it.
pub(super) fn deploy_pods(stage: &Stage, ingress: &Value) -> Result<()> {
    apply(&stage.client, "deployment", json!({}))?;
    stage.client.apply(ingress)?;
    stage.await_that("the Deployment", || is_rolled_out(&stage.client, "web"))
}

pub(super) fn undeploy(stage: &Stage) -> Result<()> {
    for kind in ["Ingress", "Service", "Deployment"] {
        stage.client.delete(&object(kind, "web", json!({})))?;
    }
    stage.await_that("the Pods to go", || Ok(stage.client.list("Pod", SPACE)?.is_empty()))
}

/// Restarts the Deployment, and waits until the Pods from before are gone.
fn restart(stage: &Stage, round: u32) -> Result<()> {
    let template = json!({"metadata": {"annotations": {"round": round.to_string()}}});
    let deployment = object("Deployment", "web", json!({"spec": {"template": template}}));
    replace_pods(stage, "web", || stage.client.merge(&deployment).map(drop))
}

/// Changes what the Pods of a Deployment are made of, and waits until those from before are gone.
pub(super) fn replace_pods(
    stage: &Stage,
    deployment: &str,
    change: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let pods = || -> Result<Vec<String>> {
        let pods = names(&stage.client.list("Pod", SPACE)?);
        Ok(pods.into_iter().filter(|name| name.starts_with(deployment)).collect())
    };
    let before = pods()?;
    change()?;
    stage.await_that("the Deployment", || is_rolled_out(&stage.client, deployment))?;
    stage.await_that("the Pods from before to go", || Ok(!pods()?.iter().any(|name| before.contains(name))))
}

/// Kills the process of one Pod.
fn kill_one(stage: &Stage) -> Result<()> {
    let pods = names(&stage.client.list("Pod", SPACE)?);
    let pod = pods.first().context("no Pod")?;
    let pid = process_of(pod)?.with_context(|| format!("no process of Pod {pod}"))?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// The process that sees the Pod's name in its own `/etc/hosts`.
fn process_of(pod: &str) -> Result<Option<Pid>> {
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        let hosts = fs::read_to_string(path.join("root/etc/hosts")).unwrap_or_default();
        if hosts.contains(pod) && is_ours(&path) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

fn is_ours(process: &Path) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "forebay")
}

fn names(pods: &[Value]) -> Vec<String> {
    pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).map(ToOwned::to_owned).collect()
}

pub(super) fn is_rolled_out(client: &Client, deployment: &str) -> Result<bool> {
    let Some(now) = client.find("Deployment", SPACE, deployment)? else { return Ok(false) };
    let (wanted, status) = (&now["spec"]["replicas"], &now["status"]);
    let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|name| &status[name]);
    let is_seen = status["observedGeneration"] == now["metadata"]["generation"];
    Ok(is_seen && counts.iter().all(|count| *count == wanted))
}
