//! Slopes of measured series: the median of the slopes of all pairs (Theil, 1950; Sen, 1968), with the
//! interval in which the slope is with 99 % of confidence, and the verdict whether a series grows.
//!
//! Pairs are of samples of one process, since a new one begins anew; the variances of processes are added
//! (the seasonal Kendall test of Hirsch, Slack and Smith, 1982). Samples that follow each other resemble each
//! other, which the interval does not know: so it is one of several conditions (`Slope::grows`). Must not be
//! in here: what is measured.

use serde_json::{Value, json};

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Seconds since the start.
    pub(crate) at: f64,
    /// The measured value.
    pub(crate) value: f64,
}

/// A slope, in units of an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// The estimate, in units an hour.
    pub(crate) an_hour: f64,
    /// The lower end of the interval.
    pub(crate) low: f64,
    /// The upper end of the interval.
    pub(crate) high: f64,
    /// The growth from the first third of each life to the second one, and from there to the third.
    pub(crate) thirds: [f64; 2],
    /// The median of the values.
    pub(crate) median: f64,
    /// The standard deviation of the values about their lines, estimated from the median deviation, which
    /// single outliers do not move.
    pub(crate) noise: f64,
    /// The number of samples.
    pub(crate) samples: usize,
    /// Hours from the first sample of a process to its last one, of the longest process.
    pub(crate) hours: f64,
}

/// Quantile of the normal distribution for 99 % on both sides together.
const QUANTILE: f64 = 2.576;
/// The fewest values of one process that say something.
const VALUES_MIN: usize = 20;
/// Hours of a life below which a growth is that of buffers and caches that fill.
const HOURS_MIN: f64 = 1.0 / 3.0;
/// The most values of one process that are compared: each is the median of the samples of one part of it.
const PARTS: usize = 60;
/// Standard deviations about the line below which a growth is noise.
const NOISES: f64 = 2.0;
/// The share of the growth from the first to the last third that both steps between thirds must have. What
/// fills has grown most at first, and what rises by one step only once.
const THIRDS_MIN: f64 = 0.3;
/// Standard deviations in a median deviation of the normal distribution.
const DEVIATIONS: f64 = 1.4826;

impl Slope {
    /// The slope of a series, which consists of the samples of several processes. None where there are too
    /// few.
    pub(crate) fn of(lives: &[Vec<Point>]) -> Option<Slope> {
        let lives: Vec<Vec<Point>> = lives.iter().map(|life| parts(life)).collect();
        let lives: Vec<Vec<Point>> = lives.into_iter().filter(|life| life.len() >= VALUES_MIN).collect();
        let [low, estimate, high] = estimates(&lives)?;
        let mut values: Vec<f64> = lives.iter().flatten().map(|point| point.value).collect();
        let span = |life: &Vec<Point>| (life[life.len() - 1].at - life[0].at) / 3600.0;
        Some(Slope {
            an_hour: estimate * 3600.0,
            low: low * 3600.0,
            high: high * 3600.0,
            thirds: growth_of_thirds(&lives),
            median: median(&mut values),
            noise: noise(&lives, estimate),
            samples: values.len(),
            hours: lives.iter().map(span).fold(0.0, f64::max),
        })
    }

    /// Whether the series grows. It does if its slope is above zero for certain; if the growth over the
    /// longest life is more than this share of the median, and more than the noise; and if it goes on from
    /// the first third to the last. Lives of less than twenty minutes say nothing about that.
    pub(crate) fn grows(&self, share: f64) -> bool {
        let growth = self.an_hour * self.hours;
        let [first, second] = self.thirds;
        self.hours >= HOURS_MIN
            && self.low > 0.0
            && growth > share * self.median.abs()
            && growth > NOISES * self.noise
            && first.min(second) > THIRDS_MIN * (first + second)
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "an_hour": self.an_hour, "low": self.low, "high": self.high, "thirds": self.thirds,
            "median": self.median, "noise": self.noise, "samples": self.samples, "hours": self.hours,
        })
    }
}

/// The slopes of all pairs in one: lower end, median and upper end, in units a second.
fn estimates(lives: &[Vec<Point>]) -> Option<[f64; 3]> {
    let mut slopes = Vec::new();
    let mut variance = 0.0;
    for life in lives {
        let count = life.len() as f64;
        variance += count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
        for (number, first) in life.iter().enumerate() {
            let later = life[number + 1..].iter().filter(|second| second.at > first.at);
            slopes.extend(later.map(|second| (second.value - first.value) / (second.at - first.at)));
        }
    }
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    #[expect(clippy::cast_sign_loss, reason = "a root is not negative")]
    let reach = (QUANTILE * variance.sqrt() / 2.0) as usize;
    let at = |place: usize| slopes[place.min(slopes.len() - 1)];
    Some([at(middle.saturating_sub(reach)), at(middle), at(middle + reach)])
}

