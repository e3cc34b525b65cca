//! The local state of a count that is kept in Redis, for one window of one subject.
//!
//! The [`Window`] holds the numbers of the last reply of Redis, and the requests admitted here since. Redis
//! keeps one number for each fixed window; these begin and end by its clock, for all replicas at the same
//! time.
//!
//! Must not be in here: the connection to Redis.

use std::time::Duration;

use clock::Moment;

use super::window::Window;
use crate::limits::{LIMIT_REDIS_ANSWER_TIME, LIMIT_REDIS_INTERVAL, LIMIT_REDIS_REPLY_AGE_MAX, REPLICAS_MAX};

/// A fixed window by the clock of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedWindow {
    /// Its number since 1970.
    pub(super) number: u64,
    /// Time since its begin.
    pub(super) elapsed: Duration,
}

/// The state of a counter in Redis, beside the numbers of its [`Window`].
pub(super) struct RedisCount {
    /// Number of the present fixed window.
    fixed: u64,
    /// Requests admitted here that have not been sent to Redis.
    unsent: Unsent,
    /// Rate of requests admitted here.
    own: Rate,
    /// Rate of requests admitted by the other replicas.
    others: Rate,
    /// Requests admitted here since the update that Redis last replied to.
    since: u32,
    /// When the last reply came.
    replied: Option<Moment>,
    /// Mean age of the other replicas' updates at that time: they reach Redis with a delay, too.
    age: Duration,
    /// It is part of the next exchange.
    pub(super) is_due: bool,
}

/// Requests admitted here that have not been sent to Redis.
#[derive(Clone, Copy, Default)]
struct Unsent {
    /// In the present fixed window.
    current: u32,
    /// In the one before.
    previous: u32,
}

/// Requests in a second, as a moving average over exchanges. Without smoothing, all replicas would give way
/// to each other at once, and then none.
#[derive(Clone, Copy, Default)]
struct Rate(f64);

/// Weight of the last exchange in the average.
const RATE_WEIGHT: f64 = 0.3;

impl Rate {
    fn note(&mut self, requests: u32, time: Duration) {
        self.0 += (f64::from(requests) / time.as_secs_f64() - self.0) * RATE_WEIGHT;
    }
}

/// An update of the number of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowUpdate {
    /// Number of the fixed window.
    pub(super) window: u64,
    /// Requests to add.
    pub(super) add: u32,
    /// Requests that are known of, those included.
    pub(super) known: u32,
}

/// The reply to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowReply {
    /// Number of the fixed window.
    pub(super) window: u64,
    /// Requests in it.
    pub(super) count: u32,
    /// Requests in the one before.
    pub(super) before: u32,
}

impl FixedWindow {
    /// The fixed window of a time since 1970.
    pub(super) fn at(time: Duration, length: Duration) -> Self {
        let (time, length) = (time.as_nanos(), length.as_nanos().max(1));
        let elapsed = Duration::from_nanos((time % length) as u64);
        Self { number: (time / length) as u64, elapsed }
    }
}

impl RedisCount {
    /// The state before any exchange; `window` is aligned with the fixed window.
    pub(super) fn new(window: &mut Window, fixed: FixedWindow, now: Moment) -> Self {
        window.follow(0, fixed.elapsed, now);
        Self {
            fixed: fixed.number,
            unsent: Unsent::default(),
            own: Rate::default(),
            others: Rate::default(),
            since: 0,
            replied: None,
            age: Duration::ZERO,
            is_due: false,
        }
    }

    /// Advances to the fixed window of this moment.
    pub(super) fn advance(&mut self, window: &mut Window, fixed: FixedWindow, now: Moment) {
        // The clocks of workers and the estimate of Redis' clock differ by a little, which is ignored; a
        // clock set back by more resets the counts.
        if fixed.number.checked_add(1) == Some(self.fixed) {
            return;
        }
        let windows = fixed.number.checked_sub(self.fixed).unwrap_or(u64::MAX);
        window.follow(windows, fixed.elapsed, now);
        self.unsent = match windows {
            0 => self.unsent,
            1 => Unsent { current: 0, previous: self.unsent.current },
            _ => Unsent::default(),
        };
        self.fixed = fixed.number;
    }

    /// Counts requests that were admitted here.
    pub(super) fn admit(&mut self, requests: u32) {
        self.unsent.current = self.unsent.current.saturating_add(requests);
        self.since = self.since.saturating_add(requests);
    }

