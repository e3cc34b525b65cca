//! The start beside thousands of objects.
//!
//! Must not be in here: what happens later.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cluster::Client;

use super::stage::{Forebay, SPACE, Stage, many_host};
use crate::measured::Findings;

/// Objects in an answer to a list, as client libraries ask for them.
const PAGE: usize = 500;

/// Bounds of a start: the time beyond the API server's own listing, and resident memory.
struct Goals {
    extra: Duration,
    resident_mib: u64,
}

pub(super) fn plain(stage: &mut Stage) -> Result<Findings> {
    stage.fill()?;
    let goals = Goals { extra: Duration::from_secs(5), resident_mib: 64 };
    to_ready(stage, &goals, |forebay, number| stage.await_host(forebay, &many_host(number)))
}

/// The status of all routes is written besides.
pub(super) fn routes(stage: &mut Stage) -> Result<Findings> {
    let mut findings = plain(stage)?;
    // Another Forebay has written it already: nothing of that is to be left.
    stage.forget_status()?;
    let begun = Instant::now();
    let _forebay = stage.forebay()?;
    stage.await_status()?;
    let took = begun.elapsed();
    findings.figure("s until the status of all is written", format!("{:.1}", took.as_secs_f64()));
    findings.goal("the status of all written within 10 s", took <= Duration::from_secs(10));
    Ok(findings)
}

pub(super) fn annotated(stage: &mut Stage) -> Result<Findings> {
    stage.annotate()?;
    let goals = Goals { extra: Duration::from_secs(1), resident_mib: 80 };
    to_ready(stage, &goals, |forebay, number| stage.await_annotated(forebay, number))
}

fn to_ready(
    stage: &Stage,
    goals: &Goals,
    await_one: impl Fn(&Forebay, u32) -> Result<()>,
) -> Result<Findings> {
    let Goals { extra: extra_max, resident_mib } = goals;
    let listing = listing(stage)?;
    let forebay = stage.forebay()?;
    for number in [0, stage.many() - 1] {
        await_one(&forebay, number)?;
    }
    let resident = forebay.program.resident_bytes()?;
    let extra = forebay.started.saturating_sub(listing);
    let mut findings = Findings::default();
    findings.figure("of them", stage.many().to_string());
    findings.figure("s to ready", format!("{:.2}", forebay.started.as_secs_f64()));
    findings.figure("s for the API server to list", format!("{:.2}", listing.as_secs_f64()));
    findings.figure("MiB resident", format!("{:.0}", resident as f64 / f64::from(1 << 20)));
    findings.goal(
        format!("at most {} s beyond the API server's own listing", extra_max.as_secs()),
        extra <= *extra_max,
    );
    findings.goal(format!("at most {resident_mib} MiB resident"), resident <= resident_mib << 20);
    Ok(findings)
}

/// How long the API server takes to list everything to somebody who does nothing with it, all kinds at once.
fn listing(stage: &Stage) -> Result<Duration> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let kinds = [stage.kind.name(), "Service", "EndpointSlice"];
        let listers = kinds.map(|kind| scope.spawn(move || list(stage, kind)));
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
