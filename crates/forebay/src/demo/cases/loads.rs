//! Cases A and D, and the part of case E about ports: their loads, ways and figures.

use std::path::Path;
use std::time::Duration;

use bench::generator::{Pace, Plan};
use lab::Network;

use crate::bench::format::grouped;
use crate::demo::programs::POD_PERCENT;
use crate::demo::scene::{self, Scene, network};

/// A case that is a load by several ways.
pub(in crate::demo) struct Loads {
    pub(in crate::demo) story: Story,
    pub(in crate::demo) columns: &'static [&'static str],
    /// Cells of a scene's row, below the columns.
    pub(in crate::demo) cells: fn(&Scene) -> Vec<String>,
    pub(super) ways: &'static [LoadPath],
    plan: fn() -> Plan,
    /// Names of the findings on the plain proxy that are relevant.
    relevant: &'static [&'static str],
    /// CPU percentage of the Pods; none for a whole CPU.
    pod_percent: Option<u32>,
    /// Local ports that the proxy may connect from; none for the kernel's default.
    ports: Option<&'static str>,
}

/// The story of a case, in words.
pub(in crate::demo) struct Story {
    pub(in crate::demo) title: &'static str,
    pub(in crate::demo) lead: &'static str,
    pub(in crate::demo) conclusion: &'static str,
}

/// A way of the requests.
pub(super) struct LoadPath {
    pub(super) name: &'static str,
    pub(super) play: fn(&'static str, &Loads, Duration, &Path) -> anyhow::Result<Scene>,
}

pub(super) const A: Loads = Loads {
    story: Story {
        title: "Field case A: an ingress halves the QPS.",
        lead: "64 clients connect for each request. So does a plain proxy towards the Pods, as ingress controllers do unless told otherwise.\n\
               The Pods have 6 % of a CPU, as those of the case had.",
        conclusion: "Forebay keeps its connections to Pods, and finds their number itself: nothing was set.",
    },
    columns: &["requests/s", "failed", "connections opened per request"],
    cells: |scene| {
        vec![grouped(scene.rate().round()), grouped(scene.failed() as f64), opened_per_request(scene)]
    },
    ways: &[
        LoadPath { name: "straight to the Pods", play: direct },
        LoadPath { name: "a plain proxy that connects each time", play: without_keepalive },
        LoadPath { name: "Forebay", play: forebay },
    ],
    plan: || Plan { connections: 64, requests_per_connection: Some(1), ..Plan::new(Network::PROXY, "/1k") },
    relevant: &["upstream-reuse"],
    pod_percent: Some(POD_PERCENT),
    ports: None,
};

pub(super) const D: Loads = Loads {
    story: Story {
        title: "Field case D: keepalive towards Pods that made things worse.",
        lead: "250 clients come in bursts, each 90 ms, to five Pods that take 20 ms. There are 500 ports to connect from. A plain proxy\n\
               keeps 8 idle connections to each Pod, as nginx does with `keepalive 8`, and closes the others itself.",
        conclusion: "Forebay finds the number itself, and resets what it closes: no port waits in TIME_WAIT.",
    },
    columns: &["answered", "failed", "connections opened per request", "TIME_WAIT"],
    cells: counts,
    ways: &[
        LoadPath { name: "a plain proxy that keeps 8 connections", play: with_eight },
        LoadPath { name: "Forebay", play: forebay },
    ],
    plan: || Plan {
        connections: 250,
        pace: Pace::Bursts { every: Duration::from_millis(90) },
        ..Plan::new(Network::PROXY, "/delay/20")
    },
    relevant: &["pool-too-small", "time-wait", "port-range"],
    pod_percent: None,
    ports: Some("32768 33267"),
};

pub(super) const E: Loads = Loads {
    story: Story {
        title: "Field case E: into a container, and half the QPS is gone. First: its ports.",
        lead: "1,000 requests a second, by a plain proxy that connects for each of them and closes itself. The container has 100 ports,\n\
               and each that was used waits for a minute in TIME_WAIT before it can go to the same Pod again.",
        conclusion: "Forebay needs as many ports as requests are under way at a time.",
    },
    columns: &["answered", "failed", "connections opened per request", "TIME_WAIT"],
    cells: counts,
    ways: &[
        LoadPath { name: "a plain proxy that connects each time", play: without_keepalive },
        LoadPath { name: "Forebay", play: forebay },
    ],
    plan: || Plan {
        connections: 32,
        pace: Pace::Open { rate_per_second: 1_000.0 },
        ..Plan::new(Network::PROXY, "/1k")
    },
    relevant: &["port-range", "sysctl-drift", "upstream-reuse"],
    pod_percent: None,
    ports: Some("32768 32867"),
};

/// Findings that may concern Forebay too. The lab's small number of ports is reported for the plain proxy,
/// and applies to both.
const OF_A_POOL: &[&str] = &["upstream-reuse", "pool-too-small", "time-wait"];

fn counts(scene: &Scene) -> Vec<String> {
    vec![
        grouped(scene.outcome.answered as f64),
        grouped(scene.failed() as f64),
        opened_per_request(scene),
        grouped(scene.connections.time_wait as f64),
    ]
}

fn opened_per_request(scene: &Scene) -> String {
    let is_by_proxy = scene.connections.accepted > 0;
    if is_by_proxy { format!("{:.3}", scene.opened_per_request()) } else { "-".into() }
}

fn direct(name: &'static str, loads: &Loads, time: Duration, folder: &Path) -> anyhow::Result<Scene> {
    let (network, pods) = network(loads.ports, loads.pod_percent, folder)?;
    // The kernel counts in the proxy's namespace, where nothing happens.
    let plan = Plan { targets: vec![Network::DIRECT], ..loads.plan(time) };
    scene::play(name, &network, &plan, pods.program.pid(), &[])
}

fn without_keepalive(
    name: &'static str,
    loads: &Loads,
    time: Duration,
    folder: &Path,
) -> anyhow::Result<Scene> {
    with_plain_proxy(0, name, loads, time, folder)
}

fn with_eight(name: &'static str, loads: &Loads, time: Duration, folder: &Path) -> anyhow::Result<Scene> {
    with_plain_proxy(8, name, loads, time, folder)
}

fn with_plain_proxy(
    keepalive: usize,
    name: &'static str,
    loads: &Loads,
    time: Duration,
    folder: &Path,
) -> anyhow::Result<Scene> {
    let (network, _pods) = network(loads.ports, loads.pod_percent, folder)?;
    let proxy = scene::plain_proxy(&network, keepalive, folder)?;
    scene::play(name, &network, &loads.plan(time), proxy.pid(), loads.relevant)
}

fn forebay(name: &'static str, loads: &Loads, time: Duration, folder: &Path) -> anyhow::Result<Scene> {
    let (network, _pods) = network(loads.ports, loads.pod_percent, folder)?;
    let proxy = scene::forebay(&network, folder)?;
    scene::play(name, &network, &loads.plan(time), proxy.pid(), OF_A_POOL)
}

impl Loads {
    fn plan(&self, duration: Duration) -> Plan {
        Plan { duration, ..(self.plan)() }
    }
}
