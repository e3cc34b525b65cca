//! A sliding window of time, approximated by two counts.
//!
//! Must not be in here: the subject that is counted, and a clock.

use std::time::Duration;

use clock::Moment;

/// The counts of the present fixed window and of the one before. The sliding window contains the present one
/// and the last part of the one before, whose requests count as if they had come evenly: steady traffic is
/// counted exactly, and a burst is forgotten gradually, part of it too early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Begin of the present fixed window, in nanoseconds since the clock's start; negative for one that began
    /// before it.
    begin: i64,
    /// Requests of the fixed window before.
    previous: u32,
    /// Requests of the present fixed window.
    current: u32,
}

impl Window {
    /// An empty window, which begins now.
    pub(super) fn new(now: Moment) -> Self {
        Self { begin: nanos(now.since_begin()), previous: 0, current: 0 }
    }

    /// Advances to the fixed window of this moment.
    pub(super) fn advance(&mut self, length: Duration, now: Moment) {
        let passed = self.passed(now);
        if passed < length {
            return;
        }
        let is_next = passed < 2 * length;
        let begun = if is_next { passed.saturating_sub(length) } else { Duration::ZERO };
        self.follow(if is_next { 1 } else { 2 }, begun, now);
    }

    /// Advances by so many fixed windows, to one that has begun so long ago.
    pub(super) fn follow(&mut self, windows: u64, ago: Duration, now: Moment) {
        (self.previous, self.current) = match windows {
            0 => (self.previous, self.current),
            1 => (self.current, 0),
            _ => (0, 0),
        };
        self.begin = nanos(now.since_begin()) - nanos(ago);
    }

    /// Counts requests of the present fixed window.
    pub(super) fn add(&mut self, count: u32) {
        self.current = self.current.saturating_add(count);
    }

    /// Counts requests of the fixed window before.
    pub(super) fn add_before(&mut self, count: u32) {
        self.previous = self.previous.saturating_add(count);
    }

    /// Requests of the present fixed window, and of the one before.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.current, self.previous)
    }

    /// Requests in the sliding window; the window must have been advanced.
    pub(super) fn used(&self, length: Duration, now: Moment) -> f64 {
        f64::from(self.previous) * (1.0 - self.part(length, now)) + f64::from(self.current)
    }

    /// All requests that may still be in the sliding window.
    pub(super) fn recent(&self) -> u32 {
        self.previous.saturating_add(self.current)
    }

    /// The fraction of the fixed window that has passed.
    fn part(&self, length: Duration, now: Moment) -> f64 {
        (self.passed(now).as_secs_f64() / length.as_secs_f64()).min(1.0)
    }

    /// Time since the begin of the fixed window.
    fn passed(&self, now: Moment) -> Duration {
        Duration::from_nanos(u64::try_from(nanos(now.since_begin()) - self.begin).unwrap_or(0))
    }

    /// Time until the end of the fixed window.
    pub(super) fn rest(&self, length: Duration, now: Moment) -> Duration {
        length.saturating_sub(self.passed(now))
    }

    /// Time until another request is within a limit, if there are no others meanwhile.
    pub(super) fn time_to_room(&self, limit: u32, length: Duration, now: Moment) -> Duration {
        let room = f64::from(limit) - 1.0;
        let (current, previous) = (f64::from(self.current), f64::from(self.previous));
        let part_free = |taken: f64, before: f64| {
            let excess = taken + before - room;
            if before > 0.0 { (excess / before).clamp(0.0, 1.0) } else { 0.0 }
        };
        if current <= room {
            let part = part_free(current, previous) - self.part(length, now);
            return length.mul_f64(part.max(0.0));
        }
        self.rest(length, now) + length.mul_f64(part_free(0.0, current))
    }
}

/// A time as a signed number of nanoseconds, which is enough for some centuries.
fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    /// The times of those of so many requests, one every `step`, that are within a limit.
    fn admitted(limit: u32, requests: u32, step: Duration) -> Vec<Duration> {
        let begin = Clock::new(Clock::begin()).now();
        let mut window = Window::new(begin);
        let mut times = Vec::new();
        for number in 0..requests {
            let now = begin.after(step * number);
            window.advance(SECOND, now);
            if window.used(SECOND, now) + 1.0 <= f64::from(limit) {
                window.add(1);
                times.push(now.since(begin));
            }
        }
        times
    }

    #[test]
    fn as_many_are_admitted_as_the_limit_allows_at_every_rate() {
        // Below the limit all of them; above it as many as it allows.
        assert_eq!(admitted(100, 490, SECOND / 98).len(), 490);
        for rate in [150, 300, 1000] {
            let times = admitted(100, 10 * rate, SECOND / rate);
            assert!((980..=1020).contains(&times.len()), "{rate}: {}", times.len());
        }
    }

    #[test]
    fn no_second_has_twice_as_many() {
        let times = admitted(100, 20_000, SECOND / 2000);
        let most =
            (0..times.len()).map(|at| times[at..].partition_point(|time| *time < times[at] + SECOND)).max();
        assert!(most.unwrap() < 200, "{most:?}");
    }

    #[test]
    fn the_time_to_room_is_when_there_is_room() {
        let begin = Clock::new(Clock::begin()).now();
        for (limit, earlier, at) in
            [(10, 0, 0), (10, 0, 700), (10, 10, 1000), (1, 0, 300), (3, 3, 1500), (50, 20, 1900)]
        {
            let mut window = Window::new(begin);
            window.add(earlier);
            let now = begin.after(Duration::from_millis(at));
            window.advance(SECOND, now);
            while window.used(SECOND, now) + 1.0 <= f64::from(limit) {
                window.add(1);
            }
            let is_free = |time: Duration| {
                let (mut later, then) = (window, now.after(time));
                later.advance(SECOND, then);
                later.used(SECOND, then) + 1.0 <= f64::from(limit) + 1e-6
            };
            let time = window.time_to_room(limit, SECOND, now);
            assert!(is_free(time + Duration::from_millis(1)), "{limit} {earlier} {at}: {time:?}");
            assert!(
                time.is_zero() || !is_free(time.saturating_sub(Duration::from_millis(5))),
                "{limit} {earlier} {at}"
            );
        }
    }

    #[test]
    fn old_requests_are_forgotten_and_a_clock_that_lags_does_no_harm() {
        let begin = Clock::new(Clock::begin()).now().after(SECOND);
        let mut window = Window::new(begin);
        window.add(7);
        window.advance(SECOND, begin.after(5 * SECOND));
        assert_eq!((window.recent(), window.passed(begin.after(5 * SECOND))), (0, Duration::ZERO));
        window.advance(SECOND, begin);
        assert!(window.used(SECOND, begin) < 1.0);
    }
}
