//! Differences between two times: checks, and the figures that changed most.
//!
//! Must not be in here: printing.

use serde::Serialize;

use super::course::{Episode, Judged};
use super::figures::{Figures, Kind, Spread};
use crate::finding::{Finding, Verdict};
use crate::table::all;

/// Deviations by which a figure has to differ, so that the difference is none of those that it has anyway.
const DEVIATIONS: f64 = 3.0;

/// A figure that became less than this many times itself, or that part of itself, has not changed.
const TIMES_MIN: f64 = 1.25;

/// The share of the greater value that counts as none: something that was not there before has changed a
/// hundredfold.
const NOTHING: f64 = 0.01;

/// Rates a second, numbers of things and other gauges below which a difference says little.
const LEAST_RATE: f64 = 0.1;
const LEAST_NUMBER: f64 = 1.0;
const LEAST_GAUGE: f64 = 0.01;

/// The weight of a change of the peaks beside a change of the median.
const PEAK_WEIGHT: f64 = 0.8;

/// The differences between two times.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Checks that found something at one time only, or something worse.
    pub checks: Vec<CheckChange>,
    /// Figures that changed, the one that changed most first.
    pub figures: Vec<Change>,
}

/// A check whose findings differ.
#[derive(Clone, Debug, Serialize)]
pub struct CheckChange {
    /// The check's name.
    pub id: &'static str,
    /// Its finding at the first time.
    pub a: Held,
    /// Its finding at the second time.
    pub b: Held,
}

/// The finding of a check over a time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Held {
    /// The worst finding; none where there was none.
    pub worst: Option<Finding>,
    /// The share of the windows in which it was found.
    pub share: f64,
}

/// A figure that changed.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The figure's name.
    pub name: String,
    /// Whether its values are rates a second.
    pub kind: Kind,
    /// Its values at the first time.
    pub a: Spread,
    /// Its values at the second time.
    pub b: Spread,
    /// The rank: the logarithm of how many times as much it became, less where it varies much
    /// anyway.
    pub score: f64,
}

/// A time that is compared with another one.
#[derive(Clone, Copy)]
pub struct Time<'a> {
    /// The judgement of its samples.
    pub judged: &'a Judged,
    /// The figures of its samples.
    pub figures: &'a Figures,
}

/// Compares two times.
pub fn compare(a: Time<'_>, b: Time<'_>) -> Comparison {
    let held = all().map(|check| CheckChange {
        id: check.id,
        a: held(a.judged, check.id),
        b: held(b.judged, check.id),
    });
    let checks = held.filter(|change| change.a.level() != change.b.level()).collect();
    let names =
        a.figures.names().chain(b.figures.names().filter(|(name, _)| a.figures.spread(name).is_none()));
    let mut figures: Vec<Change> =
        names.filter_map(|(name, kind)| change(name, kind, a.figures, b.figures)).collect();
    figures.sort_by(|one, other| other.score.total_cmp(&one.score));
    Comparison { checks, figures }
}

fn held(judged: &Judged, id: &str) -> Held {
    let of: Vec<&Episode> = judged.episodes.iter().filter(|episode| episode.id == id).collect();
    let worst = of.iter().max_by_key(|episode| episode.worst.verdict).map(|episode| episode.worst.clone());
    let windows: u64 = of.iter().map(|episode| episode.windows).sum();
    Held { worst, share: windows as f64 / judged.windows.max(1) as f64 }
}

impl Held {
    fn level(&self) -> Verdict {
        self.worst.as_ref().map_or(Verdict::Ok, |finding| finding.verdict)
    }
}

/// The change of a figure; none where it is within what the figure does anyway. A figure that one time does
/// not have was 0.
fn change(name: &str, kind: Kind, a: &Figures, b: &Figures) -> Option<Change> {
    let (a, b) = (a.spread(name).unwrap_or_default(), b.spread(name).unwrap_or_default());
    let deviation = f64::midpoint(a.deviation, b.deviation);
    let usual = score(kind, a.median, b.median, deviation);
    let peak = score(kind, a.high, b.high, deviation);
    let score = match (usual, peak) {
        (None, None) => return None,
        (usual, peak) => usual.unwrap_or(0.0).max(PEAK_WEIGHT * peak.unwrap_or(0.0)),
    };
    Some(Change { name: name.to_owned(), kind, a, b, score })
}

fn score(kind: Kind, a: f64, b: f64, deviation: f64) -> Option<f64> {
    let (distance, greater) = ((b - a).abs(), a.abs().max(b.abs()));
    if distance <= DEVIATIONS * deviation || greater <= 0.0 {
        return None;
    }
    let least = (NOTHING * greater).max(match kind {
        Kind::Rate => LEAST_RATE,
        Kind::Gauge if a.fract() == 0.0 && b.fract() == 0.0 => LEAST_NUMBER,
        Kind::Gauge => LEAST_GAUGE,
    });
    let times = (b.abs() + least) / (a.abs() + least);
    let times = times.max(1.0 / times);
    let certainty = distance / (distance + DEVIATIONS * deviation);
    (times >= TIMES_MIN).then(|| times.ln() * certainty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past::Judge;
    use crate::sample::Sample;

    struct Side {
        judged: Judged,
        figures: Figures,
    }

    impl Side {
        fn time(&self) -> Time<'_> {
            Time { judged: &self.judged, figures: &self.figures }
        }
    }

    /// Ten minutes of samples: requests, the connections that were opened for them, and a figure that varies.
    fn side(requests: u64, opened: u64) -> Side {
        let (mut judge, mut figures) = (Judge::default(), Figures::default());
        let mut before: Option<Sample> = None;
        for tick in 0..60_u64 {
            let mut sample = Sample::default();
            sample.taken.seconds = tick as f64 * 10.0;
            let noise = 50 * tick + (tick * 7919) % 97;
            let page = format!(
                "forebay_upstream_connections_opened_total{{endpoint=\"10.0.0.1:80\"}} {}\n\
                 forebay_upstream_requests_total{{endpoint=\"10.0.0.1:80\"}} {}\nnoise_total {noise}\n",
                opened * 10 * tick,
                requests * 10 * tick,
            );
            sample.put("forebay/metrics", Ok(page));
            if let Some(before) = before.replace(sample.clone()) {
                figures.add(&before, &sample);
            }
            judge.add(tick * 10_000, sample);
        }
        Side { judged: judge.finish(), figures }
    }

    #[test]
    fn what_changed_most_is_first_and_noise_is_not_there() {
        let (a, b) = (side(100, 0), side(150, 150));
        let compared = compare(a.time(), b.time());
        let [check] = &compared.checks[..] else { panic!("{:?}", compared.checks) };
        assert_eq!(
            (check.id, check.a.level(), check.b.level()),
            ("upstream-reuse", Verdict::Ok, Verdict::Failure)
        );
        assert!((check.b.share - 1.0).abs() < f64::EPSILON && check.a.worst.is_none());
        let names: Vec<_> = compared.figures.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["forebay_upstream_connections_opened_total", "forebay_upstream_requests_total"]);
        assert!(compared.figures[0].score > 2.0 * compared.figures[1].score);
        assert_eq!((compared.figures[1].a.median, compared.figures[1].b.median), (100.0, 150.0));
    }

    #[test]
    fn a_time_does_not_differ_from_itself() {
        let (a, b) = (side(100, 10), side(100, 10));
        let compared = compare(a.time(), b.time());
        assert!(compared.checks.is_empty() && compared.figures.is_empty(), "{compared:?}");
    }
}
