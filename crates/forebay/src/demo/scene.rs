//! A scene of a case: a load through one proxy, the kernel's counters in that proxy's namespace meanwhile,
//! and the doctor's findings.
//!
//! Must not be in here: the subject of a case.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use bench::generator::{self, Outcome, Plan, Progress};
use doctor::collect::{Scope, Watch};
use doctor::{Finding, Verdict};
use lab::counters::Connections;
use lab::{Network, Program};

use super::programs::{self, Pod};

/// Interval of the samples.
const LOOK: Duration = Duration::from_millis(100);
/// Host of the requests.
pub(super) const HOST: &str = "web.test";
/// The kernel parameter with the ports that connects may use.
const PORT_RANGE: &str = "ipv4/ip_local_port_range";
const MANIFESTS: &str = include_str!("case.yaml");

/// Results of a scene.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) connections: Connections,
    pub(super) samples: Vec<Sample>,
    pub(super) findings: Vec<Finding>,
}

/// Counters at one moment.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) connections: Connections,
}

/// A network with Pods that have so much of a CPU, and with these ports to connect from for the proxy.
pub(super) fn network(
    ports: Option<&str>,
    pod_percent: Option<u32>,
    folder: &Path,
) -> anyhow::Result<(Network, Pod)> {
    let network = Network::set_up()?;
    if let Some(range) = ports {
        network.proxy.set(PORT_RANGE, range)?;
    }
    let everywhere = ([0, 0, 0, 0], Network::HTTP).into();
    let (program, _) = network.backend.enter(|| programs::payload(everywhere, folder))?;
    let pods = Pod::free(program);
    Ok((
        network,
        match pod_percent {
            Some(percent) => pods.hold(percent)?,
            None => pods,
        },
    ))
}

/// Starts Forebay as the proxy, with no setting that is about its pool.
pub(super) fn forebay(network: &Network, folder: &Path) -> anyhow::Result<Program> {
    let addresses: Vec<_> = Network::backends().map(|address| address.to_string()).collect();
    let endpoints = format!("default/web={}", addresses.join(","));
    let port = Network::HTTP.to_string();
    let serve = || {
        programs::serve("forebay", MANIFESTS, &[], &["--endpoints", &endpoints, "--http-port", &port], folder)
    };
    Ok(network.proxy.enter(serve)?.program)
}

/// Starts the plain proxy, with so many idle connections to each Pod.
pub(super) fn plain_proxy(network: &Network, keepalive: usize, folder: &Path) -> anyhow::Result<Program> {
    let mut command = programs::this_binary("plain-proxy")?;
    command.args(["--listen", &format!("0.0.0.0:{}", Network::HTTP), "--keepalive", &keepalive.to_string()]);
    command.args(Network::backends().map(|backend| backend.to_string()));
    network.proxy.enter(|| {
        let mut program = Program::start("plain-proxy", command, folder)?;
        program.wait_for(([127, 0, 0, 1], Network::HTTP).into())?;
        Ok(program)
    })
}

/// Loads the proxy, which is the process `pid`, while the doctor watches it.
pub(super) fn play(
    name: &'static str,
    network: &Network,
    plan: &Plan,
    pid: u32,
    relevant: &[&str],
) -> anyhow::Result<Scene> {
    let plan = Plan { host: HOST.into(), ..plan.clone() };
    let before = network.connections()?;
    let (progress, is_over) = (Progress::default(), AtomicBool::new(false));
    let watched = plan.duration.mul_f64(0.9);
    let scope = Scope { pid: Some(pid), pods: false, reference: None, metrics: None };
    let (outcome, samples, findings) = thread::scope(|threads| {
        let doctor =
            threads.spawn(move || Watch::over(scope, watched).map(|samples| doctor::examine(&samples)));
        let sampler = threads.spawn(|| sample(network, before, &progress, &is_over));
        let outcome = network.client.enter(|| Ok(generator::run_watched(&plan, &progress)?));
        is_over.store(true, Ordering::Relaxed);
        let samples = sampler.join().expect("it does not panic");
        let findings = doctor.join().expect("it does not panic");
        (outcome, samples, findings)
    });
    let is_relevant =
        |finding: &Finding| finding.verdict >= Verdict::Warning && relevant.contains(&finding.id);
    Ok(Scene {
        name,
        outcome: outcome.with_context(|| format!("{name}: no load"))?,
        connections: network.connections()?.since(before),
        samples: samples?,
        findings: findings?.into_iter().filter(is_relevant).collect(),
    })
}

fn sample(
    network: &Network,
    before: Connections,
    progress: &Progress,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<Sample>> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let so_far = progress.read();
        samples.push(Sample {
            seconds: start.elapsed().as_secs_f64(),
            answered: so_far.answered,
            failed: so_far.failed,
            connections: network.connections()?.since(before),
        });
        thread::sleep(LOOK);
    }
    Ok(samples)
}

impl Scene {
    /// Connections that the proxy opened for each request.
    pub(super) fn opened_per_request(&self) -> f64 {
        self.connections.opened as f64 / self.outcome.sent.max(1) as f64
    }

    /// Requests that were not answered as expected.
    pub(super) fn failed(&self) -> u64 {
        self.outcome.sent - self.outcome.answered
    }

    /// Answers a second.
    pub(super) fn rate(&self) -> f64 {
        self.outcome.answered as f64 / self.outcome.duration.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
