//! How long a change takes to be in force, and changes that never end.
//!
//! Must not be in here: load.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use cluster::Client;

use super::stage::{Forebay, NICENESS, SPACE, Stage, annotations, many_addresses, many_name, service};
use crate::ask::Asker;
use crate::measured::Findings;

const SAMPLES: u32 = 100;
/// Changes a second, by so many threads.
const CHANGES: u32 = 100;
const CHANGERS: u32 = 2;
/// Between two looks at whether a change is in force: without it, looking would take the CPUs from who makes
/// it so.
const LOOK: Duration = Duration::from_micros(200);
/// Between two samples, for what one has stirred up to settle.
const PAUSE: Duration = Duration::from_millis(50);

/// Times of one sample.
struct Sample {
    /// From the call's beginning.
    from_call: Duration,
    /// From the API server's answer.
    from_answer: Duration,
}

pub(super) fn idle(stage: &mut Stage) -> Result<Findings> {
    let forebay = stage.forebay()?;
    let samples = samples(stage, &forebay)?;
    Ok(findings(&samples, &[(50, 10), (99, 30)]))
}

pub(super) fn busy(stage: &mut Stage) -> Result<Findings> {
    stage.fill()?;
    let forebay = stage.forebay()?;
    let (samples, changes) = while_changing(stage, || samples(stage, &forebay))?;
    let mut findings = findings(&samples?, &[(99, 50)]);
    findings.figure("changes/s", format!("{changes:.0}"));
    Ok(findings)
}

pub(super) fn annotated(stage: &mut Stage) -> Result<Findings> {
    stage.annotate()?;
    let forebay = stage.forebay()?;
    stage.await_annotated(&forebay, 0)?;
    let samples = samples(stage, &forebay)?;
    Ok(findings(&samples, &[(99, 50)]))
}

/// Does something while objects change; what came of it, and how many changed a second.
pub(super) fn while_changing<T>(stage: &Stage, work: impl FnOnce() -> T) -> Result<(T, f64)> {
    let (over, made, begun) = (AtomicBool::new(false), AtomicU32::new(0), Instant::now());
    thread::scope(|scope| {
        let changers: Vec<_> = (0..CHANGERS)
            .map(|changer| {
                let (over, made) = (&over, &made);
                scope.spawn(move || change(stage, changer, over, made))
            })
            .collect();
        let result = work();
        over.store(true, Ordering::Relaxed);
        let rate = f64::from(made.load(Ordering::Relaxed)) / begun.elapsed().as_secs_f64();
        for changer in changers {
            changer.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok((result, rate))
    })
}

/// Changes one of many Ingresses, routes or slices after the other: a setting of what is served, or a Pod
/// that comes or goes.
fn change(stage: &Stage, changer: u32, over: &AtomicBool, made: &AtomicU32) -> Result<()> {
    // As the cluster itself: this is somebody else's machine.
    rustix::process::nice(i32::from(NICENESS))?;
    let client = Client::new(&stage.kubeconfig())?;
    let every = Duration::from_secs(1) * CHANGERS / CHANGES;
    let begun = Instant::now();
    for turn in 0_u32.. {
        thread::sleep((begun + every * turn).saturating_duration_since(Instant::now()));
        if over.load(Ordering::Relaxed) {
            break;
        }
        let step = turn * CHANGERS + changer;
        let (number, round) = (step % stage.many(), step / stage.many());
        let name = many_name(number);
        if turn.is_multiple_of(2) {
            client.merge(&stage.kind.change(&name, round)?)?;
        } else {
            let addresses = many_addresses(number, stage.backend.address);
            let left = if round.is_multiple_of(2) { 1 } else { 2 };
            let objects = service(&name, stage.backend.address.port(), &addresses[..left])?;
            client.merge(&objects[1])?;
        }
        made.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn samples(stage: &Stage, forebay: &Forebay) -> Result<Vec<Sample>> {
    stage.expose(&stage.client, "sample")?;
    (0..stage.part_of(SAMPLES)).map(|number| sample(stage, forebay, number)).collect()
}

fn sample(stage: &Stage, forebay: &Forebay, number: u32) -> Result<Sample> {
    thread::sleep(PAUSE);
    stage.interrupt.check()?;
    let host = format!("sample-{number}.test");
    let mut object = stage.kind.object(&format!("sample-{number}"), &host, "sample")?;
    if stage.is_annotated {
        object["metadata"]["annotations"] = annotations(number)?;
    }
    let path = cluster::collection(stage.kind.name(), SPACE)?;
    let mut asker = Asker::new(forebay.http, &host);
    let called = Instant::now();
    stage.client.post(&path, &object)?;
    let answered = Instant::now();
    while asker.status()? != 200 {
        stage.interrupt.check()?;
        thread::sleep(LOOK);
    }
    let sample = Sample { from_call: called.elapsed(), from_answer: answered.elapsed() };
    stage.client.delete(&object)?;
    Ok(sample)
}

/// Percentiles, and goals in milliseconds for some of them.
fn findings(samples: &[Sample], goals: &[(usize, u64)]) -> Findings {
    let mut findings = Findings::default();
    let times = |time: fn(&Sample) -> Duration| {
        let mut times: Vec<_> = samples.iter().map(time).collect();
        times.sort_unstable();
        times
    };
    let (calls, answers) = (times(|sample| sample.from_call), times(|sample| sample.from_answer));
    findings.figure("samples", samples.len().to_string());
    for (heading, times, percent) in [
        ("p50 ms from the call", &calls, 50),
        ("p99 ms from the call", &calls, 99),
        ("p50 ms from its answer", &answers, 50),
        ("p99 ms from its answer", &answers, 99),
    ] {
        findings.figure(heading, format!("{:.1}", milliseconds(percentile(times, percent))));
    }
    for (percent, limit) in goals {
        let met = percentile(&calls, *percent) <= Duration::from_millis(*limit);
        findings.goal(format!("p{percent} from the call at most {limit} ms"), met);
    }
    findings
}

/// Of sorted times, the nearest rank.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(rank).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        let milliseconds = [50, 99, 100].map(|percent| percentile(&times, percent).as_millis());
        assert_eq!(milliseconds, [50, 99, 100]);
        assert_eq!(percentile(&times[..1], 99).as_millis(), 1);
    }
}
