//! The cells of one worker.

use std::sync::{Arc, Mutex};

use super::coding::CodingCells;
use super::countries::CountryCells;
use super::fine;
use super::local_counter::LocalCounter;
use super::rule_cells::RuleCells;
use super::series::Series;
use super::{Counter, Gauge, Handshake, lock};
use crate::Reason;

/// Classes of statuses: 1xx to 5xx, and 0 for values without a class.
pub(super) const CLASSES: usize = 6;

/// The cells that one worker writes and a scrape reads. Aligned so that two workers never write to the same
/// pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerCells {
    pub(super) counters: [LocalCounter; Counter::ALL.len()],
    pub(super) gauges: [LocalCounter; Gauge::ALL.len()],
    pub(super) handshakes: [LocalCounter; Handshake::ALL.len()],
    pub(super) reasons: [LocalCounter; Reason::ALL.len()],
    /// Requests that firewalls refused, by phase and rule.
    pub(super) rules: RuleCells,
    /// Requests by the client's country.
    pub(super) countries: CountryCells,
    /// Requests that have a series, by the first digit of their status.
    pub(super) classes: [LocalCounter; CLASSES],
    /// The same requests by duration, in the buckets of `fine`.
    pub(super) request_times: [LocalCounter; fine::BUCKETS],
    /// The durations of their endpoints' responses.
    pub(super) response_times: [LocalCounter; fine::BUCKETS],
    pub(super) codings: Arc<CodingCells>,
    /// All series, claimed or free. A scrape locks them, and so does the worker between requests.
    pub(super) series: Mutex<Vec<Arc<Series>>>,
}

impl WorkerCells {
    pub(crate) fn counter(&self, counter: Counter) -> &LocalCounter {
        &self.counters[counter as usize]
    }

    pub(super) fn gauge(&self, gauge: Gauge) -> &LocalCounter {
        &self.gauges[gauge as usize]
    }

    pub(super) fn handshake(&self, handshake: Handshake) -> &LocalCounter {
        &self.handshakes[handshake as usize]
    }

    pub(super) fn reason(&self, reason: Reason) -> &LocalCounter {
        &self.reasons[reason as usize]
    }

    /// The series, without those of removed routes, whose room becomes free. It is a copy, so that the lock
    /// is not held while the series are read.
    pub(super) fn series(&self) -> Vec<Arc<Series>> {
        let mut all = lock(&self.series);
        all.retain(|series| !series.is_orphan());
        all.clone()
    }
}

impl Default for WorkerCells {
    fn default() -> Self {
        Self {
            counters: std::array::from_fn(|_| LocalCounter::default()),
            gauges: std::array::from_fn(|_| LocalCounter::default()),
            handshakes: std::array::from_fn(|_| LocalCounter::default()),
            reasons: std::array::from_fn(|_| LocalCounter::default()),
            rules: RuleCells::default(),
            countries: CountryCells::default(),
            classes: std::array::from_fn(|_| LocalCounter::default()),
            request_times: std::array::from_fn(|_| LocalCounter::default()),
            response_times: std::array::from_fn(|_| LocalCounter::default()),
            codings: Arc::default(),
            series: Mutex::default(),
        }
    }
}
