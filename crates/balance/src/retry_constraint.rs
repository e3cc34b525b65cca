//! The bound of a Service's retries, which all workers share. Requests are counted by each worker for itself
//! (`retry_budget`), which adds them here when a second is over; retries are counted here at once. So a
//! worker knows its own requests exactly, and those of others up to the last second.
//!
//! Must not be in here: a clock, and the other conditions under which a request may be tried again.

use std::time::Duration;

use clock::Moment;
use model::RetryConstraint;
use parking_lot::Mutex;

use crate::limits::RETRY_CONSTRAINT_SLOTS;

/// The recent requests to a Service and their retries.
#[derive(Debug)]
pub struct SharedRetries {
    percent: u8,
    min_retries: u32,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// Requests in the interval of the percentage.
    requests: Window,
    /// Retries in the same interval.
    retries: Window,
    /// Retries in the interval of the least number.
    least: Window,
}

/// A sliding count, which forgets in steps of a slot.
#[derive(Debug)]
struct Window {
    slot_nanos: u64,
    /// Number of the present slot since the clock's begin.
    present: u64,
    counts: [u64; RETRY_CONSTRAINT_SLOTS],
}

impl SharedRetries {
    /// The counts of a bound, without requests and retries.
    pub fn new(constraint: &RetryConstraint) -> Self {
        let RetryConstraint { service: _, percent, interval, min_retries, min_interval } = constraint;
        let counts = Counts {
            requests: Window::new(*interval),
            retries: Window::new(*interval),
            least: Window::new(*min_interval),
        };
        Self { percent: *percent, min_retries: *min_retries, counts: Mutex::new(counts) }
    }

    /// Adds requests that a worker has counted until this moment.
    pub(crate) fn add_requests(&self, count: u64, until: Moment) {
        self.counts.lock().requests.add(count, until);
    }

    /// Counts a retry if it is allowed, and returns whether it is. `own` are requests that the worker has
    /// counted and not added yet.
    pub(crate) fn take(&self, own: u64, now: Moment) -> bool {
        let mut counts = self.counts.lock();
        let requests = counts.requests.total(now) + own;
        let share = requests * u64::from(self.percent) / 100;
        let is_allowed =
            counts.retries.total(now) < share || counts.least.total(now) < u64::from(self.min_retries);
        if is_allowed {
            counts.retries.add(1, now);
            counts.least.add(1, now);
        }
        is_allowed
    }
}

impl Window {
    fn new(time: Duration) -> Self {
        let slot_nanos = time.as_nanos() / RETRY_CONSTRAINT_SLOTS as u128;
        Self {
            slot_nanos: u64::try_from(slot_nanos).unwrap_or(u64::MAX).max(1),
            present: 0,
            counts: [0; RETRY_CONSTRAINT_SLOTS],
        }
    }

    /// Counts something of this moment, which may be past. Clocks of workers differ by a turn of their loops.
    fn add(&mut self, count: u64, at: Moment) {
        let slot = self.slot(at);
        self.advance(slot);
        if self.present - slot < RETRY_CONSTRAINT_SLOTS as u64 {
            self.counts[slot as usize % RETRY_CONSTRAINT_SLOTS] += count;
        }
    }

    fn total(&mut self, now: Moment) -> u64 {
        self.advance(self.slot(now));
        self.counts.iter().sum()
    }

    fn slot(&self, at: Moment) -> u64 {
        let nanos = u64::try_from(at.since_begin().as_nanos()).unwrap_or(u64::MAX);
        nanos / self.slot_nanos
    }

