//! Slopes of measured series: the median of the slopes of all pairs (Theil, 1950; Sen, 1968), with the
//! interval in which the slope is with 99 % of confidence.
//!
//! Pairs are of samples of one process, since a new one begins anew; the variances of processes are added
//! (the seasonal Kendall test of Hirsch, Slack and Smith, 1982). Must not be in here: what is measured.

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
    /// The median of the values.
    pub(crate) median: f64,
    /// The number of samples.
    pub(crate) samples: usize,
    /// Hours from the first sample of a process to its last one, of the longest process.
    pub(crate) hours: f64,
}

/// Quantile of the normal distribution for 99 % on both sides together.
const QUANTILE: f64 = 2.576;
/// The fewest samples of one process that say something.
const SAMPLES_MIN: usize = 20;
/// Hours of a life below which a growth is that of buffers and caches that fill.
const HOURS_MIN: f64 = 0.25;
/// The most samples of one process that are used: pairs are as many as their square.
const SAMPLES_MAX: usize = 600;

impl Slope {
    /// The slope of a series, which consists of the samples of several processes. None where there are too
    /// few.
    pub(crate) fn of(lives: &[Vec<Point>]) -> Option<Slope> {
        let lives: Vec<Vec<Point>> =
            lives.iter().filter(|life| life.len() >= SAMPLES_MIN).map(|life| thinned(life)).collect();
        let mut slopes = Vec::new();
        let mut variance = 0.0;
        for life in &lives {
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
        let mut values: Vec<f64> = lives.iter().flatten().map(|point| point.value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = slopes.len() / 2;
        #[expect(clippy::cast_sign_loss, reason = "a root is not negative")]
        let reach = (QUANTILE * variance.sqrt() / 2.0) as usize;
        let at = |place: usize| slopes[place.min(slopes.len() - 1)] * 3600.0;
        let span = |life: &Vec<Point>| (life[life.len() - 1].at - life[0].at) / 3600.0;
        Some(Slope {
            an_hour: at(middle),
            low: at(middle.saturating_sub(reach)),
            high: at(middle + reach),
            median: values[values.len() / 2],
            samples: values.len(),
            hours: lives.iter().map(span).fold(0.0, f64::max),
        })
    }

    /// Whether the series grows for certain, and by more than this share of its median while the longest
    /// process lived: a growth by less is no news for anybody. Short lives say nothing about that.
    pub(crate) fn grows(&self, share: f64) -> bool {
        self.hours >= HOURS_MIN && self.low > 0.0 && self.an_hour * self.hours > share * self.median.abs()
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "an_hour": self.an_hour, "low": self.low, "high": self.high, "median": self.median,
            "samples": self.samples, "hours": self.hours,
        })
    }
}

/// At most so many samples, evenly distributed.
fn thinned(life: &[Point]) -> Vec<Point> {
    let step = life.len().div_ceil(SAMPLES_MAX);
    life.iter().step_by(step).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series with a slope an hour, and noise that has none.
    fn series(count: u64, an_hour: f64, noise: f64) -> Vec<Point> {
        let point = |number: u64| {
            let off = (crate::content::mixed(number + 1) % 1000) as f64 / 1000.0 - 0.5;
            let at = number as f64 * 10.0;
            Point { at, value: 100.0 + an_hour * at / 3600.0 + off * noise }
        };
        (0..count).map(point).collect()
    }

    #[test]
    fn a_leak_is_found_and_noise_is_none() {
        let leak = Slope::of(&[series(200, 60.0, 20.0)]).expect("there are enough");
        assert!(leak.low > 40.0 && leak.high < 80.0 && leak.grows(0.05), "{leak:?}");
        let noise = Slope::of(&[series(200, 0.0, 20.0)]).expect("there are enough");
        assert!(noise.low < 0.0 && noise.high > 0.0 && !noise.grows(0.0), "{noise:?}");
        let little = Slope::of(&[series(200, 2.0, 0.1)]).expect("there are enough");
        let short = Slope::of(&[series(50, 60.0, 0.0)]).expect("there are enough");
        assert!(short.low > 0.0 && !short.grows(0.0), "{short:?}");
        assert!(little.low > 0.0 && little.grows(0.001) && !little.grows(0.05), "{little:?}");
    }

    #[test]
    fn a_step_between_two_processes_is_no_slope() {
        let mut second = series(100, 0.0, 10.0);
        for point in &mut second {
            point.at += 5000.0;
            point.value += 1000.0;
        }
        let slope = Slope::of(&[series(100, 0.0, 10.0), second]).expect("there are enough");
        assert!(!slope.grows(0.0), "{slope:?}");
        assert_eq!(Slope::of(&[series(5, 60.0, 0.0)]), None);
    }
}
