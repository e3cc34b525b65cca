//! Decides when the next request is due, as pure state: time is an argument.
//!
//! Must not be in here: clocks and connections.

use std::time::Duration;

use super::plan::{Pace, Plan, Share};

/// The due times, relative to the start, with a resolution of nanoseconds.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: Kind,
    end: Duration,
    /// Number of requests that are left.
    left: u64,
}

#[derive(Debug)]
enum Kind {
    Closed,
    /// Request `next` is due `next * interval` after the start. The requests of the threads are interleaved.
    Open {
        interval: f64,
        next: u64,
        step: u64,
    },
    Bursts {
        every: Duration,
        size: u64,
        starts: Duration,
        left: u64,
    },
}

impl Schedule {
    pub(super) fn new(plan: &Plan, share: Share) -> Schedule {
        let kind = match plan.pace {
            Pace::Closed => Kind::Closed,
            Pace::Open { rate_per_second } => Kind::Open {
                interval: 1.0 / rate_per_second,
                next: share.index as u64,
                step: share.of as u64,
            },
            Pace::Bursts { every } => {
                let size = share.part(plan.connections as u64);
                Kind::Bursts { every, size, starts: Duration::ZERO, left: size }
            }
        };
        let left = plan.requests.map_or(u64::MAX, |requests| share.part(requests));
        Schedule { kind, end: plan.duration, left }
    }

    /// The time at which the next request is due; `None` if there is none. `in_flight` is the number of
    /// requests in flight.
    pub(super) fn next(&self, now: Duration, in_flight: usize) -> Option<Duration> {
        let due = match self.kind {
            Kind::Closed => now,
            Kind::Open { interval, next, .. } => Duration::from_secs_f64(next as f64 * interval),
            Kind::Bursts { left: 1.., starts, .. } => starts,
            // The next burst does not begin before the last response of this one.
            Kind::Bursts { every, starts, .. } if in_flight == 0 => now.max(starts + every),
            Kind::Bursts { .. } => Duration::MAX,
        };
        let is_over = self.left == 0 || (due >= self.end && due != Duration::MAX);
        (!is_over).then_some(due)
    }

    /// Takes the request that is due; `None` if none is.
    pub(super) fn take(&mut self, now: Duration, in_flight: usize) -> Option<Duration> {
        let due = self.next(now, in_flight).filter(|due| *due <= now)?;
        self.left -= 1;
        match &mut self.kind {
            Kind::Closed => {}
            Kind::Open { next, step, .. } => *next += *step,
            Kind::Bursts { left: left @ 1.., .. } => *left -= 1,
            Kind::Bursts { size, starts, left, .. } => (*starts, *left) = (due, *size - 1),
        }
        Some(due)
    }

    /// Ends the schedule. Returns the number of requests that were due and not taken.
    pub(super) fn close(&mut self, now: Duration) -> u64 {
        let left = std::mem::take(&mut self.left);
        let Kind::Open { interval, next, step } = self.kind else { return 0 };
        let until = now.min(self.end).as_secs_f64();
        let is_due = |index: u64| index as f64 * interval < until;
        (0..left).take_while(|n| is_due(next + n * step)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn schedule(pace: Pace, index: usize, of: usize) -> Schedule {
        let plan = Plan { pace, duration: 10 * MS, connections: 2 * of, ..Plan::default() };
        Schedule::new(&plan, Share { index, of })
    }

    #[test]
    fn open_requests_are_due_whether_or_not_they_are_taken() {
        let mut second = schedule(Pace::Open { rate_per_second: 1000.0 }, 1, 2);
        assert_eq!(second.take(MS / 2, 0), None);
        assert_eq!(second.take(4 * MS, 0), Some(MS));
        assert_eq!(second.take(4 * MS, 9), Some(3 * MS));
        assert_eq!(second.take(4 * MS, 9), None);
        assert_eq!(second.next(4 * MS, 9), Some(5 * MS));
        assert_eq!(second.close(20 * MS), 3, "5, 7 and 9 ms");
        assert_eq!(second.take(20 * MS, 0), None);
    }

    #[test]
    fn nothing_is_due_at_the_end() {
        assert_eq!(schedule(Pace::Closed, 0, 1).take(10 * MS, 0), None);
        assert_eq!(schedule(Pace::Closed, 0, 1).take(9 * MS, 0), Some(9 * MS));
    }

    #[test]
    fn a_burst_waits_for_the_last_one() {
        let mut bursts = schedule(Pace::Bursts { every: 2 * MS }, 0, 1);
        assert_eq!((bursts.take(MS, 0), bursts.take(MS, 1)), (Some(Duration::ZERO), Some(Duration::ZERO)));
        assert_eq!(bursts.take(3 * MS, 1), None);
        assert_eq!(bursts.next(MS, 0), Some(2 * MS));
        assert_eq!((bursts.take(3 * MS, 0), bursts.take(3 * MS, 1)), (Some(3 * MS), Some(3 * MS)));
        assert_eq!(bursts.take(4 * MS, 2), None);
    }

    #[test]
    fn no_more_than_the_plan_asks_for() {
        let plan = Plan { requests: Some(1), ..Plan::default() };
        let mut schedule = Schedule::new(&plan, Share { index: 0, of: 1 });
        assert_eq!((schedule.take(MS, 0), schedule.take(MS, 0)), (Some(MS), None));
    }
}
