//! Case E's other half: a CPU quota that stalls bursts, though the CPU is idle most of the time.
//!
//! No proxy can mend that. What Forebay can do is to see it, and to say which limit would do.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bench::cpu::CpuTime;
use bench::generator::{self, Outcome, Pace, Plan};
use bench::report::{Block, Table as Drawn};
use doctor::collect::{Scope, Watch};
use doctor::{Finding, Value, Verdict};
use lab::{Network, Program, Quota, Throttling};

use crate::demo::Interrupt;
use crate::demo::programs::Pod;
use crate::demo::scene::{self, network};
use crate::demo::table::Table;
use crate::doctor::show::{brief, has_colour};
use crate::output::print;

const TITLE: &str = "Second: its CPU quota.";
const WHAT: &str = "A burst each 430 ms costs the Pod 30 ms of CPU time. It may have 10 ms in each 100 ms (`limits: 100m`), of which\n\
                    it uses two thirds: a burst spends the quota, and waits for the next periods.";
/// The period of Kubernetes.
const PERIOD: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_millis(10);
/// CPU time of the Pod for a burst.
const BURST: Duration = Duration::from_millis(30);
/// No multiple of the period, so that bursts begin at any point of it.
const EVERY: Duration = Duration::from_millis(430);
/// Path of the requests: large enough to cost CPU, with few requests.
const PATH: &str = "/1m";
const TRIAL: (usize, Duration) = (16, Duration::from_millis(400));
const CLIENTS_MAX: f64 = 400.0;
const CHECK: &str = "cpu-throttled";
const NAME_WIDTH: usize = 44;
const COLUMNS: &[&str] = &["replies", "median", "slowest", "periods throttled"];

/// The Pod, and its quota, which can go when its processes are gone: fields are dropped in this order.
struct Limits {
    pod: Pod,
    quota: Quota,
}

/// Results under one limit.
struct Limited {
    name: String,
    outcome: Outcome,
    throttling: Throttling,
    finding: Option<Finding>,
}

/// Runs the case, and returns the plots; none where no quota can be set.
pub(super) fn run(duration: Duration, folder: &Path, interrupt: &Interrupt) -> anyhow::Result<Vec<Block>> {
    print(format!("\n{TITLE}\n{WHAT}\n\n"))?;
    if let Err(error) = Quota::is_possible() {
        print(format!(
            "  not run: no CPU quota can be set here: {error:#}\n  It needs root, and a cgroup with a CPU controller.\n"
        ))?;
        return Ok(Vec::new());
    }
    let (network, pods) = network(None, None, folder)?;
    let _forebay = scene::forebay(&network, folder)?;
    let clients = clients(&network, &pods.program)?;
    let quota = Quota::hold(pods.program.pid(), LIMIT, PERIOD)?;
    let limits = Limits { pod: pods, quota };
    let table = Table::begin(NAME_WIDTH, COLUMNS)?;
    let before = limits.measure("limits: 100m".into(), &network, clients, duration)?;
    table.row(&before.name, &before.cells())?;
    interrupt.check()?;
    let Some(finding) = &before.finding else {
        print(
            "\n  The quota stalled too few bursts for the doctor to speak of it: try a longer --duration.\n",
        )?;
        return Ok(vec![drawn(&[before])]);
    };
    let cpus = sufficient_cpus(finding)?;
    limits.quota.set(PERIOD.mul_f64(cpus), PERIOD)?;
    let name = format!("limits: {:.0}m, as the doctor says", cpus * 1e3);
    let after = limits.measure(name, &network, clients, duration)?;
    table.row(&after.name, &after.cells())?;
    let mut text = "\nforebay doctor says of the first:\n".to_owned();
    brief(&mut text, finding, has_colour());
    text += "\nNo proxy can mend a quota. Forebay has as many workers as its own allows, and sees those of Pods.\n";
    print(text)?;
    Ok(vec![drawn(&[before, after])])
}

/// The limit that the doctor names.
fn sufficient_cpus(finding: &Finding) -> anyhow::Result<f64> {
    let number = finding.evidence.iter().find_map(|(name, value)| match value {
        Value::Number(number) if name == "sufficient_cpus" => Some(*number),
        _ => None,
    });
    number.context("the doctor names no limit")
}

/// The number of clients that make a burst of this cost.
#[expect(clippy::cast_sign_loss, reason = "a number of clients is not negative")]
fn clients(network: &Network, pod: &Program) -> anyhow::Result<usize> {
    let cost = || CpuTime::of_process(pod.pid());
    let before = cost()?;
    let outcome = network.client.enter(|| Ok(generator::run(&plan(TRIAL.0, TRIAL.1))?))?;
    let each = (cost()? - before).total.as_secs_f64() / outcome.answered.max(1) as f64;
    Ok((BURST.as_secs_f64() / each).clamp(1.0, CLIENTS_MAX) as usize)
}

fn plan(connections: usize, duration: Duration) -> Plan {
    let pace = Pace::Bursts { every: EVERY };
    Plan { host: scene::HOST.into(), connections, pace, duration, ..Plan::new(Network::PROXY, PATH) }
}

fn drawn(rows: &[Limited]) -> Block {
    let columns = [String::new()].into_iter().chain(COLUMNS.iter().map(ToString::to_string));
    let row = |row: &Limited| [row.name.clone()].into_iter().chain(row.cells()).collect();
    Block::Table(Drawn {
        title: TITLE.into(),
        note: WHAT.replace('\n', " "),
        columns: columns.collect(),
        rows: rows.iter().map(row).collect(),
    })
}

impl Limits {
    fn measure(
        &self,
        name: String,
        network: &Network,
        clients: usize,
        duration: Duration,
    ) -> anyhow::Result<Limited> {
        let before = self.quota.throttling()?;
        let scope = Scope { pid: Some(self.pod.program.pid()), pods: false, reference: None, metrics: None };
        let (outcome, findings) = thread::scope(|threads| {
            let watched = duration.mul_f64(0.9);
            let watch = move || Watch::over(scope, watched).map(|samples| doctor::examine(&samples));
            let doctor = threads.spawn(watch);
            let outcome = network.client.enter(|| Ok(generator::run(&plan(clients, duration))?));
            (outcome, doctor.join().expect("it does not panic"))
        });
        let throttling = self.quota.throttling()?.since(before);
        let is_it = |finding: &Finding| finding.id == CHECK && finding.verdict >= Verdict::Warning;
        Ok(Limited { name, outcome: outcome?, throttling, finding: findings?.into_iter().find(is_it) })
    }
}

impl Limited {
    fn cells(&self) -> Vec<String> {
        let milliseconds = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        let latency = &self.outcome.latency;
        vec![
            self.outcome.answered.to_string(),
            milliseconds(latency.percentile(50.0)),
            milliseconds(latency.max()),
            format!("{} of {}", self.throttling.throttled, self.throttling.periods),
        ]
    }
}
