//! The times of endpoints' heads and responses, in the buckets of `/metrics`, added up over all series.
//!
//! There may be ten thousand series with thirty cells each, of which few change between two pages: one cell
//! of each is looked at, and the others only where that one has changed. Never in here: text.

use std::sync::Arc;

use super::super::super::histogram::{Histogram, Layout};
use super::super::super::series::Series;
use super::super::super::worker_cells::WorkerCells;

/// All series, and the sums of their cells.
#[derive(Debug, Default)]
pub(super) struct UpstreamTimes {
    known: Vec<Known>,
    /// The buckets of each known series as they were added last, one series after the other. They may wrap.
    counted: Vec<u32>,
    /// The sums of all series, by cell.
    sums: Vec<u64>,
}

/// A series at the last look.
#[derive(Debug)]
struct Known {
    series: Arc<Series>,
    /// The time of all its requests, which grows with each.
    time: u64,
    /// Whether that has not changed since the look before. A request is recorded cell by cell, so that the
    /// cells of a series that has changed are read once more later.
    is_settled: bool,
}

/// The histograms that are added up.
pub(super) fn histograms(layout: &Layout) -> [&Histogram; 2] {
    [&layout.header_duration, &layout.response_duration]
}

impl UpstreamTimes {
    /// Begins anew with all series that there are.
    pub(super) fn begin(&mut self, layout: &Layout, workers: &[Arc<WorkerCells>]) {
        self.known.clear();
        self.counted.clear();
        self.sums.clear();
        self.sums.resize(layout.cells, 0);
        for series in workers.iter().flat_map(|worker| worker.series()) {
            let time = series.cells[layout.request_duration.sum_cell()].get();
            for bucket in histograms(layout).into_iter().flat_map(Histogram::bucket_cells) {
                let count = series.cells[bucket].get();
                self.sums[bucket] += count;
                self.counted.push(count as u32);
            }
            self.known.push(Known { series, time, is_settled: false });
        }
    }

    /// Adds what has come since the last look.
    pub(super) fn look(&mut self, layout: &Layout) {
        let time_cell = layout.request_duration.sum_cell();
        let buckets: Vec<usize> = histograms(layout).into_iter().flat_map(Histogram::bucket_cells).collect();
        for (known, counted) in self.known.iter_mut().zip(self.counted.chunks_exact_mut(buckets.len())) {
            let time = known.series.cells[time_cell].get();
            let is_same = time == known.time;
            if is_same && known.is_settled {
                continue;
            }
            (known.time, known.is_settled) = (time, is_same);
            for (bucket, before) in buckets.iter().zip(counted) {
                let count = known.series.cells[*bucket].get() as u32;
                self.sums[*bucket] += u64::from(count.wrapping_sub(*before));
                *before = count;
            }
        }
    }

    /// All known series.
    pub(super) fn series(&self) -> impl Iterator<Item = &Arc<Series>> {
        self.known.iter().map(|known| &known.series)
    }

    /// The buckets of one of [`histograms`], summed over all series.
    pub(super) fn buckets(&self, histogram: &Histogram) -> &[u64] {
        &self.sums[histogram.bucket_cells()]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{LabelTexts, Labels};

    use super::super::super::super::lock;
    use super::*;
    use crate::{Method, MetricsOptions, Recorder, Registry, Sample, UpstreamSample};

    fn record(recorder: &mut Recorder, labels: &Arc<Labels>, millis: u64) {
        let time = Duration::from_millis(millis);
        let sample = Sample {
            method: Method::Get,
            status: 200,
            request_bytes: 1,
            response_bytes: 1,
            request_time: time,
            upstream: Some(UpstreamSample { connect: None, header: Some(time), response: Some(time) }),
            canary: None,
            reason: None,
            cache: None,
        };
        recorder.request(labels, &sample);
    }

    #[test]
    fn what_comes_between_two_looks_is_added_once() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let labels_of = |path: &str| {
            Arc::new(Labels::from(LabelTexts { path: path.to_owned(), ..LabelTexts::default() }))
        };
        let all: Vec<_> = ["/a", "/b", "/c"].map(labels_of).into();
        let mut times = UpstreamTimes::default();
        let layout = &registry.layout;
        record(&mut recorder, &all[0], 1);
        record(&mut recorder, &all[1], 1);
        times.begin(layout, &lock(&registry.workers).clone());
        let total = |times: &UpstreamTimes| -> [u64; 2] {
            histograms(layout).map(|histogram| times.buckets(histogram).iter().sum())
        };
        let mut looks = vec![total(&times)];
        for (route, millis) in [(0, 1), (0, 1), (1, 1), (2, 700)] {
            record(&mut recorder, &all[route], millis);
            times.look(layout);
            looks.push(total(&times));
            times.look(layout);
            assert_eq!(looks.last(), Some(&total(&times)), "nothing is added twice");
        }
        // The third route has had a series in reserve.
        assert_eq!(looks, [[2, 2], [3, 3], [4, 4], [5, 5], [6, 6]]);
        let anew = times.sums.clone();
        times.begin(layout, &lock(&registry.workers).clone());
        assert_eq!(times.sums, anew);
    }

    #[test]
    fn a_request_that_is_half_recorded_is_added_at_the_next_look() {
        let registry = Registry::new(MetricsOptions::default());
        let recorder = registry.recorder();
        let series = recorder.cells().series().into_iter().next().expect("those in reserve");
        let layout = &registry.layout;
        let mut times = UpstreamTimes::default();
        times.begin(layout, &lock(&registry.workers).clone());
        times.look(layout);
        let sum = |times: &UpstreamTimes| times.buckets(&layout.header_duration).iter().sum::<u64>();
        layout.request_duration.observe(&series.cells, 5);
        times.look(layout);
        assert_eq!(sum(&times), 0);
        layout.header_duration.observe(&series.cells, 5);
        times.look(layout);
        assert_eq!(sum(&times), 1);
    }
}
