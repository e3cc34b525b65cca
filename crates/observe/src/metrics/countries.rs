//! Counts of requests by the client's country, where the settings ask for them.
//!
//! Must not be in here: locks or allocations while a request is recorded.

use std::sync::Arc;

use geo::{Country, NAMES};

use super::encode::{Page, labels, sum};
use super::local_counter::LocalCounter;
use super::lock;
use super::names;
use super::recorder::Recorder;
use super::registry::Registry;
use super::worker_cells::WorkerCells;

/// The label of addresses whose country no database knows.
const UNKNOWN: &str = "unknown";

/// The label of all codes that no country of our table has.
const OTHER: &str = "other";

/// A count for each code that two letters can make, and one for addresses without a country.
#[derive(Debug)]
pub(super) struct CountryCells(Box<[LocalCounter]>);

impl Default for CountryCells {
    fn default() -> Self {
        Self((0..=Country::CODES).map(|_| LocalCounter::default()).collect())
    }
}

impl CountryCells {
    fn of(&self, country: Option<Country>) -> &LocalCounter {
        &self.0[country.map_or(Country::CODES, Country::index)]
    }
}

impl Recorder {
    /// Counts a request by its client's country; none for an unknown one.
    #[cold]
    pub fn country(&self, country: Option<Country>) {
        self.cells.countries.of(country).inc();
    }
}

impl Registry {
    /// Requests by the client's country, the most first: those of countries in our table, of other codes, and
    /// of unknown countries. Countries without a request are left out.
    pub fn countries(&self) -> Vec<(&'static str, u64)> {
        Self::count_countries(&lock(&self.workers).clone())
    }

    fn count_countries(workers: &[Arc<WorkerCells>]) -> Vec<(&'static str, u64)> {
        let count = |country: Option<Country>| sum(workers, |worker| worker.countries.of(country));
        let is_known = |country: &Country| country.name().is_some();
        let known = NAMES.iter().map(|(code, _)| (*code, count(Country::of_code(code))));
        let rest = (0..Country::CODES).filter_map(Country::at).filter(|country| !is_known(country));
        let rest = (OTHER, rest.map(|country| count(Some(country))).sum());
        let mut all: Vec<_> =
            known.chain([rest, (UNKNOWN, count(None))]).filter(|(_, count)| *count > 0).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    pub(super) fn encode_countries(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::CLIENT_COUNTRIES);
        for (country, count) in Self::count_countries(workers) {
            page.sample(names::CLIENT_COUNTRIES.name, &labels(&[("country", country)]), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MetricsOptions;

    #[test]
    fn labels_are_those_of_our_table_and_two_others() {
        let registry = Arc::new(Registry::new(MetricsOptions::default()));
        let (one, other) = (registry.recorder(), registry.recorder());
        for country in (0..Country::CODES).filter_map(Country::at) {
            one.country(Some(country));
        }
        other.country(Country::of_code("DE"));
        other.country(None);
        let counts = registry.countries();
        assert_eq!(counts.len(), NAMES.len() + 2);
        assert_eq!(counts[0], (OTHER, (Country::CODES - NAMES.len()) as u64));
        assert_eq!(counts[1], ("DE", 2));
        assert!(counts.contains(&(UNKNOWN, 1)));
    }
}
