//! A start with a full cache on disk.
//!
//! Must not be in here: goals, and how a cache is configured.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::generator::{Expect, Pace, Plan, Status};

use super::{Bench, Stage};
use crate::ask::Question;
use crate::peers::feature::{Case, Feature, HOST};
use crate::peers::figures::{Figure, Figures};
use crate::peers::proxy::{Peer, Setup};

/// Of the cache, in mebibytes: the disk is what counts.
const MEMORY_MIB: u32 = 256;
const PATH: &str = "/bytes/{}";
/// Objects that fill the disk.
const LARGE_BYTES: u64 = 8_000_000;
/// Not all is written where the disk is slower than the load; more is asked for then.
const ROUNDS_MAX: u64 = 8;
const FULL_SHARE: f64 = 0.9;
/// Small objects that are asked for after the start, one after the other until one is found on disk.
const PROBES: u64 = 1000;
const PROBE_BYTES: u64 = 1000;
const LONG: Duration = Duration::from_mins(2);
const WRITTEN_LIMIT: Duration = Duration::from_secs(30);
const FOUND_LIMIT: Duration = Duration::from_secs(30);

const BYTES: &str = "forebay_cache_disk_bytes";
const DROPPED: &str = "forebay_cache_disk_dropped_total";
const HITS: &str = "forebay_cache_disk_hits_total";
const WRITES: &str = "forebay_cache_disk_writes_total";

impl Bench<'_> {
    /// Fills the disk, starts anew, and sees when it serves and when something is found.
    pub(super) fn cache_restart(&self, peer: Peer) -> Result<Figures> {
        let folder = self.folder.join("kept");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let feature = Feature::named("cache").with("memory_mib", MEMORY_MIB);
        let feature = feature.with("folder", folder.display().to_string()).with("disk_gib", self.disk_gib);
        let case = feature.case(PATH)?;
        let setup = || Setup { feature: case.clone(), ..self.setup() };
        let stage = self.start(peer, setup())?;
        let bytes = self.fill_disk(&case, &stage)?;
        let Stage { running, backends, .. } = stage;
        drop(running);
        let begun = Instant::now();
        let stage = self.start_with(peer, setup(), backends)?;
        probe(stage.target(), "0/first")?;
        let ready = begun.elapsed();
        let found = self.find_one(&stage, begun)?;
        drop(stage);
        fs::remove_dir_all(&folder)?;
        Ok(Figures::from([
            (Figure::ReadyMillis, ready.as_secs_f64() * 1000.0),
            (Figure::DiskHitMillis, found.as_secs_f64() * 1000.0),
            (Figure::DiskGib, bytes / f64::from(1 << 30)),
        ]))
    }

    /// Asks for objects until the disk is full. Returns the bytes on disk.
    fn fill_disk(&self, case: &Case, stage: &Stage) -> Result<f64> {
        let all = u64::from(self.disk_gib) << 30;
        let count = all / LARGE_BYTES;
        let plan = Plan {
            pace: Pace::Closed,
            duration: LONG,
            patience: LONG,
            headers: case.headers.clone().into_iter().collect(),
            expect: Expect { status: Status::Is(200), body_bytes: None },
            ..self.plan(stage.target(), PATH, 0)
        };
        let ask = |names: Vec<String>| -> Result<f64> {
            let settled = stage.metric(WRITES)? + stage.metric(DROPPED)? + names.len() as f64;
            self.generate(&Plan {
                requests: Some(names.len() as u64),
                variants: names.into(),
                ..plan.clone()
            })?;
            let is_written = || Ok((stage.metric(WRITES)? + stage.metric(DROPPED)? >= settled).then_some(()));
            self.interrupt.poll(WRITTEN_LIMIT, is_written)?.context("what was asked for is not written")?;
            stage.metric(BYTES)
        };
        for round in 0..ROUNDS_MAX {
            let bytes = ask((0..count).map(|number| format!("{LARGE_BYTES}/{round}-{number}")).collect())?;
            if bytes >= all as f64 * FULL_SHARE {
                return ask((0..PROBES).map(probe_name).collect());
            }
        }
        bail!("the disk is too slow to be filled");
    }

    fn find_one(&self, stage: &Stage, begun: Instant) -> Result<Duration> {
        // An object that has been asked for once is in memory, so that each request is for another one.
        for number in 0..PROBES {
            self.interrupt.check()?;
            ensure!(begun.elapsed() < FOUND_LIMIT, "nothing is found on disk");
            probe(stage.target(), &probe_name(number))?;
            if stage.metric(HITS)? > 0.0 {
                return Ok(begun.elapsed());
            }
        }
        bail!("nothing of {PROBES} objects is found on disk")
    }
}

fn probe_name(number: u64) -> String {
    format!("{PROBE_BYTES}/probe-{number}")
}

fn probe(target: SocketAddr, name: &str) -> Result<()> {
    let path = format!("/bytes/{name}");
    let headers = &[("X-Forwarded-Port", "80")];
    let answer = Question { host: HOST, path: &path, headers, ..Question::default() }.ask(target)?;
    ensure!(answer.status == 200, "{path}: status {}", answer.status);
    Ok(())
}