    /// Takes the updates for Redis: of the fixed window before, if there are any, and of the present one.
    /// They count as sent from now on; if they are lost, Redis is corrected by the number of known requests
    /// in the next update, so that no request counts twice.
    pub(super) fn updates(&mut self, window: &Window) -> impl Iterator<Item = WindowUpdate> + use<> {
        let Unsent { current, previous } = std::mem::take(&mut self.unsent);
        let (known, known_before) = window.counts();
        let before = WindowUpdate { window: self.fixed.wrapping_sub(1), add: previous, known: known_before };
        let present = WindowUpdate { window: self.fixed, add: current, known };
        (previous > 0).then_some(before).into_iter().chain([present])
    }

    /// Takes a reply of Redis, of an exchange that took so long.
    pub(super) fn receive(&mut self, window: &mut Window, reply: WindowReply, took: Duration, now: Moment) {
        let (current, previous) = window.counts();
        // Requests of other replicas: those that Redis counts beside the ones that it got from here.
        let news = |count: u32, known: u32, unsent: u32| count.saturating_sub(known.saturating_sub(unsent));
        let mut new = 0;
        let mut of_before = None;
        if reply.window == self.fixed {
            new = news(reply.count, current, self.unsent.current);
            window.add(new);
            of_before = Some(reply.before);
        } else if reply.window.checked_add(1) == Some(self.fixed) {
            of_before = Some(reply.count);
        }
        if let Some(count) = of_before {
            let late = news(count, previous, self.unsent.previous);
            window.add_before(late);
            new = new.saturating_add(late);
        }
        if reply.window == self.fixed {
            if let Some(before) = self.replied.replace(now) {
                let time = now.since(before).max(LIMIT_REDIS_INTERVAL / 2);
                self.others.note(new, time);
                self.own.note(self.since.saturating_sub(self.unsent.current), time);
            }
            self.since = self.unsent.current;
            // The others' updates were sent half an interval before on average, and both exchanges took their
            // time.
            self.age = (LIMIT_REDIS_INTERVAL + 3 * took) / 2;
        }
    }

    /// Estimated requests that the other replicas have admitted and the last reply does not contain: at the
    /// rate of before, or, where that is more, at a rate that has grown as this replica's has, since all take
    /// their share when requests become free. Without the estimate, each replica would admit all free
    /// requests on its own until the next exchange.
    pub(super) fn unreported(&self, now: Moment) -> f64 {
        let silence = self.replied.map_or(Duration::MAX, |at| now.since(at));
        if silence >= LIMIT_REDIS_ANSWER_TIME || self.others.0 <= 0.0 {
            return 0.0;
        }
        let as_before = self.others.0 * (silence + self.age).as_secs_f64();
        let as_here = f64::from(self.since) * (self.others.0 / self.own.0).min(REPLICAS_MAX as f64);
        as_before.max(as_here)
    }

    /// Whether the last reply is recent enough to decide by.
    pub(super) fn is_fresh(&self, now: Moment) -> bool {
        self.replied.is_some_and(|at| now.since(at) < LIMIT_REDIS_REPLY_AGE_MAX)
    }

    /// Whether Redis has ever replied.
    pub(super) fn has_reply(&self) -> bool {
        self.replied.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);
    const TOOK: Duration = Duration::from_millis(10);

    fn at(seconds: u64) -> (Moment, FixedWindow) {
        let time = Duration::from_secs(seconds);
        (Moment::BEGIN.after(time), FixedWindow::at(Duration::from_secs(1_800_000_000) + time, LENGTH))
    }

    fn new_count() -> (Window, RedisCount) {
        let (now, slot) = at(0);
        let mut window = Window::new(now);
        let count = RedisCount::new(&mut window, slot, now);
        (window, count)
    }

    fn admit(window: &mut Window, count: &mut RedisCount, requests: u32) {
        window.add(requests);
        count.admit(requests);
    }

