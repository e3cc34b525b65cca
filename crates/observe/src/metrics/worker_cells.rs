//! The cells of one worker.

use std::sync::{Arc, Mutex};

use super::local_counter::LocalCounter;
use super::series::Series;
use super::{Counter, Gauge, Handshake, lock};
use crate::Reason;

/// What one worker writes and a scrape reads. Aligned so that two workers never write to one pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerCells {
    pub(super) counters: [LocalCounter; Counter::ALL.len()],
    pub(super) gauges: [LocalCounter; Gauge::ALL.len()],
    pub(super) handshakes: [LocalCounter; Handshake::ALL.len()],
    pub(super) reasons: [LocalCounter; Reason::ALL.len()],
    /// Claimed or not. Locked by a scrape, and by the worker between requests.
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

    /// The series, without those of routes that are gone, which make room for others. A copy: the lock is not held while
    /// they are read.
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
            series: Mutex::default(),
        }
    }
}
