//! Case E, Redis: replies that take longer than 10 ms though its CPU is idle most of the time, because a
//! burst spends the period's quota and waits for the next.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::{Program, Throttling};
use testkit::manifest::{config_map, service};

use crate::doctor::{Diagnosis, Expected, LOAD, Related, diagnosis, watch};
use crate::page::Section;
use crate::redis::{self, Clients, Replies, Server};
use crate::stage::{DIRECT, Forebay, METRICS, PROXY, Stage, backends};

const WHAT: &str = "20 clients come every 430 ms in a burst that costs redis-server somewhat more than 10 ms of CPU time. It may have 10 ms in each \
period of 100 ms (`limits: 100m`), of which it uses less than half on average; the remedy is the limit that the doctor names.";
/// The period of Kubernetes.
const PERIOD: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_millis(10);
/// The first length of a burst, which grows until the limit throttles it.
const BURST: Duration = LIMIT;
/// No multiple of the period, so that bursts begin at any point of it.
const EVERY: Duration = Duration::from_millis(430);
const HEADINGS: &[&str] =
    &["", "replies", "over 10 ms", "slowest", "periods throttled", "over 10 ms, as Forebay counts"];
const EXPECTED: &[Expected] = &[Expected {
    id: "cpu-throttled",
    verdict: "warning",
    at_least: &[("throttled_periods", 3.0), ("sufficient_cpus", 0.2)],
}];
/// Of Redis, with Forebay's metrics.
const FOREBAY: &[Expected] = &[
    Expected {
        id: "slow-replies",
        verdict: "failure",
        at_least: &[("slow_percent", 0.1), ("throttled_ms", 10.0)],
    },
    Expected { id: "cpu-throttled", verdict: "warning", at_least: &[("throttled_periods", 3.0)] },
];
const RELATED: &[Related] = &[
    ("slow-replies", "on a machine that is busy there are some"),
    ("cpu-throttled", "a period may be throttled when costs are not what they were when they were measured"),
];
const RATIO: &str = "forebay_stream_response_over_threshold_ratio";

/// Results of some seconds of bursts.
#[derive(Debug)]
struct Scene {
    name: &'static str,
    replies: Replies,
    throttling: Throttling,
    diagnosis: Diagnosis,
}

pub(crate) fn run() -> Result<Section> {
    let mut section = Section::new(WHAT, HEADINGS);
    let stage = Stage::set()?;
    let mut server = Server::start(&stage)?;
    let mut clients = Clients::connect(&stage, redis::at(DIRECT), BURST)?;
    server.hold(LIMIT, PERIOD)?;
    clients.grow(EVERY, || Ok(server.throttling()?.throttled))?;
    let before = Scene::play("direct", &stage, &mut clients, &server, watch(server.pid(), &[])?)?;
    before.diagnosis.check(EXPECTED, &[])?;
    // It watched for a part of the time.
    let seen = before.diagnosis.number("cpu-throttled", "throttled_periods")?;
    ensure!(seen <= before.throttling.throttled as f64 + 1.0, "{before:?}");
    before.diagnosis.tell(EXPECTED, "direct", &mut section)?;
    ensure!(before.throttling.throttled >= 3 && before.replies.slow > 0, "{before:?}");
    section.row(before.row(String::new()));
    // The limit that the doctor calls sufficient.
    let limit = PERIOD.mul_f64(before.diagnosis.number("cpu-throttled", "sufficient_cpus")?);
    ensure!(limit >= LIMIT * 2, "{limit:?} would not have sufficed");
    server.hold(limit, PERIOD)?;
    let after = Scene::play("direct, remedied", &stage, &mut clients, &server, watch(server.pid(), &[])?)?;
    ensure!(after.throttling.throttled <= before.throttling.throttled / 2, "{after:?}");
    section.row(after.row(String::new()));
    for (name, limit, expected) in [("Forebay", LIMIT, FOREBAY), ("Forebay, remedied", limit, &[])] {
        server.hold(limit, PERIOD)?;
        let _forebay = forebay(&stage)?;
        let mut clients = clients.by_way_of(&stage, redis::at(PROXY))?;
        let watching = watch(server.pid(), &["--metrics", METRICS])?;
        let scene = Scene::play(name, &stage, &mut clients, &server, watching)?;
        let counted = counted_share(&stage.metrics()?)?;
        scene.diagnosis.check(expected, RELATED)?;
        scene.diagnosis.tell(expected, name, &mut section)?;
        if limit == LIMIT {
            ensure!(counted > 0.001, "Forebay counted a share of {counted}: {scene:?}");
        } else {
            ensure!(scene.throttling.throttled <= before.throttling.throttled / 2, "{scene:?}");
        }
        section.row(scene.row(percent(counted)));
    }
    Ok(section)
}

impl Scene {
    fn play(
        name: &'static str,
        stage: &Stage,
        clients: &mut Clients,
        server: &Server,
        doctor: Command,
    ) -> Result<Scene> {
        let watching = Program::start("doctor", doctor, stage.folder.path())?;
        let before = server.throttling()?;
        let end = Instant::now() + LOAD;
        let replies = clients.bursts(EVERY, || Ok(Instant::now() > end))?;
        let throttling = server.throttling()?.since(before);
        Ok(Scene { name, replies, throttling, diagnosis: diagnosis(watching)? })
    }

    fn row(&self, counted: String) -> [String; 6] {
        [
            self.name.into(),
            self.replies.total.to_string(),
            percent(self.replies.slow_share()),
            format!("{} ms", self.replies.slowest.as_millis()),
            format!("{} of {}", self.throttling.throttled, self.throttling.periods),
            counted,
        ]
    }
}

/// Forebay with Redis as a TCP service.
fn forebay(stage: &Stage) -> Result<Forebay> {
    let endpoint = redis::at(backends().next().context("a backend")?);
    let manifests = service("redis", &[endpoint]) + &config_map("tcp", &[("6379", "default/redis:80")]);
    stage.forebay_with(&manifests, &["--tcp-services-configmap=default/tcp"])
}

/// The share of slow replies in a page of metrics.
fn counted_share(metrics: &str) -> Result<f64> {
    let sample = metrics.lines().find_map(|line| line.strip_prefix(RATIO)?.rsplit_once(' '));
    Ok(sample.with_context(|| format!("no {RATIO} in the metrics"))?.1.parse()?)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
