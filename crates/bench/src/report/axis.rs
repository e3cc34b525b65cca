//! Axes of plots: the position of a value, and the values with a label.
//!
//! Must not be in here: drawing.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::number::Unit;

/// The shares with a label on an axis of percentiles.
const PERCENTILES: [f64; 8] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];

/// Approximate number of labels on an axis.
const TICKS: f64 = 5.0;

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The title of the axis.
    pub label: String,
    /// The unit of the labels.
    pub unit: Unit,
    /// How values are placed.
    pub scale: Scale,
}

/// How values are placed on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In proportion to the value, from 0.
    Linear,
    /// Logarithmic; a value that is not positive is placed at the least positive one.
    Logarithmic,
    /// Logarithmic, with a label for each doubling.
    Doubling,
    /// Shares from 0 to below 1: from 90 % to 99 % is as far as from 99 % to 99.9 %, as in `HdrHistogram`'s
    /// plots.
    Percentile,
}

/// An axis with the range of its values.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    scale: Scale,
    unit: Unit,
    /// The values with a label, in ascending order.
    pub(super) ticks: Vec<f64>,
    /// The greatest value; the least is the first with a label.
    greatest: f64,
}

impl Axis {
    /// A linear axis that begins at 0.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, scale: Scale::Linear }
    }

    /// An axis for latencies in microseconds.
    pub fn latency() -> Axis {
        Axis { label: "latency".into(), unit: Unit::Microseconds, scale: Scale::Logarithmic }
    }

    /// An axis for the share of requests with at most some latency.
    pub fn percentile() -> Axis {
        Axis {
            label: "share of requests that were no slower".into(),
            unit: Unit::Share,
            scale: Scale::Percentile,
        }
    }

    /// The axis with a range that holds all of `values`.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64> + Clone) -> Fitted {
        let greatest = values.clone().fold(0.0, f64::max);
        let least = match self.scale {
            Scale::Linear | Scale::Percentile => 0.0,
            Scale::Logarithmic | Scale::Doubling => {
                let least = values.filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
                if least < f64::MAX { least } else { 1.0 }
            }
        };
        let ticks = match self.scale {
            Scale::Linear => linear(greatest),
            Scale::Logarithmic => logarithmic(least, greatest.max(least)),
            Scale::Doubling => doublings(least, greatest.max(least)),
            Scale::Percentile => percentiles(greatest),
        };
        let greatest = greatest.max(ticks[ticks.len() - 1]);
        Fitted { scale: self.scale, unit: self.unit, ticks, greatest }
    }
}

impl Fitted {
    /// The same axis, but ending at `greatest` if that is less than the last label.
    pub(super) fn tight(self, greatest: f64) -> Fitted {
        if self.scale != Scale::Linear || greatest <= 0.0 {
            return self;
        }
        let ticks = self.ticks.into_iter().filter(|value| *value <= greatest).collect();
        Fitted { ticks, greatest, ..self }
    }
}

impl Ranged for Fitted {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        let place = |value: f64| self.scale.place(value.clamp(start, end));
        let share = (place(*value) - place(start)) / (place(end) - place(start));
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Lines are drawn at labels only.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.ticks[0]..self.greatest
    }
}

impl ValueFormatter<f64> for Fitted {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        self.unit.show(*value)
    }
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
            Scale::Doubling => value.log2(),
            // A share of 1 would be infinitely far away, so that the seventh nine is the end.
            Scale::Percentile => -(1.0 - value).max(1e-7).log10(),
        }
    }
}

/// Labels from 0 to the first round value that is not below `greatest`.
fn linear(greatest: f64) -> Vec<f64> {
    if greatest <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = greatest / TICKS;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * magnitude);
    let all: Vec<f64> = (0..=10).map(|n| f64::from(n) * step).collect();
    let to = all.iter().position(|value| *value >= greatest * 0.999).unwrap_or(all.len() - 1);
    all[..=to].to_vec()
}

/// Labels from the last round value that is not above `least` to the first that is not below `greatest`.
fn logarithmic(least: f64, greatest: f64) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, greatest.log10().ceil() as i32);
    let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all: Vec<f64> = (first..=last)
        .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
        .collect();
    let from = all.iter().rposition(|value| *value <= least * 1.001).unwrap_or(0);
    let to = all.iter().position(|value| *value >= greatest * 0.999).unwrap_or(all.len() - 1);
    // An axis has at least two labels.
    if from < to { all[from..=to].to_vec() } else { vec![all[from], all[from] * 10.0] }
}

fn doublings(least: f64, greatest: f64) -> Vec<f64> {
    let (first, last) = (least.log2().floor() as i32, greatest.log2().ceil() as i32);
    (first..=last.max(first + 1)).map(|power| 2f64.powi(power)).collect()
}

fn percentiles(greatest: f64) -> Vec<f64> {
    let is_seen = |share: &&f64| **share <= 0.9 || **share <= greatest + 1e-9;
    PERCENTILES.iter().filter(is_seen).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let fitted = axis.fit(values.iter().copied());
        fitted.ticks.iter().map(|value| fitted.format_ext(value)).collect()
    }

    #[test]
    fn round_values_are_named() {
        let count = Axis::linear("", Unit::Count);
        assert_eq!(labels(&count, &[3.0, 24_234.0]), ["0", "5,000", "10k", "15k", "20k", "25k"]);
        assert_eq!(labels(&count, &[0.7]), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(&count, &[]), ["0", "1"]);
        assert_eq!(labels(&Axis::latency(), &[230.0, 4800.0]), ["200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]);
        assert_eq!(labels(&Axis::latency(), &[3.0, 900_000.0]).len(), 7);
        assert_eq!(labels(&Axis::latency(), &[]), ["1 µs", "10 µs"]);
        assert_eq!(labels(&Axis::percentile(), &[0.0, 0.9991]), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        let cpus = Axis { scale: Scale::Doubling, ..count };
        assert_eq!(labels(&cpus, &[1.0, 6.0]), ["1", "2", "4", "8"]);
    }

    #[test]
    fn every_value_has_a_place_on_its_axis() {
        for scale in [Scale::Linear, Scale::Logarithmic, Scale::Doubling, Scale::Percentile] {
            let fitted =
                Axis { label: String::new(), unit: Unit::Count, scale }.fit([0.1, 0.5, 0.99].into_iter());
            for value in [-1.0, 0.0, 0.1, 0.99, 1.0, 1e12] {
                let place = fitted.map(&value, (0, 1000));
                assert!((0..=1000).contains(&place), "{scale:?}: {value} at {place}");
            }
            assert!(fitted.map(&0.1, (0, 1000)) < fitted.map(&0.5, (0, 1000)), "{scale:?}");
        }
    }
}
