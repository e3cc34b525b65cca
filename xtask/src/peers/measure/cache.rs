//! Responses that are kept: what a hit costs, and how many there are.
//!
//! Must not be in here: goals, and how a cache is configured.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::generator::{Expect, Outcome, Pace, Plan, Status};

use super::{Bench, KILOBYTE};
use crate::peers::feature::Feature;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::Peer;
use crate::peers::workload::Load;

/// Requests of each part for ten objects, which ask for more than a tenth of them, and Zipf's exponent.
const REQUESTS_FOR_TEN: usize = 3;
const EXPONENT: f64 = 0.9;
const OBJECT_BYTES_MIN: u64 = 1024;
const OBJECT_BYTES_MAX: u64 = 100 * 1024;
const CLIENTS_ZIPF: usize = 32;
/// After which no more is asked for: both parts end within a minute.
const FILL_MAX: Duration = Duration::from_secs(35);
const COUNT_MAX: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_mins(5);

impl Bench<'_> {
    /// Many clients ask for an object that nobody has yet.
    pub(super) fn cache_collapse(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let (stage, case) = self.start_for(peer, load, None)?;
        let plan = Plan {
            pace: Pace::Bursts { every: LONG },
            requests: Some(load.connections as u64),
            expect: Expect { status: Status::Is(200), body_bytes: None },
            ..self.plan_of(load, &case, &stage)?
        };
        // Connections that are there already, so that it is not their being made that is measured.
        let before = stage.backends[0].requests()?;
        let outcome = self.generate(&plan)?;
        let asked = stage.backends[0].requests()? - before - 1;
        let last = outcome.latency.percentile(100.0);
        Ok(Figures::from([
            (Figure::AskedBackend, asked as f64),
            (Figure::LastMillis, last.as_secs_f64() * 1000.0),
        ]))
    }

    /// Many objects, of which some are asked for much more often than others: first until the cache is full,
    /// then for the figures. Each part ends after some time in any case, so that a slow machine has figures
    /// too, of fewer requests; the LRU beside it is asked the same ones.
    pub(super) fn cache_zipf(&self, peer: Peer) -> Result<Figures> {
        let requests = self.zipf_objects * REQUESTS_FOR_TEN / 10;
        let (sizes, asked) = (sizes(self.zipf_objects), asked_for(self.zipf_objects, 2 * requests));
        let capacity = sizes.iter().sum::<u64>() / 10;
        let memory_mib = u32::try_from(capacity >> 20)?;
        let feature = Some(Feature::named("cache").with("memory_mib", memory_mib));
        let load = Load { connections: CLIENTS_ZIPF, path: "/bytes/{}".into(), feature, ..Load::default() };
        let (stage, case) = self.start_for(peer, &load, None)?;
        let program = stage.program()?;
        self.warm_up(&self.plan(stage.target(), "/1k", KILOBYTE))?;
        let resident = program.resident_bytes()?;
        let plan = Plan {
            pace: Pace::Closed,
            requests: Some(requests as u64),
            expect: Expect { status: Status::Is(200), body_bytes: None },
            ..self.plan_of(&load, &case, &stage)?
        };
        let ask = |asked: &[usize], duration| -> Result<(Outcome, u64)> {
            let variants = asked.iter().map(|object| format!("{}/{object}", sizes[*object])).collect();
            let before = stage.backends[0].requests()?;
            let outcome = self.generate(&Plan { variants, duration, ..plan.clone() })?;
            Ok((outcome, stage.backends[0].requests()? - before - 1))
        };
        let (filling, counted) = asked.split_at(requests);
        let filling = &filling[..usize::try_from(ask(filling, FILL_MAX)?.0.answered)?];
        let bytes = bytes_of(filling, &sizes);
        ensure!(
            bytes > capacity,
            "too slow to say: {bytes} bytes in {FILL_MAX:?} do not fill {capacity}; --zipf-objects takes fewer"
        );
        let (outcome, missed) = ask(counted, COUNT_MAX)?;
        let all = [filling, &counted[..usize::try_from(outcome.answered)?]].concat();
        let lru = lru_hits(&all, filling.len(), &sizes, u64::from(memory_mib) << 20);
        let percent = |hits: u64| 100.0 * hits as f64 / outcome.answered as f64;
        let grown = program.resident_bytes()?.saturating_sub(resident) as f64;
        let mut figures = figures::of_outcome(&outcome);
        figures.extend([
            (Figure::HitPercent, percent(outcome.answered.saturating_sub(missed))),
            (Figure::LruPercent, percent(lru)),
            (Figure::ResidentShare, grown / (f64::from(memory_mib) * f64::from(1 << 20))),
        ]);
        Ok(figures)
    }
}

/// The length of each object: evenly spread, and without relation to how often it is asked for.
fn sizes(objects: usize) -> Vec<u64> {
    let size = |object: usize| OBJECT_BYTES_MIN + mix(object as u64) % (OBJECT_BYTES_MAX - OBJECT_BYTES_MIN);
    (0..objects).map(size).collect()
}

/// The object of each request: the same in every run.
fn asked_for(objects: usize, requests: usize) -> Vec<usize> {
    let weights = (1..=objects).scan(0.0, |sum, rank| {
        *sum += (rank as f64).powf(-EXPONENT);
        Some(*sum)
    });
    let sums: Vec<f64> = weights.collect();
    let all = sums[objects - 1];
    let draw = |request: usize| sums.partition_point(|sum| *sum < uniform(request as u64) * all);
    (0..requests).map(|request| draw(request).min(objects - 1)).collect()
}

/// Evenly spread over 0 to 1, and other numbers than those of the lengths.
fn uniform(number: u64) -> f64 {
    (mix(!number) >> 11) as f64 / (1u64 << 53) as f64
}

/// The finalizer of `SplitMix64`.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Bytes of all objects among these, each once.
fn bytes_of(asked: &[usize], sizes: &[u64]) -> u64 {
    asked.iter().collect::<HashSet<_>>().into_iter().map(|object| sizes[*object]).sum()
}

/// The hits, from a request on, of a cache that drops what was used least recently, and counts nothing but
/// bodies.
fn lru_hits(asked: &[usize], from: usize, sizes: &[u64], capacity: u64) -> u64 {
    let (mut used, mut by_age) = (HashMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
    let (mut bytes, mut hits) = (0, 0);
    for (now, object) in asked.iter().enumerate() {
        match used.insert(*object, now) {
            Some(before) => {
                hits += u64::from(now >= from);
                by_age.remove(&before);
            }
            None => bytes += sizes[*object],
        }
        by_age.insert(now, *object);
        while bytes > capacity {
            let (_, oldest) = by_age.pop_first().expect("what takes room is in the list");
            used.remove(&oldest);
            bytes -= sizes[oldest];
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let hits = |asked: &[usize]| lru_hits(asked, 0, &[1, 1, 1], 2);
        assert_eq!(hits(&[0, 1, 0, 2, 0]), 2);
        assert_eq!(lru_hits(&[0, 1, 0, 2, 0], 3, &[1, 1, 1], 2), 1);
        assert_eq!(hits(&[0, 1, 2, 0]), 0);
    }

    #[test]
    fn a_few_objects_are_asked_for_often() {
        let asked = asked_for(100_000, 200_000);
        let of = |object| asked.iter().filter(|one| **one == object).count();
        assert!(of(0) > 10 * of(20) && of(20) > 0, "{} {}", of(0), of(20));
        assert!(sizes(1_000).iter().all(|size| (OBJECT_BYTES_MIN..=OBJECT_BYTES_MAX).contains(size)));
    }
}