/// The growth of the medians from third to third, summed over the lives.
fn growth_of_thirds(lives: &[Vec<Point>]) -> [f64; 2] {
    let mut growth = [0.0; 2];
    for life in lives {
        let third = |number: usize| {
            let part = &life[life.len() * number / 3..life.len() * (number + 1) / 3];
            median(&mut part.iter().map(|point| point.value).collect::<Vec<_>>())
        };
        growth[0] += third(1) - third(0);
        growth[1] += third(2) - third(1);
    }
    growth
}

/// The deviation of the values from lines of this slope, one through each life.
fn noise(lives: &[Vec<Point>], slope: f64) -> f64 {
    let mut deviations = Vec::new();
    for life in lives {
        let levels: Vec<f64> = life.iter().map(|point| point.value - slope * point.at).collect();
        let level = median(&mut levels.clone());
        deviations.extend(levels.iter().map(|value| (value - level).abs()));
    }
    median(&mut deviations) * DEVIATIONS
}

/// The median. There must be a value.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The medians of parts of equal length, so that one sample that is off counts for nothing.
fn parts(life: &[Point]) -> Vec<Point> {
    let step = life.len().div_ceil(PARTS).max(1);
    let part = |points: &[Point]| {
        let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
        Point { at: points[points.len() / 2].at, value: median(&mut values) }
    };
    life.chunks(step).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time between two samples of a run of 75 minutes, and their number after its first half hour.
    const INTERVAL: f64 = 4.7;
    const COUNT: u64 = 470;
    const SEEDS: std::ops::Range<u64> = 0..100;
    /// The median of the series, as of memory in KiB.
    const LEVEL: f64 = 25_600.0;

    /// A number of chance between -1 and 1.
    fn chance(seed: u64, number: u64) -> f64 {
        (crate::content::mixed((seed << 32) | (number + 1)) % 2001) as f64 / 1000.0 - 1.0
    }

    /// A series that follows a course by the hour, with noise of which each value keeps a share of the one
    /// before.
    fn series(seed: u64, [noise, kept]: [f64; 2], course: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut off = 0.0;
        let point = |number: u64| {
            off = off * kept + chance(seed, number) * noise;
            let at = number as f64 * INTERVAL;
            Point { at, value: LEVEL + course(at / 3600.0) + off }
        };
        (0..COUNT).map(point).collect()
    }

    /// Of how many seeds the series is found to grow by more than 2 %.
    fn found(noise: [f64; 2], course: impl Fn(f64) -> f64) -> usize {
        let grows =
            |seed: &u64| Slope::of(&[series(*seed, noise, &course)]).is_some_and(|slope| slope.grows(0.02));
        SEEDS.filter(grows).count()
    }

    #[test]
    fn a_flat_series_does_not_grow_whatever_its_noise() {
        assert_eq!(found([0.0, 0.0], |_| 0.0), 0);
        assert_eq!(found([1000.0, 0.0], |_| 0.0), 0);
        assert_eq!(found([300.0, 0.8], |_| 0.0), 0);
        assert_eq!(found([100.0, 0.98], |_| 0.0), 0);
    }

    #[test]
    fn a_leak_of_a_mebibyte_an_hour_is_found() {
        assert_eq!(found([0.0, 0.0], |hours| hours * 1024.0), 100);
        assert_eq!(found([200.0, 0.0], |hours| hours * 1024.0), 100);
        assert_eq!(found([40.0, 0.8], |hours| hours * 1024.0), 100);
        // Allocators take memory by pieces.
        assert_eq!(found([100.0, 0.0], |hours| (hours * 16.0).floor() * 64.0), 100);
    }

    #[test]
    fn one_step_and_what_fills_do_not_grow() {
        for step_at in [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55] {
            let step = |hours: f64| if hours > step_at { 2048.0 } else { 0.0 };
            assert_eq!(found([100.0, 0.0], step), 0, "a step after {step_at} hours");
        }
        assert_eq!(found([100.0, 0.0], |hours| 2048.0 * (1.0 - (-hours * 8.0).exp())), 0);
        // A peak ends where it began.
        assert_eq!(found([100.0, 0.0], |hours| if (0.2..0.4).contains(&hours) { 5000.0 } else { 0.0 }), 0);
    }

    #[test]
    fn a_leak_is_measured_and_lives_are_not_compared_with_each_other() {
        let leak = |hours: f64| hours * 1024.0;
        let mut second = series(2, [50.0, 0.0], leak);
        for point in &mut second {
            point.at += 5000.0;
            point.value += 100_000.0;
        }
        let slope = Slope::of(&[series(1, [50.0, 0.0], leak), second]).expect("there are enough");
        assert!(slope.low > 900.0 && slope.high < 1150.0 && slope.noise < 50.0, "{slope:?}");
    }

    #[test]
    fn short_lives_say_nothing() {
        let leak = series(1, [0.0, 0.0], |hours| hours * 100_000.0);
        assert!(Slope::of(std::slice::from_ref(&leak)).is_some_and(|slope| slope.grows(0.02)));
        assert!(Slope::of(&[leak[..200].to_vec()]).is_some_and(|slope| !slope.grows(0.02)));
        assert_eq!(Slope::of(&[leak[..19].to_vec()]), None);
        assert_eq!(Slope::of(&[]), None);
    }
}
