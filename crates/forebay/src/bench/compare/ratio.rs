//! Compares two ways: the ratio of each figure, and its spread over the rounds.
//!
//! Must not be in here: measuring, and the meaning of a ratio.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bench::measure::Measurement;

/// A figure of a measurement.
pub(crate) struct Measure {
    /// Its name in JSON.
    pub(crate) key: &'static str,
    /// Its name in text.
    pub(crate) label: &'static str,
    /// The figure; `None` if the measurement does not have it.
    pub(crate) of: fn(&Measurement) -> Option<f64>,
}

/// The figures that are compared: first rates, then times in microseconds.
pub(crate) const MEASURES: &[Measure] = &[
    Measure { key: "rate", label: "requests/s", of: |m| Some(m.rate) },
    Measure { key: "latency_p50", label: "latency p50", of: |m| Some(m.latency_us.p50) },
    Measure { key: "latency_p90", label: "latency p90", of: |m| Some(m.latency_us.p90) },
    Measure { key: "latency_p99", label: "latency p99", of: |m| Some(m.latency_us.p99) },
    Measure { key: "latency_p999", label: "latency p99.9", of: |m| Some(m.latency_us.p999) },
    Measure { key: "latency_max", label: "latency max", of: |m| Some(m.latency_us.max) },
    Measure { key: "connect", label: "connect", of: |m| m.phases_us.connect },
    Measure { key: "tls", label: "TLS", of: |m| m.phases_us.tls },
    Measure { key: "first_byte", label: "first byte", of: |m| m.phases_us.first_byte },
    Measure { key: "body", label: "body", of: |m| m.phases_us.body },
];

/// Share of failed requests above which figures are not compared: a proxy that refuses at once is quick.
const FAILED_MAX: f64 = 0.01;

/// The share of a way's requests that failed, where it is too great to compare its figures.
pub(super) fn failing_share(way: &Measurement) -> Option<f64> {
    let failed: u64 = way.errors.values().sum();
    let share = failed as f64 / way.requests.max(failed).max(1) as f64;
    (share > FAILED_MAX).then_some(share)
}

/// The figures of one way divided by those of the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    #[serde(rename = "ratio")]
    /// For all rounds together, by [`Measure::key`]; only figures that both ways have and whose divisor is
    /// not 0.
    pub(crate) all: BTreeMap<&'static str, f64>,
    /// For single pairs of rounds, the least and the greatest.
    pub(crate) spread: BTreeMap<&'static str, Spread>,
}

/// The least and the greatest of several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Ratios {
    /// The ratios of `via` to `direct`, of which there are none where too many requests of either failed;
    /// `pairs` are the rounds of which these are the sums.
    pub(crate) fn of(direct: &Measurement, via: &Measurement, pairs: &[[Measurement; 2]]) -> Ratios {
        let mut ratios = Ratios::default();
        if [direct, via].iter().any(|way| failing_share(way).is_some()) {
            return ratios;
        }
        for measure in MEASURES {
            if let Some(value) = ratio(measure, direct, via) {
                ratios.all.insert(measure.key, value);
            }
            let of_rounds = pairs.iter().filter_map(|[direct, via]| ratio(measure, direct, via));
            if let Some(spread) = spread(of_rounds) {
                ratios.spread.insert(measure.key, spread);
            }
        }
        ratios
    }
}

fn ratio(measure: &Measure, direct: &Measurement, via: &Measurement) -> Option<f64> {
    let (direct, via) = ((measure.of)(direct)?, (measure.of)(via)?);
    (direct > 0.0).then(|| via / direct)
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let one = |value| Spread { min: value, max: value };
    values.map(one).reduce(|all, next| Spread { min: all.min.min(next.min), max: all.max.max(next.max) })
}

#[cfg(test)]
mod tests {
    use crate::bench::compare::fixture::measurement;

    use super::*;

    #[test]
    fn ratios_are_of_all_rounds_and_their_spread_is_of_each() {
        let pairs = [
            [measurement(100.0, 10.0, None), measurement(40.0, 20.0, Some(3.0))],
            [measurement(100.0, 10.0, None), measurement(60.0, 15.0, Some(3.0))],
        ];
        let (direct, via) = (measurement(100.0, 10.0, None), measurement(50.0, 17.0, Some(3.0)));
        let ratios = Ratios::of(&direct, &via, &pairs);
        assert_eq!(ratios.all, BTreeMap::from([("rate", 0.5), ("latency_p50", 1.7)]));
        assert_eq!(ratios.spread["rate"], Spread { min: 0.4, max: 0.6 });
        assert_eq!(ratios.spread["latency_p50"], Spread { min: 1.5, max: 2.0 });
        assert!(!ratios.spread.contains_key("connect"), "there is no connect on one side");
    }

    #[test]
    fn a_way_that_fails_is_not_compared() {
        let direct = measurement(100.0, 10.0, None);
        let errors = [("status_503".to_owned(), 40), ("connect".to_owned(), 2), ("timeout".to_owned(), 8)];
        let mut via = Measurement { requests: 1000, errors: errors.into(), ..measurement(900.0, 1.0, None) };
        assert_eq!(failing_share(&via), Some(0.05));
        let pairs = [[direct.clone(), via.clone()]];
        assert_eq!(Ratios::of(&direct, &via, &pairs), Ratios::default());
        via.requests = 100_000;
        assert_eq!(failing_share(&via), None);
        assert!(!Ratios::of(&direct, &via, &pairs).all.is_empty());
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let ratios = Ratios::of(&measurement(0.0, 0.0, None), &measurement(1.0, 1.0, None), &[]);
        assert_eq!(ratios, Ratios::default());
    }
}