    #[test]
    fn fixed_windows_are_those_of_the_clock_of_redis() {
        let slot = |seconds| FixedWindow::at(Duration::from_secs(seconds), LENGTH);
        assert_eq!(slot(1_800_000_007), FixedWindow { number: 180_000_000, elapsed: Duration::from_secs(7) });
        assert_eq!(slot(0), FixedWindow { number: 0, elapsed: Duration::ZERO });
        // One that has begun before the clock's start.
        let (now, _) = at(0);
        let mut window = Window::new(now);
        RedisCount::new(&mut window, slot(1_800_000_007), now);
        assert_eq!(window.rest(LENGTH, now), Duration::from_secs(3));
    }

    #[test]
    fn requests_count_that_redis_does_not_know_of() {
        let (mut window, mut count) = new_count();
        let (now, slot) = at(1);
        admit(&mut window, &mut count, 3);
        let updates: Vec<_> = count.updates(&window).collect();
        assert_eq!(updates, [WindowUpdate { window: slot.number, add: 3, known: 3 }]);
        admit(&mut window, &mut count, 2);
        count.receive(&mut window, WindowReply { window: slot.number, count: 10, before: 4 }, TOOK, now);
        assert_eq!(window.counts(), (12, 4), "7 of others, and 2 that have not been sent");
        let updates: Vec<_> = count.updates(&window).collect();
        assert_eq!(updates, [WindowUpdate { window: slot.number, add: 2, known: 12 }]);
        // Redis has lost its data: the known requests are sent, of which its script keeps the larger number.
        count.receive(&mut window, WindowReply { window: slot.number, count: 2, before: 0 }, TOOK, now);
        assert_eq!(window.counts(), (12, 4));
    }

    #[test]
    fn requests_at_the_end_of_a_fixed_window_count_there() {
        let (mut window, mut count) = new_count();
        let (_, first) = at(9);
        admit(&mut window, &mut count, 3);
        let (now, second) = at(10);
        count.advance(&mut window, second, now);
        admit(&mut window, &mut count, 1);
        let updates: Vec<_> = count.updates(&window).collect();
        let part = |slot: FixedWindow, add| WindowUpdate { window: slot.number, add, known: add };
        assert_eq!(updates, [part(first, 3), part(second, 1)]);
        // A reply that comes after the end of its fixed window.
        count.receive(&mut window, WindowReply { window: first.number, count: 5, before: 7 }, TOOK, now);
        count.receive(&mut window, WindowReply { window: second.number, count: 1, before: 6 }, TOOK, now);
        assert_eq!(window.counts(), (1, 6));
        count.receive(
            &mut window,
            WindowReply { window: first.number - 1, count: 99, before: 99 },
            TOOK,
            now,
        );
        assert_eq!(window.counts(), (1, 6), "a reply that is too late");
    }

    #[test]
    fn clocks_that_jump_reset_the_counts_and_small_differences_do_not() {
        let (mut window, mut count) = new_count();
        let (now, slot) = at(25);
        count.advance(&mut window, slot, now);
        admit(&mut window, &mut count, 5);
        let back = |number| FixedWindow { number, ..slot };
        count.advance(&mut window, back(slot.number - 1), now);
        assert_eq!(window.counts(), (5, 0));
        count.advance(&mut window, back(slot.number - 100), now);
        assert_eq!(window.counts(), (0, 0), "set back");
        admit(&mut window, &mut count, 5);
        count.advance(&mut window, back(slot.number + 100), now);
        assert_eq!((window.counts(), count.updates(&window).next().unwrap().add), ((0, 0), 0), "set ahead");
    }

    #[test]
    fn others_are_estimated_for_as_long_as_redis_may_take_to_reply() {
        let (mut window, mut count) = new_count();
        let (now, slot) = at(0);
        let later = |millis| now.after(Duration::from_millis(millis));
        let reply = |count| WindowReply { window: slot.number, count, before: 0 };
        count.receive(&mut window, reply(100), TOOK, now);
        assert!(count.unreported(later(50)) <= 0.0, "their rate is unknown yet");
        count.receive(&mut window, reply(110), TOOK, later(100));
        // 30 a second, which is three tenths of the new rate, over 60 ms of silence and 40 ms of age.
        assert!((count.unreported(later(160)) - 3.0).abs() < 1e-6, "{}", count.unreported(later(160)));
        admit(&mut window, &mut count, 10);
        assert!((count.unreported(later(160)) - 640.0).abs() < 1e-6, "they admit far more than this replica");
        assert!(count.unreported(later(1100)) <= 0.0);
        assert!(count.is_fresh(later(1000)) && !count.is_fresh(later(1100)));
    }
}
