//! The outcomes of requests, and figures of them. Must not be in here: sending any.

use std::time::Duration;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Status(u16),
    /// Its client gave up at the deadline.
    Late,
    /// The connection was refused or broke.
    Failed,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// When it was due, since the begin.
    pub(super) at: Duration,
    /// The stream that it is of.
    pub(super) stream: usize,
    pub(super) outcome: Outcome,
    /// From when it was due, so that a client that is held up counts.
    pub(super) took: Duration,
}

/// The records of a part of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(pub(super) Vec<Record>);

impl Record {
    fn is_good(&self) -> bool {
        matches!(self.outcome, Outcome::Status(200..=299))
    }

    fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Status(429 | 503))
    }
}

impl Records {
    /// The requests that were due in that time.
    pub(super) fn between(&self, from: Duration, until: Duration) -> Records {
        self.filter(|record| (from..until).contains(&record.at))
    }

    pub(super) fn of(&self, stream: usize) -> Records {
        self.filter(|record| record.stream == stream)
    }

    fn filter(&self, is_wanted: impl Fn(&Record) -> bool) -> Records {
        Records(self.0.iter().filter(|record| is_wanted(record)).copied().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of requests with a 2xx before the clients' deadline.
    pub(super) fn good(&self) -> usize {
        self.0.iter().filter(|record| record.is_good()).count()
    }

    pub(super) fn refused(&self) -> usize {
        self.0.iter().filter(|record| record.is_refused()).count()
    }

    /// The part that was not answered well.
    pub(super) fn failed_share(&self) -> f64 {
        1.0 - self.good() as f64 / self.len().max(1) as f64
    }

    /// The 99th percentile of the milliseconds that good ones took; none without any.
    pub(super) fn p99_ms(&self) -> Option<f64> {
        let mut took: Vec<_> =
            self.0.iter().filter(|record| record.is_good()).map(|record| record.took).collect();
        took.sort_unstable();
        let at = (took.len() * 99).div_ceil(100).checked_sub(1)?;
        Some(took[at].as_secs_f64() * 1e3)
    }

    /// From `since` on: the time until the requests of half a second are answered well but for one in a
    /// hundred, and with a 99th percentile of so many milliseconds at most. None where that does not come.
    pub(super) fn recovery(&self, since: Duration, until: Duration, p99_ms_max: f64) -> Option<Duration> {
        const WINDOW: Duration = Duration::from_millis(500);
        const STEP: Duration = Duration::from_millis(50);
        let windows = (0..).map(|step| since + STEP * step).take_while(|begin| *begin + WINDOW <= until);
        let is_well = |begin: &Duration| {
            let window = self.between(*begin, *begin + WINDOW);
            window.failed_share() <= 0.01 && window.p99_ms().is_some_and(|p99| p99 <= p99_ms_max)
        };
        windows.into_iter().find(is_well).map(|begin| begin.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_ms: u64, outcome: Outcome, took_ms: u64) -> Record {
        let (at, took) = (Duration::from_millis(at_ms), Duration::from_millis(took_ms));
        Record { at, stream: 0, outcome, took }
    }

    #[test]
    fn good_ones_make_the_percentile_and_all_make_the_share() {
        let good = (1..=100).map(|took| record(took, Outcome::Status(200), took));
        let bad = [Outcome::Late, Outcome::Failed, Outcome::Status(503), Outcome::Status(429)];
        let records = Records(good.chain(bad.map(|outcome| record(7, outcome, 5000))).collect());
        assert_eq!((records.len(), records.good(), records.refused()), (104, 100, 2));
        assert_eq!(records.p99_ms(), Some(99.0));
        assert!((records.failed_share() - 4.0 / 104.0).abs() < 1e-9);
        assert_eq!(Records::default().p99_ms(), None);
        assert_eq!(records.between(Duration::from_millis(1), Duration::from_millis(3)).len(), 2);
        assert_eq!((records.of(0).len(), records.of(1).len()), (104, 0));
    }

    #[test]
    fn recovery_is_when_it_is_quick_again() {
        let at = |ms| {
            if ms < 1000 { record(ms, Outcome::Late, 1000) } else { record(ms, Outcome::Status(200), 20) }
        };
        let records = Records((0..3000).step_by(2).map(at).collect());
        let recovery = |p99| records.recovery(Duration::ZERO, Duration::from_secs(3), p99);
        assert_eq!(recovery(26.0), Some(Duration::from_secs(1)));
        assert_eq!(recovery(10.0), None);
    }
}
