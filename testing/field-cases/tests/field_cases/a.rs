//! Case A: an ingress halves the QPS, because it opens a connection to the Pod for each request.

use anyhow::{Result, ensure};
use bench::generator::Plan;

use crate::doctor::{Expected, LOAD, Related};
use crate::measure::{Effort, compare};
use crate::page::{Section, is_wished};
use crate::stage::{DIRECT, PROXY, Stage, backends};

const WHAT: &str = "64 clients with a connection for each request, nginx with its defaults in front of nginx with a file of 1 KB, measured \
with `forebay bench compare`; the remedy is `keepalive 64; proxy_http_version 1.1; proxy_set_header Connection \"\";`.";
const HEADINGS: &[&str] = &["", "requests/s direct", "requests/s", "share", "connections opened per request"];
const CLIENTS: usize = 64;
const REUSE: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";

/// Beside a load whose requests nobody counts.
const SEEN: &[Expected] = &[Expected {
    id: "upstream-reuse",
    // A failure, if it has a connection before it that carried one request.
    verdict: "warning",
    at_least: &[("connections_per_second", 300.0)],
}];
/// In a comparison.
const EXPLAINED: &[Expected] = &[Expected {
    id: "upstream-reuse",
    verdict: "failure",
    at_least: &[("connections_per_second", 300.0), ("connections_per_request", 0.9)],
}];
const RELATED: &[Related] = &[
    ("client-keepalive", "the clients of the published case keep no connections"),
    ("machine-busy", "client, proxy and backend share this machine, which is told of every comparison"),
    ("generator-limited", "of a machine with one CPU"),
];

pub(crate) fn run() -> Result<Section> {
    let mut section = Section::new(WHAT, HEADINGS);
    let backends: Vec<_> = backends().take(1).collect();
    {
        let stage = Stage::set()?;
        let _pod = stage.pod()?;
        let nginx = stage.nginx("auto", &backends, "", "")?;
        let plan = Plan { connections: CLIENTS, requests_per_connection: Some(1), ..Plan::new(PROXY, "/1k") };
        let (loaded, diagnosis) = stage.load_watched(&plan, nginx.pid(), &[])?;
        loaded.all_answered()?;
        diagnosis.check(SEEN, RELATED)?;
        let opened = loaded.connections.opened as f64 / LOAD.as_secs_f64();
        diagnosis.check_near("upstream-reuse", "connections_per_second", opened)?;
        diagnosis.tell(SEEN, "nginx", &mut section)?;
        let opened = play(&stage, "nginx", nginx.pid(), EXPLAINED, &mut section)?;
        ensure!(opened > 0.99, "{opened}");
    }
    {
        let stage = Stage::set()?;
        let _pod = stage.pod()?;
        let nginx = stage.nginx("auto", &backends, "keepalive 64;", REUSE)?;
        let opened = play(&stage, "nginx, remedied", nginx.pid(), &[], &mut section)?;
        ensure!(opened < 0.1, "{opened}");
    }
    let stage = Stage::set()?;
    let _pod = stage.pod()?;
    let forebay = stage.forebay(&backends)?;
    let opened = play(&stage, "Forebay", forebay.pid(), &[], &mut section)?;
    ensure!(opened < 0.1, "{opened}");
    ensure!(stage.connections()?.time_wait == 0, "Forebay left TIME_WAIT");
    Ok(section)
}

/// Compares, and gives the connections that the proxy opened for each request.
fn play(stage: &Stage, scene: &str, pid: u32, expected: &[Expected], section: &mut Section) -> Result<f64> {
    let effort =
        if is_wished() { Effort { rounds: 5, seconds: 2 } } else { Effort { rounds: 2, seconds: 1 } };
    let before = stage.connections()?;
    let compared = compare(stage, DIRECT, PROXY, pid, CLIENTS, effort)?;
    let opened = stage.connections()?.since(before).opened as f64 / compared.requests;
    compared.explanations.check(expected, RELATED)?;
    compared.explanations.tell(expected, &format!("{scene}, compared"), section)?;
    section.row([
        scene.into(),
        format!("{:.0}", compared.direct),
        format!("{:.0}", compared.via),
        format!("{:.2}", compared.via / compared.direct),
        format!("{opened:.3}"),
    ]);
    Ok(opened)
}
