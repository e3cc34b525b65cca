//! Case E, the static server: a container's port range is half of its machine's, and so is what a proxy can
//! do that opens a connection for each request.

use anyhow::{Result, ensure};
use bench::generator::{Pace, Plan};
use lab::set_parameter;

use crate::doctor::{Expected, Related};
use crate::page::Section;
use crate::stage::{Loaded, PORT_RANGE, PROXY, Stage, backends};

const WHAT: &str = "1,000 requests a second for 4 s, nginx with HTTP/1.1 and no `keepalive` in front of one backend, so that it closes each \
connection itself and its port stays in TIME_WAIT for a minute. The machine has 2,000 ports to connect from, the container 1,000; \
the remedy is to give it the machine's.";
const HEADINGS: &[&str] =
    &["", "ports", "answered", "failed", "connections opened per request", "TIME_WAIT towards the backend"];
const REQUESTS: u64 = 4_000;
/// So that they last as long as the doctor watches.
const RATE: f64 = 1_000.0;
const CLIENTS: usize = 32;
const MACHINE: (&str, u64) = ("32768 34767", 2_000);
const CONTAINER: (&str, u64) = ("32768 33767", 1_000);
const NO_KEEPALIVE: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";

const PORTS: Expected =
    Expected { id: "port-range", verdict: "failure", at_least: &[("in_use_percent", 99.0)] };
const DRIFT: Expected = Expected { id: "sysctl-drift", verdict: "failure", at_least: &[("different", 1.0)] };
const RELATED: &[Related] = &[
    ("upstream-reuse", "a connection for each request is what uses the ports up"),
    ("time-wait", "of those connections"),
    ("port-range", "the machine's range is narrow too, so that the case is quick"),
];

pub(crate) fn run() -> Result<Section> {
    set_parameter(PORT_RANGE, MACHINE.0)?;
    let mut section = Section::new(WHAT, HEADINGS);
    for (scene, (range, ports), expected) in
        [("nginx", CONTAINER, &[PORTS, DRIFT][..]), ("nginx, remedied", MACHINE, &[PORTS])]
    {
        let stage = stage(range)?;
        let _payload = stage.payload()?;
        let nginx = stage.nginx("auto", &backends().take(1).collect::<Vec<_>>(), "", NO_KEEPALIVE)?;
        let (loaded, diagnosis) = stage.load_watched(&plan(), nginx.pid(), &[])?;
        diagnosis.check(expected, RELATED)?;
        diagnosis.tell(expected, scene, &mut section)?;
        // One request for each port, within some that other connections have.
        ensure!(loaded.outcome.answered.abs_diff(ports) < 50, "{loaded:?}");
        ensure!(loaded.connections.time_wait.abs_diff(ports) < 50, "{loaded:?}");
        add(&mut section, scene, ports, &loaded);
    }
    let stage = stage(CONTAINER.0)?;
    let _payload = stage.payload()?;
    let forebay = stage.forebay(&backends().take(1).collect::<Vec<_>>())?;
    let (loaded, diagnosis) = stage.load_watched(&plan(), forebay.pid(), &[])?;
    diagnosis.check(&[DRIFT], RELATED)?;
    diagnosis.check_absent(&["upstream-reuse", "time-wait"])?;
    loaded.all_answered()?;
    ensure!(loaded.connections.time_wait == 0, "{loaded:?}");
    add(&mut section, "Forebay", CONTAINER.1, &loaded);
    Ok(section)
}

fn stage(range: &str) -> Result<Stage> {
    let stage = Stage::set()?;
    stage.proxy.set(PORT_RANGE, range)?;
    Ok(stage)
}

fn plan() -> Plan {
    let pace = Pace::Open { rate_per_second: RATE };
    Plan { connections: CLIENTS, pace, requests: Some(REQUESTS), ..Plan::new(PROXY, "/1k") }
}

fn add(section: &mut Section, scene: &str, ports: u64, loaded: &Loaded) {
    section.row([
        scene.into(),
        ports.to_string(),
        loaded.outcome.answered.to_string(),
        loaded.failed().to_string(),
        format!("{:.3}", loaded.opened_per_request()),
        loaded.connections.time_wait.to_string(),
    ]);
}
