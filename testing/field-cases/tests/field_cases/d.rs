//! Case D: keepalive towards upstreams made things worse, because its cap closes what the next burst opens.

use std::time::Duration;

use anyhow::{Result, ensure};
use bench::generator::{Pace, Plan};

use crate::doctor::{Diagnosis, Expected, LOAD, Related};
use crate::page::{Section, rate};
use crate::stage::{Loaded, PORT_RANGE, PROXY, Stage, backends};

const WHAT: &str = "Bursts of 250 clients with keep-alive and a backend that takes 20 ms; nginx with one worker and `keepalive 8` for \
each of five upstreams. The ports that it may connect from are 500; with all of them (1024 to 65535) the errors go and the TIME_WAIT \
grow. The remedy is the cap that the doctor names. Forebay has a worker for each CPU.";
const HEADINGS: &[&str] = &[
    "",
    "requests/s of 1 KB",
    "failed of a burst each 90 ms",
    "connections opened per request",
    "TIME_WAIT towards backends",
];
/// The backend takes 20 ms for it, so that a burst has all its connections open at once, however quick the
/// machine.
const SLOW: &str = "/delay/20";
const CLIENTS: usize = 250;
const NARROW: &str = "32768 33267";
const WIDE: &str = "1024 65535";
const REUSE: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";
/// Slow enough that the ports of the narrow range last for a while, and the doctor sees them go. It counts
/// connections ten times a second: at another pace than that, it sees bursts at all of their moments.
const EVERY: Duration = Duration::from_millis(90);
/// Time for the first bursts where connections are kept.
const WARM_UP: Duration = Duration::from_secs(2);

const POOL: Expected = Expected {
    id: "pool-too-small",
    verdict: "failure",
    at_least: &[("connections_per_second", 300.0), ("closed_here_percent", 50.0)],
};
const RELATED: &[Related] = &[
    ("upstream-reuse", "what is closed too soon is opened anew"),
    ("time-wait", "of what was closed, when it is many"),
    ("sysctl-drift", "the range is set in the proxy's namespace only"),
    ("port-range", "a narrow range is told even where its ports suffice"),
    ("pool-too-small", "of what is left with the cap that it named itself"),
];

const WAITING: Expected =
    Expected { id: "time-wait", verdict: "warning", at_least: &[("outgoing", 1_500.0)] };
const PORTS: Expected =
    Expected { id: "port-range", verdict: "failure", at_least: &[("in_use_percent", 80.0)] };

pub(crate) fn run() -> Result<Section> {
    let mut section = Section::new(WHAT, HEADINGS);
    let (loaded, diagnosis) = with_nginx(8.0, NARROW, &[POOL, WAITING, PORTS], &mut section)?;
    diagnosis.check_near("time-wait", "outgoing", loaded.connections.time_wait as f64)?;
    ensure!(loaded.failed() > 0 && loaded.connections.time_wait > 1_500, "{loaded:?}");

    let (loaded, diagnosis) = with_nginx(8.0, WIDE, &[POOL], &mut section)?;
    ensure!(loaded.failed() == 0 && loaded.connections.time_wait > 2_500, "{loaded:?}");
    let opened = loaded.connections.opened as f64 / LOAD.as_secs_f64();
    diagnosis.check_near("pool-too-small", "connections_per_second", opened)?;
    let worst = loaded.opened_per_request();

    let cap = diagnosis.number("pool-too-small", "cap")?;
    ensure!(cap > 8.0, "the doctor says that a cap of {cap} would have sufficed");
    let (loaded, diagnosis) = with_nginx(cap, WIDE, &[], &mut section)?;
    ensure!(loaded.failed() == 0 && loaded.opened_per_request() < worst / 4.0, "{loaded:?}");
    diagnosis.check_absent(&["upstream-reuse", "time-wait", "port-range"])?;
    with_forebay(&mut section)?;
    Ok(section)
}

fn with_nginx(
    keepalive: f64,
    range: &str,
    expected: &[Expected],
    section: &mut Section,
) -> Result<(Loaded, Diagnosis)> {
    let stage = Stage::set()?;
    stage.proxy.set(PORT_RANGE, range)?;
    let _payload = stage.payload()?;
    let backends: Vec<_> = backends().collect();
    let nginx = stage.nginx("1", &backends, &format!("keepalive {keepalive};"), REUSE)?;
    if expected.is_empty() {
        warm_up(&stage)?;
    }
    let (loaded, diagnosis) = stage.load_watched(&plan(), nginx.pid(), &[])?;
    let scene = format!("nginx, `keepalive {keepalive}`, {} ports", ports(range));
    diagnosis.check(expected, RELATED)?;
    diagnosis.tell(expected, &scene, section)?;
    add(section, &scene, &stage, &loaded)?;
    Ok((loaded, diagnosis))
}

/// Fills the pools, so that the doctor sees how connections are used again, and not how they are opened for
/// the first time, which takes longer on a busy machine.
fn warm_up(stage: &Stage) -> Result<()> {
    stage.load(&Plan { duration: WARM_UP, ..plan() }).map(drop)
}

fn ports(range: &str) -> &'static str {
    if range == NARROW { "500" } else { "64,512" }
}

/// With as few ports, and no number to choose.
fn with_forebay(section: &mut Section) -> Result<()> {
    let stage = Stage::set()?;
    stage.proxy.set(PORT_RANGE, NARROW)?;
    let _payload = stage.payload()?;
    let forebay = stage.forebay(&backends().collect::<Vec<_>>())?;
    warm_up(&stage)?;
    let (loaded, diagnosis) = stage.load_watched(&plan(), forebay.pid(), &[])?;
    diagnosis.check(&[], RELATED)?;
    diagnosis.check_absent(&["pool-too-small", "upstream-reuse", "time-wait"])?;
    loaded.all_answered()?;
    ensure!(loaded.connections.time_wait == 0, "{loaded:?}");
    add(section, "Forebay, 500 ports", &stage, &loaded)
}

fn plan() -> Plan {
    Plan { connections: CLIENTS, pace: Pace::Bursts { every: EVERY }, ..Plan::new(PROXY, SLOW) }
}

fn add(section: &mut Section, scene: &str, stage: &Stage, loaded: &Loaded) -> Result<()> {
    section.row([
        scene.into(),
        rate(stage, PROXY, CLIENTS)?,
        loaded.failed().to_string(),
        format!("{:.3}", loaded.opened_per_request()),
        loaded.connections.time_wait.to_string(),
    ]);
    Ok(())
}
