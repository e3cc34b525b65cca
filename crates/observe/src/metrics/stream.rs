//! Counters of streams: ports whose bytes or datagrams are forwarded unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::histogram::{Histogram, Unit};
use super::local_counter::LocalCounter;
use super::names;

/// The labels of a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamName {
    /// `TCP` or `UDP`; `HTTP` or `HTTPS` for a port that could not be opened, which has no Service.
    pub protocol: &'static str,
    /// The port that clients connect to.
    pub port: u16,
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
}

table! {
    /// An event of a stream, or a present number.
    StreamCounter {
        "opened" => Opened, "Connections, or sessions of datagrams, that were begun.";
        "active" => Active, "Those that are open at the moment.";
        "received" => BytesReceived, "Bytes from clients.";
        "sent" => BytesSent, "Bytes to clients.";
        "over_threshold" => OverThreshold, "Answers that took longer than they should.";
        "evicted" => Evicted, "Sessions that were ended to make room for others.";
        "listen_failures" => ListenFailures, "Times that the port could not be listened at.";
    }
}

/// Upper bounds in seconds, from a fraction of a millisecond on: a stream's responses usually arrive within a
/// network round trip.
const RESPONSE_BOUNDS: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The counters of one stream for one worker.
#[derive(Debug)]
pub struct StreamCells {
    cells: Box<[LocalCounter]>,
    responses: Arc<Histogram>,
}

impl StreamCells {
    /// Adds one to a counter.
    pub fn inc(&self, counter: StreamCounter) {
        self.cells[counter as usize].inc();
    }

    /// Subtracts one from a counter.
    pub fn dec(&self, counter: StreamCounter) {
        self.cells[counter as usize].dec();
    }

    /// Adds `n` to a counter.
    pub fn add(&self, counter: StreamCounter, n: u64) {
        self.cells[counter as usize].add(n);
    }

    /// Records the time from a request to its response. A response that took longer than `threshold` is
    /// counted as slow.
    pub fn response(&self, took: Duration, threshold: Duration) {
        self.responses.observe(&self.cells, took.as_nanos() as u64);
        if took > threshold {
            self.inc(StreamCounter::OverThreshold);
        }
    }
}

/// The cells of all workers, by stream.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) responses: Arc<Histogram>,
    cells_per_stream: usize,
    by_name: BTreeMap<StreamName, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    cells: Vec<Arc<StreamCells>>,
    /// The sums of cells that their workers have released, while other workers still hold some.
    retired: Vec<u64>,
}

impl Default for Streams {
    fn default() -> Self {
        let mut cells = StreamCounter::ALL.len();
        let responses =
            Histogram::new(&names::STREAM_RESPONSE, Unit::Nanoseconds, &RESPONSE_BOUNDS, &mut cells);
        Self { responses: Arc::new(responses), cells_per_stream: cells, by_name: BTreeMap::new() }
    }
}

impl Streams {
    pub(super) fn stream(&mut self, name: StreamName) -> Arc<StreamCells> {
        let cells = (0..self.cells_per_stream).map(|_| LocalCounter::default()).collect();
        let cells = Arc::new(StreamCells { cells, responses: Arc::clone(&self.responses) });
        let stream = self.by_name.entry(name).or_default();
        stream.retire();
        stream.cells.push(Arc::clone(&cells));
        cells
    }

    /// Removes streams whose cells no worker holds.
    pub(super) fn sweep(&mut self) {
        self.by_name.retain(|_, stream| {
            stream.retire();
            !stream.cells.is_empty()
        });
    }

    /// The counters of each stream, then those of [`responses`](Self::responses).
    pub(super) fn totals(&self) -> Vec<(StreamName, Vec<u64>)> {
        let totals = |stream: &Stream| {
            let mut totals = stream.retired.clone();
            stream.cells.iter().for_each(|cells| add(&mut totals, cells));
            totals
        };
        self.by_name.iter().map(|(name, stream)| (name.clone(), totals(stream))).collect()
    }
}

impl Stream {
    /// Adds the cells that no worker holds to `retired`, and releases them.
    fn retire(&mut self) {
        let retired = &mut self.retired;
        self.cells.retain_mut(|cells| {
            let gone = Arc::get_mut(cells).is_some();
            if gone {
                add(retired, cells);
            }
            !gone
        });
    }
}

fn add(totals: &mut Vec<u64>, cells: &StreamCells) {
    totals.resize(cells.cells.len(), 0);
    for (total, counter) in totals.iter_mut().zip(&cells.cells) {
        *total = total.wrapping_add(counter.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(port: u16) -> StreamName {
        StreamName { protocol: "TCP", port, namespace: "default".into(), service: "redis".into() }
    }

    #[test]
    fn a_worker_that_lets_go_takes_nothing_away() {
        let mut streams = Streams::default();
        let (one, other) = (streams.stream(name(1)), streams.stream(name(1)));
        one.add(StreamCounter::BytesSent, 3);
        one.response(Duration::from_millis(11), Duration::from_millis(10));
        other.add(StreamCounter::BytesSent, 4);
        other.response(Duration::from_millis(10), Duration::from_millis(10));
        drop(one);
        streams.sweep();
        let (_, totals) = &streams.totals()[0];
        assert_eq!(totals[StreamCounter::BytesSent as usize], 7);
        assert_eq!(totals[StreamCounter::OverThreshold as usize], 1);
        assert_eq!(streams.responses.buckets(totals).iter().sum::<u64>(), 2);
        assert_eq!(streams.by_name[&name(1)].cells.len(), 1);
    }

    #[test]
    fn a_stream_that_everybody_let_go_of_is_forgotten() {
        let mut streams = Streams::default();
        drop(streams.stream(name(1)));
        let kept = streams.stream(name(2));
        streams.sweep();
        assert_eq!(streams.totals().len(), 1);
        drop(kept);
    }
}
