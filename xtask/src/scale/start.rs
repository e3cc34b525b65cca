//! The start beside thousands of objects.
//!
//! Must not be in here: what happens later.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cluster::Client;

use super::Findings;
use super::stage::{SPACE, Stage, many_host};

/// The kinds of which there are thousands.
const KINDS: [&str; 3] = ["Ingress", "Service", "EndpointSlice"];
/// Objects in an answer to a list, as client libraries ask for them.
const PAGE: usize = 500;
const EXTRA_MAX: Duration = Duration::from_secs(5);
const RESIDENT_MAX: u64 = 64 * 1024 * 1024;

pub(super) fn to_ready(stage: &mut Stage) -> Result<Findings> {
    stage.fill()?;
    let listing = listing(stage)?;
    let forebay = stage.forebay()?;
    for number in [0, stage.many() - 1] {
        stage.await_host(&forebay, &many_host(number))?;
    }
    let resident = forebay.program.resident_bytes()?;
    let extra = forebay.started.saturating_sub(listing);
    let mut findings = Findings::default();
    findings.figure("Ingresses", stage.many().to_string());
    findings.figure("s to ready", format!("{:.2}", forebay.started.as_secs_f64()));
    findings.figure("s for the API server to list", format!("{:.2}", listing.as_secs_f64()));
    findings.figure("MiB resident", format!("{:.0}", resident as f64 / f64::from(1 << 20)));
    findings.goal("at most 5 s beyond the API server's own listing", extra <= EXTRA_MAX);
    findings.goal("at most 64 MiB resident", resident <= RESIDENT_MAX);
    Ok(findings)
}

/// How long the API server takes to list everything to somebody who does nothing with it, all kinds at once.
fn listing(stage: &Stage) -> Result<Duration> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let listers = KINDS.map(|kind| scope.spawn(move || list(stage, kind)));
        listers.into_iter().try_for_each(|lister| lister.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(begun.elapsed())
}

fn list(stage: &Stage, kind: &str) -> Result<()> {
    let client = Client::new(&stage.kubeconfig())?;
    let path = cluster::collection(kind, SPACE)?;
    let mut next = String::new();
    loop {
        let answer = client.get(&format!("{path}?limit={PAGE}&continue={next}"))?;
        answer.body["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
        answer.body["items"].as_array().context("no list")?;
        if next.is_empty() {
            return Ok(());
        }
    }
}