    /// Forgets the slots that are older than the window, if this one is the newest.
    fn advance(&mut self, slot: u64) {
        let passed = slot.saturating_sub(self.present).min(RETRY_CONSTRAINT_SLOTS as u64);
        for number in 1..=passed {
            let emptied = self.present.wrapping_add(number) as usize % RETRY_CONSTRAINT_SLOTS;
            self.counts[emptied] = 0;
        }
        self.present = self.present.max(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::RetryBudget;

    const SECOND: Duration = Duration::from_secs(1);

    fn constraint(
        percent: u8,
        interval: Duration,
        min_retries: u32,
        min_interval: Duration,
    ) -> RetryConstraint {
        RetryConstraint { service: "default/web".into(), percent, interval, min_retries, min_interval }
    }

    /// Workers with a common bound, each with its own counts of requests.
    fn workers(count: usize, constraint: &RetryConstraint) -> Vec<RetryBudget> {
        let shared = Arc::new(SharedRetries::new(constraint));
        let worker = |_| {
            let budget = RetryBudget::new(Moment::BEGIN);
            budget.share(Some(Arc::clone(&shared)));
            budget
        };
        (0..count).map(worker).collect()
    }

    fn at(millis: u64) -> Moment {
        Moment::BEGIN.after(Duration::from_millis(millis))
    }

    /// Retries until one is refused, at most so often. Returns how often.
    fn retry(worker: &RetryBudget, at_most: usize, now: Moment) -> usize {
        (0..at_most).take_while(|_| worker.take_shared(now) == Some(true)).count()
    }

    #[test]
    fn without_a_bound_there_is_no_answer() {
        let budget = RetryBudget::new(Moment::BEGIN);
        assert_eq!(budget.take_shared(at(0)), None);
        budget.share(Some(Arc::new(SharedRetries::new(&constraint(0, SECOND, 1, SECOND)))));
        assert_eq!(budget.take_shared(at(0)), Some(true));
        assert_eq!(budget.take_shared(at(0)), Some(false));
        budget.share(None);
        assert_eq!(budget.take_shared(at(0)), None);
    }

    #[test]
    fn a_share_of_the_requests_in_the_interval_may_be_retries() {
        let workers = workers(1, &constraint(20, 10 * SECOND, 1, 3600 * SECOND));
        (0..100).for_each(|_| workers[0].note_request(at(10)));
        assert_eq!(retry(&workers[0], 1000, at(20)), 20);
        // The requests are forgotten with their retries; the hour of the least one is not over.
        assert_eq!(retry(&workers[0], 1000, at(9_000)), 0);
        assert_eq!(retry(&workers[0], 1000, at(30_000)), 0);
        (0..10).for_each(|_| workers[0].note_request(at(30_000)));
        assert_eq!(retry(&workers[0], 1000, at(30_000)), 2);
    }

    #[test]
    fn a_few_are_allowed_in_each_short_interval() {
        let workers = workers(1, &constraint(0, 10 * SECOND, 10, SECOND));
        for second in 0..5 {
            assert_eq!(retry(&workers[0], 1000, at(1500 * second)), 10, "{second}");
        }
    }

    #[test]
    fn workers_have_one_bound_together() {
        let workers = workers(3, &constraint(10, 60 * SECOND, 1, 3600 * SECOND));
        for worker in &workers {
            (0..100).for_each(|_| worker.note_request(at(100)));
            // The first request of another second adds those of the one before.
            worker.note_request(at(1_200));
        }
        let taken: Vec<_> = workers.iter().map(|worker| retry(worker, 12, at(1_300))).collect();
        assert_eq!(taken, [12, 12, 6], "a tenth of 300 requests, and one of the present second");
    }

    /// Each request fails, and would be retried three times.
    #[test]
    fn where_all_endpoints_fail_retries_do_not_multiply() {
        let workers = workers(4, &constraint(20, 10 * SECOND, 10, SECOND));
        let (mut sent, mut retried) = (0, 0);
        for step in 0..600 {
            for worker in &workers {
                (0..50).for_each(|_| worker.note_request(at(100 * step)));
                sent += 50;
                retried += retry(worker, 150, at(100 * step));
            }
        }
        let share = f64::from(u32::try_from(retried).unwrap()) / f64::from(sent);
        assert!((0.15..=0.21).contains(&share), "{share}");
    }

    #[test]
    fn a_window_forgets_in_steps_and_takes_what_is_late() {
        let mut window = Window::new(Duration::from_millis(100 * RETRY_CONSTRAINT_SLOTS as u64));
        let last = 100 * RETRY_CONSTRAINT_SLOTS as u64;
        window.add(1, at(50));
        window.add(2, at(350));
        window.add(4, at(150));
        assert_eq!(window.total(at(350)), 7);
        assert_eq!(window.total(at(last)), 6, "the first slot is over");
        window.add(8, at(50));
        assert_eq!(window.total(at(last)), 6, "too late");
        assert_eq!(window.total(at(200)), 6, "a clock that is behind");
        assert_eq!(window.total(at(3_600_000)), 0);
    }
}
