//! Counters of requests, as sums to which differences of series are added.

use observe::{Reason, SeriesChange};

use super::causes;
use super::quantile::latency;
use super::state::{Classes, Latency};

/// Sums over some time.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// By the first digit of the status.
    classes: [u64; 6],
    requests: Vec<u64>,
    responses: Vec<u64>,
    /// Reasons of responses with 5xx.
    causes: Vec<(Reason, u64)>,
}

impl Counts {
    pub(super) fn add(&mut self, change: &SeriesChange<'_>) {
        let class = usize::from(change.class).min(self.classes.len() - 1);
        self.classes[class] += change.requests.iter().sum::<u64>();
        add(&mut self.requests, change.requests);
        add(&mut self.responses, change.responses);
        if class == 5 {
            causes::add(&mut self.causes, change.causes);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        add(&mut self.requests, &other.requests);
        add(&mut self.responses, &other.responses);
        causes::add(&mut self.causes, &other.causes);
        for (sum, count) in self.classes.iter_mut().zip(other.classes) {
            *sum += count;
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.classes.iter().sum()
    }

    pub(super) fn client_errors(&self) -> u64 {
        self.classes[4]
    }

    pub(super) fn server_errors(&self) -> u64 {
        self.classes[5]
    }

    pub(super) fn causes(&self) -> &[(Reason, u64)] {
        &self.causes
    }

    pub(super) fn classes(&self, seconds: f64) -> Classes {
        let [_, informational, success, redirection, client_error, server_error] =
            self.classes.map(|count| count as f64 / seconds);
        Classes { informational, success, redirection, client_error, server_error }
    }

    pub(super) fn latency(&self, bounds: &[f64]) -> Latency {
        latency(bounds, &self.requests)
    }

    pub(super) fn upstream_latency(&self, bounds: &[f64]) -> Latency {
        latency(bounds, &self.responses)
    }
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}
