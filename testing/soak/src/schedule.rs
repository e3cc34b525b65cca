//! The schedule of disturbances, which follows from a seed.
//!
//! Must not be in here: how.

use std::time::Duration;

use adversary::Random;

use crate::windows::Kind;

/// A disturbance: when it begins after the start, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
}

/// Disturbances of the proxy's process, which follow each other.
const OF_PROCESS: [Kind; 4] = [Kind::Pause, Kind::Clock, Kind::Descriptors, Kind::Memory];
/// Disturbances of what it depends on, which overlap those.
const OF_OTHERS: [Kind; 5] = [Kind::Api, Kind::Auth, Kind::Redis, Kind::Names, Kind::Disk];

/// Lives of the process in a run: kills and restarts are between them. Long enough to see a slope.
const LIFE: Duration = Duration::from_mins(80);
const LIVES_MIN: u32 = 3;
/// A run of this time at least shows slopes: if it is too short for several lives that do, its first lives
/// are short, and the last one has the rest.
const SHOWS_SLOPES: Duration = Duration::from_hours(1);
/// The share of a run that such a short life has.
const SHORT_LIFE: f64 = 0.05;
/// The part of a life before slopes are looked for, and the most that it is.
const WARM_UP: f64 = 0.45;
const WARM_UP_MAX: Duration = Duration::from_mins(30);
/// Time at the start and at the end in which nothing is disturbed.
const CALM: Duration = Duration::from_secs(4);

/// Two lists, whose disturbances may overlap: those of the process, and those of others.
pub(crate) fn of(seed: u64, time: Duration) -> [Vec<Entry>; 2] {
    let mut random = Random::of_case(seed, "schedule", 0);
    // Eight in a minute, and one every two minutes in a run of eight hours.
    let gap = (time / 240).clamp(Duration::from_secs(6), Duration::from_mins(2));
    let of_process = merged(lives(&mut random, time), rounds(&mut random, &OF_PROCESS, gap, time));
    [of_process, rounds(&mut random, &OF_OTHERS, gap, time)]
}

/// The part of each life before slopes are looked for.
pub(crate) fn warm_up(time: Duration) -> Duration {
    let mut ends = ends_of_lives(time);
    ends.push(time);
    let begins = [Duration::ZERO].into_iter().chain(ends.iter().copied());
    let longest = begins.zip(&ends).map(|(begin, end)| end.saturating_sub(begin)).max().unwrap_or(time);
    longest.mul_f64(WARM_UP).min(WARM_UP_MAX)
}

/// Whether a run of this time is long enough for slopes.
pub(crate) fn shows_slopes(time: Duration) -> bool {
    time >= SHOWS_SLOPES
}

/// When a life of the process ends and the next one begins.
fn ends_of_lives(time: Duration) -> Vec<Duration> {
    let count = time.as_secs() / LIFE.as_secs();
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(LIVES_MIN);
    let is_uneven = shows_slopes(time) && time / count < LIFE;
    let life = if is_uneven { time.mul_f64(SHORT_LIFE) } else { time / count };
    (1..count).map(|number| life * number).collect()
}

/// Restarts and kills by turns, between lives.
fn lives(random: &mut Random, time: Duration) -> Vec<Entry> {
    let kill_first = random.once_in(2);
    let entry = |(number, at): (usize, Duration)| {
        let kind = if number.is_multiple_of(2) == kill_first { Kind::Kill } else { Kind::Restart };
        Entry { kind, at, lasts: Duration::ZERO }
    };
    ends_of_lives(time).into_iter().enumerate().map(entry).collect()
}

/// Rounds in which each kind comes once, in an order of chance.
fn rounds(random: &mut Random, kinds: &[Kind], gap: Duration, time: Duration) -> Vec<Entry> {
    let (mut entries, mut at) = (Vec::new(), CALM);
    loop {
        let mut left = kinds.to_vec();
        while !left.is_empty() {
            let kind = left.swap_remove(random.below(left.len()));
            let lasts = lasting(random, kind, gap);
            if at + lasts + CALM > time {
                return entries;
            }
            entries.push(Entry { kind, at, lasts });
            at += lasts + gap.mul_f64(0.25 + random.below(100) as f64 / 200.0);
        }
    }
}

/// The length of a disturbance: some seconds, and half a minute where runs are long.
fn lasting(random: &mut Random, kind: Kind, gap: Duration) -> Duration {
    let most = match kind {
        Kind::Pause => Duration::from_secs(3),
        Kind::Descriptors => Duration::from_secs(4),
        _ => gap.div_f64(2.0).clamp(Duration::from_secs(3), Duration::from_secs(30)),
    };
    most.mul_f64(0.5 + random.below(100) as f64 / 200.0)
}

fn merged(one: Vec<Entry>, other: Vec<Entry>) -> Vec<Entry> {
    let mut all = [one, other].concat();
    all.sort_by_key(|entry| entry.at);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_has_one_schedule_and_a_minute_has_every_kind() {
        let minute = Duration::from_mins(1);
        assert_eq!(of(7, minute), of(7, minute));
        assert_ne!(of(7, minute), of(8, minute));
        for seed in 0..50 {
            let kinds: BTreeSet<Kind> = of(seed, minute).iter().flatten().map(|entry| entry.kind).collect();
            assert_eq!(kinds.len(), OF_PROCESS.len() + OF_OTHERS.len() + 2, "seed {seed}: {kinds:?}");
        }
    }

    #[test]
    fn a_run_of_an_hour_has_one_life_that_shows_a_slope() {
        let minutes = |time: u64| {
            let ends = ends_of_lives(Duration::from_mins(time));
            ends.iter().map(|end| end.as_secs_f64() / 60.0).collect::<Vec<_>>()
        };
        assert_eq!(minutes(80), [4.0, 8.0]);
        assert_eq!(warm_up(Duration::from_mins(80)), Duration::from_mins(30));
        assert_eq!((minutes(30), minutes(240)), (vec![10.0, 20.0], vec![80.0, 160.0]));
        assert_eq!([30, 60].map(|time| shows_slopes(Duration::from_mins(time))), [false, true]);
        assert_eq!(warm_up(Duration::from_mins(1)), Duration::from_secs(9));
    }

    #[test]
    fn a_night_has_six_lives() {
        let [of_process, others] = of(1, Duration::from_hours(8));
        let ends = |kind| of_process.iter().filter(|entry| entry.kind == kind).count();
        assert_eq!(ends(Kind::Kill) + ends(Kind::Restart), 5);
        assert_eq!(warm_up(Duration::from_hours(8)), Duration::from_mins(30));
        assert!(others.len() > 200 && others.iter().all(|entry| entry.lasts <= Duration::from_secs(30)));
    }
}
